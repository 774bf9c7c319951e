/* The line that a person sees. */
#include "train_progress.h"

#include "tap.h"

static const struct train_status status = {.done = 0.25,
                                           .epoch = 1,
                                           .epochs = 5,
                                           .step = 120,
                                           .loss = 0.53123,
                                           .contributors = 14,
                                           .workers = 16,
                                           .samples_per_s = 5231.4,
                                           .eta_s = 95};

static void test_format(void)
{
    struct train_status s = status;
    char text[256];

    train_progress_format(text, sizeof text, 0, &s);
    is_str(text,
           " 25%  epoch 2/5  step 120  loss 0.5312  contributors 14/16  "
           "5231 samples/s  ETA 1:35",
           "plain");
    train_progress_format(text, sizeof text, 12, &s);
    has_str(text, "[===>        ]  25%  epoch", "with a bar");
    s.done = 1;
    s.eta_s = 0;
    train_progress_format(text, sizeof text, 10, &s);
    has_str(text, "[==========] 100%", "a full bar");
    has_str(text, "ETA 0:00", "nothing left");
    s.eta_s = 3723;
    train_progress_format(text, sizeof text, 500, &s);
    has_str(text, "ETA 1:02:03", "hours, and a bar that is too long");
    s.eta_s = NAN;
    train_progress_format(text, sizeof text, 0, &s);
    has_str(text, "ETA -", "not known");
    train_progress_format(text, 10, 0, &s);
    is_str(text, "100%  epo", "cut, not overrun");
}

/* Show steps at given times; returns what was printed. */
static char *shown(enum train_progress_mode mode, size_t n, const double *at_s,
                   bool clear)
{
    char *text = NULL;
    size_t size;
    struct train_progress p;
    FILE *out = open_memstream(&text, &size);

    train_progress_init(&p, out, mode);
    p.width = 60;
    for (size_t i = 0; i < n; i++)
        train_progress_step(&p, at_s[i], &status);
    if (clear)
        train_progress_clear(&p);
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
    char *text = shown(TRAIN_PROGRESS_PLAIN, 6, at_s, true);

    is_int(count(text, '\n'), 2, "plain: a line every five seconds");
    ok(!strchr(text, '\r'), "plain: nothing for a terminal");
    free(text);
    text = shown(TRAIN_PROGRESS_BAR, 6, at_s, false);
    is_int(count(text, '\r'), 5, "bar: five times a second at most");
    is_int(count(text, '\n'), 0, "bar: stays on its line");
    ok(strlen(text) == 5 * 60, "bar: cut to the terminal");
    free(text);
    text = shown(TRAIN_PROGRESS_BAR, 1, at_s, true);
    ok(strlen(text) == 60 + 1 + 59 + 1 && text[strlen(text) - 1] == '\r',
       "bar: wiped");
    free(text);
    text = shown(TRAIN_PROGRESS_AUTO, 6, at_s, true);
    is_int(count(text, '\n'), 2, "auto: not a terminal, so plain");
    free(text);
    text = shown(TRAIN_PROGRESS_NONE, 6, at_s, true);
    is_str(text, "", "none");
    free(text);
}

int main(void)
{
    test_format();
    test_due();
    return done();
}
