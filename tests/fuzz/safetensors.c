/* Any bytes as a model file: parsed, and made a timing model of. */
#include "fuzz.h"

#include <unistd.h>

#include "timing.h"

static void use(const char *path)
{
    static const uint32_t node[] = {0, 0, 1};
    static const float y[] = {0, .1f, .2f};
    static const uint8_t status[] = {2, 2, 2};
    struct timing_model *m;
    struct timing *t;
    struct dsgd_error err;

    if (timing_model_load(path, &m, &err) != DSGD_OK)
        return;
    if (timing_create(m, 3, 2, node, &t, &err) == DSGD_OK) {
        timing_predict(t, NULL);
        timing_observe(t, y, status);
        timing_predict(t, NULL);
    }
    timing_free(t);
    timing_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    int fd = mkstemp(path);

    if (fd < 0)
        abort();
    if (write(fd, data, size) == (ssize_t)size)
        use(path);
    close(fd);
    unlink(path);
    return 0;
}

#ifndef DSGD_LIBFUZZER
#include "set_model.h"
#include "tap.h"

enum { ROUNDS = 4000 };

int main(int argc, char **argv)
{
    static const struct set_config small = {1, SET_FLAGS_EACH, 2, 2};
    static uint8_t seed[FUZZ_BYTES];
    static const char *const feature[] = {"load1"};
    char path[] = "/tmp/dsgd-fuzz-XXXXXX";
    struct timing_model *m;
    struct dsgd_error err;

    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    close(mkstemp(path));
    size_t size = 0;
    if (set_model_create(&small, feature, &m, &err) == DSGD_OK) {
        set_net_init(set_model_net(m), 1);
        if (timing_model_save(m, path, &err) == DSGD_OK)
            size = fuzz_read(path, seed);
        timing_model_free(m);
    }
    unlink(path);
    if (ok(size > 0, "a seed of %zu bytes", size)) {
        fuzz_seed(seed, size, ROUNDS);
        ok(true, "%d mutations of it", ROUNDS);
    }
    return done();
}
#endif
