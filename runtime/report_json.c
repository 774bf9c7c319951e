#include "report_json.h"

#include <jansson.h>
#include <math.h>

#include "error.h"
#include "report_fields.h"
#include "report_text.h"

void report_json_begin(FILE *out)
{
    fprintf(out,
            "{\"meta\": {\"schema\": %d, \"version\": \"%s\"},\n\"jobs\": [",
            REPORT_JSON_SCHEMA, PACKAGE_VERSION);
}

void report_json_end(FILE *out)
{
    fprintf(out, "]}\n");
}

static json_t *text(const char *s)
{
    char escaped[1024];
    json_t *j = s ? json_string(s) : json_null();

    if (j)
        return j;
    report_escape(s, "", escaped, sizeof escaped); /* it was not UTF-8 */
    return json_string(escaped);
}

static json_t *number(double x)
{
    if (!isfinite(x))
        return json_null();
    if (x == floor(x) && fabs(x) < 1e15)
        return json_integer((json_int_t)x);
    return json_real(x);
}

static json_t *value(const struct report_value *v)
{
    if (!v->known)
        return json_null();
    if (v->kind == REPORT_TEXT)
        return text(v->text);
    if (v->kind == REPORT_COUNT)
        return json_integer((json_int_t)v->count);
    return number(v->kind == REPORT_TIME ? floor(v->number) : v->number);
}

/* The fields of a level; seconds and unix times are plain numbers. */
static json_t *unit_object(const struct report *r, const struct report_unit *u,
                           enum report_level level)
{
    json_t *object = json_object();
    struct report_column column;

    for (size_t i = 0; report_column_at(level, i, &column); i++) {
        char name[64];
        struct report_value v = report_value(&column, r, u);
        report_column_name(&column, name, sizeof name);
        json_object_set_new(object, name, value(&v));
    }
    return object;
}

static json_t *units(const struct report *r, const struct report_unit *unit,
                     size_t n, enum report_level level)
{
    json_t *array = json_array();

    for (size_t u = 0; u < n; u++)
        json_array_append_new(array, unit_object(r, &unit[u], level));
    return array;
}

static const char *advice_kind(enum report_advice_kind kind)
{
    static const char *const name[] = {
        [REPORT_SLOW_NODE] = "slow node",
        [REPORT_SLOW_WORKER] = "slow worker",
        [REPORT_NONE_SLOW] = "none slow",
        [REPORT_TOO_FEW] = "too few steps",
        [REPORT_LEFT] = "left behind",
        [REPORT_LOST] = "lost",
        [REPORT_DIFFERS] = "replicas differ",
        [REPORT_INCOMPLETE] = "incomplete",
    };
    return name[kind];
}

static json_t *advice(const struct report *r)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->n_advice; i++) {
        const struct report_advice *a = &r->advice[i];
        json_t *object = json_object();
        json_object_set_new(object, "kind", text(advice_kind(a->kind)));
        json_object_set_new(object, "Node", text(a->node));
        json_object_set_new(object, "Rank", number(a->rank));
        json_object_set_new(object, "ratio", number(a->ratio));
        json_object_set_new(object, "steps",
                            json_integer((json_int_t)a->steps));
        json_object_set_new(object, "slower",
                            json_integer((json_int_t)a->slower));
        json_object_set_new(object, "first_step",
                            json_integer((json_int_t)a->first_step));
        json_object_set_new(object, "last_step",
                            json_integer((json_int_t)a->last_step));
        json_object_set_new(object, "text", text(a->text));
        json_array_append_new(array, object);
    }
    return array;
}

enum dsgd_err report_json(FILE *out, const struct report *r, bool first,
                          struct dsgd_error *err)
{
    json_t *job = unit_object(r, &r->total, REPORT_STEP);

    json_object_set_new(job, "nodes",
                        units(r, r->node, r->n_nodes, REPORT_NODE));
    json_object_set_new(job, "workers",
                        units(r, r->worker, r->n_tasks, REPORT_WORKER));
    json_object_set_new(job, "advice", advice(r));
    char *line = json_dumps(job, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(job);
    if (!line)
        return error_set(err, DSGD_E_NOMEM, "no memory for the JSON of %s",
                         r->id);
    fprintf(out, "%s\n%s", first ? "" : ",", line);
    free(line);
    return DSGD_OK;
}
