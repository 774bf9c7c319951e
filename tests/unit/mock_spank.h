/* Slurm's side of a SPANK plugin, for tests: a context, a job, its environment
 * and what the plugin said. */
#ifndef DSGD_TESTS_MOCK_SPANK_H
#define DSGD_TESTS_MOCK_SPANK_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOCK_ENV = 64, MOCK_OPTIONS = 16, MOCK_ITEMS = 64 };

struct mock_spank {
    spank_context_t context;
    spank_err_t item_rc[MOCK_ITEMS]; /* what spank_get_item returns */
    spank_err_t register_rc, getenv_rc, setenv_rc, unsetenv_rc;
    uint32_t job_id, step_id, node_id;
    uid_t uid;
    gid_t gid;
    bool has_rank0;
    char *env[MOCK_ENV + 1];
    struct spank_option *option[MOCK_OPTIONS];
    int n_options;
    int n_calls; /* of any function that asks or changes the job */
    int n_lines;
    char log[4096]; /* all lines, newline after each */
};

extern struct mock_spank mock;

/* A normal step of job 7 with an empty environment. */
void mock_reset(spank_context_t context);
void mock_setenv(const char *name, const char *value);
/* The value of a variable of the job, or NULL. */
const char *mock_getenv(const char *name);
/* Variables of the job that begin with prefix. */
int mock_count(const char *prefix);
/* Give an option to the plugin as Slurm does; -2 when it is not registered. */
int mock_option(const char *name, const char *value, int remote);

#endif
