#include "node_cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const controller_names[N_CGROUPS] = {
    [CGROUP_CPU] = "cpu",         [CGROUP_CPUACCT] = "cpuacct",
    [CGROUP_FREEZER] = "freezer", [CGROUP_MEMORY] = "memory",
    [CGROUP_UNIFIED] = "",
};

/* Is name one of the words of a comma list?  The empty list has one word. */
static bool in_list(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (;;) {
        size_t word = strcspn(list, ",");
        if (word == length && strncmp(list, name, length) == 0)
            return true;
        if (!list[word])
            return false;
        list += word + 1;
    }
}

/* Keep text, or nothing of it. */
static void keep(char to[PATH_BYTES], const char *text)
{
    size_t length = strlen(text);

    to[0] = '\0';
    if (length < PATH_BYTES)
        memcpy(to, text, length + 1);
}

/* A path that leads out of this process's cgroup namespace. */
static bool outside(const char *path)
{
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || !path[3]);
}

/* /proc/self/cgroup: "<id>:<controllers>:<path>" a line. */
static void find_self(const char *root, struct node_cgroups *node)
{
    struct text_lines lines;
    char *line;

    if (!text_open(root, "/proc/self/cgroup", &lines))
        return;
    while ((line = text_next(&lines))) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/' || outside(path + 1))
            continue;
        *list++ = '\0';
        *path++ = '\0';
        for (int c = 0; c < N_CGROUPS; c++) {
            if (in_list(list, controller_names[c]))
                keep(node->place[c].self, path);
        }
    }
    text_close(&lines);
}

/* Undo mountinfo's octal escapes (\040), in place. */
static void unescape(char *text)
{
    char *to = text;

    while (*text) {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
            text[2] >= '0' && text[2] <= '7' && text[3] >= '0' &&
            text[3] <= '7') {
            *to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 +
                           (text[3] - '0'));
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

/* The part of self below the mounted cgroup, or NULL when it is not there: a
 * mount from outside this namespace ("/..") has nothing of self below it. */
static const char *below(const char *self, const char *mounted)
{
    size_t length = strlen(mounted);

    if (!*self)
        return NULL;
    if (strcmp(mounted, "/") == 0)
        return strcmp(self, "/") == 0 ? "" : self;
    if (strncmp(self, mounted, length) != 0 ||
        (self[length] && self[length] != '/'))
        return NULL;
    return self + length;
}

struct mount {
    char *root, *point, *type, *options;
};

/* mountinfo: "<id> <parent> <dev> <root> <point> <options> [<tag>…] - <type>
 * <source> <super options>".  Blanks in a field are escaped. */
static bool split_mount(char *line, struct mount *m)
{
    char *dash = strstr(line, " - "), *rest, *save;

    if (!dash)
        return false;
    *dash = '\0';
    rest = dash + 3;
    strtok_r(line, " ", &save);
    strtok_r(NULL, " ", &save);
    strtok_r(NULL, " ", &save);
    m->root = strtok_r(NULL, " ", &save);
    m->point = strtok_r(NULL, " ", &save);
    m->type = strtok_r(rest, " ", &save);
    strtok_r(NULL, " ", &save);
    m->options = strtok_r(NULL, " ", &save);
    if (!m->root || !m->point || !m->type || !m->options)
        return false;
    unescape(m->root);
    unescape(m->point);
    return *m->point == '/';
}

/* A later mount of a hierarchy lies on top of an earlier one, or is as good.
 * self still holds the whole path of /proc/self/cgroup here. */
static void take_mount(const struct mount *m, struct node_cgroups *node,
                       const char *below_top[N_CGROUPS])
{
    bool v1 = strcmp(m->type, "cgroup") == 0;

    if (!v1 && strcmp(m->type, "cgroup2") != 0)
        return;
    for (int c = 0; c < N_CGROUPS; c++) {
        struct cgroup_place *place = &node->place[c];
        const char *rest = below(place->self, m->root);
        if (rest && v1 == (c != CGROUP_UNIFIED) &&
            (!v1 || in_list(m->options, controller_names[c]))) {
            keep(place->top, m->point);
            below_top[c] = rest;
        }
    }
}

static void find_tops(const char *root, struct node_cgroups *node)
{
    const char *below_top[N_CGROUPS] = {0};
    struct text_lines lines;
    struct mount m;
    char *line;

    if (!text_open(root, "/proc/self/mountinfo", &lines))
        return;
    while ((line = text_next(&lines))) {
        if (split_mount(line, &m))
            take_mount(&m, node, below_top);
    }
    text_close(&lines);
    for (int c = 0; c < N_CGROUPS; c++) {
        char *self = node->place[c].self;
        if (below_top[c])
            memmove(self, below_top[c], strlen(below_top[c]) + 1);
    }
}

/* The root of a version 1 hierarchy has a file that no other cgroup has; that
 * of version 2 lacks one that all others have. */
static bool is_hierarchy_root(const char *root, const char *top, bool v1)
{
    char path[PATH_BYTES];

    if (!text_path(path, v1 ? "%s/cgroup.sane_behavior" : "%s/cgroup.type",
                   top))
        return false;
    return text_exists(root, path) == v1;
}

/* Is this process in the machine's first namespace of a kind?  Their inode
 * numbers are fixed.  A kernel that does not know the kind has no link. */
static bool in_first_namespace(const char *root, const char *kind,
                               unsigned long inode, bool when_unknown)
{
    char path[PATH_BYTES], link[64], want[64];

    if (!text_path(path, "%s/proc/self/ns/%s", root, kind))
        return false;
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0)
        return when_unknown;
    link[n] = '\0';
    snprintf(want, sizeof want, "%s:[%lu]", kind, inode);
    return strcmp(link, want) == 0;
}

void node_cgroups_find(const char *root, struct node_cgroups *node)
{
    *node = (struct node_cgroups){0};
    find_self(root, node);
    find_tops(root, node);
    node->machine = in_first_namespace(root, "pid", 0xeffffffc, false) &&
                    in_first_namespace(root, "cgroup", 0xeffffffb, true);
    for (int c = 0; c < N_CGROUPS; c++) {
        struct cgroup_place *place = &node->place[c];
        if (!place->top[0])
            continue;
        place->hierarchy_root =
            is_hierarchy_root(root, place->top, c != CGROUP_UNIFIED);
        if (!place->hierarchy_root && (c == CGROUP_CPU || c == CGROUP_UNIFIED))
            node->machine = false;
    }
}

const char *node_cgroups_top(const struct node_cgroups *node,
                             enum cgroup_controller controller)
{
    const struct cgroup_place *place = &node->place[controller];

    if (!place->top[0] || place->hierarchy_root != node->machine)
        return NULL;
    return place->top;
}
