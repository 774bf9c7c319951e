/* Output of a worker, with its rank before each line, as srun -l does. */
#ifndef DSGD_RUN_LABEL_H
#define DSGD_RUN_LABEL_H

#include <stdint.h>
#include <stdio.h>

enum { RUN_LABEL_LINE = 4096 };

struct run_label {
    int fd; /* to read from; -1: none */
    FILE *out;
    uint32_t rank;
    size_t length;
    char line[RUN_LABEL_LINE];
};

/* Make a pipe for a worker's output.
 *   write_fd  out  the worker's end, which the caller closes
 * Returns 0, or -1 with errno set. */
int run_label_open(struct run_label *l, uint32_t rank, FILE *out,
                   int *write_fd);

/* Pass on what has come, up to what a pipe can hold.  Does not block on the
 * worker; closes at the end of file. */
void run_label_pump(struct run_label *l);

/* Pass on what is left, a line without an end too, and close. */
void run_label_close(struct run_label *l);

#endif
