#include "mock_spank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mock_spank mock;

void mock_reset(spank_context_t context)
{
    for (int i = 0; i < MOCK_ENV; i++)
        free(mock.env[i]);
    memset(&mock, 0, sizeof mock);
    mock.context = context;
    mock.job_id = 7;
    mock.uid = 1000;
    mock.gid = 1000;
    mock.has_rank0 = true;
}

/* Where the variable is, or the first free place. */
static int find(const char *name)
{
    size_t length = strlen(name);
    int i = 0;

    while (mock.env[i] && (strncmp(mock.env[i], name, length) != 0 ||
                           mock.env[i][length] != '='))
        i++;
    return i;
}

void mock_setenv(const char *name, const char *value)
{
    int i = find(name);

    if (i == MOCK_ENV)
        abort();
    free(mock.env[i]);
    size_t size = strlen(name) + strlen(value) + 2;
    mock.env[i] = malloc(size);
    snprintf(mock.env[i], size, "%s=%s", name, value);
}

const char *mock_getenv(const char *name)
{
    int i = find(name);

    return mock.env[i] ? mock.env[i] + strlen(name) + 1 : NULL;
}

int mock_count(const char *prefix)
{
    int count = 0;

    for (int i = 0; mock.env[i]; i++)
        count += strncmp(mock.env[i], prefix, strlen(prefix)) == 0;
    return count;
}

int mock_option(const char *name, const char *value, int remote)
{
    for (int i = 0; i < mock.n_options; i++) {
        const struct spank_option *o = mock.option[i];
        if (strcmp(o->name, name) == 0)
            return o->cb(o->val, value, remote);
    }
    return -2;
}

spank_context_t spank_context(void)
{
    return mock.context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *opt)
{
    (void)spank;
    if (mock.register_rc == ESPANK_SUCCESS && mock.n_options < MOCK_OPTIONS)
        mock.option[mock.n_options++] = opt;
    return mock.register_rc;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    va_list ap;

    (void)spank;
    mock.n_calls++;
    if (mock.item_rc[item] != ESPANK_SUCCESS)
        return mock.item_rc[item];
    va_start(ap, item);
    if (item == S_JOB_ID)
        *va_arg(ap, uint32_t *) = mock.job_id;
    else if (item == S_JOB_STEPID)
        *va_arg(ap, uint32_t *) = mock.step_id;
    else if (item == S_JOB_NODEID)
        *va_arg(ap, uint32_t *) = mock.node_id;
    else if (item == S_JOB_UID)
        *va_arg(ap, uid_t *) = mock.uid;
    else if (item == S_JOB_GID)
        *va_arg(ap, gid_t *) = mock.gid;
    else if (item == S_JOB_ENV)
        *va_arg(ap, char ***) = mock.env;
    else if (item != S_JOB_GLOBAL_TO_LOCAL_ID || !mock.has_rank0) {
        va_end(ap);
        return ESPANK_BAD_ARG;
    }
    va_end(ap);
    return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buf, int size)
{
    const char *value = mock_getenv(name);

    (void)spank;
    mock.n_calls++;
    if (mock.getenv_rc != ESPANK_SUCCESS)
        return mock.getenv_rc;
    if (!value)
        return ESPANK_ENV_NOEXIST;
    snprintf(buf, (size_t)size, "%s", value);
    return strlen(value) >= (size_t)size ? ESPANK_NOSPACE : ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value,
                         int overwrite)
{
    (void)spank;
    mock.n_calls++;
    if (mock.setenv_rc != ESPANK_SUCCESS)
        return mock.setenv_rc;
    if (!overwrite && mock_getenv(name))
        return ESPANK_ENV_EXISTS;
    mock_setenv(name, value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    int i = find(name);

    (void)spank;
    mock.n_calls++;
    if (mock.unsetenv_rc != ESPANK_SUCCESS)
        return mock.unsetenv_rc;
    free(mock.env[i]);
    for (; mock.env[i]; i++)
        mock.env[i] = mock.env[i + 1];
    return ESPANK_SUCCESS;
}

const char *spank_strerror(spank_err_t err)
{
    (void)err;
    return "mocked failure";
}

__attribute__((format(printf, 1, 0))) static void add_line(const char *format,
                                                           va_list ap)
{
    size_t used = strlen(mock.log), room = sizeof mock.log - used;

    vsnprintf(mock.log + used, room, format, ap);
    used = strlen(mock.log);
    if (used + 1 < sizeof mock.log)
        memcpy(mock.log + used, "\n", 2);
    mock.n_lines++;
}

void slurm_error(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    add_line(format, ap);
    va_end(ap);
}

void slurm_spank_log(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    add_line(format, ap);
    va_end(ap);
}
