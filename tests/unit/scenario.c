/* Synthetic clusters: parameters, determinism, telemetry, and figures against
 * those of the prototype (tests/data/model/scenarios.txt). */
#include "scenario.h"

#include "dsgd_names.h"
#include "model_data.h"
#include "oracle.h"
#include "sort.h"
#include "telemetry_names.h"

static void same_features(void)
{
    static const char *const runtime[] = {DSGD_TELEMETRY_FEATURES};
    static const char *const model[] = {MODEL_FEATURES};
    bool same = N_FEATURES == DSGD_N_TELEMETRY;

    for (size_t i = 0; same && i < N_FEATURES; i++)
        same &= strcmp(runtime[i], model[i]) == 0;
    ok(same && sizeof model == sizeof runtime,
       "model and runtime have the same telemetry features");
}

static void refused(const char *text, const char *part)
{
    struct scenario s = {.cv = -1};
    struct dsgd_error err;

    ok(scenario_parse(text, &s, &err) == DSGD_E_USAGE && s.cv == -1 &&
           strstr(err.text, part),
       "%s: %s", text, err.text);
}

static void parameters(void)
{
    struct scenario s;
    struct dsgd_error err;

    is_int(scenario_parse("mix:n=20,N=5,T=7,seed=3,hiccup_p=.02", &s, &err),
           DSGD_OK, "a name with keys");
    ok(s.n == 20 && s.N == 5 && s.T == 7 && s.seed == 3 && s.hiccup_p == .02 &&
           s.regimes_in == .005 && s.cotenant_rate == .015 &&
           s.periodic_every == 50 && s.cv == .06,
       "keys and the composition's own values");
    is_int(scenario_parse("iid", &s, &err), DSGD_OK, "a name alone");
    ok(s.cv == .1 && s.n == 158 && s.T == 600 && s.hiccup_p == 0, "defaults");
    refused("nix", "iid|hetero|regimes|cotenant|hiccup|periodic|drift|bimodal|"
                   "mix");
    refused("", "is none of");
    refused("mix:wheels=4", "hiccup_p|burst|base|alpha");
    refused("mix:wheels=4", "missed");
    refused("mix:n=0", "whole number from 1");
    refused("mix:n=1.5", "whole number");
    refused("mix:n=nan", "n=nan");
    refused("mix:n=", "not a number");
    refused("mix:n", "give key=value");
    refused("mix:", "give key=value");
    refused("mix:n=4,", "give key=value");
    refused("mix:n=4,N=5", "more than the n=4 workers");
    refused("mix:regimes_lo=5", "must not be above");
    refused(
        "mix:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaa=1",
        "too long");
}

static struct trace *make(const char *text, enum scenario_telemetry kind)
{
    struct scenario s;
    struct dsgd_error err;
    struct trace *t = NULL;

    if (scenario_parse(text, &s, &err) != DSGD_OK ||
        scenario_make(&s, kind, &t, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return t;
}

static void determinism(void)
{
    struct trace *a = make("mix:n=20,N=3,T=60,seed=5", SCENARIO_FEATURES);
    struct trace *b = make("mix:n=20,N=3,T=60,seed=5", SCENARIO_FEATURES);
    struct trace *c = make("mix:n=20,N=3,T=60,seed=6", SCENARIO_FEATURES);
    size_t bytes = 60 * 20 * sizeof(double);

    ok(a && b && c && memcmp(a->duration_s, b->duration_s, bytes) == 0 &&
           memcmp(a->telemetry, b->telemetry, 60 * 3 * 8 * sizeof(float)) == 0,
       "the same seed gives the same bits");
    ok(memcmp(a->duration_s, c->duration_s, bytes) != 0, "another one others");
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((unsigned char *)a->duration_s)[i]) * 0x100000001b3u;
    ok(hash == 0x90c8867a45593abcu, "and so on every machine (%#llx)",
       (unsigned long long)hash);
    ok(a->node[0] == 0 && a->node[6] == 0 && a->node[7] == 1 &&
           a->node[19] == 2,
       "20 workers on 3 nodes: 7, 7, 6");
    trace_free(a);
    trace_free(b);
    trace_free(c);
}

static double corr(const double *a, const double *b, size_t n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ma += a[i] / (double)n;
        mb += b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

/* Correlation of a feature, read at a step's start, with the durations of the
 * step that began `ago` steps before. */
static double lag_corr(const struct trace *t, size_t feature, size_t ago)
{
    static double x[4000], y[4000];
    size_t count = 0;

    for (size_t s = ago + 1; s < t->steps; s++) {
        float f = t->telemetry[s * t->features + feature];
        if (isnan(f))
            continue;
        x[count] = f;
        y[count++] = log(t->duration_s[(s - ago) * t->n]);
    }
    return corr(x, y, count);
}

static void telemetry(void)
{
    struct trace *t = make("cotenant:n=4,N=1,T=3000,cv=.02,step_s=.5,"
                           "job_steal=0,cotenant_rate=.01,cotenant_steps=40",
                           SCENARIO_FEATURES);
    size_t missed = 0;

    ok(t->features == N_FEATURES && isnan(t->telemetry[FEATURE_OTHER_CPU]) &&
           isnan(t->telemetry[FEATURE_THROTTLE]),
       "a counter is not valid at the first look");
    for (size_t s = 1; s < t->steps; s++)
        missed += isnan(t->telemetry[s * N_FEATURES + FEATURE_LOAD1]);
    near((double)missed / 3000, .02, .01, "2 % of the looks fail");
    ok(lag_corr(t, FEATURE_OTHER_CPU, 1) > .9,
       "other_cpu: the last step's load");
    ok(lag_corr(t, FEATURE_PSI_CPU, 10) > lag_corr(t, FEATURE_PSI_CPU, 0) + .05,
       "psi_cpu: ten seconds, so twenty steps of half a second");
    ok(lag_corr(t, FEATURE_LOAD1, 20) > lag_corr(t, FEATURE_LOAD1, 0) + .08 &&
           lag_corr(t, FEATURE_LOAD1, 120) >
               lag_corr(t, FEATURE_PSI_CPU, 120) + .1,
       "load1: a minute, so it says more of long ago");
    ok(lag_corr(t, FEATURE_CO_JOBS, 1) > .8, "co_jobs");
    trace_free(t);
    t = make("cotenant:n=4,N=1,T=50,valid=0", SCENARIO_FEATURES);
    bool any = false;
    for (size_t i = 0; i < 50 * N_FEATURES; i++)
        any |= !isnan(t->telemetry[i]);
    ok(!any, "valid=0: none");
    trace_free(t);
    t = make("cotenant:n=4,N=2,T=50", SCENARIO_LAB3);
    ok(t->features == 3 && !isnan(t->telemetry[0]) &&
           !isnan(t->telemetry[50 * 2 * 3 - 1]),
       "the prototype's three features, always valid");
    trace_free(t);
}

static void randomised(void)
{
    struct rng r;
    size_t on[4] = {0}, finite = 0, cells = 0;

    rng_seed(&r, 11, 0);
    for (int i = 0; i < 400; i++) {
        struct scenario s;
        struct dsgd_error err;
        struct trace *t;
        scenario_random(&r, &s);
        on[0] += s.regimes_in > 0;
        on[1] += s.hiccup_p > 0;
        on[2] += s.bimodal_p > 0;
        on[3] += s.valid > 0;
        s.T = 40;
        s.seed = i;
        if (scenario_make(&s, SCENARIO_FEATURES, &t, &err) != DSGD_OK)
            continue;
        for (size_t k = 0; k < t->steps * t->n; k++)
            finite += isfinite(t->duration_s[k]) && t->duration_s[k] > 0;
        cells += t->steps * t->n;
        trace_free(t);
    }
    is_int((long long)cells, 400 * 40 * 16, "400 random clusters");
    is_int((long long)finite, (long long)cells, "with durations above 0");
    ok(on[0] > 100 && on[0] < 180 && on[1] > 100 && on[1] < 180 && on[2] > 50 &&
           on[2] < 110 && on[3] > 200 && on[3] < 280,
       "effects are on as often as they should: %zu %zu %zu %zu", on[0], on[1],
       on[2], on[3]);
}

enum { FIGURES = 10, SEEDS = 24 };

static double quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n
               ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i])
               : sorted[i];
}

/* Effects multiply to what no file of a trace may hold. */
static void limits(void)
{
    struct trace *t =
        make("iid:n=20,T=40,wvar=5,cvspread=3", SCENARIO_FEATURES);
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < t->steps * t->n; i++) {
        least = fmin(least, t->duration_s[i]);
        most = fmax(most, t->duration_s[i]);
    }
    ok(least >= TRACE_SHORTEST && most == TRACE_LONGEST,
       "run-times from %g to %g", least, most);
    trace_free(t);
}

/* As in make_scenarios.py. */
static void figures(const struct trace *t, double *f)
{
    size_t n = t->n, T = t->steps, cells = n * T;
    double *all = malloc(cells * sizeof *all), *rows = oracle_sort(t, 0);
    double *ratio = malloc(T * sizeof *ratio), *m = malloc(T * sizeof *m);
    struct oracle o;

    memcpy(all, t->duration_s, cells * sizeof *all);
    sort_doubles(cells, all);
    double median = quantile(all, cells, .5);
    f[0] = 0;
    for (size_t i = 0; i < cells; i++)
        f[0] += all[i] / (double)cells;
    f[1] = quantile(all, cells, .1) / median;
    f[2] = 1;
    f[3] = quantile(all, cells, .9) / median;
    f[4] = quantile(all, cells, .99) / median;
    for (size_t s = 0; s < T; s++) {
        double mid = quantile(rows + s * n, n, .5);
        ratio[s] = rows[s * n + n - 1] / mid;
        m[s] = log(mid);
    }
    double all_m = 0, aa = 0, ab = 0;
    for (size_t s = 0; s < T; s++)
        all_m += m[s] / (double)T;
    for (size_t s = 0; s < T; s++) {
        aa += (m[s] - all_m) * (m[s] - all_m);
        ab += s ? (m[s] - all_m) * (m[s - 1] - all_m) : 0;
    }
    sort_doubles(T, ratio);
    f[5] = quantile(ratio, T, .5);
    f[6] = quantile(ratio, T, .9);
    f[7] = ab / aa;
    memcpy(all, t->duration_s, 10 * n * sizeof *all);
    sort_doubles(10 * n, all);
    oracle_find(T - 10, n, rows + 10 * n, .02 * quantile(all, 10 * n, .5), NULL,
                &o);
    f[8] = o.full / o.throughput;
    f[9] = o.best_static / o.throughput;
    free(all);
    free(rows);
    free(ratio);
    free(m);
}

/* Means over 24 seeds of both, within 5 standard errors and .2 %. */
static void against_prototype(char *line)
{
    double mean[FIGURES] = {0}, square[FIGURES] = {0}, f[FIGURES];
    char *name = strtok(line, " "), text[64];
    bool good = true;

    for (int seed = 0; seed < SEEDS; seed++) {
        snprintf(text, sizeof text, "%s:n=158,N=4,T=300,seed=%d", name, seed);
        struct trace *t = make(text, SCENARIO_FEATURES);
        figures(t, f);
        for (int i = 0; i < FIGURES; i++) {
            mean[i] += f[i] / SEEDS;
            square[i] += f[i] * f[i] / SEEDS;
        }
        trace_free(t);
    }
    for (int i = 0; i < FIGURES; i++) {
        double want = atof(strtok(NULL, " ")), sd = atof(strtok(NULL, " "));
        double var = fmax(square[i] - mean[i] * mean[i], 0) + sd * sd;
        double tol = 5 * sqrt(var / SEEDS) + .002 * fabs(want);
        if (!(fabs(mean[i] - want) <= tol)) {
            good = false;
            printf("# %s figure %d: %.5f, want %.5f +- %.5f\n", name, i,
                   mean[i], want, tol);
        }
    }
    ok(good, "%s: figures as of the prototype", name);
}

int main(void)
{
    same_features();
    parameters();
    determinism();
    telemetry();
    randomised();
    limits();
    data_lines("scenarios.txt", against_prototype);
    return done();
}
