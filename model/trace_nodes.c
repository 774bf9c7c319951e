/* Which node each column of a trace is on. */
#include "trace_priv.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { NAME_BYTES = 256 };

struct named {
    struct cell name;
    uint32_t column;
};

static int compare_cells(const struct cell *a, const struct cell *b)
{
    size_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->start, b->start, common);

    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = compare_cells(&x->name, &y->name);

    return order ? order : (x->column > y->column) - (x->column < y->column);
}

static enum dsgd_err read_names(const struct trace *t, struct named *named,
                                const struct trace_text *nodes,
                                struct dsgd_error *err)
{
    struct cursor c;
    size_t count = 0;

    cursor_start(&c, nodes);
    while (cursor_line(&c)) {
        struct cell cell, more;
        cursor_cell(&c, &cell);
        if (!cell.length || cell.length >= NAME_BYTES ||
            memchr(cell.start, '\0', cell.length))
            return cursor_error(&c, &cell, err,
                                "is no node name: give one of 1 to 255 bytes");
        if (cursor_cell(&c, &more))
            return cursor_error(&c, &more, err,
                                "follows the node's name: give one a line");
        if (count < t->n)
            named[count] = (struct named){cell, (uint32_t)count};
        count++;
    }
    if (count != t->n)
        return error_set(err, DSGD_E_FORMAT,
                         "%.200s:%zu: %zu node names for the %zu columns of "
                         "the trace; give a line a column",
                         nodes->path, c.line, count, t->n);
    return DSGD_OK;
}

/* Number the nodes by their first column.
 *   named  in/out  [n], sorted by name here
 *   id     out     [n] node of each column */
static void number_nodes(struct trace *t, struct named *named, uint32_t *id)
{
    qsort(named, t->n, sizeof *named, compare_named);
    /* a group of equal names is represented by its first column */
    for (size_t i = 0, group = 0; i < t->n; i++) {
        if (i && compare_cells(&named[i].name, &named[group].name) != 0)
            group = i;
        id[named[i].column] = named[group].column;
    }
    t->n_nodes = 0;
    for (size_t j = 0; j < t->n; j++) {
        id[j] = id[j] == j ? (uint32_t)t->n_nodes++ : id[id[j]];
    }
}

/* Put the columns in the order of their nodes. */
static void reorder(struct trace *t, const uint32_t *id, uint32_t *start,
                    double *row)
{
    memset(start, 0, (t->n_nodes + 1) * sizeof *start);
    for (size_t j = 0; j < t->n; j++)
        start[id[j] + 1]++;
    for (size_t i = 0; i < t->n_nodes; i++)
        start[i + 1] += start[i];
    for (size_t j = 0; j < t->n; j++) {
        uint32_t to = start[id[j]]++;
        t->column[to] = (uint32_t)j;
        t->node[to] = id[j];
    }
    for (size_t s = 0; s < t->steps; s++) {
        double *x = t->duration_s + s * t->n;
        memcpy(row, x, t->n * sizeof *row);
        for (size_t j = 0; j < t->n; j++)
            x[j] = row[t->column[j]];
    }
}

/* Names by node: of its first column. */
static bool copy_names(struct trace *t, const struct named *named,
                       const uint32_t *id)
{
    t->node_name = calloc(t->n_nodes, sizeof *t->node_name);
    if (!t->node_name)
        return false;
    for (size_t i = 0; i < t->n; i++) {
        char **name = &t->node_name[id[named[i].column]];
        if (!*name &&
            !(*name = strndup(named[i].name.start, named[i].name.length)))
            return false;
    }
    return true;
}

enum dsgd_err trace_parse_nodes(struct trace *t, const struct trace_text *nodes,
                                struct dsgd_error *err)
{
    struct named *named = calloc(t->n, sizeof *named);
    uint32_t *id = calloc(t->n, sizeof *id);
    uint32_t *scratch = calloc(t->n + 1, sizeof *scratch);
    double *row = calloc(t->n, sizeof *row);
    bool room = named && id && scratch && row;
    enum dsgd_err rc = room ? read_names(t, named, nodes, err) : DSGD_E_NOMEM;

    if (rc == DSGD_OK) {
        number_nodes(t, named, id);
        reorder(t, id, scratch, row);
        room = copy_names(t, named, id);
    }
    free(named);
    free(id);
    free(scratch);
    free(row);
    if (!room)
        return error_set(err, DSGD_E_NOMEM, "%.200s: no memory", nodes->path);
    return rc;
}
