/* Traces of any content: a CSV, its nodes and its telemetry in one input, with
 * a form feed between them. */
#include "fuzz.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

static void check_trace(const struct trace *t)
{
    for (size_t i = 0; i < t->steps * t->n; i++) {
        if (!(t->duration_s[i] > 0) || !isfinite(t->duration_s[i]))
            abort();
    }
    for (size_t j = 0; j < t->n; j++) {
        size_t before = j ? t->node[j - 1] : 0;
        if (t->column[j] >= t->n || t->node[j] >= t->n_nodes ||
            t->node[j] < before || t->node[j] > before + 1)
            abort();
    }
    for (size_t i = 0; i < t->steps * t->n_nodes * t->features; i++) {
        if (isinf(t->telemetry[i]))
            abort();
    }
}

/* A copy of its own, so that a sanitizer sees reads past the end. */
static struct trace_text part(const char *path, const uint8_t *data,
                              size_t size)
{
    struct trace_text text = {path, malloc(size + 1), size};

    if (!text.data)
        abort();
    if (size)
        memcpy(text.data, data, size);
    text.data[size] = '\0';
    return text;
}

static size_t split(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
    return end ? (size_t)(end - data) : size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const path[] = {"x.csv", "x.nodes", "x.telemetry.csv"};
    struct trace_text text[3];
    struct dsgd_error warning, err = {""};
    struct trace *t;
    bool there[3];

    for (int i = 0; i < 3; i++) {
        size_t length = split(data, size), skip = length < size;
        there[i] = size > 0;
        text[i] = part(path[i], data, length);
        data += length + skip;
        size -= length + skip;
    }
    enum dsgd_err rc =
        trace_parse(&text[0], there[1] ? &text[1] : NULL,
                    there[2] ? &text[2] : NULL, NULL, 0, &t, &warning, &err);
    if (rc == DSGD_OK)
        check_trace(t);
    else if (t || !err.text[0] || !memchr(err.text, '\0', sizeof err.text))
        abort();
    trace_free(rc == DSGD_OK ? t : NULL);
    for (int i = 0; i < 3; i++)
        free(text[i].data);
    return 0;
}

#ifndef DSGD_LIBFUZZER
int main(int argc, char **argv)
{
    static const char *const seeds[] = {
        "1,2\n3,4\n",
        "1.5,2e3,3\n3,4,5\n\fa\nb\na\n",
        "1,2\n3,4\n\fa\nb\n\fstep,node,load1,steal,x\n0,a,1,,3\n1,b,.5,2,\n",
        "1,2\n\f\fstep,node,load1\n0,0,1\n0,1,nan\n",
        "1\n\n\n",
        "",
    };

    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        fuzz_seed((const uint8_t *)seeds[i], strlen(seeds[i]), 20000);
    printf("ok 1 - %zu traces, 20000 mutations each\n1..1\n",
           sizeof seeds / sizeof seeds[0]);
    return 0;
}
#endif
