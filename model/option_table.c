#include "option_table.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { HELP_WIDTH = 45 /* columns of a help text and its default */ };

static const struct option_row *find(const struct option_table *t,
                                     const char *name, size_t length)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strlen(t->row[i].name) == length &&
            memcmp(t->row[i].name, name, length) == 0)
            return &t->row[i];
    }
    return NULL;
}

static enum dsgd_err parse_number(const struct option_row *r, const char *text,
                                  double *value, struct dsgd_error *err)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || *end || !(x >= r->low && x <= r->high) ||
        (r->type == OPTION_COUNT && x != floor(x)))
        return error_set(err, DSGD_E_USAGE,
                         "--%s: \"%.60s\" is not a %s from %.16g to %.16g",
                         r->name, text,
                         r->type == OPTION_COUNT ? "whole number" : "number",
                         r->low, r->high);
    *value = x;
    return DSGD_OK;
}

static enum dsgd_err parse_choice(const struct option_row *r, const char *text,
                                  int *value, struct dsgd_error *err)
{
    char list[128] = "";

    for (int i = 0; r->words[i]; i++) {
        if (strcmp(r->words[i], text) == 0) {
            *value = i;
            return DSGD_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? "|" : "",
                 r->words[i]);
    }
    return error_set(err, DSGD_E_USAGE, "--%s: \"%.60s\" is none of %s",
                     r->name, text, list);
}

static enum dsgd_err assign(const struct option_row *r, const char *text,
                            void *options, struct dsgd_error *err)
{
    void *field = (char *)options + r->offset;
    enum dsgd_err rc = DSGD_OK;
    double number = 0;
    int word = 0;

    switch (r->type) {
    case OPTION_FLAG:
        *(bool *)field = true;
        break;
    case OPTION_OPTIONAL:
    case OPTION_TEXT:
        if (text && !*text)
            return error_set(err, DSGD_E_USAGE, "--%s: give a %s", r->name,
                             r->arg);
        *(const char **)field = text ? text : "";
        break;
    case OPTION_COUNT:
        rc = parse_number(r, text, &number, err);
        if (rc == DSGD_OK)
            *(uint64_t *)field = (uint64_t)number;
        break;
    case OPTION_REAL:
        rc = parse_number(r, text, field, err);
        break;
    case OPTION_CHOICE:
        rc = parse_choice(r, text, &word, err);
        if (rc == DSGD_OK)
            memcpy(field, &word, sizeof word);
        break;
    }
    return rc;
}

enum dsgd_err option_table_defaults(const struct option_table *t, void *options,
                                    struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; i < t->n && rc == DSGD_OK; i++) {
        if (t->row[i].initial)
            rc = assign(&t->row[i], t->row[i].initial, options, err);
    }
    return rc;
}

enum dsgd_err option_table_read(const struct option_table *t, int argc,
                                char **argv, int *at, void *options,
                                struct dsgd_error *err)
{
    const char *word = argv[(*at)++];
    bool brief = t->output && strncmp(word, "-o", 2) == 0;
    if (!brief && (strncmp(word, "--", 2) != 0 || !word[2]))
        return error_set(err, DSGD_E_USAGE,
                         "\"%.60s\" is not an option; see %s --help", word,
                         t->program);
    const char *name = brief ? t->output : word + 2;
    const char *value = brief ? (word[2] ? word + 1 : NULL) : strchr(name, '=');
    size_t length = !brief && value ? (size_t)(value - name) : strlen(name);
    const struct option_row *r = find(t, name, length);

    if (!r)
        return error_set(err, DSGD_E_USAGE,
                         "--%.*s: there is no such option; see %s --help",
                         length < 60 ? (int)length : 60, name, t->program);
    if (value && r->type == OPTION_FLAG)
        return error_set(err, DSGD_E_USAGE, "--%s takes no value", r->name);
    if (value)
        return assign(r, value + 1, options, err);
    if (r->type == OPTION_FLAG || r->type == OPTION_OPTIONAL)
        return assign(r, NULL, options, err);
    if (*at >= argc)
        return error_set(err, DSGD_E_USAGE, "--%s needs a value: %s", r->name,
                         r->arg);
    return assign(r, argv[(*at)++], options, err);
}

void option_table_help(const struct option_table *t, FILE *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct option_row *r = &t->row[i];
        const char *open = r->type == OPTION_OPTIONAL ? "[="
                           : r->arg                   ? " "
                                                      : "";
        char left[64];

        snprintf(left, sizeof left, "--%s%s%s%s", r->name, open,
                 r->arg ? r->arg : "", r->type == OPTION_OPTIONAL ? "]" : "");
        fprintf(out, "  %-28s %s", left, r->help);
        if (r->initial && strlen(r->help) + strlen(r->initial) > HELP_WIDTH)
            fprintf(out, "\n%31s", "");
        if (r->initial)
            fprintf(out, " [%s]", r->initial);
        fprintf(out, "\n");
    }
}
