/* Fuzz the reader of records: clang -fsanitize=fuzzer,address, or with a main
 * of its own that reads the files named (-DFUZZ_MAIN). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/dev/shm/record-fuzz-XXXXXX";
    int fd = mkstemp(path);
    struct report *report = NULL;
    struct dsgd_error err;

    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size &&
        report_load(path, 0, &report, &err) == DSGD_OK)
        report_advise(report, &err);
    report_destroy(report);
    close(fd);
    unlink(path);
    return 0;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static uint8_t data[1 << 24];

    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
        if (n >= 0)
            LLVMFuzzerTestOneInput(data, (size_t)n);
        if (fd >= 0)
            close(fd);
    }
    return 0;
}
#endif
