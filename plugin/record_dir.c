#include "record_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = RECORD_PATH_BYTES - RECORD_DIR_BYTES, NSS_BYTES = 16384 };

static bool fail(struct option_fault *fault, const char *dir, const char *user,
                 const char *reason)
{
    snprintf(fault->text, sizeof fault->text, "record_dir: %s%s%s: %s", dir,
             *user ? "/" : "", user, reason);
    return false;
}

bool record_dir_good_name(const char *user)
{
    size_t length = strlen(user);

    if (!length || length >= NAME_BYTES || strcmp(user, ".") == 0 ||
        strcmp(user, "..") == 0)
        return false;
    for (; *user; user++) {
        if ((unsigned char)*user <= ' ' || *user == 127 || *user == '/')
            return false;
    }
    return true;
}

/* The site's directory, or -1: a place where others can write is one where
 * they can plant a link. */
static int open_site(const char *dir, struct option_fault *fault)
{
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        fail(fault, dir, "", strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    fail(fault, dir, "", "must belong to root and be writable for root alone");
    close(fd);
    return -1;
}

/* Closes fd. */
static bool is_empty(int fd)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        close(fd);
        return false;
    }
    while ((entry = readdir(dir)) && (strcmp(entry->d_name, ".") == 0 ||
                                      strcmp(entry->d_name, "..") == 0))
        ;
    closedir(dir);
    return !entry;
}

/* Give a folder that the caller owns to the user.  Not one that is in use: a
 * record_dir that is no directory of its own may hold others' folders that bear
 * a user's name. */
static bool hand_over(int site, const char *user, uid_t uid, gid_t gid)
{
    int fd =
        openat(site, user, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return false;
    bool good = fstat(fd, &st) == 0 && st.st_uid == geteuid();
    if (good && !is_empty(fcntl(fd, F_DUPFD_CLOEXEC, 0))) {
        errno = ENOTEMPTY;
        good = false;
    }
    good = good && fchmod(fd, 0700) == 0 && fchown(fd, uid, gid) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return good;
}

/* Returns NULL, or the reason why the user has no folder.  O_PATH, because a
 * squashed root may not read a folder that is there and right. */
static const char *make_folder(int site, const char *user, uid_t uid, gid_t gid)
{
    struct stat st;
    int fd;

    if (mkdirat(site, user, 0700) && errno != EEXIST)
        return strerror(errno);
    fd = openat(site, user, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    int rc = fstat(fd, &st);
    close(fd);
    if (rc == 0 && st.st_uid == uid)
        return NULL;
    if (rc == 0 && st.st_uid != geteuid())
        return "belongs to another user";
    return rc == 0 && hand_over(site, user, uid, gid) ? NULL : strerror(errno);
}

bool record_dir_make_named(const char *dir, const char *user, uid_t uid,
                           gid_t gid, struct option_fault *fault)
{
    int site = open_site(dir, fault);

    if (site < 0)
        return false;
    const char *reason = make_folder(site, user, uid, gid);
    close(site);
    return reason ? fail(fault, dir, user, reason) : true;
}

static void find_name(uid_t uid, char name[NAME_BYTES])
{
    char buf[NSS_BYTES];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, buf, sizeof buf, &found) == 0 && found &&
        record_dir_good_name(found->pw_name))
        snprintf(name, NAME_BYTES, "%s", found->pw_name);
    else
        snprintf(name, NAME_BYTES, "%u", (unsigned)uid);
}

bool record_dir_make(const char *dir, uid_t uid, gid_t gid,
                     char path[RECORD_PATH_BYTES], struct option_fault *fault)
{
    char name[NAME_BYTES];

    find_name(uid, name);
    snprintf(path, RECORD_PATH_BYTES, "%s/%s", dir, name);
    return record_dir_make_named(dir, name, uid, gid, fault);
}
