#include "fit_progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fit_run.h"

enum { MIN_BAR = 10, MAX_BAR = 30, DEFAULT_WIDTH = 80 };

static int terminal_width(FILE *out)
{
    struct winsize size;

    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        return size.ws_col;
    return 0;
}

void fit_progress_init(struct fit_progress *p, FILE *out,
                       enum fit_progress_mode mode)
{
    *p = (struct fit_progress){.out = out, .mode = mode};
    p->width = terminal_width(out);
    if (mode == FIT_PROGRESS_AUTO)
        p->mode = p->width ? FIT_PROGRESS_BAR : FIT_PROGRESS_PLAIN;
    if (!p->width)
        p->width = DEFAULT_WIDTH;
}

/* 0:42, 12:05, 1:02:03; "-" when not known */
static void format_time(char *text, size_t size, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e8)) {
        snprintf(text, size, "-");
        return;
    }
    unsigned long s = (unsigned long)(seconds + .5);
    if (s < 3600)
        snprintf(text, size, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(text, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void format_loss(char *text, size_t size, double loss)
{
    if (isfinite(loss))
        snprintf(text, size, "%.4f", loss);
    else
        snprintf(text, size, "-");
}

static void format_bar(char *text, int width, double done)
{
    int full = done > 0 ? (int)(done * width) : 0;

    text[0] = '[';
    for (int i = 0; i < width; i++)
        text[i + 1] = i < full ? '=' : i == full ? '>' : ' ';
    memcpy(text + width + 1, "] ", 3);
}

void fit_progress_format(char *text, size_t size, int bar_width,
                         const struct fit_status *s)
{
    char bar[MAX_BAR + 4] = "", eta[32], train[32], held[32], best[32];

    if (bar_width > 0)
        format_bar(bar, bar_width < MAX_BAR ? bar_width : MAX_BAR, s->done);
    format_time(eta, sizeof eta, s->eta_s);
    format_loss(train, sizeof train, s->train_loss);
    format_loss(held, sizeof held, s->loss);
    format_loss(best, sizeof best, s->best_loss);
    snprintf(text, size,
             "%s%3.0f%%  step %llu  loss %s  held-out %s  best %s  ETA %s", bar,
             100 * s->done, (unsigned long long)s->step, train, held, best,
             eta);
}

/* The line, cut to the terminal; the bar takes what the text leaves. */
static void show_bar(struct fit_progress *p, const struct fit_status *s)
{
    char text[256];

    fit_progress_format(text, sizeof text, 0, s);
    int room = p->width - 1 - (int)strlen(text) - 3;
    if (room >= MIN_BAR)
        fit_progress_format(text, sizeof text, room, s);
    if (p->width > 0 && p->width < (int)sizeof text)
        text[p->width - 1] = '\0';
    int length = (int)strlen(text), blank = p->shown - length;
    fprintf(p->out, "\r%s%*s", text, blank > 0 ? blank : 0, "");
    p->shown = length;
}

void fit_progress_step(struct fit_progress *p, const struct fit_status *s)
{
    char text[256];

    if (p->mode == FIT_PROGRESS_NONE)
        return;
    if (p->mode == FIT_PROGRESS_BAR && s->elapsed_s >= p->next_s) {
        p->next_s = s->elapsed_s + .2;
        show_bar(p, s);
    } else if (p->mode == FIT_PROGRESS_PLAIN &&
               (s->validated || s->elapsed_s >= p->next_s)) {
        p->next_s = s->elapsed_s + 10;
        fit_progress_format(text, sizeof text, 0, s);
        fprintf(p->out, "%s\n", text);
    } else {
        return;
    }
    fflush(p->out);
}

void fit_progress_clear(struct fit_progress *p)
{
    if (!p->shown)
        return;
    fprintf(p->out, "\r%*s\r", p->shown, "");
    fflush(p->out);
    p->shown = 0;
}
