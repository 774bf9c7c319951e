#include "checkpoint_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

static void say(const struct dsgd_options *opt, uint32_t n_workers,
                const struct checkpoint_facts *f, const char *name)
{
    struct dsgd_error line;
    char then[48] = "";

    if (f->n_workers != n_workers)
        snprintf(then, sizeof then, " with %" PRIu32 " workers", f->n_workers);
    error_set(&line, DSGD_OK,
              "going on from %.60s after step %" PRIu64 ", in epoch %" PRIu64
              ", as run %.60s left it%s",
              name, f->step, f->epoch, f->run, then);
    if (opt->note)
        opt->note(opt->warn_context, line.text);
}

enum dsgd_err checkpoint_resume_open(const struct dsgd_options *opt,
                                     uint32_t n_workers,
                                     struct checkpoint_resume *r,
                                     struct dsgd_error *err)
{
    struct checkpoint_facts want = {.grad_elems = opt->grad_elems,
                                    .n_samples = opt->n_samples,
                                    .sampler = opt->sampler};
    char name[256];

    *r = (struct checkpoint_resume){NULL, NULL};
    if (!*opt->checkpoint_dir)
        return DSGD_OK;
    memcpy(want.program, opt->program, sizeof opt->program);
    memcpy(want.identity, opt->identity, sizeof opt->identity);
    enum dsgd_err rc = checkpoint_store_open(opt, &r->store, err);
    if (rc == DSGD_OK)
        rc = checkpoint_store_newest(r->store, &want, &r->from, name, err);
    if (rc != DSGD_OK) {
        checkpoint_store_close(r->store);
        r->store = NULL;
        return rc;
    }
    if (r->from)
        say(opt, n_workers, &r->from->facts, name);
    return DSGD_OK;
}
