#include "replay_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "option_refused.h"

enum {
    OPT_POLICIES = 256,
    OPT_MODEL,
    OPT_RULE,
    OPT_LATE,
    OPT_LATE_PARTS,
    OPT_OBSERVE,
    OPT_OVERHEAD,
    OPT_PARTS,
    OPT_PART_COST,
    OPT_PART_NOISE,
    OPT_WARMUP,
    OPT_SEED,
    OPT_JSON,
    OPT_SYNTH,
    OPT_WRITE,
    OPT_PLOT,
    OPT_VERSION
};

static const char short_options[] = ":Ph";
static const struct option long_options[] = {
    {"policies", required_argument, NULL, OPT_POLICIES},
    {"model", required_argument, NULL, OPT_MODEL},
    {"rule", required_argument, NULL, OPT_RULE},
    {"late", required_argument, NULL, OPT_LATE},
    {"late-parts", required_argument, NULL, OPT_LATE_PARTS},
    {"observe", required_argument, NULL, OPT_OBSERVE},
    {"overhead", required_argument, NULL, OPT_OVERHEAD},
    {"parts", required_argument, NULL, OPT_PARTS},
    {"part-cost", required_argument, NULL, OPT_PART_COST},
    {"part-noise", required_argument, NULL, OPT_PART_NOISE},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"seed", required_argument, NULL, OPT_SEED},
    {"json", no_argument, NULL, OPT_JSON},
    {"parsable2", no_argument, NULL, 'P'},
    {"synth", required_argument, NULL, OPT_SYNTH},
    {"write", required_argument, NULL, OPT_WRITE},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "Usage: dsgd-replay [OPTION]... TRACE.csv...\n"
    "       dsgd-replay [OPTION]... --synth NAME[:KEY=VALUE,...]\n"
    "Score cutoff policies on recorded or synthetic run-times.\n"
    "\n"
    "      --policies NAME,...  of full, static-best, static-tuned, elfving,\n"
    "                           order, last, rolling, ewma, dmm, dynamic,\n"
    "                           parts-own, parts-shared, parts-last,\n"
    "                           parts-model, no-idle\n"
    "      --model FILE         timing model of dynamic, or of dmm\n"
    "      --rule RULE          paper, ratio, renewal or live (default)\n"
    "      --late MODE          what a cut worker does: fresh (default: "
    "starts\n"
    "                           anew), busy (finishes first), poll:M (stops\n"
    "                           at its next of M micro-batches)\n"
    "      --late-parts WHAT    what becomes of a part in hand at the close:\n"
    "                           requeue (default), carry (busy, parts-shared)\n"
    "      --observe WHAT       what is known of it: late, progress, censored\n"
    "      --overhead P%        cost of a step, of the median duration (2%)\n"
    "      --parts M            of a batch, where a policy works in parts (8)\n"
    "      --part-cost P%       cost of claiming and depositing a part, of "
    "the\n"
    "                           median duration (0%)\n"
    "      --part-noise P%      by how much a worker's rate differs from part\n"
    "                           to part (0%)\n"
    "      --warmup N           first steps, not cut and not scored (10)\n"
    "      --seed N             of the noise of progress estimates (1)\n"
    "      --synth NAME[:...]   a synthetic cluster in place of a trace:\n"
    "                           iid, hetero, regimes, cotenant, hiccup,\n"
    "                           periodic, drift, bimodal, mix\n"
    "      --write FILE         write the synthetic trace, score nothing\n"
    "      --plot FILE          draw the scores as SVG\n"
    "      --json               everything, as JSON\n"
    "  -P, --parsable2          \"|\" between fields, no padding\n"
    "  -h, --help               show this\n"
    "      --version            show the version\n";

void replay_options_help(FILE *out)
{
    fputs(help, out);
}

static enum dsgd_err parse_count(const char *name, const char *text,
                                 uint64_t most, uint64_t *value,
                                 struct dsgd_error *err)
{
    char *end;

    errno = 0;
    unsigned long long x = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-') || x > most)
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.40s\": give a whole number, at most %llu",
                         name, text, (unsigned long long)most);
    *value = x;
    return DSGD_OK;
}

static enum dsgd_err parse_policies(const char *text,
                                    struct replay_options *opt,
                                    struct dsgd_error *err)
{
    opt->n_kinds = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        enum policy_kind kind = policy_parse(text, length);
        if (kind == N_POLICIES)
            return error_set(err, DSGD_E_USAGE,
                             "--policies: \"%.*s\" is none of " POLICY_NAMES,
                             (int)(length < 40 ? length : 40), text);
        for (size_t i = 0; i < opt->n_kinds; i++) {
            if (opt->kind[i] == kind)
                return error_set(err, DSGD_E_USAGE,
                                 "--policies: %s is there twice",
                                 policy_name(kind));
        }
        opt->kind[opt->n_kinds++] = kind;
        if (!text[length])
            return DSGD_OK;
        text += length + 1;
    }
}

static enum dsgd_err parse_late(const char *text, struct simulate_spec *spec,
                                struct dsgd_error *err)
{
    uint64_t micro_batches = 0;

    if (strcmp(text, "fresh") == 0) {
        spec->late = LIVE_FRESH;
    } else if (strcmp(text, "busy") == 0) {
        spec->late = LIVE_BUSY;
    } else if (strncmp(text, "poll:", 5) == 0) {
        enum dsgd_err rc =
            parse_count("--late: poll", text + 5, 1000000, &micro_batches, err);
        if (rc != DSGD_OK)
            return rc;
        if (!micro_batches)
            return error_set(err, DSGD_E_USAGE,
                             "--late: poll:0: give 1 micro-batch or more");
        spec->late = LIVE_POLL;
    } else {
        return error_set(err, DSGD_E_USAGE,
                         "--late: \"%.40s\" is none of fresh|busy|poll:M",
                         text);
    }
    spec->micro_batches = micro_batches;
    return DSGD_OK;
}

static enum dsgd_err parse_observe(const char *text, struct replay_options *opt,
                                   struct dsgd_error *err)
{
    static const char *const words[] = {"late", "progress", "censored"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            opt->simulate.observe = (enum simulate_observe)i;
            opt->observe_given = true;
            return DSGD_OK;
        }
    }
    return error_set(err, DSGD_E_USAGE,
                     "--observe: \"%.40s\" is none of late|progress|censored",
                     text);
}

static enum dsgd_err parse_percent(const char *name, const char *text,
                                   double *percent, struct dsgd_error *err)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || strcmp(end, "%") != 0 || !(x >= 0 && x <= 1000))
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.40s\": give a percentage, such as 2%%", name,
                         text);
    *percent = x;
    return DSGD_OK;
}

static enum dsgd_err parse_parts(const char *text, struct replay_options *opt,
                                 struct dsgd_error *err)
{
    uint64_t parts = 0;
    enum dsgd_err rc = parse_count("--parts", text, 1000, &parts, err);

    if (rc == DSGD_OK && !parts)
        return error_set(err, DSGD_E_USAGE,
                         "--parts: \"%.40s\": give 1 part or more", text);
    opt->simulate.parts = parts;
    return rc;
}

static enum dsgd_err parse_late_parts(const char *text,
                                      struct simulate_spec *spec,
                                      struct dsgd_error *err)
{
    spec->carry_parts = strcmp(text, "carry") == 0;
    if (spec->carry_parts || strcmp(text, "requeue") == 0)
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "--late-parts: \"%.40s\" is none of requeue, carry", text);
}

static enum dsgd_err add_model(const char *path, struct replay_options *opt,
                               struct dsgd_error *err)
{
    if (opt->n_models == REPLAY_MODELS)
        return error_set(err, DSGD_E_USAGE,
                         "--model: \"%.200s\" is one too many: give one for "
                         "dynamic and one for dmm",
                         path);
    opt->model[opt->n_models++] = path;
    return DSGD_OK;
}

/* Options whose value is a word or a number. */
static enum dsgd_err take_value(int c, const char *value,
                                struct replay_options *opt,
                                struct dsgd_error *err)
{
    uint64_t warmup;
    enum dsgd_err rc;

    switch (c) {
    case OPT_POLICIES:
        return parse_policies(value, opt, err);
    case OPT_MODEL:
        return add_model(value, opt, err);
    case OPT_RULE:
        return rule_parse("--rule", value, &opt->rule, err);
    case OPT_LATE:
        return parse_late(value, &opt->simulate, err);
    case OPT_LATE_PARTS:
        return parse_late_parts(value, &opt->simulate, err);
    case OPT_OBSERVE:
        return parse_observe(value, opt, err);
    case OPT_OVERHEAD:
        return parse_percent("--overhead", value, &opt->overhead_percent, err);
    case OPT_PARTS:
        return parse_parts(value, opt, err);
    case OPT_PART_NOISE:
        return parse_percent("--part-noise", value, &opt->part_noise_percent,
                             err);
    case OPT_PART_COST:
        return parse_percent("--part-cost", value, &opt->part_cost_percent,
                             err);
    case OPT_SEED:
        return parse_count("--seed", value, UINT64_MAX, &opt->simulate.seed,
                           err);
    default:
        rc = parse_count("--warmup", value, 1000000000, &warmup, err);
        if (rc == DSGD_OK)
            opt->simulate.warmup = warmup;
        return rc;
    }
}

static enum dsgd_err take(int c, char **argv, struct replay_options *opt,
                          struct dsgd_error *err)
{
    switch (c) {
    case OPT_SYNTH:
        opt->synth[opt->n_synth++] = optarg;
        return DSGD_OK;
    case OPT_WRITE:
        opt->write = optarg;
        return DSGD_OK;
    case OPT_PLOT:
        opt->plot = optarg;
        return DSGD_OK;
    case OPT_JSON:
        opt->json = true;
        return DSGD_OK;
    case 'P':
        opt->parsable = true;
        return DSGD_OK;
    case 'h':
        opt->help = true;
        return DSGD_OK;
    case OPT_VERSION:
        opt->version = true;
        return DSGD_OK;
    case ':':
        return error_set(err, DSGD_E_USAGE,
                         "%.60s: the value is missing; see --help",
                         argv[optind - 1]);
    case '?':
        return option_refused(argv[optind - 1], optopt, long_options, err);
    default:
        return take_value(c, optarg, opt, err);
    }
}

/* What only makes sense together. */
static enum dsgd_err check(const struct replay_options *opt,
                           struct dsgd_error *err)
{
    if (opt->help || opt->version)
        return DSGD_OK;
    if (!opt->n_traces && !opt->n_synth)
        return error_set(err, DSGD_E_USAGE,
                         "give a TRACE.csv or --synth NAME; see "
                         "--help");
    if (opt->json && opt->parsable)
        return error_set(err, DSGD_E_USAGE,
                         "--json and -P are two formats; give "
                         "one");
    if (opt->simulate.carry_parts && opt->simulate.late != LIVE_BUSY)
        return error_set(err, DSGD_E_USAGE,
                         "--late-parts: carry needs --late=busy: workers that "
                         "finish what they have in hand");
    if (opt->write && opt->n_synth + opt->n_traces != 1)
        return error_set(err, DSGD_E_USAGE,
                         "--write: %.200s takes one trace, not %zu", opt->write,
                         opt->n_synth + opt->n_traces);
    return DSGD_OK;
}

enum dsgd_err replay_options_parse(int argc, char **argv,
                                   struct replay_options *out,
                                   struct dsgd_error *err)
{
    struct replay_options opt = {
        .simulate = {.late = LIVE_FRESH, .warmup = 10, .seed = 1, .parts = 8},
        .overhead_percent = 2,
        .rule = RULE_LIVE};
    enum dsgd_err rc = DSGD_OK;
    int c;

    opt.synth = calloc((size_t)argc, sizeof *opt.synth);
    if (!opt.synth)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    optind = 0; /* getopt starts afresh */
    opterr = 0;
    while (rc == DSGD_OK && (c = getopt_long(argc, argv, short_options,
                                             long_options, NULL)) != -1)
        rc = take(c, argv, &opt, err);
    opt.simulate.part_noise = opt.part_noise_percent / 100;
    opt.trace = argv + optind;
    opt.n_traces = (size_t)(argc - optind);
    if (!opt.observe_given && opt.simulate.late == LIVE_POLL)
        opt.simulate.observe = OBSERVE_PROGRESS;
    if (rc == DSGD_OK)
        rc = check(&opt, err);
    if (rc == DSGD_OK)
        *out = opt;
    else
        free(opt.synth);
    return rc;
}

void replay_options_free(struct replay_options *opt)
{
    free(opt->synth);
    opt->synth = NULL;
}

void replay_late_text(const struct simulate_spec *spec, char *text, size_t size)
{
    if (spec->late == LIVE_POLL)
        snprintf(text, size, "poll:%zu", spec->micro_batches);
    else
        snprintf(text, size, "%s", spec->late == LIVE_BUSY ? "busy" : "fresh");
}
