/* A run without MPI: of one worker, or as one that dsgd-run has started. */
#include <stdlib.h>

#include "c_locale.h"
#include "checkpoint_open.h"
#include "client.h"
#include "error.h"
#include "launch.h"
#include "run_attach.h"

static enum dsgd_err check_alone(const struct dsgd_options *opt,
                                 struct dsgd_error *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (tasks && atol(tasks) > 1 && getenv("SLURM_PROCID"))
        return error_set(err, DSGD_E_LAUNCH,
                         "dsgd_open: this is one of %s tasks, each of which "
                         "would train alone; open with dsgd_mpi_open, or start "
                         "one dsgd-run a node, which starts the workers",
                         tasks);
    if (opt->aggregator == DSGD_AGGREGATOR_DEDICATED)
        return error_set(err, DSGD_E_LAUNCH,
                         "dsgd_open: a run of one process has none to spare "
                         "for a dedicated aggregator: set "
                         "DSGD_AGGREGATOR=thread");
    return DSGD_OK;
}

/* What a run goes on from, or does again, and its record. */
static enum dsgd_err open_history(const struct dsgd_options *opt,
                                  const struct cutoff_spec *spec,
                                  const uint32_t *worker_node,
                                  struct aggregator *agg,
                                  struct dsgd_error *err)
{
    struct launch_node node;
    struct checkpoint_resume resume;
    struct record_replay *replay;

    enum dsgd_err rc = checkpoint_resume_open(opt, 1, &resume, err);
    const struct checkpoint_facts *facts =
        resume.from ? &resume.from->facts : NULL;
    if (rc == DSGD_OK)
        rc = aggregator_checkpoints(agg, resume.store, resume.from, err);
    if (rc == DSGD_OK && facts)
        aggregator_resume(agg, &resume.from->state, facts->step,
                          facts->run_samples, facts->run_s);
    launch_this_node(&node);
    if (rc == DSGD_OK)
        rc = launch_replay(opt, spec, 1, 1, worker_node, &node, &replay, err);
    if (rc == DSGD_OK) {
        aggregator_replay(agg, replay);
        aggregator_record(agg,
                          launch_record(opt, 1, 1, worker_node, &node, facts));
    }
    checkpoint_free(resume.from);
    return rc;
}

static enum dsgd_err open_alone(const struct dsgd_options *opt, struct dsgd **d,
                                struct dsgd_error *err)
{
    const uint32_t worker_node[1] = {0};
    char name[SEGMENT_NAME];
    struct segment seg = {0};
    struct aggregator *agg = NULL;
    struct cutoff_spec spec;
    struct coordinator_config coord = {.opt = opt,
                                       .cutoff = &spec,
                                       .n_workers = 1,
                                       .n_nodes = 1,
                                       .worker_node = worker_node};
    struct aggregator_config config = {
        .seg = &seg, .n_nodes = 1, .coord = &coord};

    enum dsgd_err rc = check_alone(opt, err);
    if (rc == DSGD_OK)
        rc = launch_check(opt, &spec, err);
    if (rc == DSGD_OK)
        rc = segment_create(1, opt->grad_elems, launch_slot_bufs(opt),
                            opt->ring_bytes, &seg, name, err);
    if (rc != DSGD_OK)
        return rc;
    segment_unlink(name);
    rc = launch_model(opt, &spec, &config.model, err);
    coord.model = config.model;
    if (rc == DSGD_OK)
        rc = aggregator_create(&config, &agg, err);
    if (rc == DSGD_OK)
        rc = client_create(opt, &seg, 0, agg, d, err);
    if (rc != DSGD_OK) {
        if (agg)
            aggregator_destroy(agg);
        else
            timing_model_free(config.model);
        segment_detach(&seg);
        return rc;
    }
    rc = open_history(opt, &spec, worker_node, agg, err);
    if (rc == DSGD_OK)
        rc = client_start(*d, NULL, err);
    if (rc != DSGD_OK) {
        client_destroy(*d);
        *d = NULL;
    }
    return rc;
}

enum dsgd_err dsgd_open(const struct dsgd_options *opt, struct dsgd **d,
                        struct dsgd_error *err)
{
    locale_t before = c_locale_enter();

    *d = NULL;
    enum dsgd_err rc =
        getenv(DSGD_RUN_FD) ? run_attach(opt, d, err) : open_alone(opt, d, err);
    c_locale_leave(before);
    return rc;
}
