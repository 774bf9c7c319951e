#include "run_cpus.h"

#include "error.h"
#include "train_threads.h"

/* A dsgd-run is the only task of its node. */
static size_t allocated(const struct train_cpus *c)
{
    if (c->per_task)
        return c->per_task;
    if (c->on_node)
        return c->on_node;
    return c->affinity ? c->affinity : c->online;
}

uint32_t run_cpus_allocated(void)
{
    struct train_cpus cpus;

    train_threads_look(&cpus);
    size_t n = allocated(&cpus);
    return n ? (uint32_t)n : 1;
}

size_t run_cpus_threads(uint32_t n)
{
    struct train_cpus cpus;

    train_threads_look(&cpus);
    size_t usable = allocated(&cpus);
    if (cpus.affinity && cpus.affinity < usable)
        usable = cpus.affinity;
    cpus.on_node = usable;
    cpus.per_task = 0;
    cpus.tasks_on_node = n;
    return train_threads_share(&cpus);
}

bool run_cpus_warning(uint32_t n, struct dsgd_error *warning)
{
    struct train_cpus cpus;

    train_threads_look(&cpus);
    if (!cpus.affinity || cpus.affinity >= n || cpus.affinity >= cpus.on_node ||
        cpus.affinity >= cpus.online)
        return false;
    error_set(warning, DSGD_OK,
              "%u workers share the %zu CPUs that this task is bound to, of "
              "%zu allocated here; give it more with srun -c, or start it "
              "with --cpu-bind=none",
              n, cpus.affinity, cpus.on_node);
    return true;
}
