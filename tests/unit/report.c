/* The parts of dsgd-report, one by one. */
#include "report.h"

#include <unistd.h>

#include "record_sim.h"
#include "report_find.h"
#include "report_table.h"
#include "report_text.h"
#include "report_time.h"
#include "report_wait.h"
#include "tap.h"

enum { N = 4, NODES = 2 };

static void test_wait(void)
{
    double arrival[6] = {1, 2, 2.5, 4, NAN, NAN}, waited[6] = {0};
    const bool vain[6] = {false, false, false, false, true, false};
    size_t order[6];

    report_wait(6, arrival, NULL, 9, order, waited);
    near(waited[0] + waited[1] + waited[4], 0, 0,
         "the first half, and the cut");
    near(waited[2], .25, 1e-12,
         "half of the half second that two were missing");
    near(waited[3], 1.75, 1e-12, "and all of the rest, for the last");
    memset(waited, 0, sizeof waited);
    report_wait(6, arrival, vain, 7, order, waited);
    near(waited[4], .5 / 3 + 1.5 / 2 + 3, 1e-12,
         "one that never came, up to the close");
    near(waited[2] + waited[3] + waited[4], 5, 1e-12, "it adds up to the wait");
    memset(waited, 0, sizeof waited);
    report_wait(1, arrival + 4, vain + 4, 7, order, waited);
    near(waited[0], 7, 0, "nobody came at all");
}

/* The charges add up, and nobody is charged more than he was late. */
static void test_wait_adds_up(void)
{
    enum { MANY = 50 };
    double arrival[MANY], waited[MANY], sorted = 0;
    size_t order[MANY];
    uint64_t random = 7;
    int wrong = 0;

    for (int run = 0; run < 200; run++) {
        double sum = 0;
        for (int w = 0; w < MANY; w++) {
            arrival[w] = floor(20 * sim_uniform(&random));
            waited[w] = 0;
        }
        report_wait(MANY, arrival, NULL, 0, order, waited);
        sorted = arrival[order[(MANY - 1) / 2]];
        for (int w = 0; w < MANY; w++) {
            sum += waited[w];
            wrong += waited[w] > fmax(0, arrival[w] - sorted) + 1e-9;
        }
        wrong += !(fabs(sum - (arrival[order[MANY - 1]] - sorted)) <= 1e-9);
    }
    is_int(wrong, 0, "200 random steps, ties among them");
}

static void test_text(void)
{
    char out[64], cut[8];

    report_escape("a\tb\\c|d\x7f", "|", out, sizeof out);
    is_str(out, "a\\x09b\\x5cc\\x7cd\\x7f", "control, backslash, delimiter");
    report_escape("é€😀\xc2\x85\xff\xc0\xaf\xed\xa0\x80", "", out, sizeof out);
    is_str(out, "é€😀\\xc2\\x85\\xff\\xc0\\xaf\\xed\\xa0\\x80",
           "UTF-8 stays, C1 controls and what is not UTF-8 do not");
    report_escape("abcdef\xffgh", "", cut, sizeof cut);
    is_str(cut, "abcdef", "cut before an escape that has no room");
    is_int((long long)report_length("é€😀x"), 4, "length in characters");
    strcpy(out, "é€😀x");
    is_str(report_nth(out, 2), "😀x", "the third character");
}

static void test_seconds(void)
{
    static const struct {
        double s;
        const char *text;
    } want[] = {{0, "0.000"},       {12.3456, "12.346"},
                {.012345, "0.012"}, {.0098765, "0.00988"},
                {.001, "0.00100"},  {.00012345, "0.000123"},
                {2e-7, "0.000000"}, {-.0042, "-0.00420"}};
    char out[32];

    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct report_value v = {
            .known = true, .kind = REPORT_SECONDS, .number = want[i].s};
        report_format(&v, "", out, sizeof out);
        is_str(out, want[i].text, "seconds");
    }
}

static void test_job(void)
{
    static const struct {
        const char *name, *job;
        bool is;
    } row[] = {
        {"123.0.0.dsgd", "123", true},
        {"123.0.0.dsgd", "123.0", true},
        {"123.0.0.dsgd", "123.1", false},
        {"123.10.0.dsgd", "123.1", false},
        {"1234.0.0.dsgd", "123", false},
        {"123_7.0.0.dsgd", "123", true},
        {"123_7.0.0.dsgd", "123_7", true},
        {"123_70.0.0.dsgd", "123_7", false},
        {"123+1.0.2.dsgd", "123+1.0", true},
        {"mpirun-77.0.0.dsgd", "mpirun-77", true},
        {"host.a-1.0.0.dsgd", "host.a-1.0", true},
        {"123.0.0.dsgd", "", false},
        {"123.0.0.dsgd", ".0", false},
        {"123.0.x.dsgd", "123", false},
        {"123.0.0.status", "123", false},
        {"123.dsgd", "123", false},
        {".0.0.dsgd", "", false},
        {".dsgd", "123", false},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        ok(report_is_job(row[i].name, row[i].job) == row[i].is, "%s %s %s",
           row[i].name, row[i].is ? "is of" : "is not of", row[i].job);
}

static void test_time(void)
{
    static const struct {
        const char *text;
        long long t; /* -1: none */
    } row[] = {
        {"now", 1769905800},
        {"now-2days", 1769905800 - 2 * 86400},
        {"now+1hour", 1769905800 + 3600},
        {"NOW-90", 1769905800 - 90},
        {"today", 1769904000},
        {"midnight", 1769904000},
        {"2026-01-31", 1769817600},
        {"2026-01-31T12:00", 1769860800},
        {"2026-01-31T12:00:07", 1769860807},
        {"01/31", 1769817600},
        {"01/31/25", 1738281600},
        {"01/31-12:00", 1769860800},
        {"00:10:05", 1769904605},
        {"now-", -1},
        {"now-2fortnights", -1},
        {"2026-13-31", -1},
        {"2026-01-31x", -1},
        {"", -1},
    };
    struct dsgd_error err = {""};

    setenv("TZ", "UTC", 1);
    tzset();
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        time_t t = -1;
        enum dsgd_err rc =
            report_parse_time("-S", row[i].text, 1769905800, &t, &err);
        ok((long long)t == row[i].t && (rc == DSGD_OK) == (t != -1), "\"%s\"",
           row[i].text);
    }
    has_str(err.text, "-S: \"\" is not a time", "the error names it");
}

/* Four workers on two nodes, six steps that can be added up by hand. */
static struct record *create(const char *path)
{
    static const char *const name[NODES] = {"a", "b"};
    static const uint32_t node[N] = {1, 0, 1, 0}; /* not in order */
    struct record_job job = {.job_id = "7",
                             .step_id = "0",
                             .n_samples = 1000,
                             .start_unix_s = 1e9,
                             .n_workers = N,
                             .n_nodes = NODES,
                             .node_name = name,
                             .worker_node = node};
    struct record *r;
    struct dsgd_error err;

    if (record_create(path, &job, &r, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return r;
}

struct row {
    uint64_t step;
    double start_s;
    bool epoch_end;
    uint32_t target;
    uint8_t mask[N];
    float duration[N];
    uint32_t count[N];
};

static void put(struct record *r, const struct row *row)
{
    static const uint64_t first[N];
    static const float lag[N] = {0, .5f, 0, 0};
    struct record_step step = {.step = row->step,
                               .target = row->target,
                               .alive = N,
                               .epoch_end = row->epoch_end,
                               .start_s = row->start_s,
                               .close_s = 4,
                               .publish_s = 5,
                               .lr_scale = 1,
                               .mask = row->mask,
                               .duration_s = row->duration,
                               .lag_s = lag,
                               .first = first,
                               .count = row->count};

    for (int w = 0; w < N; w++) {
        step.contributors += row->mask[w];
        step.samples += row->mask[w] ? row->count[w] : 0;
    }
    record_put_step(r, &step);
}

static const struct row rows[] = {
    {1, 0, false, 3, {1, 1, 1, 0}, {1, 2, 1, NAN}, {10, 10, 10, 10}},
    /* waited for in vain, then lost */
    {2, 6, false, 0, {1, 1, 1, 0}, {1, 2, 1, NAN}, {10, 10, 10, 10}},
    {3, 12, true, 0, {1, 1, 1, 0}, {1, 2, 1, NAN}, {10, 10, 10, 10}},
    /* after an evaluation, back in step 4; worker 0 has nothing to do */
    {4, 100, false, 2, {0, 1, 1, 0}, {NAN, 2, 1, NAN}, {0, 10, 10, 10}},
    {5, 107, false, 0, {1, 1, 1, 1}, {1, 2, 1, 3}, {10, 10, 10, 7}},
    /* 6 is missing */
    {7, 130, false, 0, {1, 1, 1, 1}, {1, 2, 1, 3}, {10, 10, 10, 10}},
};

static struct report *load_rows(void)
{
    char path[] = "/tmp/dsgd-report-XXXXXX";
    struct report *report = NULL;
    struct dsgd_error err = {""};
    int fd = mkstemp(path);

    close(fd);
    unlink(path);
    struct record *r = create(path);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put(r, &rows[i]);
    record_put_late(r, &(struct record_late){1, 3, 6, 0, .5f});
    record_put_late(r, &(struct record_late){5, 3, 99, 0, 1}); /* known */
    record_put_late(r, &(struct record_late){6, 3, 99, 0, 1}); /* no step */
    record_put_contribution(r,
                            &(struct record_contribution){2, 1, 3, 0, 4, 0, 0});
    record_put_contribution(r,
                            &(struct record_contribution){5, 5, 3, 0, 2, 0, 0});
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_BACK, 4, 3, 0, 104, ""});
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_LOST, 2, 3, 0, 10, ""});
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_RESYNC, 5, 3, -1, 110, ""});
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_CHECKSUM, 5, 3, -1, 110, ""});
    record_close(r, true, 140, 10, &err);
    if (report_load(path, 2e9, &report, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    unlink(path);
    return report;
}

static void test_figures(void)
{
    struct report *r = load_rows();
    const struct report_unit *w = r->worker;

    is_str(r->id, "7.0", "job and step");
    is_str(r->state, "COMPLETED", "state");
    near(r->elapsed_s, 140, 0, "elapsed");
    is_int((long long)r->n_steps, 6, "steps");
    is_int((long long)r->n_epochs, 1, "epochs");
    near(r->step_mean_s, 5, 0, "step mean");
    near(r->time_s, 6 + 6 + 5 + 7 + 5 + 5, 1e-9,
         "training time: no evaluation, no gap");
    is_int((long long)w[3].wanted, 4,
           "wanted: not while lost, from the step after it came back");
    is_int((long long)w[3].cut, 2, "cut: before it was lost");
    is_int((long long)w[0].wanted, 5, "wanted: not without samples");
    is_int((long long)w[0].cut, 0, "cut: not without samples");
    is_int((long long)w[3].late, 3, "late rows");
    near(w[3].duration_mean_s, (6 + 3 + 3) / 3., 1e-6,
         "a late duration counts, once");
    near(w[3].samples, 4 + 2 + 10, 0, "samples: carried, a part, a batch");
    is_int((long long)w[3].carried, 1, "carried");
    near(w[3].unique_rate, 16. / 34, 1e-12, "unique rate");
    is_int((long long)w[3].last_step, 7, "last step");
    is_int((long long)w[3].resyncs, 1, "resyncs");
    /* Arrivals 1, 1, 2.5; from 1 on, worker 1 alone in steps 1 and 3, with
     * worker 3 in vain in step 2, and alone up to the close. */
    near(w[1].waited_s, 1.5 + .75 + 1.5 + 1.5 + 2 * .75, 1e-6, "waited: last");
    near(w[3].waited_s, .75 + 1.5 + 2 * (.75 + .5), 1e-6,
         "waited: in vain, then last");
    near(r->total.waited_s, w[1].waited_s + w[3].waited_s, 1e-9, "adds up");
    is_str(r->node[0].node, "a", "a node");
    is_int((long long)r->node[0].wanted, 10, "has workers 1 and 3");
    near(r->node[0].contrib_mean, 8. / 6, 1e-12, "contributors a step");
    near(r->node[1].duration_mean_s, 1, 0, "the other's durations");
    is_int((long long)r->differ_step, 5, "where replicas differ");
    report_destroy(r);
}

int main(void)
{
    test_wait();
    test_wait_adds_up();
    test_text();
    test_seconds();
    test_job();
    test_time();
    test_figures();
    return done();
}
