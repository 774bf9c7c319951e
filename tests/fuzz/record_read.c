/* Records with any content, through the reader and the report. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "record.h"
#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    int fd = mkstemp(path);
    struct report *report = NULL;
    struct dsgd_error err;

    if (fd < 0)
        abort();
    if (write(fd, data, size) == (ssize_t)size &&
        report_load(path, 0, &report, &err) == DSGD_OK)
        report_advise(report, &err);
    report_destroy(report);
    close(fd);
    unlink(path);
    return 0;
}

#ifndef DSGD_LIBFUZZER
enum { ROUNDS = 2000 };

/* A small record with a row of each kind; returns its size. */
static size_t make_seed(uint8_t *data)
{
    static const char *const node[] = {"n1", "n2"};
    static const uint32_t worker_node[] = {0, 1};
    static const uint8_t mask[] = {1, 0};
    static const float duration[] = {.1f, .2f}, lag[] = {0, 0};
    static const uint64_t first[] = {0, 64};
    static const uint32_t count[] = {64, 64};
    struct record_job job = {.job_id = "1",
                             .step_id = "0",
                             .n_workers = 2,
                             .n_nodes = 2,
                             .node_name = node,
                             .worker_node = worker_node};
    struct record_step step = {.contributors = 1,
                               .alive = 2,
                               .samples = 64,
                               .close_s = .1,
                               .publish_s = .11,
                               .mask = mask,
                               .duration_s = duration,
                               .lag_s = lag,
                               .first = first,
                               .count = count};
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    struct record *r;

    close(mkstemp(path));
    unlink(path);
    if (record_create(path, &job, &r, NULL) != DSGD_OK)
        return 0;
    for (step.step = 1; step.step <= 60; step.step++) {
        step.start_s = .12 * (double)step.step;
        record_put_step(r, &step);
        record_put_late(r, &(struct record_late){step.step, 1, .2f, 0, .5f});
    }
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_LOST, 50, 1, 1, 6, "text"});
    record_put_checksum(r, 60, 1, 7);
    record_put_contribution(
        r, &(struct record_contribution){9, 8, 1, 64, 64, 0, 8});
    record_close(r, true, 8, 10, NULL);
    size_t size = fuzz_read(path, data);
    unlink(path);
    return size;
}

int main(int argc, char **argv)
{
    static uint8_t seed[FUZZ_BYTES];

    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    size_t size = make_seed(seed);
    fuzz_seed(seed, size, ROUNDS);
    printf("%s 1 - a record of %zu bytes, %d mutations\n1..1\n",
           size > 0 && size < FUZZ_BYTES ? "ok" : "not ok", size, ROUNDS);
    return size > 0 && size < FUZZ_BYTES ? 0 : 1;
}
#endif
