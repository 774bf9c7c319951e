#include "report_time.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "error.h"

/* Seconds of a unit such as "days", by any beginning of its name; 0: none. */
static long unit_seconds(const char *name)
{
    static const struct {
        const char *name;
        long s;
    } unit[] = {{"seconds", 1},
                {"minutes", 60},
                {"hours", 3600},
                {"days", 86400},
                {"weeks", 604800}};

    if (*name == '\0')
        return 1;
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (strncasecmp(name, unit[i].name, strlen(name)) == 0)
            return unit[i].s;
    return 0;
}

/* "now", "now-2days", "now+1hour" */
static bool parse_now(const char *text, time_t now, time_t *t)
{
    char *end;

    if (strncasecmp(text, "now", 3) != 0)
        return false;
    if (text[3] == '\0') {
        *t = now;
        return true;
    }
    if (text[3] != '+' && text[3] != '-')
        return false;
    long count = strtol(text + 3, &end, 10);
    long seconds = unit_seconds(end);
    if (end == text + 4 || seconds == 0 || labs(count) > 1000000000L)
        return false;
    *t = now + count * seconds;
    return true;
}

/* What the format leaves out is today, at midnight. */
static bool parse_date(const char *text, time_t now, time_t *t)
{
    static const char *const format[] = {
        "%Y-%m-%d",       "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d",
        "%m/%d-%H:%M",    "%m/%d-%H:%M:%S", "%m/%d/%y",          "%H:%M",
        "%m/%d/%y-%H:%M", "%H:%M:%S",       "%m/%d/%y-%H:%M:%S",
    };

    for (size_t i = 0; i < sizeof format / sizeof format[0]; i++) {
        struct tm tm;
        localtime_r(&now, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        const char *end = strptime(text, format[i], &tm);
        if (!end || *end)
            continue;
        tm.tm_isdst = -1;
        *t = mktime(&tm);
        return *t != (time_t)-1;
    }
    return false;
}

enum dsgd_err report_parse_time(const char *option, const char *text,
                                time_t now, time_t *t, struct dsgd_error *err)
{
    if (strcasecmp(text, "today") == 0 || strcasecmp(text, "midnight") == 0)
        text = "00:00";
    if (parse_now(text, now, t) || parse_date(text, now, t))
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "%s: \"%.60s\" is not a time such as 2026-01-31T12:00, "
                     "01/31, 12:00 or now-2days",
                     option, text);
}
