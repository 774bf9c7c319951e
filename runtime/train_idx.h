/* Reading MNIST-like data sets: IDX files, plain or gzip. */
#ifndef DSGD_TRAIN_IDX_H
#define DSGD_TRAIN_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

/* Images and their labels. */
struct train_set {
    size_t n, rows, cols;
    uint8_t *pixels; /* [n][rows * cols] */
    uint8_t *labels; /* [n], < the classes asked for */
};

/* Read DIR/PREFIX-images-idx3-ubyte and DIR/PREFIX-labels-idx1-ubyte, or the
 * same with .gz.
 *   dir      in
 *   prefix   in   "train" or "t10k"
 *   limit    in   read only the first so many; 0: all
 *   classes  in   labels are below, 1..256
 *   set      out  all zero on error; frees with train_set_free
 * Local.  Errors: DSGD_E_IO (no such folder or file, unreadable), DSGD_E_FORMAT
 * (not IDX, cut short, bytes after the end, counts that differ, a label out of
 * range), DSGD_E_USAGE (limit is more than there are), DSGD_E_NOMEM. */
enum dsgd_err train_set_read(const char *dir, const char *prefix, size_t limit,
                             size_t classes, struct train_set *set,
                             struct dsgd_error *err);
void train_set_free(struct train_set *set);

#endif
