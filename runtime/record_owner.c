#include "record_owner.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

enum { NOBODY_GID = 65534 }; /* for a user without a passwd entry */

static int become(uid_t uid)
{
    const struct passwd *user = getpwuid(uid);
    gid_t gid = user ? user->pw_gid : NOBODY_GID;
    int rc = user ? initgroups(user->pw_name, gid) : setgroups(1, &gid);

    if (rc == 0)
        rc = setresgid(gid, gid, gid);
    if (rc == 0)
        rc = setresuid(uid, uid, uid);
    return rc;
}

enum dsgd_err record_become_owner(const char *path, struct dsgd_error *err)
{
    struct stat st;

    if (geteuid() != 0)
        return DSGD_OK;
    if (lstat(path, &st) != 0)
        return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno));
    if (st.st_uid != 0 && become(st.st_uid) != 0)
        return error_set(err, DSGD_E_IO,
                         "%s: can't become its owner, user id %lu: %s", path,
                         (unsigned long)st.st_uid, strerror(errno));
    return DSGD_OK;
}
