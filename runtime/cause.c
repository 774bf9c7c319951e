#include "cause.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "segment.h"

static int status_of(uint64_t value)
{
    return (int)(value & SEG_DIED_STATUS);
}

void cause_text(uint64_t value, char *text)
{
    int status = status_of(value);

    if (value & SEG_DIED_OOM)
        snprintf(text, CAUSE_TEXT, "killed: out of memory");
    else if (WIFSIGNALED(status))
        snprintf(text, CAUSE_TEXT, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, CAUSE_TEXT, "ended with exit code %d",
                 WEXITSTATUS(status));
    if (value & SEG_DIED_FINAL)
        strncat(text, ", not started again", CAUSE_TEXT - strlen(text) - 1);
}

int cause_code(uint64_t value)
{
    int status = status_of(value);

    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
