/* The times that --starttime and --endtime take, as sacct(1) does. */
#ifndef DSGD_REPORT_TIME_H
#define DSGD_REPORT_TIME_H

#include <time.h>

#include "dsgd_error.h"

/* Read "now", "now-2days", "today", "2026-01-31[T12:00[:00]]",
 * "01/31[/26][-12:00[:00]]" or "12:00[:00]", local time.
 *   option  in   what the text came from, for the message
 *   now     in
 *   t       out  untouched on error
 * Errors: DSGD_E_USAGE. */
enum dsgd_err report_parse_time(const char *option, const char *text,
                                time_t now, time_t *t, struct dsgd_error *err);

#endif
