#include "run_box.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsgd_names.h"
#include "error.h"
#include "launch.h"
#include "sys.h"

#define MAGIC UINT64_C(0x786f626e75726764)

/* Whatever the two sides must agree on. */
#define LAYOUT                                        \
    (SEGMENT_MAGIC ^ (sizeof(struct run_box) << 40) ^ \
     (sizeof(struct seg_header) << 20) ^ sizeof(struct seg_worker))

/* The box fills whole pages of any size in use. */
enum { BOX_BYTES = 65536 };
_Static_assert(sizeof(struct run_box) <= BOX_BYTES, "the box is too large");

static enum dsgd_err map(int fd, struct run_box **box, struct dsgd_error *err)
{
    void *base =
        mmap(NULL, BOX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return error_set(err, DSGD_E_NOMEM, "dsgd-run's memory: mmap: %s",
                         strerror(errno));
    *box = base;
    return DSGD_OK;
}

void run_box_unmap(struct run_box *box)
{
    if (box)
        munmap(box, BOX_BYTES);
}

enum dsgd_err run_box_create(const struct run_box_place *place, int *fd,
                             struct run_box **box, struct dsgd_error *err)
{
    *box = NULL;
    *fd = memfd_create("dsgd-run", MFD_ALLOW_SEALING);
    if (*fd < 0 || ftruncate(*fd, BOX_BYTES) != 0 ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        int error = errno;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return error_set(err, DSGD_E_NOMEM, "shared memory: %s",
                         strerror(error));
    }
    enum dsgd_err rc = map(*fd, box, err);
    if (rc != DSGD_OK) {
        close(*fd);
        *fd = -1;
        return rc;
    }
    struct run_box *b = *box;
    b->magic = MAGIC;
    b->layout = LAYOUT;
    snprintf(b->version, sizeof b->version, "%s", PACKAGE_VERSION);
    b->segment_at = BOX_BYTES;
    b->pid = (int32_t)getpid();
    b->first_rank = place->first_rank;
    b->n_local = place->n_local;
    b->size = place->size;
    b->nodes = place->nodes;
    return DSGD_OK;
}

enum dsgd_err run_box_segment(int fd, const struct run_box *box,
                              size_t grad_elems, uint32_t slot_bufs,
                              size_t ring_bytes, struct segment *seg,
                              struct dsgd_error *err)
{
    struct seg_file file = {
        .fd = fd, .at = (off_t)box->segment_at, .name = "shared memory"};
    enum dsgd_err rc = segment_create_at(&file, box->n_local, grad_elems,
                                         slot_bufs, ring_bytes, seg, err);

    if (rc == DSGD_OK)
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL);
    return rc;
}

void run_box_open(struct run_box *box)
{
    atomic_store(&box->is_open, 1);
    sys_futex_ring(&box->bell);
}

bool run_box_has(const struct run_box *box, uint32_t local)
{
    return atomic_load(&box->here[local]) && atomic_load(&box->asked);
}

void run_box_forget(struct run_box *box, uint32_t local, pid_t pid)
{
    int32_t writer = (int32_t)pid;

    atomic_store(&box->here[local], 0);
    if (!atomic_load(&box->asked))
        atomic_compare_exchange_strong(&box->claim, &writer, 0);
}

static enum dsgd_err read_number(const char *text, int *fd,
                                 struct dsgd_error *err)
{
    char *end;

    errno = 0;
    long number = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || number > 1 << 20)
        return error_set(err, DSGD_E_USAGE,
                         DSGD_RUN_FD
                         ": \"%.40s\" is not a file descriptor; dsgd-run sets "
                         "it, leave it alone",
                         text);
    *fd = (int)number;
    return DSGD_OK;
}

/* Sealed memory of this user can't be cut short while it is mapped here. */
static enum dsgd_err check_file(int fd, struct dsgd_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return error_set(err, DSGD_E_STATE,
                         DSGD_RUN_FD
                         ": file descriptor %d is not open here; a script "
                         "between dsgd-run and the program must leave it open",
                         fd);
    if (!S_ISREG(st.st_mode) || st.st_size < BOX_BYTES ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
        return error_set(
            err, DSGD_E_FORMAT,
            DSGD_RUN_FD ": file descriptor %d is not memory of dsgd-run", fd);
    if (st.st_uid != geteuid())
        return error_set(err, DSGD_E_FORMAT,
                         DSGD_RUN_FD
                         ": file descriptor %d belongs to user %u and this "
                         "process to user %u; start both as one user",
                         fd, (unsigned)st.st_uid, (unsigned)geteuid());
    return DSGD_OK;
}

static enum dsgd_err check_box(int fd, const struct run_box *box,
                               struct dsgd_error *err)
{
    if (box->magic != MAGIC)
        return error_set(
            err, DSGD_E_FORMAT,
            DSGD_RUN_FD ": file descriptor %d is not memory of dsgd-run", fd);
    if (box->layout != LAYOUT ||
        strncmp(box->version, PACKAGE_VERSION, sizeof box->version) != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "dsgd-run is of slurm-dsgd %.31s and this program's "
                         "libdsgd of %s, or of another build; use one for "
                         "both",
                         box->version, PACKAGE_VERSION);
    return DSGD_OK;
}

enum dsgd_err run_box_attach(const char *text, int *fd, struct run_box **box,
                             struct dsgd_error *err)
{
    *box = NULL;
    enum dsgd_err rc = read_number(text, fd, err);
    if (rc == DSGD_OK)
        rc = check_file(*fd, err);
    if (rc == DSGD_OK)
        rc = map(*fd, box, err);
    if (rc != DSGD_OK)
        return rc;
    rc = check_box(*fd, *box, err);
    if (rc != DSGD_OK) {
        run_box_unmap(*box);
        *box = NULL;
    }
    return rc;
}

enum dsgd_err run_box_ask(struct run_box *box, uint32_t local,
                          const struct dsgd_options *opt,
                          struct dsgd_error *err)
{
    const uint64_t look_ns = 1000000000;

    atomic_store(&box->here[local], 1);
    for (;;) {
        uint32_t bell = atomic_load(&box->bell);
        int32_t nobody = 0;
        if (atomic_load(&box->is_open))
            return DSGD_OK;
        if (atomic_compare_exchange_strong(&box->claim, &nobody,
                                           (int32_t)getpid())) {
            box->opt = *opt;
            launch_kernel(box->kernel, sizeof box->kernel);
            atomic_store(&box->asked, 1);
        }
        if (kill(box->pid, 0) != 0 && errno == ESRCH)
            return error_set(err, DSGD_E_LAUNCH,
                             "dsgd-run (process %d) has ended before the run "
                             "was open",
                             (int)box->pid);
        sys_futex_wait(&box->bell, bell, look_ns);
    }
}
