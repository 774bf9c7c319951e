/* Scores as a bar chart, SVG. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "replay_print.h"

enum { BAR = 14, GAP = 24, HEIGHT = 320, LEFT = 56, TOP = 24, KEY = 130 };

/* One fill a policy; those with a timing model stand out. */
static const char *const fills[] = {"#9aa0a6", "#5f6368", "#b0bec5", "#bcaaa4",
                                    "#a1887f", "#ffcc80", "#ffb74d", "#81c784",
                                    "#9575cd", "#1a73e8", "#4dd0e1", "#26a69a",
                                    "#80cbc4", "#00695c", "#e0e0e0"};

_Static_assert(sizeof fills / sizeof fills[0] == N_POLICIES, "a fill each");

/* The chart's upper end, in lines of .2: 1, or what a policy in parts reaches
 * beyond the oracle of whole batches. */
static int lines_of(const struct score *score, size_t count)
{
    int lines = 5;

    for (size_t t = 0; t < count; t++) {
        for (size_t p = 0; p < score[t].n_policies; p++)
            lines = (int)fmin(
                fmax(lines, ceil(score[t].policy[p].of_oracle / .2 - 1e-9)),
                500);
    }
    return lines;
}

static double y_of(double value, int lines)
{
    double share = value / (.2 * lines);
    return TOP + HEIGHT * (1 - fmin(fmax(share, 0), 1));
}

/* A name may hold what SVG gives a meaning. */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
}

static void put_axis(FILE *out, int width, int lines)
{
    for (int i = 0; i <= lines; i++) {
        double y = y_of(.2 * i, lines);
        fprintf(out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                "stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
                LEFT, y, width - KEY, y, LEFT - 6, y + 4, .2 * i);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"14\">throughput / oracle's throughput</text>\n",
            LEFT);
}

static void put_group(FILE *out, const struct score *s, int x, int lines)
{
    for (size_t p = 0; p < s->n_policies; p++) {
        const struct policy_score *score = &s->policy[p];
        double y = y_of(score->of_oracle, lines);
        fprintf(out,
                "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" "
                "fill=\"%s\"><title>%s %.4f</title></rect>\n",
                x + (int)p * BAR, y, BAR - 2, TOP + HEIGHT - y,
                fills[score->kind], policy_name(score->kind), score->of_oracle);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\">", x, TOP + HEIGHT + 16);
    put_text(out, s->trace->name);
    fputs("</text>\n", out);
}

static void put_key(FILE *out, const struct score *s, int x)
{
    for (size_t p = 0; p < s->n_policies; p++) {
        enum policy_kind kind = s->policy[p].kind;
        int y = TOP + 18 * (int)p;
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" "
                "fill=\"%s\"/>\n<text x=\"%d\" y=\"%d\">%s</text>\n",
                x, y, fills[kind], x + 18, y + 11, policy_name(kind));
    }
}

static void put_chart(FILE *out, const struct score *score, size_t count)
{
    int lines = lines_of(score, count);
    int group = (int)score[0].n_policies * BAR + GAP;
    group = group < 120 ? 120 : group; /* room for the name */
    int width = LEFT + (int)count * group + KEY, height = TOP + HEIGHT + 32;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            width, height, width, height);
    put_axis(out, width, lines);
    for (size_t t = 0; t < count; t++)
        put_group(out, &score[t], LEFT + 8 + (int)t * group, lines);
    put_key(out, &score[0], width - KEY + 10);
    fputs("</svg>\n", out);
}

/* After an error; a device or a pipe stays. */
static void remove_cut(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path);
}

enum dsgd_err replay_plot(const char *path, const struct score *score,
                          size_t count, struct dsgd_error *err)
{
    FILE *out = fopen(path, "we");

    if (!out)
        return error_set(err, DSGD_E_IO, "--plot: %.200s: %s", path,
                         strerror(errno));
    put_chart(out, score, count);
    bool failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return DSGD_OK;
    error_set(err, DSGD_E_IO, "--plot: %.200s: %s", path, strerror(errno));
    remove_cut(path);
    return DSGD_E_IO;
}
