#include "replay_print.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "error.h"
#include "replay_options.h"

enum { COLUMNS = 11 };
static const char *const heads[COLUMNS] = {
    "Trace",        "Policy",   "Throughput", "OfOracle", "VsFull", "VsStatic",
    "Contributors", "HiddenUs", "TickUs",     "OfBound",  "Claims"};

/* The cells of a line, and room for what they hold. */
struct row {
    const char *cell[COLUMNS];
    char number[COLUMNS][32];
};

static void put(struct row *r, int column, int decimals, double x)
{
    snprintf(r->number[column], sizeof r->number[column], "%.*f", decimals, x);
    r->cell[column] = r->number[column];
}

/* "p50/p99"; a policy that decides nothing in a step has no ticks. */
static void put_times(struct row *r, int column, const double *us,
                      const char *none)
{
    r->cell[column] = none;
    if (isnan(us[0]))
        return;
    snprintf(r->number[column], sizeof r->number[column], "%.1f/%.1f", us[0],
             us[1]);
    r->cell[column] = r->number[column];
}

static void fill(struct row *r, const struct score *s,
                 const struct policy_score *p, const char *none)
{
    r->cell[0] = s->trace->name;
    r->cell[1] = policy_name(p->kind);
    r->cell[2] = r->number[2];
    snprintf(r->number[2], sizeof r->number[2], "%.6g", p->throughput);
    put(r, 3, 4, p->of_oracle);
    put(r, 4, 4, p->vs_full);
    put(r, 5, 4, p->vs_static_best);
    put(r, 6, 2, p->mean_contributors);
    put_times(r, 7, p->hidden_us, none);
    put_times(r, 8, p->tick_us, none);
    put(r, 9, 4, p->of_bound);
    if (isnan(p->mean_claims))
        r->cell[10] = none;
    else
        put(r, 10, 2, p->mean_claims);
}

static void print_row(FILE *out, const char *const *cell, const int *width)
{
    for (int i = 0; i < COLUMNS; i++) {
        const char *gap = i ? width ? "  " : "|" : "";
        bool text = i < 2;
        fprintf(out, "%s%*s", gap,
                !width ? 0
                : text ? -width[i]
                       : width[i],
                cell[i]);
    }
    fputc('\n', out);
}

static void widen(int *width, const char *const *cell)
{
    for (int i = 0; i < COLUMNS; i++) {
        int length = (int)strlen(cell[i]);
        width[i] = length > width[i] ? length : width[i];
    }
}

void replay_print_table(FILE *out, const struct score *score, size_t count,
                        bool parsable)
{
    int width[COLUMNS] = {0};
    const char *none = parsable ? "" : "-";
    struct row row;

    widen(width, heads);
    for (size_t t = 0; t < count; t++) {
        for (size_t p = 0; p < score[t].n_policies; p++) {
            fill(&row, &score[t], &score[t].policy[p], none);
            widen(width, row.cell);
        }
    }
    print_row(out, heads, parsable ? NULL : width);
    for (size_t t = 0; t < count; t++) {
        for (size_t p = 0; p < score[t].n_policies; p++) {
            fill(&row, &score[t], &score[t].policy[p], none);
            print_row(out, row.cell, parsable ? NULL : width);
        }
    }
}

static json_t *json_times(const double *us)
{
    if (isnan(us[0]))
        return json_null();
    return json_pack("{s:f, s:f}", "p50", us[0], "p99", us[1]);
}

static json_t *json_policy(const struct policy_score *p)
{
    json_t *claims =
        isnan(p->mean_claims) ? json_null() : json_real(p->mean_claims);

    return json_pack(
        "{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "name",
        policy_name(p->kind), "throughput", p->throughput, "of_oracle",
        p->of_oracle, "vs_full", p->vs_full, "vs_static_best",
        p->vs_static_best, "of_bound", p->of_bound, "mean_contributors",
        p->mean_contributors, "mean_claims", claims, "hidden_us",
        json_times(p->hidden_us), "tick_us", json_times(p->tick_us));
}

static json_t *json_trace(const struct score *s,
                          const struct simulate_spec *spec)
{
    char late[32];
    json_t *policies = json_array();

    replay_late_text(spec, late, sizeof late);
    for (size_t p = 0; p < s->n_policies; p++)
        json_array_append_new(policies, json_policy(&s->policy[p]));
    return json_pack("{s:s, s:I, s:I, s:s, s:I, s:{s:f}, s:f, s:o}", "trace",
                     s->trace->name, "workers", (json_int_t)s->trace->n,
                     "steps", (json_int_t)s->trace->steps, "late", late,
                     "parts", (json_int_t)spec->parts, "oracle", "throughput",
                     s->oracle.throughput, "no_idle", s->no_idle, "policies",
                     policies);
}

enum dsgd_err replay_print_json(FILE *out, const struct score *score,
                                size_t count, const struct simulate_spec *spec,
                                struct dsgd_error *err)
{
    json_t *traces = json_array();
    bool good = traces, written = false;

    for (size_t t = 0; t < count; t++)
        good &= json_array_append_new(traces, json_trace(&score[t], spec)) == 0;
    json_t *all = json_pack("{s:i, s:o}", "schema", 1, "traces", traces);
    good &= all != NULL;
    if (good)
        written = json_dumpf(all, out,
                             JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
                  fputc('\n', out) != EOF;
    json_decref(all);
    if (!good)
        return error_set(err, DSGD_E_NOMEM, "replay: no memory for the JSON");
    return written
               ? DSGD_OK
               : error_set(err, DSGD_E_IO, "the scores: %s", strerror(errno));
}
