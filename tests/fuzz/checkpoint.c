/* Any bytes as a checkpoint; its checksums are made right, so that what is
 * behind them is reached. */
#include "fuzz.h"

#include <unistd.h>

#include "checkpoint_file.h"
#include "checkpoint_format.h"
#include "record_schema.h"
#include "sampler.h"

/* Checksums of what the table says, as far as it makes sense. */
static void mend(uint8_t *data, size_t size)
{
    if (size < CHECKPOINT_HEAD)
        return;
    uint32_t n = record_get_u32(data + 12);
    if (n > CHECKPOINT_MAX_SECTIONS || size < checkpoint_table_bytes(n))
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *e = data + CHECKPOINT_HEAD + i * CHECKPOINT_ENTRY;
        uint64_t at = record_get_u64(e + 16), bytes = record_get_u64(e + 24);
        if (at <= size && bytes <= size - at)
            record_put_u32(e + 32, checkpoint_crc(data + at, (size_t)bytes));
    }
    size_t end = checkpoint_table_bytes(n) - 4;
    record_put_u32(data + end, checkpoint_crc(data, end));
}

static void use(const char *path)
{
    struct dsgd_options opt = {.n_samples = 100, .batch = 4};
    struct checkpoint_read *c;
    struct sampler *s;
    struct dsgd_error err;

    if (checkpoint_read(path, &c, &err) != DSGD_OK)
        return;
    if (sampler_create(&opt, 2, &s, &err) == DSGD_OK &&
        sampler_state_load(s, c->sampler, c->sampler_bytes, &err) == DSGD_OK)
        sampler_epoch_end(s);
    sampler_destroy(s);
    checkpoint_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    int fd = mkstemp(path);
    uint8_t *copy = malloc(size + 1);

    if (fd < 0 || !copy)
        abort();
    memcpy(copy, data, size);
    mend(copy, size);
    if (write(fd, copy, size) == (ssize_t)size)
        use(path);
    free(copy);
    close(fd);
    unlink(path);
    return 0;
}

#ifndef DSGD_LIBFUZZER
#include "tap.h"

enum { ROUNDS = 20000 };

int main(int argc, char **argv)
{
    static uint8_t seed[FUZZ_BYTES];
    static uint8_t queue[48] = {[8] = 50, [16] = 1, [32] = 7};
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    struct checkpoint c = {
        .facts = {.program = "p", .identity = "i", .step = 3, .run = "1.0.0"},
        .sampler = queue,
        .sampler_bytes = sizeof queue,
        .state = "state",
        .state_bytes = 5};
    struct dsgd_error err;

    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    close(mkstemp(path));
    size_t size = 0;
    if (checkpoint_write(path, &c, &err) == DSGD_OK)
        size = fuzz_read(path, seed);
    unlink(path);
    if (ok(size > 0, "a seed of %zu bytes", size)) {
        fuzz_seed(seed, size, ROUNDS);
        ok(true, "%d mutations of it", ROUNDS);
    }
    return done();
}
#endif
