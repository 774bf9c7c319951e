/* Fixtures of the model's tests, below tests/data, and the shipped model. */
#ifndef DSGD_TESTS_MODEL_DATA_H
#define DSGD_TESTS_MODEL_DATA_H

#include <stdio.h>
#include <stdlib.h>

#include "predictive_grad.h"
#include "safetensors.h"
#include "tap.h"
#include "timing.h"
#include "trace.h"

enum { DATA_PATH = 4096 };

/* A file of the source tree. */
__attribute__((unused)) static const char *data_source(const char *name,
                                                       char path[DATA_PATH])
{
    const char *source = getenv("DSGD_SRCDIR");

    snprintf(path, DATA_PATH, "%s/%s", source ? source : ".", name);
    return path;
}

/* One of tests/data/model. */
__attribute__((unused)) static const char *data_path(const char *name,
                                                     char path[DATA_PATH])
{
    char below[256];

    snprintf(below, sizeof below, "tests/data/model/%s", name);
    return data_source(below, path);
}

__attribute__((unused)) static struct safetensors *data_load(const char *name)
{
    char path[DATA_PATH];
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

/* Each line of a file of tests/data/model that is no comment. */
__attribute__((unused)) static void data_lines(const char *name,
                                               void (*each)(char *line))
{
    char path[DATA_PATH], line[1024];
    FILE *in = fopen(data_path(name, path), "r");

    if (!ok(in, "%s", path))
        return;
    while (fgets(line, sizeof line, in)) {
        if (line[0] != '#')
            each(line);
    }
    fclose(in);
}

/* A trace of tests/data/traces; NULL: a failed test. */
__attribute__((unused)) static struct trace *data_trace(const char *name)
{
    char below[256], path[DATA_PATH];
    struct dsgd_error warning, err = {""};
    struct trace *t;

    snprintf(below, sizeof below, "tests/data/traces/%s.csv", name);
    trace_read(data_source(below, path), NULL, 0, &t, &warning, &err);
    ok(t, "%s %s", name, err.text);
    return t;
}

/* log p(y), nats.
 *   y  [n] in  log durations, all known */
__attribute__((unused)) static double loglik(const struct predictive *p,
                                             const float *y)
{
    return predictive_loglik_grad(p, y, NULL, 0, NULL, NULL);
}

/* The shipped timing model; NULL: a failed test. */
__attribute__((unused)) static struct timing_model *data_default_model(void)
{
    char path[DATA_PATH];
    struct dsgd_error err = {""};
    struct timing_model *m;

    timing_model_load(data_source("model/default.safetensors", path), &m, &err);
    ok(m, "the shipped model %s", err.text);
    return m;
}

#endif
