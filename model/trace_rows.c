/* The rows of a trace: durations. */
#include "trace_priv.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

struct rows {
    double *value;
    size_t count, room, n, steps;
};

static bool push(struct rows *r, double value)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        double *grown = realloc(r->value, room * sizeof *grown);
        if (!grown)
            return false;
        r->value = grown;
        r->room = room;
    }
    r->value[r->count++] = value;
    return true;
}

static enum dsgd_err parse_row(struct cursor *c, struct rows *r,
                               struct dsgd_error *err)
{
    struct cell cell;
    double x;

    while (cursor_cell(c, &cell)) {
        if (r->steps && c->column > r->n)
            return error_set(err, DSGD_E_FORMAT,
                             "%.200s:%zu:%zu: more columns than the %zu of the "
                             "first row; a column is a worker",
                             c->text->path, c->line, c->column, r->n);
        if (!cell.length)
            return cursor_error(c, &cell, err,
                                "is missing: every worker needs a duration in "
                                "every step");
        if (!cell_number(&cell, &x))
            return cursor_error(c, &cell, err,
                                "is not a finite number; a trace has durations "
                                "alone, no header");
        if (!(x >= TRACE_SHORTEST && x <= TRACE_LONGEST))
            return cursor_error(c, &cell, err,
                                "is not a duration: it must be above 0 (1e-30 "
                                "to 1e30)");
        if (!push(r, x))
            return error_set(err, DSGD_E_NOMEM, "%.200s: no memory",
                             c->text->path);
    }
    if (r->steps && c->column != r->n)
        return error_set(err, DSGD_E_FORMAT,
                         "%.200s:%zu:%zu: the row ends here, the first one has "
                         "%zu columns",
                         c->text->path, c->line, c->column, r->n);
    r->n = c->column;
    r->steps++;
    return DSGD_OK;
}

enum dsgd_err trace_parse_rows(const struct trace_text *csv, struct trace **out,
                               struct dsgd_error *err)
{
    struct rows r = {0};
    struct cursor c;
    enum dsgd_err rc = DSGD_OK;

    *out = NULL;
    cursor_start(&c, csv);
    while (rc == DSGD_OK && cursor_line(&c))
        rc = parse_row(&c, &r, err);
    if (rc == DSGD_OK && !r.steps)
        rc = error_set(err, DSGD_E_FORMAT,
                       "%.200s: empty; give a row a step, a column a worker",
                       csv->path);
    if (rc == DSGD_OK)
        rc = trace_create(r.steps, r.n, r.n, 0, out, err);
    if (rc == DSGD_OK)
        memcpy((*out)->duration_s, r.value, r.count * sizeof *r.value);
    free(r.value);
    return rc;
}
