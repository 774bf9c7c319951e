/* What a process has ended of, in words. */
#ifndef DSGD_CAUSE_H
#define DSGD_CAUSE_H

#include <stdint.h>

#define CAUSE_TEXT 96

/* Say what the value of a SEG_EVENT_DIED means: "killed by signal 9 (Killed)".
 *   text  out  [CAUSE_TEXT] */
void cause_text(uint64_t value, char *text);

/* The exit code that a shell would show for it. */
int cause_code(uint64_t value);

#endif
