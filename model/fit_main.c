/* dsgd-fit: learn a timing model from records, traces and synthetic clusters.
 */
#include <signal.h>
#include <stdio.h>

#include "fit_job.h"
#include "fit_options.h"
#include "text.h"

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

int main(int argc, char **argv)
{
    struct fit_options opt;
    struct dsgd_error err = {""};
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = SA_RESETHAND | SA_RESTART};
    enum dsgd_err rc = fit_options_parse(argc, argv, &opt, &err);

    if (rc == DSGD_OK && opt.help) {
        fit_options_help(stdout);
        rc = text_flush(&err);
    } else if (rc == DSGD_OK && opt.version) {
        printf("dsgd-fit (slurm-dsgd) %s\n", PACKAGE_VERSION);
        rc = text_flush(&err);
    } else if (rc == DSGD_OK) {
        /* Once: end with a checkpoint; again: end. */
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        rc = fit_job(&opt, stdout, &stop, &err);
    }
    if (rc != DSGD_OK)
        fprintf(stderr, "dsgd-fit: %s\n", err.text);
    return rc;
}
