/* The data of a training run: both sets, and how pixels become inputs. */
#ifndef DSGD_TRAIN_DATA_H
#define DSGD_TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "train_idx.h"

struct train_data {
    struct train_set train, test; /* test.n is 0 where nobody evaluates */
    float scale, shift;           /* input = pixel * scale + shift */
};

/* Read the training set and, where wanted, the test set.
 *   dir        in
 *   limit      in   training images used; 0: all
 *   with_test  in
 *   data       out  all zero on error; frees with train_data_free
 * Inputs get mean 0 and variance 1 over the training images read.
 * Local.  Errors: those of train_set_read; DSGD_E_FORMAT (the test images have
 * another size; all pixels are equal). */
enum dsgd_err train_data_read(const char *dir, size_t limit, bool with_test,
                              struct train_data *data, struct dsgd_error *err);
void train_data_free(struct train_data *data);

/* Turn image `at` of a set into inputs.
 *   x  [rows * cols]  out */
void train_data_input(const struct train_data *data,
                      const struct train_set *set, size_t at, float *x);

#endif
