/* Option values and plugstack.conf arguments of any content.  The plugin and
 * the runtime must be of one opinion of a cutoff. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cutoff.h"
#include "options.h"

static void check_fault(const struct option_fault *fault)
{
    if (!memchr(fault->text, '\0', sizeof fault->text) || !fault->text[0])
        abort();
    for (const char *p = fault->text; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 127)
            abort();
    }
}

static void check_text(char *text)
{
    struct cutoff_spec spec;
    struct option_fault fault;
    struct option_value value;
    struct plugin_args args;
    bool good = cutoff_parse("x", text, &spec, NULL) == DSGD_OK;

    if (option_check(OPTION_CUTOFF, "x", text, &fault) != good)
        abort();
    for (int id = 0; id < N_OPTIONS; id++) {
        if (!option_set((enum option_id)id, "x", text, &value, &fault))
            check_fault(&fault);
        else if (strcmp(value.text, *text ? text : "full") != 0)
            abort();
    }
    if (!plugin_args_read(1, &text, &args, &fault))
        check_fault(&fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    check_text(text);
    free(text);
    return 0;
}

#ifndef DSGD_LIBFUZZER
int main(int argc, char **argv)
{
    static const char *const seeds[] = {"",
                                        "full",
                                        "static:12",
                                        "static:90%",
                                        "static:.5",
                                        "static:1e-3%",
                                        "replay:/a/b",
                                        "cutoff=static:3",
                                        "min=12",
                                        "model=/m",
                                        "window_ms=20",
                                        "record_dir=/var/spool/d",
                                        "late=carry",
                                        "lr_scale=sqrt",
                                        "max_cut_share=12.5%",
                                        "batch_slack=2%"};

    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        fuzz_seed((const uint8_t *)seeds[i], strlen(seeds[i]), 20000);
    printf("ok 1 - %zu values, 20000 mutations each\n1..1\n",
           sizeof seeds / sizeof seeds[0]);
    return 0;
}
#endif
