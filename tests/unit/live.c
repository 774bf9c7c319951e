/* Live stopping against the decisions of the modelling prototype
 * (tests/data/model/live.txt), against a slow recomputation of everything in
 * double, and on hostile steps. */
#include <stdio.h>
#include <stdlib.h>

#include "live.h"
#include "live_body.h"
#include "live_outlook.h"
#include "order_stats.h"
#include "predictive_make.h"
#include "tap.h"

enum { K = PRED_K, G = PRED_G, M = PRED_M, MAX_N = 2048 };

/* ---- a step, event by event ---- */

struct event {
    double at_s;
    size_t worker;
    bool arrival; /* else a start */
};

static int earlier(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

struct outcome {
    size_t count;
    double elapsed_s;
};

/* Play a step to its close.  look() is called before each question. */
static struct outcome play(struct live *l, size_t n, const double *x_s,
                           const double *start_s, double lambda,
                           void (*look)(struct live *l, double now_s))
{
    struct event *e = calloc(2 * n, sizeof *e);
    size_t i = 0, events = 0;
    double next_s, at = 0;
    bool closed;

    for (size_t j = 0; j < n; j++) {
        if (start_s && start_s[j] > 0) {
            live_lagging(l, j, start_s[j]);
            e[events++] = (struct event){start_s[j], j, false};
        }
        e[events++] =
            (struct event){(start_s ? start_s[j] : 0) + x_s[j], j, true};
    }
    qsort(e, events, sizeof *e, earlier);
    closed = live_close(l, 0, lambda, &next_s);
    while (!closed && (i < events || isfinite(next_s))) {
        at = fmin(next_s, i < events ? e[i].at_s : INFINITY);
        for (; i < events && e[i].at_s <= at; i++) {
            if (e[i].arrival)
                live_arrive(l, e[i].worker, x_s[e[i].worker]);
            else
                live_start(l, e[i].worker, e[i].at_s);
        }
        closed = live_close(l, at, lambda, &next_s);
        if (look)
            look(l, at);
    }
    free(e);
    live_end(l, at);
    return (struct outcome){l->arrived, at};
}

/* ---- fixtures ---- */

static size_t read_floats(FILE *f, float *out, size_t n)
{
    size_t i = 0;
    while (i < n && fscanf(f, "%f", &out[i]) == 1)
        i++;
    return i;
}

static bool read_doubles(FILE *f, double *out, size_t n)
{
    size_t i = 0;
    while (i < n && fscanf(f, "%lf", &out[i]) == 1)
        i++;
    return i == n;
}

static bool read_predictive(FILE *f, struct made *m, size_t n, size_t nodes)
{
    made_init(m, n, nodes, .1);
    for (size_t j = 0; j < n; j++) {
        if (fscanf(f, "%u", &m->node[j]) != 1)
            return false;
    }
    return read_floats(f, m->mu, n * K) == n * K &&
           read_floats(f, m->log_sd, n * K) == n * K &&
           read_floats(f, m->log_w, n * K) == n * K &&
           read_floats(f, m->node_shift, nodes * M) == nodes * M &&
           read_floats(f, m->node_log_p, nodes * M) == nodes * M &&
           read_floats(f, m->node_tail, nodes * M * 2) == nodes * M * 2 &&
           read_floats(f, m->shift, G) == G &&
           read_floats(f, m->log_p, G) == G &&
           read_floats(f, m->tail, G * 2) == G * 2 &&
           read_floats(f, m->scale, G) == G;
}

static bool fixture(FILE *f, size_t number)
{
    static const double tail[] = {.15, .3, .5, .8, 1.2, 2};
    char name[32];
    size_t n, nodes, lagging, c;
    double lambda, low, high, elapsed_s, x_s[200], start_s[200];
    struct made m;
    struct live *l;

    if (fscanf(f, " case %31s %zu %zu %lf %lf %lf %zu %zu %lf", name, &n,
               &nodes, &lambda, &low, &high, &lagging, &c, &elapsed_s) != 9)
        return false;
    if (n > 200 || !read_predictive(f, &m, n, nodes) ||
        !read_doubles(f, x_s, n) || !read_doubles(f, start_s, n))
        return ok(false, "fixture %zu, %s, can be read", number, name);
    live_create(n, nodes, m.node, .1, 0, &l, NULL);
    l->counts = 0;
    live_plan(l, &m.p, LIVE_POLL);
    ok(fabs(l->table.log_high - high) < .05,
       "%s n=%zu: the grid is up to %.3f, as expected %.3f", name, n,
       l->table.log_high, high);
    live_table_grid(&l->table, low, high, tail, 6);
    live_table_fill(&l->table, 0, n);
    struct outcome got =
        play(l, n, x_s, lagging ? start_s : NULL, lambda, NULL);
    ok(got.count == c && fabs(got.elapsed_s / elapsed_s - 1) < 1e-5,
       "%s n=%zu: closes with %zu at %.6f s", name, n, c, elapsed_s);
    if (got.count != c)
        printf("#   got %zu at %.6f s\n", got.count, got.elapsed_s);
    live_free(l);
    made_free(&m);
    return true;
}

static void fixtures(void)
{
    const char *src = getenv("DSGD_SRCDIR");
    char path[4096];
    size_t count = 0;

    snprintf(path, sizeof path, "%s/tests/data/model/live.txt",
             src ? src : ".");
    FILE *f = fopen(path, "r");
    if (!ok(f != NULL, "%s can be opened", path))
        return;
    while (fixture(f, count))
        count++;
    fclose(f);
    is_int((long long)count, 36, "cases of the prototype");
}

/* ---- the slow recomputation ---- */

static struct {
    const struct made *m;
    double arrived_s[MAX_N]; /* own duration, NaN */
    double lambda;
    double worst;
    size_t looks;
    const double *x_s;
} ref;

/* Survival (log) or log density of worker j after t of its own time. */
static double ref_log(size_t j, size_t g, size_t m, double t, bool density)
{
    const struct predictive *p = &ref.m->p;
    double w[K], sum = 0, total = 0;

    for (size_t k = 0; k < K; k++) {
        double tail =
            k ? p->tail[g * (K - 1) + k - 1] +
                    p->node_tail[(p->node[j] * M + m) * (K - 1) + k - 1]
              : 0;
        sum += w[k] = exp(p->log_w[j * K + k] + tail);
    }
    for (size_t k = 0; k < K; k++) {
        double sd = exp(p->log_sd[j * K + k] + p->scale[g]);
        double z = (log(t) - p->mu[j * K + k] - p->shift[g] -
                    p->node_shift[p->node[j] * M + m]) /
                   sd;
        total += w[k] / sum *
                 (density ? exp(-z * z / 2) / sd / sqrt(2 * M_PI)
                          : erfc(z / sqrt(2)) / 2);
    }
    return log(total + (density ? 0 : 1e-12));
}

/* Posterior of the atoms at now_s, by direct sums: post[node][g][m]. */
static void ref_condition(double now_s, double *post)
{
    const struct predictive *p = &ref.m->p;
    double log_g[G], top = -INFINITY, sum = 0;

    for (size_t g = 0; g < G; g++) {
        log_g[g] = p->log_p[g];
        for (size_t i = 0; i < p->n_nodes; i++) {
            double l[M], most = -INFINITY, all = 0;
            for (size_t m = 0; m < M; m++) {
                l[m] = p->node_log_p[i * M + m];
                for (size_t j = 0; j < p->n; j++) {
                    bool in = !isnan(ref.arrived_s[j]);
                    if (p->node[j] == i)
                        l[m] +=
                            ref_log(j, g, m, in ? ref.arrived_s[j] : now_s, in);
                }
                most = fmax(most, l[m]);
            }
            for (size_t m = 0; m < M; m++)
                all += exp(l[m] - most);
            for (size_t m = 0; m < M; m++)
                post[(i * G + g) * M + m] = exp(l[m] - most) / all;
            log_g[g] += most + log(all);
        }
        top = fmax(top, log_g[g]);
    }
    for (size_t g = 0; g < G; g++)
        sum += exp(log_g[g] - top);
    for (size_t i = 0; i < p->n_nodes * G * M; i++)
        post[i] *= exp(log_g[i / M % G] - top) / sum;
}

/* Expected arrivals by tau_s. */
static double ref_expected(double now_s, double tau_s, const double *post)
{
    const struct predictive *p = &ref.m->p;
    double sum = 0;

    for (size_t j = 0; j < p->n; j++) {
        if (!isnan(ref.arrived_s[j])) {
            sum++;
            continue;
        }
        for (size_t i = 0; i < G * M; i++)
            sum += post[p->node[j] * G * M + i] *
                   (1 - exp(ref_log(j, i / M, i % M, tau_s, false) -
                            ref_log(j, i / M, i % M, now_s, false)));
    }
    return sum;
}

static void ref_look(struct live *l, double now_s)
{
    const struct live_table *t = &l->table;
    static double post[64 * G * M];
    double tau_s = live_planned_s(l);

    for (size_t j = 0; j < t->n; j++)
        ref.arrived_s[j] = ref.x_s[j] <= now_s ? ref.x_s[j] : NAN;
    bool tick = false;
    for (size_t q = 0; q < t->cols; q++)
        tick |= fabs(now_s / t->tau_s[q] - 1) < 1e-9;
    if (!tick || isnan(tau_s))
        return;
    ref_condition(now_s, post);
    double want = ref_expected(now_s, tau_s, post);
    double off = fabs(live_expected(l) - want) / (double)t->n;
    /* the value of the plan is no less than that of any other tick */
    for (size_t q = 0; q < t->cols; q += 5) {
        double v =
            ref_expected(now_s, t->tau_s[q], post) - ref.lambda * t->tau_s[q];
        if (t->tau_s[q] >= now_s)
            off = fmax(off, (v - (want - ref.lambda * tau_s)) / (double)t->n);
    }
    ref.worst = fmax(ref.worst, off);
    ref.looks++;
}

static void against_ref(size_t n, size_t nodes, double sd)
{
    struct made m;
    struct live *l;
    uint64_t state = 11;
    double *x_s = calloc(n, sizeof *x_s);

    made_init(&m, n, nodes, sd);
    live_create(n, nodes, m.node, .1, 0, &l, NULL);
    l->counts = 0;
    ref.m = &m;
    ref.x_s = x_s;
    ref.worst = 0;
    ref.looks = 0;
    ref.lambda = .8 * (double)n;
    for (int step = 0; step < 20; step++) {
        for (size_t j = 0; j < n; j++)
            x_s[j] = made_duration(&m, j, &state);
        live_plan(l, &m.p, LIVE_FRESH);
        play(l, n, x_s, NULL, ref.lambda, ref_look);
    }
    ok(ref.looks > 5 && ref.worst < 2e-4,
       "n=%zu on %zu nodes, sd %g: as recomputed at %zu ticks", n, nodes, sd,
       ref.looks);
    printf("#   largest difference %.3g of n\n", ref.worst);
    live_free(l);
    made_free(&m);
    free(x_s);
}

/* ---- the table ---- */

static void table(void)
{
    struct made m;
    struct live *l;
    double worst = 0, quantile_off = 0;

    made_init(&m, 40, 4, .06);
    live_create(40, 4, m.node, .1, 0, &l, NULL);
    live_plan(l, &m.p, LIVE_FRESH);
    ref.m = &m;
    const struct live_table *t = &l->table;
    for (size_t j = 0; j < 40; j += 7) {
        for (size_t q = 0; q < t->cols; q++) {
            for (size_t i = 0; i < G * M; i++) {
                double s = live_table_at(t, j, i / LIVE_WIDE, q)[i % LIVE_WIDE];
                double r = exp(ref_log(j, i / M, i % M, t->tau_s[q], false));
                worst = fmax(worst, fabs(s / r - 1));
            }
        }
    }
    near(worst, 0, 2e-4, "survivals, relative");
    for (int side = 0; side < 2; side++) {
        double at = side ? t->log_high : t->log_low, done = 0;
        for (size_t j = 0; j < 40; j++) {
            for (size_t i = 0; i < G * M; i++)
                done += (1 - exp(ref_log(j, i / M, i % M, exp(at), false))) *
                        exp(m.p.log_p[i / M] +
                            m.p.node_log_p[m.node[j] * M + i % M]) /
                        40;
        }
        quantile_off = fmax(quantile_off, fabs(done - (side ? .99 : .1)));
    }
    near(quantile_off, 0, 1e-2, "the grid spans the 10 % to 99 % quantiles");
    double median = live_table_median_s(t, 5), done = 0;
    for (size_t i = 0; i < G * M; i++)
        done += (1 - exp(ref_log(5, i / M, i % M, median, false))) *
                exp(m.p.log_p[i / M] + m.p.node_log_p[m.node[5] * M + i % M]);
    near(done, .5, 1e-3, "a worker's median");
    live_free(l);
    made_free(&m);
}

/* ---- plans for the next arrivals ---- */

/* Three late workers, each still late at now + t with probability
 * exp(-t^power); one atom.  The moments of the k-th arrival, by fine sums. */
static void outlook_init(struct live_outlook *o, double power, double *tau_s)
{
    static float sum[LIVE_COLS * LIVE_LANES];
    double p[G] = {1};

    *o = (struct live_outlook){.now_s = 5,
                               .arrived = 13,
                               .late = 3,
                               .ticks = LIVE_COLS,
                               .counts = 3,
                               .tau_s = tau_s};
    for (size_t q = 0; q < LIVE_COLS; q++) {
        double t = .05 * (double)(q + 1);
        tau_s[q] = 5 + t;
        sum[q * LIVE_LANES] = 3 * (float)exp(-pow(t, power));
    }
    live_outlook_left(o, sum, 0, o->ticks);
    live_outlook_expect(o, p, sum);
}

static double fewer_than(size_t k, double t, double power)
{
    double s = exp(-pow(t, power)), f = 1 - s;
    double all = s * s * s, one = 3 * s * s * f, two = 3 * s * f * f;
    return all + (k > 1 ? one : 0) + (k > 2 ? two : 0);
}

/* Value above closing now of waiting for the k-th arrival, until tau. */
static double wait_value(size_t k, double tau, double power, double lambda)
{
    const double dt = 1e-4;
    double value = 0;

    for (double t = dt / 2; t < tau; t += dt)
        value -= lambda * dt * fewer_than(k, t, power);
    for (size_t i = 1; i <= k; i++)
        value += 1 - fewer_than(i, tau, power);
    return value;
}

static void next_arrivals(void)
{
    struct live_outlook o;
    double tau_s[LIVE_COLS], best = 0, lambda;

    outlook_init(&o, 1, tau_s);
    near(o.left[9], 3 * exp(-.5), 1e-6, "expected late after .5");
    near(o.gain[1][9], 2 - fewer_than(1, .5, 1) - fewer_than(2, .5, 1), 1e-6,
         "expected of the first two by then");
    near(o.wait_s[1][9], o.gain[1][9] - wait_value(2, .5, 1, 1), 1e-6,
         "and time until they are in");
    /* without memory the arrivals come at 3 a second, then 2, then 1 */
    ok(live_outlook_best(&o, 3.05).now, "lambda above their rate: close");
    struct live_choice c = live_outlook_best(&o, 2.5);
    ok(!c.now && c.count == 14, "between that of three and of two: one more");
    near(c.close_s, 5 + 1. / 3, 2e-3, "after a third of a second, on average");

    /* ever faster: nobody comes at once, but all do in the end */
    outlook_init(&o, 4, tau_s);
    for (size_t k = 1; k <= 3; k++) {
        for (size_t q = 0; q < LIVE_COLS; q++)
            best = fmax(best, wait_value(k, tau_s[q] - 5, 4, 2.));
    }
    c = live_outlook_best(&o, 2);
    near(c.expected - 13 - 2 * (c.close_s - 5), best, .01,
         "ever faster arrivals: the best plan's value");
    is_int((long long)c.count, 16, "waits for all three");
    /* the ticks alone lose what comes before them */
    o.counts = 0;
    for (lambda = 2; !live_outlook_best(&o, lambda).now; lambda += .01)
        continue;
    o.counts = 3;
    ok(!live_outlook_best(&o, lambda).now,
       "a plan for arrivals goes on where ticks give up, lambda %.2f", lambda);
}

/* ---- hostile steps ---- */

static void refused(void)
{
    const uint32_t good[3] = {0, 0, 1}, gap[3] = {0, 0, 2}, down[3] = {1, 0, 0};
    struct dsgd_error err;
    struct live *l;

    is_int(live_create(0, 1, good, .1, 0, &l, &err), DSGD_E_RANGE,
           "no workers");
    is_int(live_create(3, 2, gap, .1, 0, &l, &err), DSGD_E_RANGE,
           "a node without workers");
    is_int(live_create(3, 2, down, .1, 0, &l, &err), DSGD_E_RANGE,
           "nodes that descend");
    has_str(err.text, "ascending", "and the message says so");
    is_int(live_create(3, 2, good, NAN, 0, &l, &err), DSGD_E_RANGE,
           "minimum share NaN");
    ok(l == NULL, "and nothing is returned");
    live_free(NULL);
}

static void hostile(void)
{
    struct made m;
    struct live *l;
    double next_s, points_s[LIVE_POINTS], x_s[158];
    uint64_t state = 5;

    made_init(&m, 158, 4, .06);
    live_create(158, 4, m.node, .1, 0, &l, NULL);

    live_plan(l, NULL, LIVE_FRESH);
    ok(!live_close(l, 5, 100, &next_s) && next_s == INFINITY,
       "nothing predicted: wait for all");
    for (size_t j = 0; j < 158; j++)
        live_absent(l, j);
    ok(live_close(l, 5, 100, &next_s), "all absent: nothing to wait for");

    live_plan(l, &m.p, LIVE_FRESH);
    ok(!live_close(l, 1e-9, 158, &next_s) && isfinite(next_s),
       "too early, and a time to ask again");
    ok(!live_close(l, NAN, 158, &next_s), "now NaN");
    ok(!live_close(l, 1.1, NAN, &next_s) && !live_close(l, 1.1, 0, &next_s),
       "lambda NaN or 0: wait for all");
    ok(!live_close(l, 1e6, 158, &next_s) && next_s == INFINITY,
       "beyond the grid without the minimum: wait");
    for (size_t j = 0; j < 15; j++) {
        live_arrive(l, 7, 1);
        live_arrive(l, j, j == 3 ? NAN : j == 4 ? -1 : 1);
    }
    is_int((long long)l->arrived, 15, "told twice, counted once");
    ok(live_close(l, 1e6 + 1, 158, &next_s),
       "beyond the grid with the minimum: close");
    live_end(l, 1e6 + 1);
    live_residual(l, 20, points_s);
    ok(points_s[0] > 1e6 && points_s[4] >= points_s[0] && isfinite(points_s[4]),
       "what is left of a batch beyond the grid is finite");

    float keep = m.mu[10];
    m.mu[10] = NAN;
    live_plan(l, &m.p, LIVE_FRESH);
    ok(!live_close(l, 3, 158, &next_s), "a NaN in the predictive: wait");
    m.mu[10] = keep;
    live_plan(l, &m.p, LIVE_FRESH);
    for (size_t j = 0; j < 158; j++)
        x_s[j] = made_duration(&m, j, &state);
    struct outcome o = play(l, 158, x_s, NULL, 130, NULL);
    ok(o.count > 100 && o.count <= 158 && o.elapsed_s > 0,
       "and the step after that is as ever");
    live_free(l);
    made_free(&m);
}

static void alone(void)
{
    struct made m;
    struct live *l;
    double next_s;

    made_init(&m, 1, 1, .06);
    live_create(1, 1, m.node, .1, 0, &l, NULL);
    live_plan(l, &m.p, LIVE_FRESH);
    bool early = false;
    for (double t = .5; t < 20; t *= 1.01)
        early |= live_close(l, t, 1, &next_s);
    ok(!early, "one worker is waited for");
    live_arrive(l, 0, 20);
    ok(live_close(l, 20, 1, &next_s), "until it is in");
    live_free(l);
    made_free(&m);
}

/* A worker that becomes free late sits out, unless polls make it punctual. */
static void realign(void)
{
    struct made m;
    struct live *l;
    double x_s[40], next_s;

    made_init(&m, 40, 4, .06);
    live_create(40, 4, m.node, .1, 0, &l, NULL);
    for (size_t j = 0; j < 40; j++)
        x_s[j] = exp(m.mu[j * K]);
    live_plan(l, &m.p, LIVE_BUSY);
    struct outcome o = play(l, 40, x_s, NULL, 36, NULL);
    near(live_state(l).close_s, o.elapsed_s, 1e-12, "the close is remembered");

    for (int poll = 0; poll < 2; poll++) {
        live_plan(l, &m.p, poll ? LIVE_POLL : LIVE_BUSY);
        live_lagging(l, 3, .01);
        live_lagging(l, 4, .8);
        live_lagging(l, 5, .8);
        ok(live_start(l, 3, .01), "a small lag: start");
        ok(live_start(l, 4, .8) == poll, "a large lag: %s",
           poll ? "start" : "sit out");
        is_int((long long)l->waiting, poll ? 40 : 39,
               "who sits out is not waited for");
        live_arrive(l, 4, 1);
        is_int((long long)l->arrived, poll, "nor counted");
    }
    for (size_t j = 0; j < 40; j++)
        live_arrive(l, j, x_s[j]);
    ok(live_close(l, 2, 36, &next_s), "all in, one of them unannounced");
    live_free(l);
    made_free(&m);
}

/* lambda / 2 waits at least as long. */
static void recheck(void)
{
    struct made m;
    struct live *l;
    uint64_t state = 9;
    double x_s[158], next_s = 0;

    made_init(&m, 158, 4, .06);
    live_create(158, 4, m.node, .1, 0, &l, NULL);
    for (size_t j = 0; j < 158; j++)
        x_s[j] = made_duration(&m, j, &state);
    live_plan(l, &m.p, LIVE_FRESH);
    ok(!live_recheck(l, 1e9), "no decision yet");
    struct outcome o = play(l, 158, x_s, NULL, 120, NULL);
    ok(live_recheck(l, 120) && live_recheck(l, 1e9) && !live_recheck(l, 1e-6),
       "a smaller lambda would go on");
    live_plan(l, &m.p, LIVE_FRESH);
    struct outcome half = play(l, 158, x_s, NULL, 60, NULL);
    ok(half.elapsed_s >= o.elapsed_s && half.count >= o.count,
       "and gets more for more time");
    (void)next_s;
    live_free(l);
    made_free(&m);
}

int main(void)
{
    fixtures();
    table();
    against_ref(40, 4, .06);
    against_ref(40, 40, .3);
    against_ref(200, 7, .1);
    against_ref(300, 7, .1);
    next_arrivals();
    refused();
    hostile();
    alone();
    realign();
    recheck();
    return done();
}
