/* A fuzz target is a file with LLVMFuzzerTestOneInput.  For libFuzzer:
 *     clang -fsanitize=fuzzer,address,undefined -DDSGD_LIBFUZZER …
 * Otherwise it has a main: with arguments it runs these files; without, a fixed
 * number of mutations of its seeds, as a TAP test. */
#ifndef DSGD_TESTS_FUZZ_H
#define DSGD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef DSGD_LIBFUZZER
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_BYTES = 1 << 17 };

static uint64_t fuzz_state = 88172645463325252u;

static uint64_t fuzz_random(void)
{
    fuzz_state ^= fuzz_state << 13;
    fuzz_state ^= fuzz_state >> 7;
    fuzz_state ^= fuzz_state << 17;
    return fuzz_state;
}

/* A few random changes, some of them of the bytes that parsers look for. */
static size_t fuzz_mutate(uint8_t *data, size_t size)
{
    static const char likely[] = "0123456789/.=:;, \n\\-%_";

    for (uint64_t n = 1 + fuzz_random() % 8; n && size; n--) {
        size_t at = fuzz_random() % size;
        size_t length = 1 + fuzz_random() % 16;
        switch (fuzz_random() % 4) {
        case 0:
            data[at] = (uint8_t)fuzz_random();
            break;
        case 1:
            data[at] = (uint8_t)likely[fuzz_random() % (sizeof likely - 1)];
            break;
        case 2:
            if (length > size - at)
                length = size - at;
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        default:
            if (size + length <= FUZZ_BYTES) {
                memmove(data + at + length, data + at, size - at);
                size += length;
            }
        }
    }
    return size;
}

static size_t fuzz_read(const char *path, uint8_t *data)
{
    FILE *f = fopen(path, "r");
    size_t size = f ? fread(data, 1, FUZZ_BYTES, f) : 0;

    if (f)
        fclose(f);
    return size;
}

/* Run a seed and rounds mutations of it; each from a block of its own size, so
 * that a sanitizer sees its end. */
__attribute__((unused)) static void fuzz_seed(const uint8_t *seed, size_t size,
                                              int rounds)
{
    static uint8_t data[FUZZ_BYTES];

    for (int i = 0; i <= rounds; i++) {
        memcpy(data, seed, size);
        size_t n = i ? fuzz_mutate(data, size) : size;
        uint8_t *exact = malloc(n + !n);
        memcpy(exact, data, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
}

/* All files of a directory below the source tree as seeds; returns how many. */
__attribute__((unused)) static int fuzz_directory(const char *name, int rounds)
{
    static uint8_t seed[FUZZ_BYTES];
    char path[2048];
    const char *source = getenv("DSGD_SRCDIR");
    struct dirent *entry;
    int files = 0;

    snprintf(path, sizeof path, "%s/%s", source ? source : ".", name);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", source ? source : ".", name,
                 entry->d_name);
        size_t size = fuzz_read(path, seed);
        fuzz_seed(seed, size, rounds);
        files++;
    }
    if (dir)
        closedir(dir);
    return files;
}

__attribute__((unused)) static void fuzz_files(int argc, char **argv)
{
    static uint8_t seed[FUZZ_BYTES];

    for (int i = 1; i < argc; i++) {
        size_t size = fuzz_read(argv[i], seed);
        fuzz_seed(seed, size, 0);
    }
}
#endif

#endif
