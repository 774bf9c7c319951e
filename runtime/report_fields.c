#include "report_fields.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "error.h"

/* The levels that have a field. */
enum {
    ON_STEP = 1 << REPORT_STEP,
    ON_NODE = 1 << REPORT_NODE,
    ON_WORKER = 1 << REPORT_WORKER,
    ON_UNITS = ON_NODE | ON_WORKER,
    ON_ALL = ON_STEP | ON_UNITS
};

struct report_field {
    const char *name;
    int width;
    enum report_kind kind;
    int digits;
    bool of_unit; /* offset is into struct report_unit, else struct report */
    size_t offset;
    int levels;
};

#define RUN(member)  0, false, offsetof(struct report, member)
#define UNIT(member) 0, true, offsetof(struct report_unit, member)
#define DIGITS(digits, member) \
    digits, true, offsetof(struct report_unit, member)

/* Widths of the fields that sacct has are sacct's. */
static const struct report_field field[] = {
    {"JobID", -12, REPORT_TEXT, RUN(id), ON_ALL},
    {"JobName", 10, REPORT_TEXT, RUN(job_name), ON_ALL},
    {"User", 9, REPORT_TEXT, RUN(user), ON_ALL},
    {"Restart", 7, REPORT_COUNT, RUN(restart), ON_ALL},
    {"Program", 12, REPORT_TEXT, RUN(program), ON_ALL},
    {"Description", 20, REPORT_TEXT, RUN(description), ON_ALL},
    {"Version", 8, REPORT_TEXT, RUN(version), ON_STEP},
    {"Cutoff", 10, REPORT_TEXT, RUN(cutoff), ON_ALL},
    {"MinContributors", 15, REPORT_COUNT, RUN(min_contributors), ON_STEP},
    {"LatePolicy", 10, REPORT_TEXT, RUN(late), ON_STEP},
    {"State", 10, REPORT_TEXT, UNIT(state), ON_ALL},
    {"Start", 19, REPORT_TIME, RUN(start_unix_s), ON_ALL},
    {"End", 19, REPORT_TIME, RUN(end_unix_s), ON_ALL},
    {"Elapsed", 10, REPORT_ELAPSED, RUN(elapsed_s), ON_ALL},
    {"NNodes", 8, REPORT_COUNT, RUN(n_nodes), ON_STEP},
    {"Node", -12, REPORT_TEXT, UNIT(node), ON_UNITS},
    {"Rank", 6, REPORT_NUMBER, UNIT(rank), ON_WORKER},
    {"NTasks", 8, REPORT_NUMBER, UNIT(workers), ON_ALL},
    {"Kernel", 10, REPORT_TEXT, UNIT(kernel), ON_UNITS},
    {"Batch", 8, REPORT_COUNT, RUN(batch), ON_STEP},
    {"GradElems", 12, REPORT_COUNT, RUN(grad_elems), ON_STEP},
    {"DataSamples", 12, REPORT_COUNT, RUN(n_samples), ON_STEP},
    {"Epochs", 7, REPORT_COUNT, RUN(n_epochs), ON_STEP},
    {"Steps", 8, REPORT_COUNT, UNIT(steps), ON_ALL},
    {"StepMean", 9, REPORT_SECONDS, RUN(step_mean_s), ON_STEP},
    {"StepP95", 9, REPORT_SECONDS, RUN(step_p95_s), ON_STEP},
    {"LrScaleMean", 11, REPORT_NUMBER, 3, false,
     offsetof(struct report, lr_scale_mean), ON_STEP},
    {"DurationMean", 12, REPORT_SECONDS, UNIT(duration_mean_s), ON_ALL},
    {"DurationP95", 11, REPORT_SECONDS, UNIT(duration_p95_s), ON_ALL},
    {"LagMean", 9, REPORT_SECONDS, UNIT(lag_mean_s), ON_ALL},
    {"ContribMean", 11, REPORT_NUMBER, DIGITS(2, contrib_mean), ON_ALL},
    {"Wanted", 9, REPORT_COUNT, UNIT(wanted), ON_ALL},
    {"Contributed", 11, REPORT_COUNT, UNIT(contributed), ON_ALL},
    {"Cut", 8, REPORT_COUNT, UNIT(cut), ON_ALL},
    {"CutShare", 8, REPORT_NUMBER, DIGITS(3, cut_share), ON_ALL},
    {"Late", 8, REPORT_COUNT, UNIT(late), ON_ALL},
    {"Carried", 8, REPORT_COUNT, UNIT(carried), ON_ALL},
    {"Resyncs", 7, REPORT_COUNT, UNIT(resyncs), ON_ALL},
    {"Waited", 10, REPORT_SECONDS, UNIT(waited_s), ON_ALL},
    {"TrainTime", 10, REPORT_SECONDS, RUN(time_s), ON_STEP},
    {"UniqueSamples", 13, REPORT_NUMBER, DIGITS(0, samples), ON_ALL},
    {"UniqueRate", 10, REPORT_NUMBER, DIGITS(1, unique_rate), ON_ALL},
    {"LastStep", 8, REPORT_COUNT, UNIT(last_step), ON_ALL},
    {"DroppedRows", 11, REPORT_COUNT, RUN(dropped_rows), ON_STEP},
    {"OtherCpu", 8, REPORT_NUMBER, DIGITS(3, telemetry[0]), ON_UNITS},
    {"Load1", 8, REPORT_NUMBER, DIGITS(3, telemetry[1]), ON_UNITS},
    {"PsiCpu", 8, REPORT_NUMBER, DIGITS(3, telemetry[2]), ON_UNITS},
    {"PsiIo", 8, REPORT_NUMBER, DIGITS(3, telemetry[3]), ON_UNITS},
    {"PsiMem", 8, REPORT_NUMBER, DIGITS(3, telemetry[4]), ON_UNITS},
    {"Throttle", 8, REPORT_NUMBER, DIGITS(3, telemetry[5]), ON_UNITS},
    {"Steal", 8, REPORT_NUMBER, DIGITS(3, telemetry[6]), ON_UNITS},
    {"CoJobs", 8, REPORT_NUMBER, DIGITS(3, telemetry[7]), ON_UNITS},
};
enum { N_FIELDS = sizeof field / sizeof field[0], RAW_WIDTH = 14 };
_Static_assert(DSGD_N_TELEMETRY == 8, "a field for each telemetry feature");

const char *report_default_format(enum report_level level)
{
    static const char *const format[REPORT_N_LEVELS] = {
        [REPORT_STEP] = "JobID,JobName,Cutoff,State,Steps,StepMean,StepP95,"
                        "ContribMean,Cut,Waited,UniqueRate",
        [REPORT_NODE] = "JobID,Node,NTasks,Steps,DurationMean,DurationP95,Cut,"
                        "Waited,UniqueRate,State",
        [REPORT_WORKER] = "JobID,Rank,Node,Steps,DurationMean,DurationP95,Cut,"
                          "Waited,UniqueRate,State",
    };
    return format[level];
}

/* Find the field of a name, or that of which it is the twin. */
static const struct report_field *find(const char *name, size_t length,
                                       bool *raw)
{
    bool twin = length > 3 && strncasecmp(name + length - 3, "Raw", 3) == 0;

    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct report_field *f = &field[i];
        size_t want = strlen(f->name);
        *raw = twin && want == length - 3 &&
               (f->kind == REPORT_SECONDS || f->kind == REPORT_ELAPSED);
        if ((want == length || *raw) && strncasecmp(name, f->name, want) == 0)
            return f;
    }
    return NULL;
}

/* One "Field%width" of length bytes. */
static enum dsgd_err parse_column(const char *text, size_t length,
                                  struct report_column *c,
                                  struct dsgd_error *err)
{
    const char *percent = memchr(text, '%', length);
    size_t name = percent ? (size_t)(percent - text) : length;
    char *end;

    c->field = find(text, name, &c->raw);
    if (!c->field)
        return error_set(err, DSGD_E_USAGE,
                         "--format: there is no field \"%.*s\"; --helpformat "
                         "lists them",
                         (int)(name < 60 ? name : 60), text);
    c->width = c->raw ? RAW_WIDTH : c->field->width;
    if (!percent)
        return DSGD_OK;
    long width = strtol(percent + 1, &end, 10);
    if (end == percent + 1 || end != text + length || width == 0 ||
        width < -1000 || width > 1000)
        return error_set(err, DSGD_E_USAGE,
                         "--format: \"%.*s\": the width must be a number from "
                         "1 to 1000, negative to align left",
                         (int)(length < 60 ? length : 60), text);
    c->width = (int)width;
    return DSGD_OK;
}

static enum report_level deepest(int levels)
{
    if (levels & ON_STEP)
        return REPORT_STEP;
    return levels & ON_NODE ? REPORT_NODE : REPORT_WORKER;
}

enum dsgd_err report_columns(const char *text, struct report_column *columns,
                             size_t *n, enum report_level *level,
                             struct dsgd_error *err)
{
    *n = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length > 0) {
            if (*n == REPORT_MAX_COLUMNS)
                return error_set(err, DSGD_E_USAGE,
                                 "--format: more than %d fields",
                                 REPORT_MAX_COLUMNS);
            enum dsgd_err rc = parse_column(text, length, &columns[*n], err);
            if (rc != DSGD_OK)
                return rc;
            enum report_level needs = deepest(columns[*n].field->levels);
            if (needs > *level)
                *level = needs;
            ++*n;
        }
        text += length + (text[length] == ',');
    }
    if (*n == 0)
        return error_set(err, DSGD_E_USAGE,
                         "--format: names no field; --helpformat lists them");
    return DSGD_OK;
}

static enum report_level level_of(const struct report_unit *unit)
{
    if (!unit->node)
        return REPORT_STEP;
    return isnan(unit->rank) ? REPORT_NODE : REPORT_WORKER;
}

struct report_value report_value(const struct report_column *column,
                                 const struct report *report,
                                 const struct report_unit *unit)
{
    const struct report_field *f = column->field;
    const char *base = f->of_unit ? (const char *)unit : (const char *)report;
    const void *at = base + f->offset;
    struct report_value v = {
        .kind = f->kind, .raw = column->raw, .digits = f->digits};

    if (!(f->levels & 1 << level_of(unit)))
        return v;
    switch (f->kind) {
    case REPORT_TEXT:
        v.text = f->offset == offsetof(struct report, id) && !f->of_unit
                     ? report->id
                     : *(const char *const *)at;
        v.known = v.text != NULL;
        break;
    case REPORT_COUNT:
        v.count = *(const uint64_t *)at;
        v.known = true;
        break;
    case REPORT_SECONDS:
    case REPORT_NUMBER:
    case REPORT_TIME:
    case REPORT_ELAPSED:
        v.number = *(const double *)at;
        v.known = isfinite(v.number);
        break;
    }
    return v;
}

void report_column_name(const struct report_column *column, char *out,
                        size_t size)
{
    snprintf(out, size, "%s%s", column->field->name, column->raw ? "Raw" : "");
}

bool report_column_at(enum report_level level, size_t i,
                      struct report_column *column)
{
    for (size_t k = 0; k < N_FIELDS; k++) {
        if (!(field[k].levels & 1 << level) || i-- > 0)
            continue;
        *column = (struct report_column){&field[k], false, field[k].width};
        return true;
    }
    return false;
}
