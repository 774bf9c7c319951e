/* Names of checkpoints in a directory. */
#ifndef DSGD_CHECKPOINT_LIST_H
#define DSGD_CHECKPOINT_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum { CHECKPOINT_FILE_NAME = 64 };

/* step-000000000123.ckpt
 *   name  out  [CHECKPOINT_FILE_NAME] */
void checkpoint_name(uint64_t step, char *name);

struct checkpoint_list {
    uint64_t *step; /* [n] ascending */
    size_t n, capacity;
};

/* The steps that a directory has checkpoints of; frees with _free, also after
 * an error.  Errors: DSGD_E_IO. */
enum dsgd_err checkpoint_list_read(const char *dir, struct checkpoint_list *l,
                                   struct dsgd_error *err);
void checkpoint_list_free(struct checkpoint_list *l);

/* Insert in order, once; does nothing when there is no memory. */
void checkpoint_list_add(struct checkpoint_list *l, uint64_t step);
void checkpoint_list_remove_first(struct checkpoint_list *l);

/* Remove temporary files of checkpoints. */
void checkpoint_sweep(const char *dir);

#endif
