#include "mpi_resume.h"

#include "aggregator.h"
#include "error.h"

enum { PIECE = 1 << 26 };

/* What everybody has to know of the checkpoint. */
struct facts {
    uint64_t step, bytes, run_samples;
    double run_s;
};

/* The state from the first leader to the others, in pieces. */
static enum dsgd_err spread(MPI_Comm leaders, const struct facts *f,
                            struct state_copy *copy, struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;
    int good, all;

    if (copy->fd < 0)
        rc = state_make((size_t)f->bytes, copy, err);
    good = rc == DSGD_OK;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, leaders);
    for (uint64_t at = 0; all && at < f->bytes; at += PIECE) {
        uint64_t left = f->bytes - at;
        MPI_Bcast(copy->data + at, left < PIECE ? (int)left : PIECE, MPI_BYTE,
                  0, leaders);
    }
    if (!all && rc == DSGD_OK)
        rc = error_set(err, DSGD_E_NOMEM, "no memory for the state on a node");
    return rc;
}

enum dsgd_err mpi_resume(MPI_Comm comm, bool leader, struct aggregator *agg,
                         struct checkpoint_read *from, struct dsgd_error *err)
{
    struct state_copy copy = {.fd = -1};
    struct facts f = {0};
    MPI_Comm leaders;

    if (from) {
        f = (struct facts){from->facts.step, from->state.bytes,
                           from->facts.run_samples, from->facts.run_s};
        copy = from->state;
        from->state.fd = -1;
    }
    MPI_Bcast(&f, sizeof f, MPI_BYTE, 0, comm);
    if (!f.step)
        return DSGD_OK;
    MPI_Comm_split(comm, leader ? 0 : MPI_UNDEFINED, 0, &leaders);
    if (!leader)
        return DSGD_OK;
    enum dsgd_err rc = spread(leaders, &f, &copy, err);
    MPI_Comm_free(&leaders);
    if (rc == DSGD_OK)
        aggregator_resume(agg, &copy, f.step, f.run_samples, f.run_s);
    state_drop(&copy);
    return rc;
}
