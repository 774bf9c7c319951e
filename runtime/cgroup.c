#include "cgroup.h"

#include <string.h>

bool cgroup_next(FILE *f, struct cgroup_line *line)
{
    while (f && fgets(line->text, sizeof line->text, f)) {
        line->text[strcspn(line->text, "\n")] = '\0';
        char *controllers = strchr(line->text, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        line->controllers = controllers + 1;
        line->path = strcmp(path, "/") == 0 ? "" : path;
        return true;
    }
    return false;
}
