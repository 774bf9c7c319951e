/* record_make SCENARIO FILE: write the record of a simulated run, the same
 * bytes of figures every time, for the tests of what reads records. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record.h"
#include "record_sim.h"

#define START_UNIX_S 1769860800 /* 2026-01-31T12:00:00Z */

struct scenario {
    const char *name;
    const char *job_id, *job_name, *user, *cutoff;
    struct sim sim;
    bool open;    /* not closed */
    bool running; /* and heard of just now */
};

#define SIM                                                                    \
    .seed = 1, .nodes = 4, .per_node = 4, .steps = 120, .steps_per_epoch = 60, \
    .median_s = .05, .sigma = .1

static const struct scenario scenarios[] = {
    {"quiet", "100", "train", "alice", "full", {SIM}, false, false},
    {"noisy",
     "101",
     "train",
     "alice",
     "full",
     {SIM, .node_factor = {1, 1, 2.9, 1}},
     false,
     false},
    {"static",
     "102",
     "train",
     "alice",
     "static:12",
     {SIM, .node_factor = {1, 1, 2.9, 1}, .keep = 12, .polls = true},
     false,
     false},
    {"part",
     "103",
     "train",
     "alice",
     "full",
     {SIM, .node_factor = {1, 2, 1, 1}, .slow_from = 61, .slow_to = 120},
     false,
     false},
    {"stuck",
     "104",
     "train",
     "alice",
     "static:12",
     {SIM, .keep = 12, .stuck_worker = 6, .stuck_step = 40},
     false,
     false},
    {"odd",
     "105",
     "a|b\n\\c\xff",
     NULL,
     "order, and a long one",
     {.seed = 1, .nodes = 4, .per_node = 1, .steps_per_epoch = 1},
     true,
     false},
    {"short",
     "106",
     "train",
     "bob",
     "full",
     {
         .seed = 1,
         .nodes = 1,
         .per_node = 2,
         .steps = 5,
         .steps_per_epoch = 60,
         .median_s = .05,
     },
     true,
     true},
};

static void on_step(void *r, const struct record_step *step)
{
    record_put_step(r, step);
}

static void on_late(void *r, const struct record_late *late)
{
    record_put_late(r, late);
}

static struct record *create(const struct scenario *s, const char *path)
{
    static const char *const node_name[] = {"n1", "n2", "n3", "n4"};
    static const char *const odd_name[] = {"n1", "knoten-zwölf-é", "n|3",
                                           "\033[31mn4"};
    static const char *const kernel[] = {"Zen", "Zen", "Haswell", NULL};
    static float telemetry[4 * DSGD_N_TELEMETRY];
    uint32_t worker_node[64];
    struct dsgd_error err;
    struct record *r;

    for (uint32_t w = 0; w < 64; w++)
        worker_node[w] = w / s->sim.per_node;
    for (int i = 0; i < 4 * DSGD_N_TELEMETRY; i++)
        telemetry[i] = i % 8 == 3 ? NAN : .01f * (float)(i % 8);
    if (s->sim.node_factor[2] > 1)
        telemetry[2 * DSGD_N_TELEMETRY] = .93f;
    struct record_job job = {
        .job_id = s->job_id,
        .step_id = "0",
        .job_name = s->job_name,
        .user = s->user,
        .program = "dsgd-train",
        .description = "cnn on fashion-mnist",
        .cutoff = s->cutoff,
        .late = "requeue",
        .grad_elems = 215370,
        .n_samples = 60000,
        .batch = 64,
        .start_unix_s = START_UNIX_S,
        .n_workers = s->sim.nodes * s->sim.per_node,
        .n_nodes = s->sim.nodes,
        .node_name = s->open && !s->running ? odd_name : node_name,
        .node_kernel = kernel,
        .worker_node = worker_node,
        .telemetry = telemetry,
    };
    if (record_create(path, &job, &r, &err) != DSGD_OK) {
        fprintf(stderr, "record_make: %s\n", err.text);
        exit(1);
    }
    return r;
}

/* What depends on the clock. */
static void settle(const struct scenario *s, const char *path)
{
    char sql[160];
    sqlite3 *db;

    snprintf(sql, sizeof sql,
             "UPDATE job SET heard_unix_s=%lld, %s version='1'",
             s->running ? (long long)time(NULL) : START_UNIX_S + 60LL,
             s->open ? "end_s=NULL, completed=0," : "");
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "record_make: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_close(db);
}

static void make(const struct scenario *s, const char *path)
{
    struct record *r = create(s, path);
    struct dsgd_error err;

    sim_run(&s->sim, on_step, on_late, r);
    if (s->sim.stuck_worker)
        record_put_event(
            r, &(struct record_event){RECORD_EVENT_LEFT, s->sim.steps,
                                      (int32_t)s->sim.stuck_worker - 1, 1, 59,
                                      "stuck"});
    if (record_close(r, true, 59.5, 30, &err) != DSGD_OK) {
        fprintf(stderr, "record_make: %s\n", err.text);
        exit(1);
    }
    settle(s, path);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (argc == 3 && strcmp(argv[1], scenarios[i].name) == 0) {
            make(&scenarios[i], argv[2]);
            return 0;
        }
    }
    fprintf(stderr, "usage: record_make SCENARIO FILE\n");
    return 2;
}
