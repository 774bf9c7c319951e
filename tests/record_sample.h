/* A record of 13 workers on 3 nodes, for the tests of its writer and reader. */
#ifndef DSGD_TESTS_RECORD_SAMPLE_H
#define DSGD_TESTS_RECORD_SAMPLE_H

#include <sys/stat.h>

#include "record.h"
#include "record_read.h"
#include "scratch.h"
#include "tap.h"

enum { N = 13, NODES = 3, USER = 12345 };

static char dir[64] = "/tmp/dsgd-record-XXXXXX";
static const char *const node_name[NODES] = {"n1", "n2", "n 3|é"};
static const char *const node_kernel[NODES] = {"Zen", NULL, "Haswell"};
static const uint32_t worker_node[N] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2};

static const char *in_dir(const char *name)
{
    static char path[4][160];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

static struct record_job sample_job(void)
{
    static float telemetry[NODES * DSGD_N_TELEMETRY];

    for (int i = 0; i < NODES * DSGD_N_TELEMETRY; i++)
        telemetry[i] = i % 5 ? (float)i / 8 : NAN;
    return (struct record_job){
        .job_id = "123",
        .step_id = "4",
        .restart = 2,
        .job_name = "train it",
        .user = NULL,
        .program = "dsgd-train",
        .description = "cnn",
        .cutoff = "static:90%",
        .late = "requeue",
        .min_contributors = 3,
        .grad_elems = 215370,
        .n_samples = 60000,
        .batch = 64,
        .start_unix_s = 1.8e9,
        .n_workers = N,
        .n_nodes = NODES,
        .node_name = node_name,
        .node_kernel = node_kernel,
        .worker_node = worker_node,
        .telemetry = telemetry,
    };
}

/* Put step t, made of numbers that can be computed again. */
static void put_step(struct record *r, uint64_t t)
{
    uint8_t mask[N];
    float duration[N], lag[N];
    uint64_t first[N];
    uint32_t count[N], contributors = 0;

    for (unsigned w = 0; w < N; w++) {
        mask[w] = (t + w) % 4 != 0;
        contributors += mask[w];
        duration[w] = mask[w] ? .01f * (float)(t + w) : NAN;
        lag[w] = .001f * (float)w;
        first[w] = t << 33 | w;
        count[w] = 64 - w;
    }
    struct record_step step = {
        .step = t,
        .epoch = t / 10,
        .attempt = 1,
        .target = 9,
        .contributors = contributors,
        .alive = N,
        .epoch_end = t % 10 == 9,
        .samples = 64 * contributors,
        .start_s = (double)t,
        .close_s = .5,
        .publish_s = .625,
        .lr_scale = 1,
        .mask = mask,
        .duration_s = duration,
        .lag_s = lag,
        .first = first,
        .count = count,
    };
    record_put_step(r, &step);
}

static bool same_step(const struct record_step *s, uint64_t t)
{
    bool same = s->step == t && s->epoch == t / 10 && s->attempt == 1 &&
                s->target == 9 && s->alive == N &&
                s->epoch_end == (t % 10 == 9) &&
                s->samples == 64 * s->contributors && s->start_s == (double)t &&
                s->close_s == .5 && s->publish_s == .625 && s->lr_scale == 1;

    for (unsigned w = 0; w < N; w++) {
        same &= s->mask[w] == ((t + w) % 4 != 0);
        same &= s->mask[w] ? s->duration_s[w] == .01f * (float)(t + w)
                           : isnan(s->duration_s[w]);
        same &= s->lag_s[w] == .001f * (float)w;
        same &= s->first[w] == (t << 33 | w) && s->count[w] == 64 - w;
    }
    return same;
}

static struct record *create(const char *path)
{
    struct record_job job = sample_job();
    struct dsgd_error err = {""};
    struct record *r;

    if (record_create(path, &job, &r, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return r;
}

/* Read all steps.  Returns how many there are, or -1 when something is wrong
 * with them. */
static long long count_steps(const char *path)
{
    struct record_read *r;
    struct record_step step;
    struct dsgd_error err;
    enum dsgd_err rc = record_read_open(path, &r, &err);
    long long n = 0;

    while (rc == DSGD_OK &&
           (rc = record_read_step(r, &step, &err)) == DSGD_OK) {
        n++;
        if (!same_step(&step, step.step))
            rc = DSGD_E_FAIL;
    }
    if (rc != DSGD_END)
        printf("# %d %s\n", rc, err.text);
    record_read_close(r);
    return rc == DSGD_END ? n : -1;
}

/* Run f in a child process; returns its exit status. */
static int in_child(int (*f)(void))
{
    int status = -1;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(f());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As scratch_dir, for other users to read, too. */
static void in_own_dir(void)
{
    scratch_dir(dir);
    if (chmod(dir, 0755) != 0)
        exit(1);
}

#endif
