#include "report_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report_text.h"

enum { CELL = 1024 };

static void format_time(double unix_s, char *out, size_t size)
{
    time_t t = (time_t)unix_s;
    struct tm tm;

    if (!localtime_r(&t, &tm) ||
        strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        snprintf(out, size, "Unknown");
}

/* [D-]HH:MM:SS, whole seconds as sacct shows them. */
static void format_elapsed(double s, char *out, size_t size)
{
    long long t = s > 0 && s < 1e15 ? (long long)s : 0;

    if (t >= 86400)
        snprintf(out, size, "%lld-%02lld:%02lld:%02lld", t / 86400,
                 t / 3600 % 24, t / 60 % 60, t % 60);
    else
        snprintf(out, size, "%02lld:%02lld:%02lld", t / 3600, t / 60 % 60,
                 t % 60);
}

/* Milliseconds, and below 10 ms three digits that count, to a microsecond. */
static int decimals(double seconds)
{
    double size = fabs(seconds);

    if (!(size > 0 && size < .01))
        return 3;
    return size < 1e-3 ? 6 : 2 - (int)floor(log10(size));
}

void report_format(const struct report_value *v, const char *also, char *out,
                   size_t size)
{
    out[0] = '\0';
    if (!v->known) {
        if (v->kind == REPORT_TIME)
            snprintf(out, size, "Unknown");
        return;
    }
    switch (v->kind) {
    case REPORT_TEXT:
        report_escape(v->text, also, out, size);
        break;
    case REPORT_COUNT:
        snprintf(out, size, "%" PRIu64, v->count);
        break;
    case REPORT_SECONDS:
        if (v->raw)
            snprintf(out, size, "%.0f", v->number * 1e6);
        else
            snprintf(out, size, "%.*f", decimals(v->number), v->number);
        break;
    case REPORT_NUMBER:
        snprintf(out, size, "%.*f", v->digits, v->number);
        break;
    case REPORT_TIME:
        format_time(v->number, out, size);
        break;
    case REPORT_ELAPSED:
        if (v->raw)
            snprintf(out, size, "%.0f", trunc(v->number));
        else
            format_elapsed(v->number, out, size);
        break;
    }
}

static void print_cell(FILE *out, const struct report_style *style, char *text,
                       int width, bool last)
{
    if (style->parsable) {
        fputs(text, out);
        if (!last || style->last_delimiter)
            fputs(style->delimiter, out);
        return;
    }
    size_t room = (size_t)abs(width), length = report_length(text);
    if (length > room) {
        strcpy(report_nth(text, room - 1), "+");
        length = room;
    }
    int pad = (int)(room - length);
    fprintf(out, "%*s%s%*s ", width > 0 ? pad : 0, "", text,
            width < 0 ? pad : 0, "");
}

static void print_dashes(FILE *out, const struct report_column *columns,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int k = abs(columns[i].width); k > 0; k--)
            fputc('-', out);
        fputc(' ', out);
    }
    fputc('\n', out);
}

void report_header(FILE *out, const struct report_style *style,
                   const struct report_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[64];
        report_column_name(&columns[i], name, sizeof name);
        print_cell(out, style, name, columns[i].width, i + 1 == n);
    }
    fputc('\n', out);
    if (!style->parsable)
        print_dashes(out, columns, n);
}

void report_row(FILE *out, const struct report_style *style,
                const struct report_column *columns, size_t n,
                const struct report *report, const struct report_unit *unit)
{
    for (size_t i = 0; i < n; i++) {
        char text[CELL];
        struct report_value value = report_value(&columns[i], report, unit);
        report_format(&value, style->parsable ? style->delimiter : "", text,
                      sizeof text);
        print_cell(out, style, text, columns[i].width, i + 1 == n);
    }
    fputc('\n', out);
}
