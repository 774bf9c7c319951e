/* Where settings come from, and which wins. */
#include <stdlib.h>
#include <unistd.h>

#include "dsgd.h"
#include "dsgd_names.h"
#include "launch.h"
#include "tap.h"

static char conf_path[] = "/tmp/dsgd-conf-XXXXXX";

static void clear(void)
{
    unsetenv(DSGD_CHECKPOINT_KEEP);
    unsetenv(DSGD_LAUNCH_DEFAULT_CUTOFF);
    unsetenv(DSGD_LAUNCH_DEFAULT_MODEL);
    unsetenv(DSGD_LAUNCH_MAX_CUTS);
    unsetenv(DSGD_LAUNCH_CUTOFF);
    unsetenv(DSGD_LAUNCH_DEFAULT_RECORD);
    unsetenv(DSGD_CUTOFF);
    unsetenv(DSGD_MIN);
    unsetenv(DSGD_RECORD);
    unsetenv(DSGD_LATE);
    unsetenv(DSGD_LAUNCH_LATE);
    unsetenv(DSGD_PARTIAL);
    unsetenv(DSGD_LR_SCALE);
    unsetenv(DSGD_MAX_CUTS);
    unsetenv(DSGD_MAX_CUT_SHARE);
    unsetenv(DSGD_WORK);
    unsetenv(DSGD_LAUNCH_WORK);
    unsetenv(DSGD_PARTS);
    unsetenv(DSGD_BATCH_SLACK);
    unsetenv(DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE);
    unsetenv(DSGD_RING_BYTES);
    unsetenv(DSGD_SPREAD_BYTES);
    unsetenv(DSGD_HARD_TIMEOUT);
    unsetenv(DSGD_AGGREGATOR);
    setenv(DSGD_CONF, conf_path, 1);
}

static void conf(const char *text)
{
    FILE *f = fopen(conf_path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static void precedence(void)
{
    struct dsgd_options opt;

    conf("");
    dsgd_options_init(&opt, NULL);
    is_str(opt.cutoff, "full", "default");
    conf("# a site's choice\nCutoff = static:3 # few\n\nMin=2\n");
    dsgd_options_init(&opt, NULL);
    is_str(opt.cutoff, "static:3", "dsgd.conf over the default");
    is_int((long long)opt.min_contributors, 2, "another setting");
    setenv(DSGD_LAUNCH_DEFAULT_CUTOFF, "static:4", 1);
    dsgd_options_init(&opt, NULL);
    is_str(opt.cutoff, "static:4", "plugstack over dsgd.conf");
    setenv(DSGD_CUTOFF, "order", 1);
    dsgd_options_init(&opt, NULL);
    is_str(opt.cutoff, "order", "DSGD_CUTOFF over plugstack");
    setenv(DSGD_LAUNCH_CUTOFF, "static:5", 1);
    dsgd_options_init(&opt, NULL);
    is_str(opt.cutoff, "static:5", "the option over DSGD_CUTOFF");
    setenv(DSGD_CUTOFF, "", 1);
    is_int(dsgd_options_init(&opt, NULL), DSGD_OK, "an empty one is not set");
    clear();
    is_int(opt.late, DSGD_LATE_REQUEUE, "late samples are requeued");
    is_int(opt.partial, DSGD_PARTIAL_AUTO, "as are parts, for that");
    conf("Late=carry\nPartial=discard\nLrScale=sqrt\nMaxCuts=3\n"
         "MaxCutShare=20%\nWork=shared\nParts=5\nBatchSlack=2%\n");
    is_int((long long)opt.parts, 0, "the usual parts");
    dsgd_options_init(&opt, NULL);
    is_int(opt.late, DSGD_LATE_CARRY, "Late");
    is_int(opt.partial, DSGD_PARTIAL_DISCARD, "Partial");
    is_int(opt.lr_scale, DSGD_LR_SCALE_SQRT, "LrScale");
    is_int((long long)opt.max_cuts, 3, "MaxCuts");
    near(opt.max_cut_share, .2, 1e-12, "MaxCutShare");
    is_int(opt.work, DSGD_WORK_SHARED, "Work");
    is_int((long long)opt.parts, 5, "Parts");
    near(opt.batch_slack, .02, 1e-12, "BatchSlack");
    setenv(DSGD_LATE, "drop", 1);
    dsgd_options_init(&opt, NULL);
    is_int(opt.late, DSGD_LATE_DROP, "DSGD_LATE over dsgd.conf");
    clear();
    conf("RecordDir=/records\n");
    setenv("USER", "ada", 1);
    dsgd_options_init(&opt, NULL);
    is_str(opt.record, "/records/ada", "RecordDir has a directory a user");
    setenv(DSGD_RECORD, "off", 1);
    dsgd_options_init(&opt, NULL);
    is_str(opt.record, "off", "and can be switched off");
    clear();
}

/* A comment may be of any length; what it says of settings is none. */
static void long_comment(void)
{
    struct dsgd_options opt;
    struct dsgd_error err;
    char text[2048];

    memset(text, ' ', sizeof text);
    snprintf(text + 1023, sizeof text - 1023, "Min=7\nCutoff=static:3\n");
    text[0] = '#';
    conf(text);
    is_int(dsgd_options_init(&opt, &err), DSGD_OK, "a long comment");
    is_int((long long)opt.min_contributors, 0, "is one to its end");
    is_str(opt.cutoff, "static:3", "and the next line counts");
    clear();
}

static void aggregator(void)
{
    struct dsgd_options opt;

    conf("");
    dsgd_options_init(&opt, NULL);
    is_int(opt.aggregator, DSGD_AGGREGATOR_THREAD, "no rank to spare");
    conf("Aggregator=dedicated\n");
    dsgd_options_init(&opt, NULL);
    is_int(opt.aggregator, DSGD_AGGREGATOR_DEDICATED, "a site's choice");
    setenv(DSGD_AGGREGATOR, "thread", 1);
    dsgd_options_init(&opt, NULL);
    is_int(opt.aggregator, DSGD_AGGREGATOR_THREAD, "a user's over it");
    clear();
}

static void refused(const char *name, const char *value, const char *part)
{
    struct dsgd_options opt;
    struct dsgd_error err = {""};

    conf("");
    setenv(name, value, 1);
    enum dsgd_err rc = dsgd_options_init(&opt, &err);
    ok(rc == DSGD_E_USAGE && strstr(err.text, part), "%s=%s: %s", name, value,
       err.text);
    clear();
}

static void refused_conf(const char *text, const char *part)
{
    struct dsgd_options opt;
    struct dsgd_error err = {""};

    conf(text);
    enum dsgd_err rc = dsgd_options_init(&opt, &err);
    ok(rc == DSGD_E_USAGE && strstr(err.text, part), "dsgd.conf: %s", err.text);
}

static void bad(void)
{
    struct dsgd_options opt;
    struct dsgd_error err;
    char wide[600];

    refused(DSGD_LAUNCH_CUTOFF, "dynmic", "--dsgd-cutoff: \"dynmic\" is none");
    refused(DSGD_CUTOFF, "static:0", "DSGD_CUTOFF: \"static:0\"");
    refused(DSGD_MIN, "-1", "not a whole number");
    refused(DSGD_LATE, "never", "requeue|drop|carry");
    refused(DSGD_LATE, "requeue|drop", "requeue|drop|carry");
    refused(DSGD_LAUNCH_LATE, "car", "--dsgd-late: \"car\" is none of");
    refused(DSGD_PARTIAL, "requeue", "is none of discard|contribute");
    refused(DSGD_LR_SCALE, "cube", "is none of none|linear|sqrt");
    refused(DSGD_MAX_CUTS, "x", "DSGD_MAX_CUTS: \"x\" is not a whole number");
    refused(DSGD_MAX_CUT_SHARE, "0%", "not a percentage");
    refused(DSGD_MAX_CUT_SHARE, "nan%", "not a percentage");
    refused(DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE, "20",
            "plugstack.conf: max_cut_share: \"20\" is not a percentage");
    refused(DSGD_LAUNCH_WORK, "all", "--dsgd-work: \"all\" is none of own|");
    refused(DSGD_LAUNCH_MAX_CUTS, "x", "--dsgd-max-cuts: \"x\"");
    refused(DSGD_PARTS, "0", "\"0\" is not a whole number from 1 to 65536");
    refused(DSGD_PARTS, "65537", "not a whole number from 1 to 65536");
    refused(DSGD_CHECKPOINT_KEEP, "0", "not a whole number from 1");
    refused(DSGD_LAUNCH_BATCH_SLACK, "100%",
            "--dsgd-batch-slack: \"100%\" is not a percentage from 0%");
    refused(DSGD_BATCH_SLACK, "nan%", "not a percentage");
    refused(DSGD_RING_BYTES, "64M", "DSGD_RING_BYTES: \"64M\"");
    refused(DSGD_AGGREGATOR, "process", "is none of thread|dedicated");
    refused(DSGD_HARD_TIMEOUT, "nan", "not a number of seconds");
    memset(wide, 'x', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    refused(DSGD_RECORD, wide, "is longer than");
    refused(DSGD_LAUNCH_DEFAULT_MODEL, wide, "plugstack.conf: model: \"xxx");
    refused_conf("Cutof=full\n", ":1: \"Cutof\" is not a setting");
    refused_conf("\nCutoff\n", ":2: \"Cutoff\" is not a setting");
    refused_conf("Cutoff=dynmic\n", ":1: Cutoff: \"dynmic\" is none of");
    setenv(DSGD_CONF, "/nonexistent/dsgd.conf", 1);
    is_int(dsgd_options_init(&opt, &err), DSGD_E_IO, "DSGD_CONF must exist");
    has_str(err.text, "/nonexistent/dsgd.conf", "and is named");
    setenv(DSGD_CONF, "/", 1);
    is_int(dsgd_options_init(&opt, &err), DSGD_E_IO, "a directory is no file");
    clear();
}

static void telemetry(void)
{
    float x[DSGD_N_TELEMETRY];

    launch_telemetry("1;1700000000.5;other_cpu=0.25;load1=;psi_cpu=nan;"
                     "throttle=0.5x;new=3;co_jobs=1.1;;=;steal",
                     x);
    near(x[0], 0.25, 1e-7, "other_cpu");
    ok(isnan(x[1]), "an empty value is not valid");
    ok(isnan(x[2]) && isnan(x[5]) && isnan(x[6]), "nor is what can't be read");
    near(x[7], 1.1, 1e-6, "co_jobs, after an unknown feature");
    launch_telemetry("2;other_cpu=1", x);
    ok(isnan(x[0]), "another version is not read");
    launch_telemetry(NULL, x);
    ok(isnan(x[0]), "nothing given");
}

int main(void)
{
    int fd = mkstemp(conf_path);
    if (fd < 0)
        return 1;
    close(fd);
    clear();
    precedence();
    long_comment();
    aggregator();
    bad();
    telemetry();
    unlink(conf_path);
    return done();
}
