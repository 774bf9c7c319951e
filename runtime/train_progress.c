#include "train_progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_BAR = 10, MAX_BAR = 30, DEFAULT_WIDTH = 80 };

/* Columns of a terminal, 0: it is none, or does not know.  The latter is the
 * pseudo-terminal that mpirun gives its ranks, with a file behind it perhaps. */
static int terminal_width(FILE *out)
{
    struct winsize size;

    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        return size.ws_col;
    return 0;
}

void train_progress_init(struct train_progress *p, FILE *out,
                         enum train_progress_mode mode)
{
    memset(p, 0, sizeof *p);
    p->out = out;
    p->mode = mode;
    p->width = terminal_width(out);
    if (mode == TRAIN_PROGRESS_AUTO)
        p->mode = p->width ? TRAIN_PROGRESS_BAR : TRAIN_PROGRESS_PLAIN;
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
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 3600)
        snprintf(text, size, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(text, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void format_bar(char *text, int width, double done)
{
    int full = done > 0 ? (int)(done * width) : 0;

    full = full < width ? full : width;
    text[0] = '[';
    for (int i = 0; i < width; i++)
        text[i + 1] = i < full ? '=' : i == full ? '>' : ' ';
    memcpy(text + width + 1, "] ", 3);
}

void train_progress_format(char *text, size_t size, int bar_width,
                           const struct train_status *s)
{
    char bar[MAX_BAR + 4] = "", eta[32];

    if (bar_width > 0)
        format_bar(bar, bar_width < MAX_BAR ? bar_width : MAX_BAR, s->done);
    format_time(eta, sizeof eta, s->eta_s);
    snprintf(text, size,
             "%s%3.0f%%  epoch %llu/%llu  step %llu  loss %.4f  "
             "contributors %u/%u  %.0f samples/s  ETA %s",
             bar, 100 * s->done, (unsigned long long)s->epoch + 1,
             (unsigned long long)s->epochs, (unsigned long long)s->step,
             s->loss, s->contributors, s->workers, s->samples_per_s, eta);
}

/* The line, cut to the terminal; the bar takes what the text leaves. */
static void show_bar(struct train_progress *p, const struct train_status *s)
{
    char text[256];

    train_progress_format(text, sizeof text, 0, s);
    int room = p->width - 1 - (int)strlen(text) - 3;
    if (room >= MIN_BAR)
        train_progress_format(text, sizeof text, room, s);
    if (p->width < (int)sizeof text)
        text[p->width - 1] = '\0';
    int length = (int)strlen(text), blank = p->shown - length;
    fprintf(p->out, "\r%s%*s", text, blank > 0 ? blank : 0, "");
    p->shown = length;
}

void train_progress_step(struct train_progress *p, double now_s,
                         const struct train_status *s)
{
    char text[256];

    if (p->mode == TRAIN_PROGRESS_NONE || now_s < p->next_s)
        return;
    if (p->mode == TRAIN_PROGRESS_BAR) {
        p->next_s = now_s + 0.2;
        show_bar(p, s);
    } else {
        p->next_s = now_s + 5;
        train_progress_format(text, sizeof text, 0, s);
        fprintf(p->out, "%s\n", text);
    }
    fflush(p->out);
}

void train_progress_clear(struct train_progress *p)
{
    if (!p->shown)
        return;
    fprintf(p->out, "\r%*s\r", p->shown, "");
    fflush(p->out);
    p->shown = 0;
}
