#include "conf_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsgd_names.h"
#include "error.h"

#define DEFAULT_CONF DSGD_SYSCONFDIR "/dsgd/dsgd.conf"

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static enum dsgd_err give(conf_file_line *line, void *context, const char *path,
                          unsigned number, char *text, struct dsgd_error *err)
{
    text[strcspn(text, "#\n")] = '\0';
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    char *name = trim(text);
    if (!*name && !value)
        return DSGD_OK;
    return line(context, path, number, name, value ? trim(value) : NULL, err);
}

enum dsgd_err conf_file_read(conf_file_line *line, void *context,
                             struct dsgd_error *err)
{
    const char *asked = getenv(DSGD_CONF);
    const char *path = asked && *asked ? asked : DEFAULT_CONF;
    const char *named = path == asked ? DSGD_CONF "=" : "";
    enum dsgd_err rc = DSGD_OK;
    char *text = NULL;
    size_t size = 0;

    FILE *f = fopen(path, "re");
    if (!f && path != asked && errno == ENOENT)
        return DSGD_OK;
    if (!f)
        return error_set(err, DSGD_E_IO, "%s%s: %s", named, path,
                         strerror(errno));
    for (unsigned number = 1; rc == DSGD_OK && getline(&text, &size, f) >= 0;
         number++)
        rc = give(line, context, path, number, text, err);
    if (rc == DSGD_OK && ferror(f))
        rc =
            error_set(err, DSGD_E_IO, "%s%s: %s", named, path, strerror(errno));
    free(text);
    fclose(f);
    return rc;
}
