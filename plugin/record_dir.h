/* The folder of a user's records, made by root below the site's RecordDir. */
#ifndef DSGD_PLUGIN_RECORD_DIR_H
#define DSGD_PLUGIN_RECORD_DIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "options.h"

enum { RECORD_PATH_BYTES = DSGD_PATH_BYTES };

/* Make <dir>/<user> with mode 0700, owned by the user, unless it exists.
 *   dir    in   absolute; must belong to the caller's effective user and be
 *               writable for nobody else
 *   path   out  <dir>/<user>, set also on error
 *   fault  out  on error
 * <user> is the user's name, or the number when there is no name that can be a
 * file's.  Nothing is reached through a link, and nothing that exists changes
 * its owner except an empty folder that the caller itself owns.  As root; asks
 * the name service. */
bool record_dir_make(const char *dir, uid_t uid, gid_t gid,
                     char path[RECORD_PATH_BYTES], struct option_fault *fault);

/* The same for a given name. */
bool record_dir_make_named(const char *dir, const char *user, uid_t uid,
                           gid_t gid, struct option_fault *fault);

/* Can a folder bear this name?  Not empty, ".", "..", or longer than 63
 * bytes; no '/', no blanks or control characters. */
bool record_dir_good_name(const char *user);

#endif
