/* Workers that find their run through inherited memory: this process plays
 * dsgd-run, its children are workers. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aggregator.h"
#include "client.h"
#include "dsgd.h"
#include "dsgd_names.h"
#include "launch.h"
#include "run_box.h"
#include "tap.h"

enum { ELEMS = 1000, WORKERS = 2 };

static enum dsgd_late late = DSGD_LATE_REQUEUE;

static void options(struct dsgd_options *opt)
{
    setenv("DSGD_CONF", "/dev/null", 1);
    dsgd_options_init(opt, NULL);
    opt->grad_elems = ELEMS;
    opt->n_samples = 400;
    opt->batch = 4;
    opt->epochs = 3;
    opt->ring_bytes = 0;
    opt->late = late;
}

/* dsgd_open with DSGD_RUN_FD and DSGD_RUN_RANK. */
static enum dsgd_err open_as(const char *fd, const char *rank,
                             struct dsgd_error *err)
{
    struct dsgd_options opt;
    struct dsgd *d = (void *)&opt;

    options(&opt);
    setenv(DSGD_RUN_FD, fd, 1);
    setenv(DSGD_RUN_RANK, rank, 1);
    enum dsgd_err rc = dsgd_open(&opt, &d, err);
    if (rc != DSGD_OK)
        ok(d == NULL, "no handle then");
    else
        dsgd_close(d);
    return rc;
}

static void refused(const char *fd, enum dsgd_err code, const char *text,
                    const char *name)
{
    struct dsgd_error err = {""};

    is_int(open_as(fd, "0", &err), code, name);
    has_str(err.text, text, "says so");
}

static void refused_fd(int fd, enum dsgd_err code, const char *text,
                       const char *name)
{
    char number[16];

    snprintf(number, sizeof number, "%d", fd);
    refused(number, code, text, name);
    close(fd);
}

static const struct run_box_place two = {
    .first_rank = 4, .n_local = WORKERS, .size = 6, .nodes = 2};

static void foreign(void)
{
    struct run_box *box;
    struct dsgd_error err;
    char page[4096] = "";
    int fd;

    refused("x", DSGD_E_USAGE, "\"x\" is not a file descriptor", "no number");
    refused("", DSGD_E_USAGE, "\"\" is not", "nothing");
    refused("-1", DSGD_E_USAGE, "\"-1\" is not", "a negative number");
    refused("3x", DSGD_E_USAGE, "\"3x\" is not", "a number and more");
    refused("987", DSGD_E_STATE, "987 is not open here", "a closed file");
    refused_fd(open("/dev/null", O_RDWR), DSGD_E_FORMAT,
               "is not memory of dsgd-run", "a device");
    fd = memfd_create("x", MFD_ALLOW_SEALING);
    ok(ftruncate(fd, 1 << 20) == 0, "a memory file");
    refused_fd(fd, DSGD_E_FORMAT, "is not memory of dsgd-run",
               "that could be cut short");
    fd = memfd_create("x", MFD_ALLOW_SEALING);
    ok(write(fd, page, sizeof page) == sizeof page, "a short memory file");
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    refused_fd(fd, DSGD_E_FORMAT, "is not memory of dsgd-run", "is refused");
    fd = memfd_create("x", MFD_ALLOW_SEALING);
    ok(ftruncate(fd, 1 << 20) == 0, "a sealed memory file");
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    refused_fd(fd, DSGD_E_FORMAT, "is not memory of dsgd-run",
               "without a box is refused");

    run_box_create(&two, &fd, &box, &err);
    strcpy(box->version, "9.9.9");
    run_box_unmap(box);
    refused_fd(fd, DSGD_E_FORMAT, "dsgd-run is of slurm-dsgd 9.9.9 and",
               "another version");
    run_box_create(&two, &fd, &box, &err);
    box->layout++;
    run_box_unmap(box);
    refused_fd(fd, DSGD_E_FORMAT, "or of another build", "another build");
    if (geteuid() == 0 && seteuid(65534) == 0) {
        run_box_create(&two, &fd, &box, &err);
        run_box_unmap(box);
        ok(seteuid(0) == 0, "another user's box");
        refused_fd(fd, DSGD_E_FORMAT, "belongs to user 65534", "is refused");
    }
}

static void wrong_worker(void)
{
    struct run_box *box;
    struct dsgd_error err;
    char number[16];
    int fd;

    is_int(run_box_create(&two, &fd, &box, &err), DSGD_OK, "a box");
    snprintf(number, sizeof number, "%d", fd);
    is_int(open_as(number, "3", &err), DSGD_E_USAGE, "another node's worker");
    has_str(err.text, "\"3\" is not a worker of this node (4 to 5)", "says so");
    is_int(open_as(number, "6", &err), DSGD_E_USAGE, "past the last");
    is_int(open_as(number, "x", &err), DSGD_E_USAGE, "no number");
    box->pid = 0x7ffffff0;
    is_int(open_as(number, "4", &err), DSGD_E_LAUNCH, "dsgd-run is gone");
    has_str(err.text, "has ended before the run was open", "says so");
    ok(!dsgd_launched(NULL, NULL), "no DSGD_RUN_SIZE: not launched");
    setenv(DSGD_RUN_SIZE, "6", 1);
    uint32_t rank = 0, size = 0;
    ok(dsgd_launched(&rank, &size) && rank == 4 && size == 6, "launched");
    run_box_unmap(box);
    close(fd);
}

/* This process as a dsgd-run of one node. */
struct host {
    int fd;
    struct run_box *box;
    struct segment seg;
    struct aggregator *agg;
    pid_t pid[WORKERS];
};

/* In memory that all processes share: the second process of worker 1 has been
 * given the state. */
static atomic_bool *has_state;

/* The run must not end before another takes the place of worker 1, and has been
 * given the state, which it is between steps. */
static void let_in(uint64_t step)
{
    if (step > 20 && !atomic_load(has_state))
        usleep(50000);
}

/* What a worker does: one of them ends in the middle, its first process. */
static int work(uint32_t rank, bool dies)
{
    struct dsgd_options opt;
    struct dsgd_step step;
    struct dsgd_mean m;
    struct dsgd *d;
    struct dsgd_error err;
    static float state[ELEMS];
    char number[16];
    enum dsgd_err rc;

    options(&opt);
    snprintf(number, sizeof number, "%u", rank);
    setenv(DSGD_RUN_RANK, number, 1);
    if (dsgd_open(&opt, &d, &err) != DSGD_OK) {
        printf("# worker %u: %s\n", rank, err.text);
        fflush(stdout);
        return 50;
    }
    dsgd_register(d, state, sizeof state, NULL);
    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        if (rank == 0)
            let_in(step.index);
        else if (!dies)
            atomic_store(has_state, true);
        float *grad = dsgd_grad_buffer(d);
        for (size_t i = 0; step.n_samples && i < ELEMS; i++)
            grad[i] = (float)step.n_samples;
        dsgd_reduce(d, grad, ELEMS, step.n_samples);
        if (dies && step.index == 20)
            raise(SIGKILL); /* its gradient counts */
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK || rc == DSGD_RESYNCED) {
            for (size_t i = 0; rc == DSGD_OK && i < ELEMS; i++)
                state[i] += m.grad[i] * (float)m.samples;
        }
        if (rc != DSGD_UP_TO_DATE && rc != DSGD_EPOCH_END)
            break;
    }
    bool whole = rc == DSGD_END && state[0] == 1200 && state[ELEMS - 1] == 1200;
    dsgd_close(d);
    return whole ? 0 : 51;
}

static void spawn(struct host *h, uint32_t local, bool dies)
{
    char number[16];

    snprintf(number, sizeof number, "%d", h->fd);
    setenv(DSGD_RUN_FD, number, 1);
    fflush(stdout);
    h->pid[local] = fork();
    if (h->pid[local] == 0)
        _exit(work(local, dies));
}

static void open_host(struct host *h)
{
    static const struct run_box_place place = {
        .n_local = WORKERS, .size = WORKERS, .nodes = 1};
    static const uint32_t worker_node[WORKERS] = {0};
    struct dsgd_options opt;
    struct cutoff_spec spec;
    struct coordinator_config coord = {.opt = &opt,
                                       .cutoff = &spec,
                                       .n_workers = WORKERS,
                                       .n_nodes = 1,
                                       .worker_node = worker_node};
    struct aggregator_config config = {
        .seg = &h->seg, .n_nodes = 1, .coord = &coord};

    is_int(run_box_create(&place, &h->fd, &h->box, NULL), DSGD_OK, "a box");
    spawn(h, 0, false);
    spawn(h, 1, true);
    for (int i = 0;
         i < 5000 && !(run_box_has(h->box, 0) && run_box_has(h->box, 1)); i++)
        usleep(1000);
    ok(run_box_has(h->box, 0) && run_box_has(h->box, 1), "both ask for a run");
    opt = h->box->opt;
    opt.warn = NULL;
    is_int((long long)opt.grad_elems, ELEMS, "and say how large");
    launch_check(&opt, &spec, NULL);
    is_int(run_box_segment(h->fd, h->box, ELEMS, launch_slot_bufs(&opt),
                           opt.ring_bytes, &h->seg, NULL),
           DSGD_OK, "its segment");
    is_int(aggregator_create(&config, &h->agg, NULL), DSGD_OK, "aggregator");
    is_int(aggregator_start(h->agg, NULL), DSGD_OK, "starts");
    run_box_open(h->box);
}

static int end_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

/* A worker dies after it has given its gradient; another process takes its
 * place; both come to the same end. */
static void one_dies(void)
{
    struct host h = {0};
    struct dsgd_error err;
    char number[16];

    atomic_store(has_state, false);
    open_host(&h);
    int status = end_of(h.pid[1]);
    ok(WIFSIGNALED(status), "worker 1 dies");
    snprintf(number, sizeof number, "%d", h.fd);
    is_int(open_as(number, "0", &err), DSGD_E_STATE,
           "a second process of worker 0");
    has_str(err.text, "has opened the run before", "is refused");
    segment_bury(&h.seg, 1, (uint64_t)(uint32_t)status);
    ok(atomic_load(&h.seg.workers[1].hold_step) == 20,
       "the slot is held for the step it gave for");
    is_int(atomic_load(&h.seg.workers[1].buf), 0,
           "the other process begins in the buffer that it would have used");
    spawn(&h, 1, false);
    is_int(end_of(h.pid[0]), 0, "worker 0 has used every sample once an epoch");
    is_int(end_of(h.pid[1]), 0, "and so has the new worker 1");
    aggregator_join(h.agg);
    is_int(open_as(number, "1", &err), DSGD_E_STATE, "after the end");
    has_str(err.text, "the run is over", "says so");
    struct dsgd_options opt;
    struct dsgd *d;
    options(&opt);
    opt.batch++;
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_USAGE, "another batch");
    has_str(err.text, "batch is 5 here and 4 on another worker", "says so");
    aggregator_destroy(h.agg);
    segment_detach(&h.seg);
    run_box_unmap(h.box);
    close(h.fd);
}

int main(void)
{
    has_state = mmap(NULL, sizeof *has_state, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    foreign();
    wrong_worker();
    one_dies();
    late = DSGD_LATE_CARRY;
    one_dies();
    return done();
}
