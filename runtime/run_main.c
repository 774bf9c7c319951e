/* dsgd-run: the workers of a node, and the aggregator that they share. */
#include <stdlib.h>

#include "dsgd_mpi.h"
#include "dsgd_names.h"
#include "run_node.h"
#include "run_team.h"
#include "text.h"

static void complain(const struct dsgd_error *err)
{
    if (*err->text)
        fprintf(stderr, "dsgd-run: %s\n", err->text);
}

/* Before MPI knows: the first of several tasks speaks for all. */
static bool is_first(void)
{
    const char *rank = getenv("PMIX_RANK");

    if (!rank)
        rank = getenv("SLURM_PROCID");
    return !rank || atoi(rank) == 0;
}

static int said(struct dsgd_error *err)
{
    enum dsgd_err rc = text_flush(err);

    if (rc != DSGD_OK)
        complain(err);
    return (int)rc;
}

int main(int argc, char **argv)
{
    struct run_options opt;
    struct dsgd_error err = {""};
    bool speaks = is_first();
    enum dsgd_err rc = run_options_parse(argc, argv, &opt, &err);

    if (rc == DSGD_OK && opt.help) {
        if (speaks)
            run_options_help(stdout);
        return said(&err);
    }
    if (rc == DSGD_OK && opt.version) {
        if (speaks)
            printf("dsgd-run (slurm-dsgd) %s\n", PACKAGE_VERSION);
        return said(&err);
    }
    unsetenv(DSGD_RUN_FD); /* of another dsgd-run, which started this one */
    run_team_signals();
    if (rc == DSGD_OK)
        rc = dsgd_mpi_init(&argc, &argv, &err);
    if (rc != DSGD_OK) {
        if (speaks)
            complain(&err);
        return (int)rc;
    }
    int code = run_node(&opt, &speaks, &err);
    if (speaks)
        complain(&err);
    if (dsgd_mpi_finalize(&err) != DSGD_OK && !code) {
        complain(&err);
        code = DSGD_E_MPI;
    }
    return code;
}
