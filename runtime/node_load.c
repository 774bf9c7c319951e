#include "node_load.h"

#include <stdint.h>
#include <stdlib.h>

#include "telemetry.h"

/* Processor time a look may take; a look took 0.1 ms. */
#define BUDGET_S 0.005

struct node_load {
    struct telemetry telemetry;
    uint32_t job_id;
    double looked_s;
    bool begun;
};

struct node_load *node_load_create(void)
{
    struct node_load *l = calloc(1, sizeof *l);
    const char *job = getenv("SLURM_JOB_ID");
    if (l && job)
        l->job_id = (uint32_t)strtoul(job, NULL, 10);
    return l;
}

void node_load_free(struct node_load *l)
{
    free(l);
}

bool node_load_look(struct node_load *l, double own_cpu_s, double now_s,
                    float *value)
{
    struct telemetry_now now = telemetry_clock();

    if (!l || (l->begun && now_s - l->looked_s < NODE_LOAD_EVERY_S))
        return false;
    now.cpu_s = own_cpu_s;
    bool news = l->begun;
    if (news) {
        telemetry_end(&l->telemetry, now);
        for (int i = 0; i < DSGD_N_TELEMETRY; i++)
            value[i] = (float)l->telemetry.value[i];
    }
    telemetry_begin(&l->telemetry, "", l->job_id, now, BUDGET_S);
    l->looked_s = now_s;
    l->begun = true;
    return news;
}
