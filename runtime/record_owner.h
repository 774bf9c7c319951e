/* Giving up root before a user's file is parsed. */
#ifndef DSGD_RECORD_OWNER_H
#define DSGD_RECORD_OWNER_H

#include "dsgd_error.h"

/* Become the owner of path, for good, in the whole process: user, group,
 * supplementary groups.  No effect unless the effective user is root and the
 * file is somebody else's.  Single-threaded programs only.
 * Errors: DSGD_E_IO. */
enum dsgd_err record_become_owner(const char *path, struct dsgd_error *err);

#endif
