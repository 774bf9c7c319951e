/* dsgd-report: the figures of recorded runs. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "option_refused.h"
#include "record_owner.h"
#include "report.h"
#include "report_fields.h"
#include "report_find.h"
#include "report_json.h"
#include "report_table.h"
#include "report_text.h"
#include "report_time.h"
#include "text.h"

struct options {
    const char *jobs, *record_dir, *user, *format;
    const char *by; /* step, node, worker; NULL: as the columns need */
    time_t from, until;
    bool has_from, has_until, all, json, no_header;
    struct report_style style;
    enum report_level level;
    struct report_column columns[REPORT_N_LEVELS][REPORT_MAX_COLUMNS];
    size_t n_columns[REPORT_N_LEVELS];
};

enum { OPT_BY = 256, OPT_DELIMITER, OPT_JSON, OPT_RECORD_DIR, OPT_VERSION };

static const char short_options[] = ":j:o:pPneS:E:Xu:h";
static const struct option long_options[] = {
    {"jobs", required_argument, NULL, 'j'},
    {"by", required_argument, NULL, OPT_BY},
    {"allocations", no_argument, NULL, 'X'},
    {"format", required_argument, NULL, 'o'},
    {"helpformat", no_argument, NULL, 'e'},
    {"parsable", no_argument, NULL, 'p'},
    {"parsable2", no_argument, NULL, 'P'},
    {"delimiter", required_argument, NULL, OPT_DELIMITER},
    {"noheader", no_argument, NULL, 'n'},
    {"json", no_argument, NULL, OPT_JSON},
    {"starttime", required_argument, NULL, 'S'},
    {"endtime", required_argument, NULL, 'E'},
    {"user", required_argument, NULL, 'u'},
    {"record-dir", required_argument, NULL, OPT_RECORD_DIR},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "Usage: dsgd-report [OPTION]... [FILE]...\n"
    "Report the timing of recorded training runs.\n"
    "\n"
    "  -j, --jobs=JOB[.STEP],...  these jobs or job steps\n"
    "      --by=LEVEL             a row for each step, node or worker, or all\n"
    "  -X, --allocations          the same as --by=step\n"
    "  -o, --format=FIELD[%N],... the columns, and their width\n"
    "  -e, --helpformat           list the fields\n"
    "  -p, --parsable             \"|\" after each field, no padding\n"
    "  -P, --parsable2            the same, but not after the last\n"
    "      --delimiter=TEXT       in place of \"|\"\n"
    "  -n, --noheader             no column names\n"
    "      --json                 everything, as JSON\n"
    "  -S, --starttime=TIME       runs that ended at TIME or later\n"
    "  -E, --endtime=TIME         runs that started at TIME or earlier\n"
    "  -u, --user=USER            records of this user\n"
    "      --record-dir=DIR       where the records are\n"
    "  -h, --help                 show this\n"
    "      --version              show the version\n";

static int fail(enum dsgd_err rc, const struct dsgd_error *err)
{
    char text[2 * sizeof err->text];

    report_escape(err->text, "", text, sizeof text);
    fprintf(stderr, "dsgd-report: %s\n", text);
    return (int)rc;
}

static int said(void)
{
    struct dsgd_error err;
    enum dsgd_err rc = text_flush(&err);

    return rc == DSGD_OK ? 0 : fail(rc, &err);
}

static void print_fields(void)
{
    static const char *const title[REPORT_N_LEVELS] = {"step", "node",
                                                       "worker"};
    struct report_column column;

    for (int level = 0; level < REPORT_N_LEVELS; level++) {
        printf("Fields of a %s:\n", title[level]);
        for (size_t i = 0;
             report_column_at((enum report_level)level, i, &column); i++) {
            char name[64];
            report_column_name(&column, name, sizeof name);
            printf("%-16s%s", name, i % 5 == 4 ? "\n" : "");
        }
        printf("\n%s", level + 1 < REPORT_N_LEVELS ? "\n" : "");
    }
}

/* Choose the levels and columns that the options ask for. */
static enum dsgd_err choose_columns(struct options *o, struct dsgd_error *err)
{
    static const char *const name[REPORT_N_LEVELS] = {"step", "node", "worker"};
    enum report_level needs = REPORT_STEP;
    int level = 0;

    while (o->by && level < REPORT_N_LEVELS && strcmp(o->by, name[level]) != 0)
        level++;
    if (o->by && level == REPORT_N_LEVELS && strcmp(o->by, "all") != 0)
        return error_set(err, DSGD_E_USAGE,
                         "--by: \"%.60s\" is none of step|node|worker|all",
                         o->by);
    for (int i = 0; i < REPORT_N_LEVELS; i++) {
        const char *text =
            o->format ? o->format : report_default_format((enum report_level)i);
        enum dsgd_err rc =
            report_columns(text, o->columns[i], &o->n_columns[i], &needs, err);
        if (rc != DSGD_OK)
            return rc;
    }
    o->all = o->by ? level == REPORT_N_LEVELS
                   : !o->format && !o->style.parsable && !o->no_header;
    if (o->by && !o->all)
        o->level = (enum report_level)level;
    else
        o->level = o->format ? needs : REPORT_STEP;
    return DSGD_OK;
}

static enum dsgd_err set_option(struct options *o, int c,
                                struct dsgd_error *err)
{
    switch (c) {
    case 'j':
        o->jobs = optarg;
        break;
    case OPT_BY:
        o->by = optarg;
        break;
    case 'X':
        o->by = "step";
        break;
    case 'o':
        o->format = optarg;
        break;
    case 'p':
    case 'P':
        o->style.parsable = true;
        o->style.last_delimiter = c == 'p';
        break;
    case OPT_DELIMITER:
        if (!*optarg)
            return error_set(
                err, DSGD_E_USAGE,
                "--delimiter: is empty: give what to put between fields");
        o->style.delimiter = optarg;
        break;
    case 'n':
        o->no_header = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case 'S':
        o->has_from = true;
        return report_parse_time("--starttime", optarg, time(NULL), &o->from,
                                 err);
    case 'E':
        o->has_until = true;
        return report_parse_time("--endtime", optarg, time(NULL), &o->until,
                                 err);
    case 'u':
        o->user = optarg;
        break;
    default: /* OPT_RECORD_DIR */
        o->record_dir = optarg;
    }
    return DSGD_OK;
}

/* Returns -1 to go on, else the exit code. */
static int parse_options(struct options *o, int argc, char **argv)
{
    struct dsgd_error err;
    enum dsgd_err rc = DSGD_OK;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, short_options, long_options, NULL)) !=
           -1) {
        switch (c) {
        case 'h':
            fputs(help, stdout);
            return said();
        case 'e':
            print_fields();
            return said();
        case OPT_VERSION:
            printf("dsgd-report %s\n", PACKAGE_VERSION);
            return said();
        case ':':
            rc = error_set(&err, DSGD_E_USAGE,
                           "%.60s: the value is missing; see --help",
                           argv[optind - 1]);
            return fail(rc, &err);
        case '?':
            rc = option_refused(argv[optind - 1], optopt, long_options, &err);
            return fail(rc, &err);
        default:
            rc = set_option(o, c, &err);
            if (rc != DSGD_OK)
                return fail(rc, &err);
        }
    }
    rc = choose_columns(o, &err);
    return rc == DSGD_OK ? -1 : fail(rc, &err);
}

static void print_level(const struct options *o, const struct report *r,
                        enum report_level level, bool header)
{
    const struct report_column *columns = o->columns[level];
    const struct report_unit *unit = &r->total;
    size_t n = 1;

    if (level == REPORT_NODE) {
        unit = r->node;
        n = r->n_nodes;
    } else if (level == REPORT_WORKER) {
        unit = r->worker;
        n = r->n_tasks;
    }
    if (header && !o->no_header)
        report_header(stdout, &o->style, columns, o->n_columns[level]);
    for (size_t i = 0; i < n; i++)
        report_row(stdout, &o->style, columns, o->n_columns[level], r,
                   &unit[i]);
}

static void print_advice(const struct report *r)
{
    for (size_t i = 0; i < r->n_advice; i++) {
        char text[4 * sizeof r->advice[i].text];
        report_escape(r->advice[i].text, "", text, sizeof text);
        printf("%s\n", text);
    }
}

/* The three tables of a job step, and what they mean. */
static void print_all(const struct options *o, const struct report *r,
                      bool first)
{
    if (!first)
        putchar('\n');
    for (int level = 0; level < REPORT_N_LEVELS; level++) {
        print_level(o, r, (enum report_level)level, true);
        putchar('\n');
    }
    print_advice(r);
}

static bool in_window(const struct options *o, const struct report *r)
{
    return !(o->has_until && r->start_unix_s > (double)o->until) &&
           !(o->has_from && r->end_unix_s < (double)o->from);
}

enum { NOT_IN_WINDOW = 255 };

/* Report on one record.  Returns an exit code, or NOT_IN_WINDOW. */
static int report_one(const struct options *o, const char *path, bool first)
{
    struct report *r;
    struct dsgd_error err;
    enum dsgd_err rc = report_load(path, (double)time(NULL), &r, &err);

    if (rc == DSGD_OK && !in_window(o, r)) {
        report_destroy(r);
        return NOT_IN_WINDOW;
    }
    if (rc == DSGD_OK)
        rc = report_advise(r, &err);
    if (rc == DSGD_OK && o->json)
        rc = report_json(stdout, r, first, &err);
    else if (rc == DSGD_OK && o->all)
        print_all(o, r, first);
    else if (rc == DSGD_OK)
        print_level(o, r, o->level, first);
    report_destroy(r);
    return rc == DSGD_OK ? 0 : fail(rc, &err);
}

/* As report_one, in a process that belongs to the record's owner. */
static int report_as_owner(const struct options *o, const char *path,
                           bool first)
{
    struct dsgd_error err;
    int status;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        enum dsgd_err rc = record_become_owner(path, &err);
        int code = rc == DSGD_OK ? report_one(o, path, first) : fail(rc, &err);
        fflush(stdout);
        _exit(code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        error_set(&err, DSGD_E_FAIL, "%s: the process that read it failed",
                  path);
        return fail(DSGD_E_FAIL, &err);
    }
    return WEXITSTATUS(status);
}

static bool is_foreign(const char *path)
{
    struct stat st;
    return geteuid() == 0 && lstat(path, &st) == 0 && st.st_uid != 0;
}

/* All records, each after the other.  A record that can't be read costs its
 * rows and the exit code. */
static int report_paths(const struct options *o,
                        const struct report_paths *paths)
{
    bool first = true;
    int rc = 0;

    if (o->json)
        report_json_begin(stdout);
    for (size_t i = 0; i < paths->n; i++) {
        int code = is_foreign(paths->path[i])
                       ? report_as_owner(o, paths->path[i], first)
                       : report_one(o, paths->path[i], first);
        if (code == 0)
            first = false;
        else if (code != NOT_IN_WINDOW)
            rc = code;
    }
    if (o->json)
        report_json_end(stdout);
    else if (first && !o->no_header && rc == 0)
        report_header(stdout, &o->style, o->columns[o->level],
                      o->n_columns[o->level]);
    return rc;
}

/* The records that the options name. */
static enum dsgd_err find(const struct options *o, struct report_paths *paths,
                          struct dsgd_error *err)
{
    char dir[PATH_MAX];
    const char *users = o->user ? o->user : "";
    enum dsgd_err rc = report_record_dir(o->record_dir, dir, sizeof dir, err);

    if (rc == DSGD_OK && !o->user && !o->jobs && geteuid() != 0) {
        const struct passwd *self = getpwuid(geteuid());
        users = self ? self->pw_name : "";
    }
    if (rc == DSGD_OK && dir[0])
        rc = report_find(dir, o->jobs, !o->user, users, paths, err);
    if (rc == DSGD_OK && paths->n == 0 && !o->user && !o->record_dir)
        rc = report_find(".", o->jobs, true, NULL, paths, err);
    if (rc == DSGD_OK && paths->n == 0 && !dir[0])
        rc = error_set(err, DSGD_E_USAGE,
                       "no records here, and no RecordDir: give --record-dir, "
                       "or DSGD_RECORD_DIR, or RecordDir in dsgd.conf, or name "
                       "the records");
    return rc;
}

/* The records that are named.  The first that is missing is said before
 * anything is printed, and nothing is. */
static enum dsgd_err take_named(int n, char **name, struct report_paths *paths,
                                struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (int i = 0; rc == DSGD_OK && i < n; i++) {
        if (access(name[i], F_OK) != 0)
            rc = error_set(err, DSGD_E_IO, "%.200s: %s", name[i],
                           strerror(errno));
        else
            rc = report_paths_add(paths, name[i], err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.style.delimiter = "|"};
    struct report_paths paths = {NULL, 0};
    struct dsgd_error err;
    enum dsgd_err rc;

    int code = parse_options(&o, argc, argv);
    if (code >= 0)
        return code;
    rc = take_named(argc - optind, argv + optind, &paths, &err);
    if (rc == DSGD_OK && optind == argc) {
        if (!o.has_from && !o.jobs) {
            o.has_from = true;
            rc = report_parse_time("--starttime", "today", time(NULL), &o.from,
                                   &err);
        }
        if (rc == DSGD_OK)
            rc = find(&o, &paths, &err);
    }
    code = rc == DSGD_OK ? report_paths(&o, &paths) : fail(rc, &err);
    report_paths_free(&paths);
    int flushed = said();
    return flushed ? flushed : code;
}
