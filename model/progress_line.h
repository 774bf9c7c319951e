/* What a person sees of a running program: one line that moves on a terminal,
 * a plain line now and then in a file. */
#ifndef DSGD_PROGRESS_LINE_H
#define DSGD_PROGRESS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum progress_mode {
    PROGRESS_AUTO, /* bar on a terminal, else plain */
    PROGRESS_BAR,
    PROGRESS_PLAIN,
    PROGRESS_NONE
};

/* Their words, NULL at the end. */
extern const char *const progress_mode_names[];

struct progress_line {
    FILE *out;
    enum progress_mode mode; /* never AUTO */
    double plain_s;          /* from one plain line to the next */
    double next_s;           /* when the next line is due */
    int width;               /* columns of the terminal */
    int shown;               /* columns that the bar covers now */
};

/* Set up; AUTO is a bar when out is a terminal that knows its width. */
void progress_line_init(struct progress_line *p, FILE *out,
                        enum progress_mode mode, double plain_s);

/* Whether a line is due: a bar five times a second, a plain line every plain_s
 * seconds or, in a file, when the event is worth one.
 *   now_s  in  a monotonic clock */
bool progress_line_due(const struct progress_line *p, double now_s, bool event);

/* Show a line that is due.
 *   done  in  0..1, for the bar and the percentage in front of the text */
void progress_line_show(struct progress_line *p, double now_s, double done,
                        const char *text);

/* Wipe the bar, so that something else can be printed. */
void progress_line_clear(struct progress_line *p);

/* What progress_line_show prints, without newline.
 *   bar_width  in  columns of a bar in front, 0: none */
void progress_line_format(char *line, size_t size, int bar_width, double done,
                          const char *text);

/* 0:42, 12:05, 1:02:03; "-" for what is negative or not known (NaN). */
void progress_line_time(char *text, size_t size, double seconds);

#endif
