/* Fixtures of the model's tests, in tests/data/model. */
#ifndef DSGD_TESTS_MODEL_DATA_H
#define DSGD_TESTS_MODEL_DATA_H

#include <stdio.h>
#include <stdlib.h>

#include "safetensors.h"

__attribute__((unused)) static const char *data_path(const char *name,
                                                     char path[1024])
{
    const char *source = getenv("DSGD_SRCDIR");

    snprintf(path, 1024, "%s/tests/data/model/%s", source ? source : ".", name);
    return path;
}

__attribute__((unused)) static struct safetensors *data_load(const char *name)
{
    char path[1024];
    struct dsgd_error err;
    struct safetensors *s;

    if (safetensors_load(data_path(name, path), &s, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return s;
}

/* Row of a tensor along its first dimension. */
__attribute__((unused)) static const float *
data_row(const struct safetensors *s, const char *name, size_t row)
{
    const struct safetensor *t = safetensors_find(s, name);

    return t && row < t->shape[0] ? t->data + row * (t->n / t->shape[0]) : NULL;
}

#endif
