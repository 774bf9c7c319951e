/* The line that a person sees. */
#include "progress_line.h"

#include "tap.h"

static void test_format(void)
{
    char text[256];

    progress_line_format(text, sizeof text, 0, .25, "step 120");
    is_str(text, " 25%  step 120", "plain");
    progress_line_format(text, sizeof text, 12, .25, "step 120");
    is_str(text, "[===>        ]  25%  step 120", "with a bar");
    progress_line_format(text, sizeof text, 10, 1, "step 120");
    is_str(text, "[==========] 100%  step 120", "a full bar");
    progress_line_format(text, sizeof text, 500, 0, "");
    is_int((long long)strlen(text), 1 + 30 + 2 + 4 + 2, "a bar too long");
    progress_line_format(text, 10, 0, 1, "step 120");
    is_str(text, "100%  ste", "cut, not overrun");
}

static void time_is(double seconds, const char *want)
{
    char text[32];

    progress_line_time(text, sizeof text, seconds);
    is_str(text, want, "a time");
}

static void show(struct progress_line *p, double now_s)
{
    if (progress_line_due(p, now_s, false))
        progress_line_show(p, now_s, .25,
                           "epoch 2/5  step 120  loss 0.5312  contributors "
                           "14/16  5231 samples/s  ETA 1:35");
}

/* Show steps at given times; returns what was printed. */
static char *shown(enum progress_mode mode, size_t n, const double *at_s,
                   bool clear)
{
    char *text = NULL;
    size_t size;
    struct progress_line p;
    FILE *out = open_memstream(&text, &size);

    progress_line_init(&p, out, mode, 5);
    p.width = 60;
    for (size_t i = 0; i < n; i++)
        show(&p, at_s[i]);
    if (clear)
        progress_line_clear(&p);
    fclose(out);
    return text;
}

static int count(const char *text, char c)
{
    int n = 0;

    for (; *text; text++)
        n += *text == c;
    return n;
}

static void test_due(void)
{
    const double at_s[] = {100, 100.1, 100.3, 104, 105.5, 107};
    char *text = shown(PROGRESS_PLAIN, 6, at_s, true);

    is_int(count(text, '\n'), 2, "plain: a line every five seconds");
    ok(!strchr(text, '\r'), "plain: nothing for a terminal");
    free(text);
    text = shown(PROGRESS_BAR, 6, at_s, false);
    is_int(count(text, '\r'), 5, "bar: five times a second at most");
    is_int(count(text, '\n'), 0, "bar: stays on its line");
    ok(strlen(text) == 5 * 60, "bar: cut to the terminal");
    free(text);
    text = shown(PROGRESS_BAR, 1, at_s, true);
    ok(strlen(text) == 60 + 1 + 59 + 1 && text[strlen(text) - 1] == '\r',
       "bar: wiped");
    free(text);
    text = shown(PROGRESS_AUTO, 6, at_s, true);
    is_int(count(text, '\n'), 2, "auto: not a terminal, so plain");
    free(text);
    text = shown(PROGRESS_NONE, 6, at_s, true);
    is_str(text, "", "none");
    free(text);
}

/* A look at held-out data is worth a line in a file, not on a terminal. */
static void test_event(void)
{
    struct progress_line p = {.mode = PROGRESS_PLAIN, .next_s = 5};

    ok(!progress_line_due(&p, 4, false) && progress_line_due(&p, 4, true),
       "plain: an event has a line");
    p.mode = PROGRESS_BAR;
    ok(!progress_line_due(&p, 4, true), "bar: it waits");
    p.mode = PROGRESS_NONE;
    ok(!progress_line_due(&p, 9, true), "none");
}

int main(void)
{
    test_format();
    time_is(0, "0:00");
    time_is(95, "1:35");
    time_is(3723, "1:02:03");
    time_is(-1, "-");
    time_is(NAN, "-");
    test_event();
    test_due();
    return done();
}
