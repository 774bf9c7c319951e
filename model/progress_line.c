#include "progress_line.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_BAR = 10, MAX_BAR = 30, DEFAULT_WIDTH = 80, MAX_LINE = 256 };

const char *const progress_mode_names[] = {[PROGRESS_AUTO] = "auto",
                                           [PROGRESS_BAR] = "bar",
                                           [PROGRESS_PLAIN] = "plain",
                                           [PROGRESS_NONE] = "none",
                                           NULL};

/* Columns of a terminal, 0: it is none, or does not know.  The latter is the
 * pseudo-terminal that mpirun gives its ranks, with a file behind it
 * perhaps. */
static int terminal_width(FILE *out)
{
    struct winsize size;

    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        return size.ws_col;
    return 0;
}

void progress_line_init(struct progress_line *p, FILE *out,
                        enum progress_mode mode, double plain_s)
{
    *p = (struct progress_line){.out = out, .mode = mode, .plain_s = plain_s};
    p->width = terminal_width(out);
    if (mode == PROGRESS_AUTO)
        p->mode = p->width ? PROGRESS_BAR : PROGRESS_PLAIN;
    if (!p->width)
        p->width = DEFAULT_WIDTH;
}

bool progress_line_due(const struct progress_line *p, double now_s, bool event)
{
    return p->mode != PROGRESS_NONE &&
           (now_s >= p->next_s || (event && p->mode == PROGRESS_PLAIN));
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

void progress_line_format(char *line, size_t size, int bar_width, double done,
                          const char *text)
{
    char bar[MAX_BAR + 4] = "";

    if (bar_width > 0)
        format_bar(bar, bar_width < MAX_BAR ? bar_width : MAX_BAR, done);
    snprintf(line, size, "%s%3.0f%%  %s", bar, 100 * done, text);
}

/* The line, cut to the terminal; the bar takes what the text leaves. */
static void show_bar(struct progress_line *p, double done, const char *text)
{
    char line[MAX_LINE];

    progress_line_format(line, sizeof line, 0, done, text);
    int room = p->width - 1 - (int)strlen(line) - 3;
    if (room >= MIN_BAR)
        progress_line_format(line, sizeof line, room, done, text);
    if (p->width < (int)sizeof line)
        line[p->width - 1] = '\0';
    int length = (int)strlen(line), blank = p->shown - length;
    fprintf(p->out, "\r%s%*s", line, blank > 0 ? blank : 0, "");
    p->shown = length;
}

void progress_line_show(struct progress_line *p, double now_s, double done,
                        const char *text)
{
    char line[MAX_LINE];

    if (p->mode == PROGRESS_BAR) {
        p->next_s = now_s + .2;
        show_bar(p, done, text);
    } else {
        p->next_s = now_s + p->plain_s;
        progress_line_format(line, sizeof line, 0, done, text);
        fprintf(p->out, "%s\n", line);
    }
    fflush(p->out);
}

void progress_line_clear(struct progress_line *p)
{
    if (!p->shown)
        return;
    fprintf(p->out, "\r%*s\r", p->shown, "");
    fflush(p->out);
    p->shown = 0;
}

void progress_line_time(char *text, size_t size, double seconds)
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
