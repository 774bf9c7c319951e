/* What a person sees of a running fit: a line that moves on a terminal, a plain
 * line now and then in a file. */
#ifndef DSGD_FIT_PROGRESS_H
#define DSGD_FIT_PROGRESS_H

#include <stdio.h>

struct fit_status;

enum fit_progress_mode {
    FIT_PROGRESS_AUTO, /* bar on a terminal, else plain */
    FIT_PROGRESS_BAR,
    FIT_PROGRESS_PLAIN,
    FIT_PROGRESS_NONE
};

struct fit_progress {
    FILE *out;
    enum fit_progress_mode mode; /* never AUTO */
    double next_s;               /* when the next line is due */
    int width;                   /* columns of the terminal */
    int shown;                   /* columns that the bar covers now */
};

void fit_progress_init(struct fit_progress *p, FILE *out,
                       enum fit_progress_mode mode);

/* A step was done.  Shows it when a line is due: a bar five times a second, a
 * plain line every ten seconds and at each look at held-out data. */
void fit_progress_step(struct fit_progress *p, const struct fit_status *s);

/* Wipe the bar, so that something else can be printed. */
void fit_progress_clear(struct fit_progress *p);

/* A status as a line without newline.
 *   bar_width  in  columns of a bar in front, 0: none */
void fit_progress_format(char *text, size_t size, int bar_width,
                         const struct fit_status *s);

#endif
