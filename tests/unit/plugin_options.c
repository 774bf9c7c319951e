/* The plugin's checks of options and of plugstack.conf arguments. */
#include "../tap.h"
#include "cutoff.h"
#include "options.h"

/* A file name of n bytes behind a prefix. */
static const char *with_name(const char *prefix, size_t n)
{
    static char text[2][600];
    static int turn;
    char *to = text[turn = !turn];

    snprintf(to, sizeof text[0], "%s%0*d", prefix, (int)n, 0);
    return to;
}

/* The plugin can't link cutoff_parse, so both judge the same table. */
static void same_verdict(const char *text, bool want)
{
    struct cutoff_spec spec;
    struct dsgd_error error = {""};
    struct option_fault fault = {""};
    const char *shown = text ? text : "NULL";
    bool runtime =
        cutoff_parse("--dsgd-cutoff", text, &spec, &error) == DSGD_OK;
    bool plugin = option_check(OPTION_CUTOFF, "--dsgd-cutoff", text, &fault);

    ok(plugin == want && runtime == want, "cutoff \"%.40s\" is %s", shown,
       want ? "good" : "bad");
    if (!want)
        ok(strncmp(fault.text, error.text, 60) == 0,
           "cutoff \"%.40s\": both say the same", shown);
}

static void test_cutoff(void)
{
    static const char *const good[] = {NULL,
                                       "",
                                       "full",
                                       "order",
                                       "dynamic",
                                       "dry",
                                       "static:1",
                                       "static:12",
                                       "static:1e3",
                                       "static:2.0",
                                       "static:90%",
                                       "static:.5%",
                                       "static:100%",
                                       "static:1000000000",
                                       "static:+3",
                                       "replay:x",
                                       "replay:/a/b c.dsgd",
                                       "replay:replay:"};
    static const char *const bad[] = {
        "dynmic",     "Full",        "full ",          " full",
        "static",     "static:",     "static:0",       "static:-1",
        "static:1.5", "static:x",    "static:3x",      "static:%",
        "static:0%",  "static:200%", "static:-5%",     "static:100.001%",
        "static:nan", "static:nan%", "static:inf%",    "static:5%%",
        "static:5% ", "static:1e10", "static:1e-400%", "replay",
        "replay:",    "order:3",     "full,order",     "static:1000000001"};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        same_verdict(good[i], true);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        same_verdict(bad[i], false);
    same_verdict(with_name("replay:", 255), true);
    same_verdict(with_name("replay:", 256), false);
    same_verdict(with_name("static:", 500), false);
}

static void test_messages(void)
{
    struct option_fault fault;

    option_check(OPTION_CUTOFF, "--dsgd-cutoff", "dynmic", &fault);
    is_str(fault.text,
           "--dsgd-cutoff: \"dynmic\" is none of "
           "full|static:K|static:P%|order|dynamic|dry|replay:FILE",
           "the message names option, value and modes");
    option_check(OPTION_CUTOFF, "--x", "a\nslurmd: fatal: b\033[2J", &fault);
    ok(!strpbrk(fault.text, "\n\033"), "no control character gets through");
    has_str(fault.text, "\"a?slurmd: fatal: b?[2J\"", "they are replaced");
    option_check(OPTION_CUTOFF, "--x", with_name("order", 500), &fault);
    has_str(fault.text, "0\" is none of full|", "a long value is cut");
}

static void check(enum option_id id, const char *text, bool want)
{
    struct option_fault fault;

    ok(option_check(id, "--x", text, &fault) == want, "%s \"%.40s\" is %s",
       option_name(id), text ? text : "NULL", want ? "good" : "bad");
}

static void test_others(void)
{
    check(OPTION_MIN, "0", true);
    check(OPTION_MIN, "12", true);
    check(OPTION_MIN, "1000000000", true);
    check(OPTION_MIN, "1000000001", false);
    check(OPTION_MIN, "99999999999999999999", false);
    check(OPTION_MIN, "-1", false);
    check(OPTION_MIN, "1.5", false);
    check(OPTION_MIN, " 1", false);
    check(OPTION_MIN, "", false);
    check(OPTION_MIN, NULL, false);
    check(OPTION_MODEL, "site.model", true);
    check(OPTION_MODEL, with_name("/", 254), true);
    check(OPTION_MODEL, with_name("/", 255), false);
    check(OPTION_MODEL, "", false);
    check(OPTION_RECORD, "off", true);
    check(OPTION_RECORD, "records", true);
    check(OPTION_RECORD, NULL, false);
    check(OPTION_LATE, "requeue", true);
    check(OPTION_LATE, "carry", true);
    check(OPTION_LATE, "carr", false);
    check(OPTION_LATE, "requeue|drop", false);
    check(OPTION_LATE, "", false);
    check(OPTION_PARTIAL, "contribute", true);
    check(OPTION_PARTIAL, "requeue", false);
    check(OPTION_LR_SCALE, "sqrt", true);
    check(OPTION_LR_SCALE, "cube", false);
    check(OPTION_MAX_CUTS, "3", true);
    check(OPTION_MAX_CUTS, "-3", false);
    check(OPTION_WORK, "own", true);
    check(OPTION_WORK, "shared", true);
    check(OPTION_WORK, "both", false);
    check(OPTION_PARTS, "8", true);
    check(OPTION_PARTS, "0", false);
    check(OPTION_PARTS, "65537", false);
    check(OPTION_BATCH_SLACK, "0%", true);
    check(OPTION_BATCH_SLACK, "2.5%", true);
    check(OPTION_BATCH_SLACK, "100%", false);
    check(OPTION_BATCH_SLACK, "nan%", false);
    check(OPTION_BATCH_SLACK, "2", false);
    check(OPTION_MAX_CUT_SHARE, "12.5%", true);
    check(OPTION_MAX_CUT_SHARE, "0%", false);
    check(OPTION_MAX_CUT_SHARE, "101%", false);
    check(OPTION_MAX_CUT_SHARE, "nan%", false);
    check(OPTION_MAX_CUT_SHARE, "50", false);
}

static void test_set(void)
{
    struct option_value value = {0};
    struct option_fault fault;

    ok(option_set(OPTION_CUTOFF, "--x", NULL, &value, &fault), "NULL is taken");
    is_str(value.text, "full", "an empty cutoff is handed on as full");
    ok(!option_set(OPTION_CUTOFF, "--x", "no", &value, &fault), "bad");
    ok(value.given && value.bad && !value.text[0], "bad is remembered");
    ok(option_set(OPTION_CUTOFF, "--x", "order", &value, &fault), "good");
    ok(value.given && !value.bad, "the last value counts");
    is_str(value.text, "order", "and is kept");
    option_set(OPTION_CUTOFF, "--x", with_name("replay:", 255), &value, &fault);
    is_int((long long)strlen(value.text), 262, "the longest value fits");
    ok(!option_set(OPTION_CUTOFF, "--x", with_name("static:1.", 300), &value,
                   &fault),
       "a good value that is too long to be handed on is refused");
    has_str(fault.text, "is longer than 262 bytes", "and it says so");
}

static void test_args(void)
{
    struct plugin_args a;
    struct option_fault fault;
    char *good[] = {"cutoff=static:90%",
                    NULL,
                    "min=4",
                    "model=/m",
                    "record_dir=/var/spool/dsgd",
                    "window_ms=0",
                    "late=carry",
                    "max_cut_share=20%"};

    ok(plugin_args_read(0, NULL, &a, &fault), "no arguments");
    ok(!a.value[OPTION_CUTOFF].given && !a.record_dir[0], "off by default");
    is_int(a.window_ms, 20, "a window of 20 ms by default");

    ok(plugin_args_read(8, good, &a, &fault), "good arguments");
    is_str(a.value[OPTION_CUTOFF].text, "static:90%", "cutoff=");
    is_str(a.value[OPTION_MIN].text, "4", "min=");
    is_str(a.value[OPTION_MODEL].text, "/m", "model=");
    is_str(a.record_dir, "/var/spool/dsgd", "record_dir=");
    is_int(a.window_ms, 0, "window_ms=");
    is_str(a.value[OPTION_LATE].text, "carry", "late=");
    is_str(a.value[OPTION_MAX_CUT_SHARE].text, "20%", "max_cut_share=");
}

static void bad_arg(char *arg, const char *want)
{
    struct plugin_args a;
    struct option_fault fault = {""};
    char *argv[] = {"min=2", arg, "model=/m"};

    ok(!plugin_args_read(3, argv, &a, &fault), "\"%.40s\" is bad", arg);
    has_str(fault.text, want, "the reason is told");
    ok(a.value[OPTION_MIN].given && a.value[OPTION_MODEL].given &&
           !a.value[OPTION_CUTOFF].given && !a.value[OPTION_RECORD].given &&
           !a.record_dir[0] && a.window_ms == 20,
       "the others count, this one does not");
}

static void test_bad_args(void)
{
    static char long_dir[300] = "record_dir=/";
    struct plugin_args a;
    struct option_fault fault = {""};
    char *both[] = {"record=off", "record_dir=/d", "cutof=full"};

    memset(long_dir + 12, 'd', 200);
    bad_arg("cutoff=dynmic",
            "plugstack.conf: cutoff: \"dynmic\" is none of full|");
    bad_arg("cutof=full", "plugstack.conf: \"cutof=full\" is none of cutoff=");
    bad_arg("cutoff", "plugstack.conf: \"cutoff\" is none of");
    bad_arg("late=never", "\"never\" is none of requeue|drop|carry");
    bad_arg("max-cuts=3", "plugstack.conf: \"max-cuts=3\" is none of cutoff=");
    bad_arg("record=", "plugstack.conf: record: \"\"");
    bad_arg("record_dir=spool", "give an absolute path");
    bad_arg(long_dir, "give an absolute path");
    bad_arg("window_ms=1001", "plugstack.conf: window_ms");
    bad_arg("window_ms=2s", "plugstack.conf: window_ms");
    bad_arg("", "plugstack.conf: \"\"");

    ok(!plugin_args_read(3, both, &a, &fault), "record= with record_dir=");
    has_str(fault.text, "cutof=full", "the first fault is the one told");
    ok(!a.record_dir[0] && a.value[OPTION_RECORD].given, "record= counts");
    ok(!plugin_args_read(2, both, &a, &fault), "the two alone");
    has_str(fault.text, "exclude each other", "are told");
}

int main(void)
{
    test_cutoff();
    test_messages();
    test_others();
    test_set();
    test_args();
    test_bad_args();
    return done();
}
