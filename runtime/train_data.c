#include "train_data.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "train_net.h"

/* Sums of integers, so that every machine gets the same scale. */
static enum dsgd_err set_scale(struct train_data *data, struct dsgd_error *err)
{
    const struct train_set *set = &data->train;
    size_t pixels = set->rows * set->cols;
    uint64_t sum = 0, squares = 0;

    for (size_t i = 0; i < set->n; i++) {
        const uint8_t *image = set->pixels + i * pixels;
        uint32_t s = 0;
        uint64_t q = 0;
        for (size_t k = 0; k < pixels; k++) {
            s += image[k];
            q += (uint32_t)image[k] * image[k];
        }
        sum += s;
        squares += q;
    }
    double n = (double)set->n * (double)pixels, mean = (double)sum / n;
    double variance = (double)squares / n - mean * mean;
    if (!(variance > 0))
        return error_set(err, DSGD_E_FORMAT,
                         "--data: every pixel of the training images has the "
                         "value %g: there is nothing to learn",
                         mean);
    data->scale = (float)(1 / sqrt(variance));
    data->shift = (float)(-mean / sqrt(variance));
    return DSGD_OK;
}

enum dsgd_err train_data_read(const char *dir, size_t limit, bool with_test,
                              struct train_data *data, struct dsgd_error *err)
{
    struct train_set *train = &data->train, *test = &data->test;

    memset(data, 0, sizeof *data);
    enum dsgd_err rc =
        train_set_read(dir, "train", limit, TRAIN_CLASSES, train, err);
    if (rc == DSGD_OK && with_test)
        rc = train_set_read(dir, "t10k", 0, TRAIN_CLASSES, test, err);
    if (rc == DSGD_OK && with_test &&
        (test->rows != train->rows || test->cols != train->cols))
        rc = error_set(err, DSGD_E_FORMAT,
                       "--data: %.200s: training images have %zu x %zu pixels, "
                       "test images %zu x %zu",
                       dir, train->rows, train->cols, test->rows, test->cols);
    if (rc == DSGD_OK)
        rc = set_scale(data, err);
    if (rc != DSGD_OK)
        train_data_free(data);
    return rc;
}

void train_data_free(struct train_data *data)
{
    train_set_free(&data->train);
    train_set_free(&data->test);
    memset(data, 0, sizeof *data);
}

void train_data_input(const struct train_data *data,
                      const struct train_set *set, size_t at, float *x)
{
    size_t pixels = set->rows * set->cols;
    const uint8_t *image = set->pixels + at * pixels;

    for (size_t k = 0; k < pixels; k++)
        x[k] = (float)image[k] * data->scale + data->shift;
}
