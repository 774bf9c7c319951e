/* Traces on disk. */
#include "trace_priv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "telemetry_names.h"
#include "text.h"

static const char *const all_features[] = {MODEL_FEATURES};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static size_t stem_length(const char *path)
{
    size_t length = strlen(path);
    bool csv = length > 4 && strcmp(path + length - 4, ".csv") == 0;

    return csv ? length - 4 : length;
}

/* path without ".csv", followed by suffix; NULL: no memory. */
static char *beside(const char *path, const char *suffix)
{
    char *out;

    if (asprintf(&out, "%.*s%s", (int)stem_length(path), path, suffix) < 0)
        return NULL;
    return out;
}

enum dsgd_err trace_parse(const struct trace_text *csv,
                          const struct trace_text *nodes,
                          const struct trace_text *telemetry,
                          const char *const *feature, size_t features,
                          struct trace **out, struct dsgd_error *warning,
                          struct dsgd_error *err)
{
    struct trace *t;
    const char *name = base_name(csv->path);

    *out = NULL;
    if (warning)
        warning->text[0] = '\0';
    if (!feature) {
        feature = all_features;
        features = N_FEATURES;
    }
    enum dsgd_err rc = trace_parse_rows(csv, &t, err);
    if (rc == DSGD_OK && !(t->name = strndup(name, stem_length(name))))
        rc = error_set(err, DSGD_E_NOMEM, "%.200s: no memory", csv->path);
    if (rc == DSGD_OK)
        text_make_printable(t->name);
    if (rc == DSGD_OK && nodes)
        rc = trace_parse_nodes(t, nodes, err);
    if (rc == DSGD_OK && telemetry)
        rc = trace_parse_telemetry(t, telemetry, feature, features, warning,
                                   err);
    if (rc == DSGD_OK)
        *out = t;
    else
        trace_free(t);
    return rc;
}

/* The rest of a stream, ending with a NUL. */
static bool slurp(FILE *in, struct trace_text *text)
{
    size_t room = 1 << 16;
    char *data = malloc(room);

    text->size = 0;
    while (data) {
        text->size += fread(data + text->size, 1, room - 1 - text->size, in);
        if (text->size < room - 1)
            break;
        char *grown = realloc(data, room *= 2);
        if (!grown)
            free(data);
        data = grown;
    }
    if (data)
        data[text->size] = '\0';
    text->data = data;
    return data;
}

/* Read a file whole.  A missing one is an error only when it must be there. */
static enum dsgd_err load(const char *path, bool must, struct trace_text *text,
                          struct dsgd_error *err)
{
    FILE *in = fopen(path, "re");
    bool failed;

    *text = (struct trace_text){.path = path};
    if (!in && errno == ENOENT && !must)
        return DSGD_OK;
    if (!in)
        return error_set(err, DSGD_E_IO, "%.200s: %s", path, strerror(errno));
    if (!slurp(in, text)) {
        fclose(in);
        return error_set(err, DSGD_E_NOMEM, "%.200s: no memory", path);
    }
    failed = ferror(in);
    if (failed)
        error_set(err, DSGD_E_IO, "%.200s: %s", path, strerror(errno));
    fclose(in);
    return failed ? DSGD_E_IO : DSGD_OK;
}

/* A record is an SQLite database. */
static bool is_record(const struct trace_text *text)
{
    static const char magic[16] = "SQLite format 3";

    return text->size >= sizeof magic &&
           memcmp(text->data, magic, sizeof magic) == 0;
}

enum dsgd_err trace_read(const char *path, const char *const *feature,
                         size_t features, struct trace **out,
                         struct dsgd_error *warning, struct dsgd_error *err)
{
    struct trace_text csv = {0}, nodes = {0}, telemetry = {0};
    char *nodes_path = beside(path, ".nodes");
    char *telemetry_path = beside(path, ".telemetry.csv");
    enum dsgd_err rc = nodes_path && telemetry_path
                           ? load(path, true, &csv, err)
                           : error_set(err, DSGD_E_NOMEM, "trace: no memory");

    *out = NULL;
    if (rc == DSGD_OK && is_record(&csv))
        rc = error_set(err, DSGD_E_FORMAT,
                       "%.200s: is a record, not a trace in CSV; dsgd-fit and "
                       "dsgd-report take records",
                       path);
    if (rc == DSGD_OK)
        rc = load(nodes_path, false, &nodes, err);
    if (rc == DSGD_OK)
        rc = load(telemetry_path, false, &telemetry, err);
    if (rc == DSGD_OK)
        rc = trace_parse(&csv, nodes.data ? &nodes : NULL,
                         telemetry.data ? &telemetry : NULL, feature, features,
                         out, warning, err);
    free(csv.data);
    free(nodes.data);
    free(telemetry.data);
    free(nodes_path);
    free(telemetry_path);
    return rc;
}

/* The shortest of the usual forms that reads back as the same bits. */
static void write_number(FILE *out, double x)
{
    char text[32];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    fprintf(out, "%s", text);
}

static void write_rows(const struct trace *t, FILE *out)
{
    for (size_t s = 0; s < t->steps; s++) {
        for (size_t j = 0; j < t->n; j++) {
            if (j)
                fputc(',', out);
            write_number(out, t->duration_s[s * t->n + j]);
        }
        fputc('\n', out);
    }
}

static void write_name(const struct trace *t, size_t node, FILE *out)
{
    if (t->node_name)
        fprintf(out, "%s", t->node_name[node]);
    else
        fprintf(out, "n%zu", node);
}

static void write_nodes(const struct trace *t, FILE *out)
{
    for (size_t j = 0; j < t->n; j++) {
        write_name(t, t->node[j], out);
        fputc('\n', out);
    }
}

static void write_telemetry(const struct trace *t, FILE *out)
{
    const float *x = t->telemetry;

    fprintf(out, "step,node");
    for (size_t f = 0; f < t->features; f++)
        fprintf(out, ",%s", t->feature[f]);
    fputc('\n', out);
    for (size_t s = 0; s < t->steps; s++) {
        for (size_t i = 0; i < t->n_nodes; i++) {
            fprintf(out, "%zu,", s);
            write_name(t, i, out);
            for (size_t f = 0; f < t->features; f++, x++) {
                fputc(',', out);
                if (!isnan(*x))
                    fprintf(out, "%.9g", *x);
            }
            fputc('\n', out);
        }
    }
}

static enum dsgd_err write_file(const struct trace *t, const char *path,
                                void (*body)(const struct trace *, FILE *),
                                struct dsgd_error *err)
{
    FILE *out = fopen(path, "we");

    if (!out)
        return error_set(err, DSGD_E_IO, "%.200s: %s", path, strerror(errno));
    struct stat st;
    bool file = fstat(fileno(out), &st) == 0 && S_ISREG(st.st_mode);
    body(t, out);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed) {
        bool full = errno == ENOSPC || errno == EDQUOT;
        error_set(err, DSGD_E_IO, "%.200s: %s", path, strerror(errno));
        if (file) /* not a device */
            unlink(path);
        return full ? DSGD_E_NOSPACE : DSGD_E_IO;
    }
    return DSGD_OK;
}

/* What lies there of an earlier trace would be read as this one's. */
static enum dsgd_err remove_beside(const char *path, const char *suffix,
                                   struct dsgd_error *err)
{
    char *other = beside(path, suffix);
    enum dsgd_err rc = DSGD_OK;

    if (!other)
        return error_set(err, DSGD_E_NOMEM, "%.200s: no memory", path);
    if (unlink(other) != 0 && errno != ENOENT)
        rc = error_set(err, DSGD_E_IO, "%.200s: %s", other, strerror(errno));
    free(other);
    return rc;
}

static enum dsgd_err write_beside(const struct trace *t, const char *path,
                                  const char *suffix,
                                  void (*body)(const struct trace *, FILE *),
                                  struct dsgd_error *err)
{
    char *other = beside(path, suffix);

    if (!other)
        return error_set(err, DSGD_E_NOMEM, "%.200s: no memory", path);
    enum dsgd_err rc = write_file(t, other, body, err);
    free(other);
    return rc;
}

enum dsgd_err trace_write(const struct trace *t, const char *path,
                          struct dsgd_error *err)
{
    enum dsgd_err rc = write_file(t, path, write_rows, err);

    if (rc == DSGD_OK)
        rc = write_beside(t, path, ".nodes", write_nodes, err);
    if (rc != DSGD_OK)
        return rc;
    return t->features
               ? write_beside(t, path, ".telemetry.csv", write_telemetry, err)
               : remove_beside(path, ".telemetry.csv", err);
}
