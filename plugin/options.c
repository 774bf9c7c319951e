#include "options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsgd_names.h"

#define CUTOFF_MODES "full|static:K|static:P%|order|dynamic|dry|replay:FILE"

enum { MAX_COUNT = 1000000000, MAX_WINDOW_MS = 1000, DEFAULT_WINDOW_MS = 20 };

static const char *const names[N_OPTIONS] = {
    [OPTION_CUTOFF] = "dsgd-cutoff",
    [OPTION_MIN] = "dsgd-min",
    [OPTION_MODEL] = "dsgd-model",
    [OPTION_RECORD] = "dsgd-record",
    [OPTION_LATE] = "dsgd-late",
    [OPTION_PARTIAL] = "dsgd-partial",
    [OPTION_LR_SCALE] = "dsgd-lr-scale",
    [OPTION_MAX_CUTS] = "dsgd-max-cuts",
    [OPTION_MAX_CUT_SHARE] = "dsgd-max-cut-share",
    [OPTION_WORK] = "dsgd-work",
    [OPTION_PARTS] = "dsgd-parts",
    [OPTION_BATCH_SLACK] = "dsgd-batch-slack",
};

const char *option_name(enum option_id id)
{
    return names[id];
}

/* Write `name: "text": format…`.  Text may be anything, also a forged log line:
 * control characters become question marks.  Returns false. */
__attribute__((format(printf, 4, 5))) static bool
fail(struct option_fault *fault, const char *name, const char *text,
     const char *format, ...)
{
    char quoted[64];
    size_t n = 0;
    va_list ap;

    for (; n < sizeof quoted - 1 && text[n]; n++)
        quoted[n] =
            (unsigned char)text[n] < ' ' || text[n] == 127 ? '?' : text[n];
    quoted[n] = '\0';
    int used =
        snprintf(fault->text, sizeof fault->text, "%s: \"%s\"", name, quoted);
    if (used < 0 || (size_t)used >= sizeof fault->text)
        return false;
    va_start(ap, format);
    vsnprintf(fault->text + used, sizeof fault->text - (size_t)used, format,
              ap);
    va_end(ap);
    return false;
}

static bool check_static(const char *name, const char *text,
                         struct option_fault *fault)
{
    const char *value = text + strlen("static:");
    char *end;
    double number = strtod(value, &end);

    if (end == value || !isfinite(number))
        return fail(fault, name, text,
                    ": give a number of workers or a percentage, such as "
                    "static:12 or static:90%%");
    if (strcmp(end, "%") == 0) {
        if (number > 0 && number <= 100)
            return true;
        return fail(fault, name, text,
                    ": the percentage must be above 0 and at most 100");
    }
    if (!*end && number >= 1 && number <= MAX_COUNT &&
        number == (double)(long)number)
        return true;
    return fail(fault, name, text,
                ": the number of workers must be a whole number, at least 1");
}

static bool check_cutoff(const char *name, const char *text,
                         struct option_fault *fault)
{
    static const char *const plain[] = {"", "full", "order", "dynamic", "dry"};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(text, plain[i]) == 0)
            return true;
    }
    if (strncmp(text, "static:", 7) == 0)
        return check_static(name, text, fault);
    if (strncmp(text, "replay:", 7) == 0) {
        size_t length = strlen(text + 7);
        if (length >= 1 && length < DSGD_PATH_BYTES)
            return true;
        return fail(fault, name, text,
                    ": give the record to replay, replay:FILE, in fewer than "
                    "%d bytes",
                    DSGD_PATH_BYTES);
    }
    return fail(fault, name, text, " is none of %s", CUTOFF_MODES);
}

/* Digits only: strtol would also take signs and blanks. */
static bool read_count(const char *text, long max, long *count)
{
    long n = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        n = n * 10 + (*text - '0');
        if (n > max)
            return false;
    }
    *count = n;
    return true;
}

static bool check_min(const char *name, const char *text,
                      struct option_fault *fault)
{
    long count;

    if (read_count(text, MAX_COUNT, &count))
        return true;
    return fail(fault, name, text,
                ": give the least number of workers that a step waits for, a "
                "whole number; 0 means no limit");
}

/* words: "a|b|c" */
static bool check_word(const char *name, const char *text, const char *words,
                       struct option_fault *fault)
{
    size_t length = strlen(text);

    for (const char *at = words; *at;) {
        size_t word = strcspn(at, "|");
        if (word == length && memcmp(at, text, word) == 0)
            return true;
        at += word + (at[word] == '|');
    }
    return fail(fault, name, text, " is none of %s", words);
}

static bool check_max_cuts(const char *name, const char *text,
                           struct option_fault *fault)
{
    long count;

    if (read_count(text, MAX_COUNT, &count))
        return true;
    return fail(fault, name, text,
                ": give after how many cuts in a row a worker is waited for, "
                "a whole number; 0 means no limit");
}

static bool check_parts(const char *name, const char *text,
                        struct option_fault *fault)
{
    long count;

    if (read_count(text, DSGD_MAX_PARTS, &count) && count >= 1)
        return true;
    return fail(fault, name, text,
                ": give the parts that a batch is cut in, a whole number from "
                "1 to %d",
                DSGD_MAX_PARTS);
}

static bool check_percent(const char *name, const char *text,
                          struct option_fault *fault)
{
    char *end;
    double number = strtod(text, &end);

    if (end != text && strcmp(end, "%") == 0 && number > 0 && number <= 100)
        return true;
    return fail(fault, name, text,
                ": give a percentage above 0%% and at most 100%%, such as "
                "20%%");
}

static bool check_slack(const char *name, const char *text,
                        struct option_fault *fault)
{
    char *end;
    double number = strtod(text, &end);

    if (end != text && strcmp(end, "%") == 0 && number >= 0 && number < 100)
        return true;
    return fail(fault, name, text,
                ": give a percentage from 0%% to below 100%%, such as 2%%");
}

static bool check_path(const char *name, const char *text, const char *what,
                       struct option_fault *fault)
{
    size_t length = strlen(text);

    if (length >= 1 && length < DSGD_PATH_BYTES)
        return true;
    return fail(fault, name, text, ": give %s, in fewer than %d bytes", what,
                DSGD_PATH_BYTES);
}

bool option_check(enum option_id id, const char *name, const char *text,
                  struct option_fault *fault)
{
    if (!text)
        text = "";
    switch (id) {
    case OPTION_CUTOFF:
        return check_cutoff(name, text, fault);
    case OPTION_MIN:
        return check_min(name, text, fault);
    case OPTION_MODEL:
        return check_path(name, text, "a timing model's file", fault);
    case OPTION_RECORD:
        return check_path(name, text, "a directory for records, or off", fault);
    case OPTION_LATE:
        return check_word(name, text, "requeue|drop|carry", fault);
    case OPTION_PARTIAL:
        return check_word(name, text, "discard|contribute", fault);
    case OPTION_LR_SCALE:
        return check_word(name, text, "none|linear|sqrt", fault);
    case OPTION_MAX_CUTS:
        return check_max_cuts(name, text, fault);
    case OPTION_MAX_CUT_SHARE:
        return check_percent(name, text, fault);
    case OPTION_WORK:
        return check_word(name, text, "own|shared", fault);
    case OPTION_PARTS:
        return check_parts(name, text, fault);
    case OPTION_BATCH_SLACK:
        return check_slack(name, text, fault);
    }
    return fail(fault, name, text, ": not an option");
}

bool option_set(enum option_id id, const char *name, const char *text,
                struct option_value *value, struct option_fault *fault)
{
    size_t length = text ? strlen(text) : 0;

    *value = (struct option_value){.given = true, .bad = true};
    if (!option_check(id, name, text, fault))
        return false;
    if (length >= sizeof value->text) /* digits: zeros before or behind */
        return fail(fault, name, text, " is longer than %zu bytes",
                    sizeof value->text - 1);
    if (id == OPTION_CUTOFF && !length)
        text = "full";
    snprintf(value->text, sizeof value->text, "%s", text);
    value->bad = false;
    return true;
}

static bool set_record_dir(const char *text, struct plugin_args *args,
                           struct option_fault *fault)
{
    static const char name[] = "plugstack.conf: record_dir";

    if (*text != '/' || strlen(text) >= sizeof args->record_dir)
        return fail(fault, name, text,
                    ": give an absolute path in fewer than %zu bytes",
                    sizeof args->record_dir);
    strcpy(args->record_dir, text);
    return true;
}

static bool set_window(const char *text, struct plugin_args *args,
                       struct option_fault *fault)
{
    if (read_count(text, MAX_WINDOW_MS, &args->window_ms))
        return true;
    return fail(fault, "plugstack.conf: window_ms", text,
                ": give milliseconds, 0 to %d", MAX_WINDOW_MS);
}

/* The rest of text after "key=", or NULL; a - of the key is a _ in text. */
static const char *after_key(const char *text, const char *key)
{
    for (; *key; key++, text++) {
        if (*text != (*key == '-' ? '_' : *key))
            return NULL;
    }
    return *text == '=' ? text + 1 : NULL;
}

static bool read_arg(const char *text, struct plugin_args *args,
                     struct option_fault *fault)
{
    const char *value;

    for (int id = 0; id < N_OPTIONS; id++) {
        const char *key = names[id] + strlen("dsgd-");
        char name[48];
        if (!(value = after_key(text, key)))
            continue;
        snprintf(name, sizeof name, "plugstack.conf: %s", key);
        if (option_set(id, name, value, &args->value[id], fault))
            return true;
        args->value[id] = (struct option_value){0};
        return false;
    }
    if ((value = after_key(text, "record_dir")))
        return set_record_dir(value, args, fault);
    if ((value = after_key(text, "window_ms")))
        return set_window(value, args, fault);
    return fail(fault, "plugstack.conf", text,
                " is none of cutoff=MODE, min=N, model=FILE, record=DIR|off, "
                "late=, partial=, lr_scale=, max_cuts=N, max_cut_share=P%%, "
                "work=own|shared, parts=N, batch_slack=P%%, record_dir=DIR, "
                "window_ms=N");
}

bool plugin_args_read(int argc, char *const *argv, struct plugin_args *args,
                      struct option_fault *fault)
{
    bool good = true;

    *args = (struct plugin_args){.window_ms = DEFAULT_WINDOW_MS};
    for (int i = 0; argv && i < argc; i++) {
        struct option_fault ignored;
        if (argv[i] && !read_arg(argv[i], args, good ? fault : &ignored))
            good = false;
    }
    if (args->record_dir[0] && args->value[OPTION_RECORD].given) {
        args->record_dir[0] = '\0';
        if (good)
            fail(fault, "plugstack.conf: record",
                 args->value[OPTION_RECORD].text,
                 " and record_dir= exclude each other; record_dir= is "
                 "ignored");
        good = false;
    }
    return good;
}
