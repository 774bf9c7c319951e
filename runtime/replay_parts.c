#include "replay_parts.h"

#include <stdlib.h>

#include "error.h"

void script_parts_free(struct script_parts *p)
{
    free(p->now.row);
    free(p->next.row);
    free(p->part);
}

static bool grow(void *array, size_t n, size_t size)
{
    void **at = array;
    void *more = n < SIZE_MAX / size ? realloc(*at, n * size) : NULL;

    if (more)
        *at = more;
    return more != NULL;
}

enum dsgd_err script_parts_reserve(struct script_parts *p, size_t rows,
                                   struct dsgd_error *err)
{
    if (rows <= p->now.room)
        return DSGD_OK;
    if (!grow(&p->now.row, rows, sizeof *p->now.row) ||
        !grow(&p->next.row, rows, sizeof *p->next.row) ||
        !grow(&p->part, rows, 2 * sizeof *p->part))
        return error_set(err, DSGD_E_NOMEM, "replay: no memory");
    p->now.room = p->next.room = rows;
    return DSGD_OK;
}

enum dsgd_err script_parts_add(struct script_parts *p,
                               const struct record_contribution *row,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    if (p->next.n == p->next.room)
        rc = script_parts_reserve(p, 2 * p->next.room + 64, err);
    if (rc == DSGD_OK)
        p->next.row[p->next.n++] = *row;
    return rc;
}

void script_parts_turn(struct script_parts *p)
{
    struct script_rows rows = p->now;

    p->now = p->next;
    p->next = rows;
    p->next.n = 0;
}

/* Is it one that there can be in the step? */
static bool is_good(const struct record_contribution *row, uint64_t step,
                    uint64_t n_samples)
{
    return row->step == step && row->samples && row->samples <= UINT32_MAX &&
           row->first <= n_samples && row->samples <= n_samples - row->first &&
           (row->from == step || (row->from && row->from + 1 == step));
}

static const char *look_at(const struct script_rows *rows, uint64_t step,
                           uint64_t n_samples)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (!rows->row[i].part)
            return "does not tell of its parts: an older version wrote it";
        if (!is_good(&rows->row[i], step, n_samples))
            return "is not of the step";
    }
    return NULL;
}

/* The rows of a worker, from *at on; those of `from` are its parts. */
static bool take_rows(const struct script_rows *rows, size_t *at,
                      uint32_t worker, uint64_t from, bool late,
                      struct script_part **to)
{
    uint32_t nth = 0, n_late = 0;
    bool own = false; /* a part of that step itself was seen */

    for (; *at < rows->n && rows->row[*at].worker == worker; ++*at) {
        const struct record_contribution *row = &rows->row[*at];
        own = own || row->from == row->step;
        if (row->nth != nth++ || (own && row->from != row->step))
            return false;
        if (row->from != from)
            continue;
        n_late += (uint32_t)((row->samples + row->part - 1) / row->part);
        *(*to)++ = (struct script_part){.first = row->first,
                                        .samples = row->samples,
                                        .part = row->part,
                                        .late = late};
    }
    return !late || n_late <= SCRIPT_MOST_LATE;
}

static uint64_t carried_into(const struct script_rows *rows, size_t at,
                             uint32_t worker)
{
    uint64_t samples = 0;

    for (; at < rows->n && rows->row[at].worker == worker; at++) {
        if (rows->row[at].from != rows->row[at].step)
            samples += rows->row[at].samples;
    }
    return samples;
}

const char *script_parts_join(struct script_parts *p, uint64_t step,
                              uint64_t n_samples, struct script_worker *worker,
                              uint32_t n_workers)
{
    struct script_part *to = p->part;
    size_t now = 0, next = 0;
    const char *wrong = look_at(&p->now, step, n_samples);

    if (!wrong)
        wrong = look_at(&p->next, step + 1, n_samples);
    if (wrong)
        return wrong;
    for (uint32_t w = 0; w < n_workers; w++) {
        struct script_worker *k = &worker[w];
        k->part = to;
        k->carried = carried_into(&p->now, now, w);
        if (!take_rows(&p->now, &now, w, step, false, &to))
            return "is not in the order of its parts";
        for (const struct script_part *i = k->part; i < to; i++)
            k->given += i->samples;
        if (!take_rows(&p->next, &next, w, step, true, &to))
            return "is not in the order of its parts, or of too many that "
                   "were carried";
        k->n_parts = (size_t)(to - k->part);
    }
    return NULL;
}
