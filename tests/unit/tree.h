/* A tree of recorded files, unpacked from one text file.
 *
 *     == /proc/loadavg            what follows is this file's content
 *     0.71 0.22 0.07 1/87 12584
 *     => /proc/self/ns/pid pid:[4026531836]        a symbolic link
 *     =/ /sys/fs/cgroup/job_7                      a directory
 *     =2 /proc/stat               content of the file at the second look
 */
#ifndef DSGD_TESTS_TREE_H
#define DSGD_TESTS_TREE_H

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new directory, removed with tree_remove. */
__attribute__((unused)) static char *tree_create(char path[64])
{
    snprintf(path, 64, "/tmp/dsgd-tree-XXXXXX");
    return mkdtemp(path);
}

__attribute__((unused)) static int
tree_unlink(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

__attribute__((unused)) static void tree_remove(const char *path)
{
    nftw(path, tree_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* root and path joined, with the directories above it made. */
__attribute__((unused)) static void tree_path(char full[2048], const char *root,
                                              const char *path)
{
    snprintf(full, 2048, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0755);
        *p = '/';
    }
}

__attribute__((unused)) static FILE *tree_open(const char *root,
                                               const char *path)
{
    char full[2048];

    tree_path(full, root, path);
    return fopen(full, "w");
}

__attribute__((unused)) static void
tree_write(const char *root, const char *path, const char *content)
{
    FILE *f = tree_open(root, path);

    if (f) {
        fputs(content, f);
        fclose(f);
    }
}

/* Unpack the part of a description that belongs to a look, 1 or 2, over what
 * is there.  Returns false when the description can't be read. */
__attribute__((unused)) static bool tree_unpack(const char *root,
                                                const char *from, int look)
{
    FILE *in = fopen(from, "r"), *out = NULL;
    char line[4096], full[2048], path[1024], target[1024];

    if (!in)
        return false;
    while (fgets(line, sizeof line, in)) {
        if (line[0] != '=' || !strchr("=2>/", line[1]) || line[2] != ' ') {
            if (out)
                fputs(line, out);
            continue;
        }
        if (out)
            fclose(out);
        out = NULL;
        target[0] = '\0';
        int fields = line[1] == '>'
                         ? sscanf(line + 3, "%1023s %1023[^\n]", path, target)
                         : sscanf(line + 3, "%1023[^\n]", path);
        if (fields < 1)
            continue;
        if (line[1] == (look == 1 ? '=' : '2'))
            out = tree_open(root, path);
        if (line[1] == '=' || line[1] == '2' || look == 2)
            continue;
        tree_path(full, root, path);
        if (line[1] == '>')
            (void)!symlink(target, full);
        else
            mkdir(full, 0755);
    }
    if (out)
        fclose(out);
    fclose(in);
    return true;
}

#endif
