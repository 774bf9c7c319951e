#include "run_label.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* As much as a pipe can hold, at most: one that is filled as fast as it is read
 * must not keep the other workers and signals waiting, nor a pipe from being
 * closed that a child of a dead worker still writes to. */
enum { MOST_AT_ONCE = 1 << 20 };

int run_label_open(struct run_label *l, uint32_t rank, FILE *out, int *write_fd)
{
    int fd[2];

    l->fd = -1;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return -1;
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    *l = (struct run_label){.fd = fd[0], .out = out, .rank = rank};
    *write_fd = fd[1];
    return 0;
}

static void put_line(struct run_label *l, size_t length)
{
    fprintf(l->out, "%u: %.*s\n", l->rank, (int)length, l->line);
}

/* Print the lines that are complete; a line longer than the buffer is cut into
 * pieces. */
static void put_lines(struct run_label *l)
{
    char *end;

    while ((end = memchr(l->line, '\n', l->length))) {
        size_t length = (size_t)(end - l->line);
        put_line(l, length);
        l->length -= length + 1;
        memmove(l->line, end + 1, l->length);
    }
    if (l->length == sizeof l->line) {
        put_line(l, l->length);
        l->length = 0;
    }
}

void run_label_pump(struct run_label *l)
{
    size_t sum = 0;

    while (l->fd >= 0 && sum < MOST_AT_ONCE) {
        ssize_t got =
            read(l->fd, l->line + l->length, sizeof l->line - l->length);
        if (got > 0) {
            sum += (size_t)got;
            l->length += (size_t)got;
            put_lines(l);
        } else if (got < 0 && errno == EINTR) {
            continue;
        } else if (got < 0 && errno == EAGAIN) {
            break;
        } else {
            close(l->fd);
            l->fd = -1;
        }
    }
    fflush(l->out);
}

void run_label_close(struct run_label *l)
{
    run_label_pump(l);
    if (l->length) {
        put_line(l, l->length);
        l->length = 0;
        fflush(l->out);
    }
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
