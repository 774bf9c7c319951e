/* What the nodes' telemetry was at the start of each step. */
#include "trace_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "text.h"

enum { MAX_COLUMNS = 4096, IGNORED = -1 };

struct looks {
    struct trace *t;
    int *feature;      /* [columns] which feature a column is, IGNORED */
    size_t columns;    /* after step and node */
    uint32_t *by_name; /* [n_nodes] nodes, sorted by name */
    bool *seen;        /* [steps][n_nodes] */
};

static int compare_names(const void *a, const void *b, void *names)
{
    char *const *name = names;
    return strcmp(name[*(const uint32_t *)a], name[*(const uint32_t *)b]);
}

static bool find_node(const struct looks *l, const struct cell *cell,
                      size_t *node)
{
    const struct trace *t = l->t;
    size_t lo = 0, hi = t->n_nodes;
    double number;

    if (!t->node_name) { /* every column is a node, counted from 0 */
        if (!cell_number(cell, &number) || number != floor(number) ||
            !(number >= 0 && number < (double)t->n))
            return false;
        *node = (size_t)number;
        return true;
    }
    if (memchr(cell->start, '\0', cell->length))
        return false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const char *name = t->node_name[l->by_name[mid]];
        int order = strncmp(name, cell->start, cell->length);
        if (order == 0 && name[cell->length])
            order = 1;
        if (order == 0) {
            *node = l->by_name[mid];
            return true;
        }
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static int find_feature(const struct cell *cell, const char *const *feature,
                        size_t features)
{
    for (size_t f = 0; f < features; f++) {
        if (cell_is(cell, feature[f]))
            return (int)f;
    }
    return IGNORED;
}

/* Collect the names of columns that are ignored. */
static void warn(struct dsgd_error *warning, const char *path,
                 const struct cell *cell)
{
    size_t used;

    if (!warning)
        return;
    if (!warning->text[0])
        snprintf(warning->text, sizeof warning->text,
                 "%.200s: telemetry that is not known is ignored:", path);
    used = strlen(warning->text);
    if (used + 40 < sizeof warning->text)
        snprintf(warning->text + used, sizeof warning->text - used, " %.*s",
                 (int)(cell->length < 32 ? cell->length : 32), cell->start);
    text_make_printable(warning->text);
}

static enum dsgd_err parse_header(struct cursor *c, struct looks *l,
                                  const char *const *feature, size_t features,
                                  struct dsgd_error *warning,
                                  struct dsgd_error *err)
{
    struct cell cell;

    if (!cursor_line(c) || !cursor_cell(c, &cell) || !cell_is(&cell, "step") ||
        !cursor_cell(c, &cell) || !cell_is(&cell, "node"))
        return error_set(err, DSGD_E_FORMAT,
                         "%.200s:1: the first line must be "
                         "\"step,node,<feature>,…\"",
                         c->text->path);
    while (cursor_cell(c, &cell)) {
        if (l->columns == MAX_COLUMNS)
            return cursor_error(c, &cell, err, "is one column too many");
        int f = find_feature(&cell, feature, features);
        if (f == IGNORED)
            warn(warning, c->text->path, &cell);
        for (size_t i = 0; f != IGNORED && i < l->columns; i++) {
            if (l->feature[i] == f)
                return cursor_error(c, &cell, err, "is there twice");
        }
        l->feature[l->columns++] = f;
    }
    return DSGD_OK;
}

/* The step and node that begin a row. */
static enum dsgd_err parse_place(struct cursor *c, const struct looks *l,
                                 size_t *at, struct dsgd_error *err)
{
    struct cell cell;
    double step;
    size_t node;

    cursor_cell(c, &cell);
    if (!cell_number(&cell, &step) || step != floor(step) ||
        !(step >= 0 && step < (double)l->t->steps))
        return cursor_error(c, &cell, err,
                            "is no step of the trace: they count from 0");
    if (!cursor_cell(c, &cell))
        return cursor_error(c, NULL, err, "the node is missing");
    if (!find_node(l, &cell, &node))
        return cursor_error(c, &cell, err,
                            l->t->node_name
                                ? "is not among the nodes of the trace"
                                : "is no node: without a .nodes file they are "
                                  "the columns, counted from 0");
    *at = (size_t)step * l->t->n_nodes + node;
    if (l->seen[*at])
        return cursor_error(c, &cell, err, "has this step twice");
    l->seen[*at] = true;
    return DSGD_OK;
}

static enum dsgd_err parse_look(struct cursor *c, const struct looks *l,
                                struct dsgd_error *err)
{
    struct cell cell;
    size_t at = 0, i = 0;
    double x;
    enum dsgd_err rc = parse_place(c, l, &at, err);

    while (rc == DSGD_OK && cursor_cell(c, &cell)) {
        if (i == l->columns)
            return cursor_error(c, &cell, err,
                                "has no column in the first line");
        int f = l->feature[i++];
        if (f == IGNORED || !cell.length)
            continue;
        if (!cell_number(&cell, &x) || !(fabs(x) <= 1e30))
            return cursor_error(c, &cell, err,
                                "is not a finite number; leave the cell empty "
                                "when the value is not valid");
        l->t->telemetry[at * l->t->features + (size_t)f] = (float)x;
    }
    if (rc == DSGD_OK && i != l->columns)
        return cursor_error(c, NULL, err,
                            "the row has fewer columns than the first line");
    return rc;
}

static bool make_room(struct looks *l, size_t features)
{
    struct trace *t = l->t;
    size_t places = t->steps * t->n_nodes, cells;

    if (__builtin_mul_overflow(places, features, &cells))
        return false;
    free(t->telemetry);
    t->telemetry = calloc(cells ? cells : 1, sizeof *t->telemetry);
    t->features = features;
    for (size_t i = 0; t->telemetry && i < cells; i++)
        t->telemetry[i] = NAN;
    l->feature = calloc(MAX_COLUMNS, sizeof *l->feature);
    l->by_name = calloc(t->n_nodes, sizeof *l->by_name);
    l->seen = calloc(places, sizeof *l->seen);
    return t->telemetry && l->feature && l->by_name && l->seen;
}

enum dsgd_err trace_parse_telemetry(struct trace *t,
                                    const struct trace_text *telemetry,
                                    const char *const *feature, size_t features,
                                    struct dsgd_error *warning,
                                    struct dsgd_error *err)
{
    struct looks l = {.t = t};
    struct cursor c;
    enum dsgd_err rc;

    t->feature = feature;
    if (make_room(&l, features)) {
        for (size_t i = 0; i < t->n_nodes; i++)
            l.by_name[i] = (uint32_t)i;
        if (t->node_name)
            qsort_r(l.by_name, t->n_nodes, sizeof *l.by_name, compare_names,
                    t->node_name);
        cursor_start(&c, telemetry);
        rc = parse_header(&c, &l, feature, features, warning, err);
        while (rc == DSGD_OK && cursor_line(&c))
            rc = parse_look(&c, &l, err);
    } else {
        rc = error_set(err, DSGD_E_NOMEM, "%.200s: no memory", telemetry->path);
    }
    free(l.feature);
    free(l.by_name);
    free(l.seen);
    return rc;
}
