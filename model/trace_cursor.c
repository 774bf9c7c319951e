/* The cells of a CSV text. */
#include "trace_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static bool blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r';
}

static const char *text_end(const struct cursor *c)
{
    return c->text->data + c->text->size;
}

void cursor_start(struct cursor *c, const struct trace_text *text)
{
    static const char mark[3] = "\xef\xbb\xbf";
    bool marked =
        text->size >= sizeof mark && memcmp(text->data, mark, sizeof mark) == 0;

    *c = (struct cursor){.text = text,
                         .at = text->data + (marked ? sizeof mark : 0),
                         .line_end = true};
}

bool cursor_line(struct cursor *c)
{
    const char *rest = c->at, *end = text_end(c);

    if (c->line && c->at < end) { /* past the end of the last line */
        c->at = memchr(c->at, '\n', (size_t)(end - c->at));
        c->at = c->at ? c->at + 1 : (char *)end;
        rest = c->at;
    }
    while (rest < end && (blank(*rest) || *rest == '\n'))
        rest++;
    if (rest == end)
        return false;
    c->line++;
    c->column = 0;
    c->line_end = false;
    return true;
}

bool cursor_cell(struct cursor *c, struct cell *cell)
{
    const char *end = text_end(c);
    char *p = c->at;

    if (c->line_end)
        return false;
    while (p < end && *p != ',' && *p != '\n')
        p++;
    c->column++;
    cell->start = c->at;
    cell->length = (size_t)(p - c->at);
    c->line_end = p == end || *p == '\n';
    c->at = c->line_end ? p : p + 1;
    while (cell->length && blank(*cell->start)) {
        cell->start++;
        cell->length--;
    }
    while (cell->length && blank(cell->start[cell->length - 1]))
        cell->length--;
    return true;
}

bool cell_number(const struct cell *cell, double *value)
{
    char *end;

    if (!cell->length)
        return false;
    /* strtod stops at the comma, line or text end that follows the cell */
    double x = strtod(cell->start, &end);
    if (end != cell->start + cell->length || !isfinite(x))
        return false;
    *value = x;
    return true;
}

bool cell_is(const struct cell *cell, const char *word)
{
    return cell->length == strlen(word) &&
           memcmp(cell->start, word, cell->length) == 0;
}

enum dsgd_err cursor_error(const struct cursor *c, const struct cell *cell,
                           struct dsgd_error *err, const char *what)
{
    char shown[25] = "";
    size_t length = cell && cell->length < 20 ? cell->length : 20;

    for (size_t i = 0; cell && i < length; i++) {
        char ch = cell->start[i];
        shown[i] = ch >= ' ' && ch < 127 ? ch : '?';
    }
    if (cell && cell->length > length)
        strcpy(shown + length, "…");
    if (!cell)
        return error_set(err, DSGD_E_FORMAT, "%.200s:%zu: %s", c->text->path,
                         c->line, what);
    return error_set(err, DSGD_E_FORMAT, "%.200s:%zu:%zu: \"%s\" %s",
                     c->text->path, c->line, c->column, shown, what);
}
