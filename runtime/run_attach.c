#include "run_attach.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "dsgd_names.h"
#include "error.h"
#include "launch.h"
#include "run_box.h"

static bool read_whole(const char *name, uint32_t *value)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !isdigit((unsigned char)*text))
        return false;
    unsigned long number = strtoul(text, &end, 10);
    *value = (uint32_t)number;
    return !*end && number <= UINT32_MAX;
}

bool dsgd_launched(uint32_t *rank, uint32_t *size)
{
    uint32_t own_rank, own_size;

    if (!getenv(DSGD_RUN_FD) || !read_whole(DSGD_RUN_RANK, &own_rank) ||
        !read_whole(DSGD_RUN_SIZE, &own_size))
        return false;
    if (rank)
        *rank = own_rank;
    if (size)
        *size = own_size;
    return true;
}

static enum dsgd_err find_index(const struct run_box *box, uint32_t *local,
                                struct dsgd_error *err)
{
    const char *text = getenv(DSGD_RUN_RANK);
    uint32_t rank;

    if (!read_whole(DSGD_RUN_RANK, &rank) || rank < box->first_rank ||
        rank - box->first_rank >= box->n_local)
        return error_set(err, DSGD_E_USAGE,
                         DSGD_RUN_RANK
                         ": \"%.20s\" is not a worker of this node (%u to "
                         "%u); dsgd-run sets it, leave it alone",
                         text ? text : "", box->first_rank,
                         box->first_rank + box->n_local - 1);
    *local = rank - box->first_rank;
    return DSGD_OK;
}

/* One process a worker, until dsgd-run has buried it. */
static enum dsgd_err take_slot(struct segment *seg, const struct run_box *box,
                               uint32_t local, struct dsgd_error *err)
{
    int32_t other = 0;

    if (atomic_load(&seg->h->run) != SEG_RUNNING)
        return error_set(err, DSGD_E_STATE, "the run is over");
    if (!atomic_compare_exchange_strong(&seg->workers[local].pid, &other,
                                        (int32_t)getpid()))
        return error_set(err, DSGD_E_STATE,
                         "worker %u has opened the run before, in process %d; "
                         "only one process that dsgd-run starts, and not a "
                         "child of it, can be a worker",
                         box->first_rank + local, (int)other);
    return DSGD_OK;
}

static enum dsgd_err join(const struct dsgd_options *opt,
                          const struct run_box *box, struct segment *seg,
                          uint32_t local, struct dsgd **d,
                          struct dsgd_error *err)
{
    enum dsgd_err rc = take_slot(seg, box, local, err);
    if (rc == DSGD_OK)
        rc = client_create(opt, seg, local, NULL, d, err);
    if (rc != DSGD_OK)
        return rc;
    seg->h = NULL; /* the handle's now */
    (*d)->rank = box->first_rank + local;
    (*d)->size = box->size;
    (*d)->nodes = box->nodes;
    rc = client_start(*d, NULL, err);
    if (rc != DSGD_OK) {
        client_destroy(*d);
        *d = NULL;
    }
    return rc;
}

enum dsgd_err run_attach(const struct dsgd_options *opt, struct dsgd **d,
                         struct dsgd_error *err)
{
    struct run_box *box;
    struct segment seg = {0};
    uint32_t local = 0;
    int fd;

    *d = NULL;
    enum dsgd_err rc = run_box_attach(getenv(DSGD_RUN_FD), &fd, &box, err);
    if (rc == DSGD_OK)
        rc = find_index(box, &local, err);
    if (rc == DSGD_OK)
        rc = run_box_ask(box, local, opt, err);
    if (rc == DSGD_OK)
        rc = launch_same_sizes(opt, &box->opt, "another worker", err);
    if (rc == DSGD_OK) {
        struct seg_file file = {.fd = fd,
                                .at = (off_t)box->segment_at,
                                .name = "dsgd-run's memory"};
        rc = segment_attach_at(&file, &seg, err);
    }
    if (rc == DSGD_OK)
        rc = join(opt, box, &seg, local, d, err);
    if (rc == DSGD_OK)
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* not for this worker's children */
    segment_detach(&seg);
    run_box_unmap(box);
    return rc;
}
