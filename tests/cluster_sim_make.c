/* Setting up a simulated cluster. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster_sim_own.h"
#include "launch.h"

static double sample_s(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    double spread = spec->spread > 1 ? spec->spread : 1;

    return spec->step_s / (double)spec->opt.batch *
           rng_log_range(&s->rng, 1 / spread, spread);
}

/* What the parts are claimed from. */
static bool make_segment(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    char name[SEGMENT_NAME];

    if (index == 0) {
        n->seg = &s->first.seg;
        return true;
    }
    if (segment_create(n->n, s->elems, s->bufs, (size_t)1 << 16, &n->own, name,
                       NULL) != DSGD_OK)
        return false;
    segment_unlink(name);
    n->seg = &n->own;
    return node_create(n->seg, &n->node, NULL) == DSGD_OK;
}

static bool make_node(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    uint32_t per = s->spec->per_node;

    n->n = per;
    n->worker = calloc(per, sizeof *n->worker);
    n->share = calloc(per, sizeof *n->share);
    n->known = calloc(per, sizeof *n->known);
    n->bulk_share = calloc(per, sizeof *n->bulk_share);
    n->queue = calloc(QUEUE, sizeof *n->queue);
    n->sum = calloc(s->elems, sizeof *n->sum);
    n->sent = calloc(s->elems, sizeof *n->sent);
    if (!n->worker || !n->share || !n->known || !n->bulk_share || !n->queue ||
        !n->sum || !n->sent || !node_early_create(&n->early, per))
        return false;
    if (s->spec->opt.work == DSGD_WORK_SHARED && !make_segment(s, index))
        return false;
    for (uint32_t w = 0; w < per; w++) {
        n->worker[w].sample_s = sample_s(s);
        n->worker[w].parts.carries = launch_keeps_parts(&s->spec->opt);
        n->worker[w].parts.polls = s->spec->opt.polls;
        for (uint32_t b = 0; b < s->bufs; b++) {
            n->worker[w].slot[b] = index == 0
                                       ? segment_slot(&s->first.seg, w, b)
                                   : n->seg ? segment_slot(n->seg, w, b)
                                            : calloc(s->elems, sizeof(float));
            if (!n->worker[w].slot[b])
                return false;
        }
    }
    return true;
}

void sim_clean_up(struct cluster *s)
{
    first_node_destroy(&s->first);
    for (uint32_t i = 0; s->nodes && i < s->spec->n_nodes; i++) {
        struct node_sim *n = &s->nodes[i];
        for (uint32_t w = 0; i && !n->seg && n->worker && w < n->n; w++) {
            free(n->worker[w].slot[0]);
            free(n->worker[w].slot[1]);
        }
        node_destroy(n->node);
        if (i && n->seg)
            segment_detach(n->seg);
        free(n->worker);
        free(n->share);
        free(n->known);
        free(n->bulk_share);
        free(n->queue);
        free(n->sum);
        free(n->sent);
        node_early_destroy(&n->early);
    }
    free(s->nodes);
    free(s->seen);
}

/* Keep a record, and do another again, as far as that is asked for. */
static bool attach(struct cluster *s, const struct dsgd_options *opt,
                   const uint32_t *worker_node)
{
    const struct cluster_spec *spec = s->spec;
    const char **names = calloc(spec->n_nodes, sizeof *names);
    struct record_job job = {.job_id = "1",
                             .step_id = "0",
                             .program = "sim",
                             .cutoff = opt->cutoff,
                             .late = "?",
                             .grad_elems = opt->grad_elems,
                             .n_samples = opt->n_samples,
                             .batch = opt->batch,
                             .n_workers = spec->n_nodes * spec->per_node,
                             .n_nodes = spec->n_nodes,
                             .node_name = names,
                             .node_kernel = names,
                             .worker_node = worker_node};
    struct record_setting work = {.name = "work"};
    struct record *record = NULL;
    struct record_replay *replay = NULL;
    bool good = names != NULL;

    for (uint32_t i = 0; good && i < spec->n_nodes; i++)
        names[i] = "sim";
    snprintf(work.value, sizeof work.value, "%s",
             opt->work == DSGD_WORK_SHARED ? "shared" : "own");
    job.setting = &work;
    job.n_settings = 1;
    if (good && spec->record)
        good = record_create(spec->record, &job, &record, NULL) == DSGD_OK;
    if (good && s->first.cutoff.mode == CUTOFF_REPLAY)
        good = record_replay_open(s->first.cutoff.file, &job,
                                  opt->work == DSGD_WORK_SHARED, &replay,
                                  NULL) == DSGD_OK;
    coordinator_record(s->first.c, record);
    coordinator_replay(s->first.c, replay);
    free(names);
    return good;
}

bool sim_set_up(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    uint32_t n = spec->n_nodes * spec->per_node;
    struct dsgd_options opt = spec->opt;
    uint32_t *worker_node = calloc(n, sizeof *worker_node);

    for (uint32_t w = 0; worker_node && w < n; w++)
        worker_node[w] = w / spec->per_node;
    opt.grad_elems = s->elems;
    bool good =
        worker_node &&
        first_node_create(&s->first, &opt, (size_t)64 << 20, n, spec->n_nodes,
                          worker_node, spec->model, NULL) == DSGD_OK &&
        attach(s, &opt, worker_node);
    free(worker_node);
    for (uint32_t i = 0; good && i < spec->n_nodes; i++)
        good = make_node(s, i);
    return good;
}
