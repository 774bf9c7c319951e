#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

#define STATE_MAGIC UINT64_C(0x65746174736473)

/* In front of the data; 64 bytes. */
struct state_head {
    uint64_t magic, step, bytes, unused[5];
};

static enum dsgd_err map_copy(int fd, size_t bytes, int prot,
                              struct state_copy *c, struct dsgd_error *err)
{
    c->fd = fd;
    c->bytes = bytes;
    c->map_bytes = sizeof(struct state_head) + bytes;
    c->map = mmap(NULL, c->map_bytes, prot, MAP_SHARED, fd, 0);
    if (c->map == MAP_FAILED) {
        close(fd);
        c->fd = -1;
        return error_set(err, DSGD_E_NOMEM, "state: mmap of %zu bytes: %s",
                         c->map_bytes, strerror(errno));
    }
    c->data = (unsigned char *)c->map + sizeof(struct state_head);
    return DSGD_OK;
}

enum dsgd_err state_make(size_t bytes, struct state_copy *c,
                         struct dsgd_error *err)
{
    c->fd = -1;
    int fd = memfd_create("dsgd-state", MFD_CLOEXEC);
    if (fd < 0 ||
        ftruncate(fd, (off_t)(sizeof(struct state_head) + bytes)) != 0) {
        if (fd >= 0)
            close(fd);
        return error_set(err, DSGD_E_NOMEM, "state: %s", strerror(errno));
    }
    return map_copy(fd, bytes, PROT_READ | PROT_WRITE, c, err);
}

void state_drop(struct state_copy *c)
{
    if (c->fd < 0)
        return;
    munmap(c->map, c->map_bytes);
    close(c->fd);
    c->fd = -1;
}

bool state_announce(struct seg_state *box, const struct state_copy *c,
                    uint64_t step)
{
    struct state_head *head = c->map;

    if (atomic_load(&box->step) > step + 1)
        return false;
    head->magic = STATE_MAGIC;
    head->step = step;
    head->bytes = c->bytes;
    atomic_store(&box->step, 0);
    atomic_store(&box->fd, c->fd);
    atomic_store(&box->pid, (int32_t)getpid());
    atomic_store(&box->step, step + 1);
    return true;
}

void state_retract(struct seg_state *box, const struct state_copy *c)
{
    if (atomic_load(&box->pid) == (int32_t)getpid() &&
        atomic_load(&box->fd) == c->fd)
        atomic_store(&box->step, 0);
}

enum dsgd_err state_open(const struct seg_state *box, size_t bytes,
                         struct state_copy *c, uint64_t *step,
                         struct dsgd_error *err)
{
    char path[48];
    struct stat st;

    c->fd = -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)atomic_load(&box->pid),
             (int)atomic_load(&box->fd));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return error_set(err, DSGD_E_IO, "state: %s: %s", path,
                         strerror(errno));
    if (fstat(fd, &st) == 0 && bytes == SIZE_MAX &&
        st.st_size >= (off_t)sizeof(struct state_head))
        bytes = (size_t)st.st_size - sizeof(struct state_head);
    if (fstat(fd, &st) != 0 ||
        (size_t)st.st_size != sizeof(struct state_head) + bytes) {
        close(fd);
        return error_set(err, DSGD_E_FORMAT,
                         "state: %s is not a copy of %zu bytes", path, bytes);
    }
    enum dsgd_err rc = map_copy(fd, bytes, PROT_READ, c, err);
    if (rc != DSGD_OK)
        return rc;
    const struct state_head *head = c->map;
    if (head->magic != STATE_MAGIC || head->bytes != bytes) {
        state_drop(c);
        return error_set(err, DSGD_E_IO, "state: %s has changed", path);
    }
    *step = head->step;
    return DSGD_OK;
}

static uint64_t stir(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9ddfea08eb382d69);
    return lane << 31 | lane >> 33;
}

uint64_t state_checksum(const struct state_part *parts, size_t n_parts)
{
    uint64_t lane[4] = {1, 2, 3, 4}, word[4];

    for (size_t p = 0; p < n_parts; p++) {
        const unsigned char *data = parts[p].memory;
        size_t left = parts[p].bytes;
        while (left) {
            size_t take = left < sizeof word ? left : sizeof word;
            memset(word, 0, sizeof word);
            memcpy(word, data, take);
            for (int i = 0; i < 4; i++)
                lane[i] = stir(lane[i], word[i]);
            data += take;
            left -= take;
        }
        lane[0] = stir(lane[0], parts[p].bytes);
    }
    return stir(stir(stir(lane[0], lane[1]), lane[2]), lane[3]);
}
