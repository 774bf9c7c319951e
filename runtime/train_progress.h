/* What a person sees of a running training: one line that moves on a terminal,
 * a plain line now and then in a file. */
#ifndef DSGD_TRAIN_PROGRESS_H
#define DSGD_TRAIN_PROGRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum train_progress_mode {
    TRAIN_PROGRESS_AUTO, /* bar on a terminal, else plain */
    TRAIN_PROGRESS_BAR,
    TRAIN_PROGRESS_PLAIN,
    TRAIN_PROGRESS_NONE
};

/* Where a run is. */
struct train_status {
    double done;            /* of the run, 0..1 */
    uint64_t epoch, epochs; /* 0-based, and how many */
    uint64_t step;
    double loss; /* of the step, mean over its samples */
    uint32_t contributors, workers;
    double samples_per_s; /* unique samples */
    double eta_s;         /* < 0 or NaN: not known */
};

struct train_progress {
    FILE *out;
    enum train_progress_mode mode; /* never AUTO */
    double next_s;                 /* when the next line is due */
    int width;                     /* columns of the terminal */
    int shown;                     /* columns that the bar covers now */
};

/* Set up; AUTO is a bar when out is a terminal that knows its width. */
void train_progress_init(struct train_progress *p, FILE *out,
                         enum train_progress_mode mode);

/* A step has ended.  Shows it when a line is due: a bar five times a second, a
 * plain line every five seconds.  Cheap otherwise.
 *   now_s  in  a monotonic clock */
void train_progress_step(struct train_progress *p, double now_s,
                         const struct train_status *s);

/* Wipe the bar, so that something else can be printed to the same terminal. */
void train_progress_clear(struct train_progress *p);

/* Write a status as a line without newline.
 *   bar_width  in  columns of a bar in front, 0: none */
void train_progress_format(char *text, size_t size, int bar_width,
                           const struct train_status *s);

#endif
