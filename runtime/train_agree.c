#include "train_agree.h"

#include <string.h>
#include <unistd.h>

#include "error.h"

/* Say in front of the text who it comes from. */
static void sign(int rank, struct dsgd_error *err)
{
    struct dsgd_error text = *err;
    char host[64] = "";

    gethostname(host, sizeof host - 1);
    error_set(err, DSGD_OK, "rank %d on %s: %.400s", rank, host, text.text);
}

enum dsgd_err train_agree(MPI_Comm comm, enum dsgd_err mine,
                          struct dsgd_error *err)
{
    int rank, size, failed = mine != DSGD_OK, n_failed, first;
    int code = (int)mine;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int candidate = failed ? rank : size;
    MPI_Allreduce(&failed, &n_failed, 1, MPI_INT, MPI_SUM, comm);
    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, comm);
    if (n_failed == 0)
        return DSGD_OK;
    if (rank == first && n_failed < size)
        sign(rank, err);
    MPI_Bcast(&code, 1, MPI_INT, first, comm);
    MPI_Bcast(err->text, sizeof err->text, MPI_CHAR, first, comm);
    return (enum dsgd_err)code;
}
