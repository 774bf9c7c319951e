/* The dynamic cutoff as one object: a made-up model, a small simulated
 * cluster. */
#include "count_alloc.h"
#include "dynamic_cluster.h"
#include "live_body.h"
#include "tap.h"

void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);

void *__wrap_aligned_alloc(size_t a, size_t n)
{
    allocations++;
    return __real_aligned_alloc(a, n);
}

static struct dynamic *create(enum live_late late, enum rule rule, bool guard,
                              bool dry)
{
    struct dynamic_spec spec;
    struct dynamic *d;

    dynamic_spec_init(&spec);
    spec.n = N;
    spec.n_nodes = NODES;
    spec.node = made.node;
    spec.late = late;
    spec.rule = rule;
    spec.guard = guard;
    spec.dry = dry;
    dynamic_create(&spec, &model, &d, NULL);
    return d;
}

/* Throughput over 120 steps after the warm-up. */
static double throughput(struct dynamic *d, enum live_late late)
{
    struct cluster c = {.count = 0};

    rng_seed(&c.rng, 4, 0);
    for (int t = 0; t < 130; t++) {
        if (t == 10)
            c.count = 0, c.total_s = 0;
        step(d, &c, late);
    }
    return (double)c.count / c.total_s;
}

static void warm_up(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_LIVE, true, false);
    struct cluster c = {.count = 0};
    size_t whole = 0, cut = 0;

    rng_seed(&c.rng, 1, 0);
    for (int t = 0; t < 10; t++) {
        step(d, &c, LIVE_FRESH);
        whole += dynamic_record(d)->contributors == N;
    }
    is_int((long long)whole, 10, "the warm-up waits for all");
    is_str(dynamic_record(d)->policy, "warm-up", "and says so");
    size_t before = allocations;
    for (int t = 0; t < 40; t++) {
        step(d, &c, LIVE_FRESH);
        cut += dynamic_record(d)->contributors < N;
    }
    is_int((long long)(allocations - before), 0,
           "nothing is allocated in a step");
    ok(cut > 8, "then steps are cut (%zu of 40)", cut);
    const struct dynamic_record *r = dynamic_record(d);
    ok(r->step == 49 && r->lambda > 20 && r->lambda < 48,
       "step %u, %.1f contributors a second", (unsigned)r->step, r->lambda);
    near(live_table_median_s(&d->live->table, 0), exp(made.mu[0]), .05,
         "a worker's median");
    dynamic_free(d);
}

static void policies(void)
{
    struct dynamic *d[6] = {create(LIVE_FRESH, RULE_LIVE, true, false),
                            create(LIVE_FRESH, RULE_RENEWAL, false, false),
                            create(LIVE_FRESH, RULE_PAPER, false, false),
                            create(LIVE_FRESH, RULE_RATIO, false, false),
                            create(LIVE_FRESH, RULE_LIVE, true, true),
                            create(LIVE_BUSY, RULE_LIVE, true, false)};
    double r[6];

    for (int i = 0; i < 6; i++)
        r[i] = throughput(d[i], i == 5 ? LIVE_BUSY : LIVE_FRESH);
    double full = r[4];
    printf("# live %.2f renewal %.2f paper %.2f ratio %.2f full %.2f busy "
           "%.2f\n",
           r[0], r[1], r[2], r[3], full, r[5]);
    ok(r[0] > 1.08 * full, "live beats waiting for all");
    ok(r[0] > r[1] && r[0] > r[2] && r[0] > r[3], "and the fixed rules");
    ok(r[1] > .8 * full && r[2] > .8 * full && r[3] > .8 * full,
       "which are not absurd");
    ok(r[5] > full, "under carry-over too");
    const struct dynamic_record *dry = dynamic_record(d[4]);
    is_int((long long)dry->contributors, N, "dry waits for all");
    for (int i = 0; i < 6; i++)
        dynamic_free(d[i]);
}

static void begin(struct dynamic *d)
{
    uint8_t part[N];

    memset(part, DYNAMIC_READY, sizeof part);
    dynamic_begin(d, part, NULL, .02);
}

/* What follows begin, with fresh starts; exact in time. */
static void play(struct dynamic *d, const double *x_s)
{
    uint8_t status[N];
    float log_s[N];
    bool in[N] = {false};
    double now = 0, next_s;

    for (size_t j = 0; j < N; j++) {
        status[j] = TIMING_EXACT;
        log_s[j] = (float)log(x_s[j]);
    }
    bool closed = dynamic_close(d, 0, &next_s);
    while (!closed) {
        size_t next = N;
        for (size_t j = 0; j < N; j++) {
            if (!in[j] && (next == N || x_s[j] < x_s[next]))
                next = j;
        }
        now = fmin(next_s, x_s[next]);
        if (x_s[next] <= next_s) {
            in[next] = true;
            dynamic_arrive(d, next, now, now);
        }
        closed = dynamic_close(d, now, &next_s);
    }
    dynamic_end(d, now, log_s, status);
}

/* A step that a given policy closes. */
static void step_by(struct dynamic *d, const double *x_s, size_t policy)
{
    begin(d);
    d->policy = policy;
    d->lambda = 40;
    play(d, x_s);
}

/* At a lower price it closes later, but still without a slow node. */
static void cautious(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_LIVE, true, false);
    struct cluster c = {.count = 0};
    size_t later = 0, cut = 0;
    bool good = true;

    rng_seed(&c.rng, 8, 0);
    for (size_t t = 0; t < 40; t++) {
        draw(&c);
        begin(d);
        d->policy = EXPERTS;
        d->cautious = true;
        d->lambda = 40;
        play(d, c.x_s);
        if (isnan(d->careful_s)) /* nobody was left to wait for */
            continue;
        good &= d->careful_s >= d->would_s && d->careful >= d->would &&
                d->careful == dynamic_record(d)->contributors;
        later += d->careful > d->would;
        cut += d->careful <= N - N / NODES;
    }
    ok(good && later > 5, "caution waits for more (%zu of 40)", later);
    ok(cut > 10, "not for a slow node (%zu of 40)", cut);
    dynamic_free(d);
}

/* A model that sees a spread where there is none cuts at any price what would
 * be in at once. */
static void mistaken(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_LIVE, true, false);
    double x_s[N];
    size_t cut = 0;

    for (size_t j = 0; j < N; j++)
        x_s[j] = 1 + .0001 * (double)j;
    for (int t = 0; t < 80; t++) {
        begin(d);
        play(d, x_s);
        cut += dynamic_record(d)->contributors < N;
    }
    ok(d->would < N / 2 && d->careful < N, "a mistaken model would cut");
    ok(cut < 10, "what does not pay is given up (%zu of 80 cut)", cut);
    is_str(dynamic_record(d)->policy, "full", "for waiting");
    dynamic_free(d);
}

/* What the model would have got is the same, whoever closes the step. */
static void foregone(void)
{
    struct dynamic *own = create(LIVE_FRESH, RULE_LIVE, true, false);
    struct dynamic *other = create(LIVE_FRESH, RULE_LIVE, true, false);
    struct cluster c = {.count = 0};
    double worst = 0;
    size_t cut = 0;

    rng_seed(&c.rng, 8, 0);
    for (size_t t = 0; t < 40; t++) {
        draw(&c);
        step_by(own, c.x_s, EXPERTS);
        step_by(other, c.x_s, t % 2 ? EXPERT_STATIC : EXPERT_FULL);
        if (t == 0) /* nothing is predicted yet */
            continue;
        cut += own->would < N;
        worst =
            fmax(worst, fabs(own->would_s - other->would_s) +
                            fabs((double)own->would - (double)other->would));
    }
    ok(cut > 10, "the model cuts (%zu of 39)", cut);
    near(worst, 0, 1e-5, "and is scored so when others close at half or all");
    dynamic_free(own);
    dynamic_free(other);
}

/* dry tells what would have been cut, and what that would have gained. */
static void dry(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_LIVE, true, true);
    struct cluster c = {.count = 0};
    size_t whole = 0, would = 0;
    double predicted = 0, realised = 0;

    rng_seed(&c.rng, 8, 0);
    for (int t = 0; t < 60; t++) {
        step(d, &c, LIVE_FRESH);
        const struct dynamic_record *r = dynamic_record(d);
        whole += r->contributors == N;
        if (t >= 10 && r->would < N) {
            would++;
            predicted += r->predicted_gain;
            realised += r->realised_gain;
        }
    }
    is_int((long long)whole, 60, "nothing is cut");
    ok(would > 10, "but would have been (%zu of 50)", would);
    ok(predicted / (double)would > 0 && realised / (double)would > 0,
       "at a gain of %.3f, predicted %.3f", realised / (double)would,
       predicted / (double)would);
    dynamic_free(d);
}

/* A slow node's workers, cut, sit out rather than stay out of phase. */
static void sit_out(void)
{
    struct dynamic *d = create(LIVE_BUSY, RULE_LIVE, true, false);
    struct cluster c = {.count = 0};

    rng_seed(&c.rng, 6, 0);
    for (int t = 0; t < 80; t++)
        step(d, &c, LIVE_BUSY);
    ok(c.sits > 10, "%zu times a late worker sat out", c.sits);
    dynamic_free(d);
}

/* Saved after so many steps, and loaded: do both decide alike? */
static bool resumes(enum live_late late, enum rule rule, int steps,
                    bool cautious)
{
    struct dynamic *a = create(late, rule, true, false),
                   *b = create(late, rule, true, false);
    struct cluster c = {.count = 0};
    size_t bytes = dynamic_state_bytes(a);
    char *saved = malloc(bytes);
    bool same = true;

    rng_seed(&c.rng, 9, 0);
    for (int t = 0; t < steps; t++)
        step(a, &c, late);
    if (cautious)
        a->core.carry.cautious = true;
    dynamic_state_save(a, saved);
    same = dynamic_state_load(b, saved, bytes, NULL) == DSGD_OK;
    struct cluster c2 = c;
    for (int t = 0; t < 60 && same; t++) {
        double ta = step(a, &c, late), tb = step(b, &c2, late);
        const struct dynamic_record *ra = dynamic_record(a),
                                    *rb = dynamic_record(b);
        same = ta == tb && ra->contributors == rb->contributors &&
               ra->step == rb->step && strcmp(ra->policy, rb->policy) == 0;
        if (t == 0)
            same = same && (!cautious || strcmp(rb->policy, "cautious") == 0);
    }
    free(saved);
    dynamic_free(a);
    dynamic_free(b);
    return same;
}

static void resume(void)
{
    ok(resumes(LIVE_BUSY, RULE_LIVE, 5, false), "resumed in the warm-up");
    ok(resumes(LIVE_BUSY, RULE_LIVE, 25, false), "after it");
    ok(resumes(LIVE_BUSY, RULE_LIVE, 25, true), "while cautious");
    ok(resumes(LIVE_POLL, RULE_LIVE, 25, true), "where late work is given up");
    ok(resumes(LIVE_BUSY, RULE_RENEWAL, 25, false), "with a fixed rule");
}

/* A state of another cluster. */
static void other(void)
{
    struct dynamic *a = create(LIVE_BUSY, RULE_LIVE, true, false), *b;
    size_t bytes = dynamic_state_bytes(a);
    char *saved = malloc(bytes);
    struct dynamic_spec spec;
    struct dsgd_error err;

    dynamic_state_save(a, saved);
    is_int(dynamic_state_load(a, saved, bytes - 1, &err), DSGD_E_FORMAT,
           "cut short");
    dynamic_spec_init(&spec);
    spec.n = N - 1;
    dynamic_create(&spec, NULL, &b, NULL);
    is_int(dynamic_state_load(b, saved, bytes, &err), DSGD_E_FORMAT,
           "of another cluster");
    has_str(err.text, "47 workers", "and says which");
    free(saved);
    dynamic_free(a);
    dynamic_free(b);
}

#define IN_CORE(member) (core + offsetof(struct dynamic_core, member))

/* What a damaged state holds is refused, and what was there goes on. */
static void damaged(void)
{
    struct dynamic *d = create(LIVE_BUSY, RULE_LIVE, true, false);
    struct cluster c = {.count = 0};
    size_t bytes = dynamic_state_bytes(d), refused = 0;
    size_t core = bytes - sizeof(struct dynamic_core) -
                  N * (sizeof *d->worker + sizeof(double)) -
                  timing_state_bytes(d->timing);
    size_t worker = core + sizeof(struct dynamic_core) + 3 * sizeof *d->worker;
    size_t sums = bytes - timing_state_bytes(d->timing);
    const struct {
        size_t at;
        double value;
        const char *says;
    } bad[] = {
        {IN_CORE(lambda.count), NAN, "sums"},
        {IN_CORE(foregone.time_s), INFINITY, "sums"},
        {IN_CORE(carry.full_s), -1, "sums"},
        {IN_CORE(lag_s), INFINITY, "sums"},
        {IN_CORE(live.close_s), -1, "sums"},
        {IN_CORE(live.log_high), INFINITY, "sums"},
        {IN_CORE(live.pace.due), -1, "sums"},
        {worker + offsetof(struct worker, busy_s), NAN, "worker 3"},
        {worker + offsetof(struct worker, last_s), -1, "worker 3"},
        {worker + offsetof(struct worker, points_s[1]), -1, "worker 3"},
        {sums - sizeof(double), NAN, "arrivals 48"},
    };
    char *good = malloc(bytes), *saved = malloc(bytes);
    struct dsgd_error err;

    rng_seed(&c.rng, 9, 0);
    for (int t = 0; t < 25; t++)
        step(d, &c, LIVE_BUSY);
    dynamic_state_save(d, good);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(saved, good, bytes);
        memcpy(saved + bad[i].at, &bad[i].value, sizeof(double));
        refused += dynamic_state_load(d, saved, bytes, &err) == DSGD_E_FORMAT &&
                   strstr(err.text, bad[i].says);
    }
    is_int((long long)refused, 11, "times and sums that cannot be");
    memcpy(saved, good, bytes);
    saved[IN_CORE(carry.cautious)] = 7;
    is_int(dynamic_state_load(d, saved, bytes, &err), DSGD_E_FORMAT,
           "neither true nor false");
    dynamic_state_save(d, saved);
    ok(memcmp(good, saved, bytes) == 0, "what was there stays");
    free(good);
    free(saved);
    dynamic_free(d);
}

/* Whatever the unit of time, an absent worker comes after all others. */
static void units(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_RATIO, false, false);
    uint8_t part[N], status[N];
    float log_s[N] = {0};
    size_t cut[2];

    memset(status, TIMING_NONE, sizeof status);
    memset(part, DYNAMIC_READY, sizeof part);
    dynamic_begin(d, part, NULL, 0);
    dynamic_end(d, 1, log_s, status);
    memset(part, DYNAMIC_ABSENT, N / 2);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; i && k < (size_t)N * PRED_K; k++)
            made.mu[k] += 28;
        d->core.step = 1;
        dynamic_begin(d, part, NULL, 0);
        cut[i] = d->model_cut;
        for (size_t k = 0; i && k < (size_t)N * PRED_K; k++)
            made.mu[k] -= 28;
        dynamic_end(d, 1, log_s, status);
    }
    is_int((long long)cut[1], (long long)cut[0], "the same cutoff in any unit");
    dynamic_free(d);
}

static void hostile(void)
{
    struct dynamic_spec spec;
    struct dsgd_error err;
    struct dynamic *d;
    uint8_t part[N] = {0}, status[N];
    float log_s[N];
    double next_s;

    dynamic_spec_init(&spec);
    is_int(dynamic_create(&spec, NULL, &d, &err), DSGD_E_RANGE, "no workers");
    spec.n = 4;
    spec.min = 5;
    is_int(dynamic_create(&spec, NULL, &d, &err), DSGD_E_RANGE,
           "a minimum above n");
    has_str(err.text, "minimum of 5", "named");
    ok(d == NULL, "nothing returned");
    dynamic_free(NULL);

    memset(status, TIMING_NONE, sizeof status);
    for (int j = 0; j < N; j++)
        log_s[j] = NAN;
    d = create(LIVE_BUSY, RULE_LIVE, true, false);
    for (int t = 0; t < 30; t++) { /* nobody there, nothing known */
        dynamic_begin(d, part, NULL, NAN);
        if (!dynamic_close(d, 0, &next_s))
            break;
        dynamic_end(d, t == 3 ? NAN : 1, log_s, status);
    }
    is_int((long long)dynamic_record(d)->step, 29, "nobody there: close");
    memset(part, DYNAMIC_READY, sizeof part);
    dynamic_begin(d, part, NULL, .01);
    ok(!dynamic_close(d, 0, &next_s), "they are back");
    for (size_t j = 0; j < N; j++)
        dynamic_leave(d, j);
    dynamic_leave(d, 0);
    dynamic_arrive(d, 0, 1, 1);
    ok(dynamic_close(d, .5, &next_s), "all have left: close");
    dynamic_end(d, .5, log_s, status);
    is_int((long long)dynamic_record(d)->contributors, 0, "with nobody");
    dynamic_free(d);
}

/* Workers that are lost were the fast ones: to wait for all who are left takes
 * what these take. */
static void lost(void)
{
    struct dynamic *d = create(LIVE_FRESH, RULE_LIVE, true, false);
    uint8_t part[N], status[N];
    float log_s[N];
    double next_s;

    for (int t = 0; t < 20; t++) {
        for (size_t j = 0; j < N; j++) {
            bool gone = t >= 12 && j < N / 2;
            part[j] = gone ? DYNAMIC_ABSENT : DYNAMIC_READY;
            status[j] = gone ? TIMING_NONE : TIMING_EXACT;
            log_s[j] = j < N / 2 ? 0 : (float)log(2);
        }
        dynamic_begin(d, part, NULL, .02);
        for (size_t j = 0; j < N; j++) {
            if (part[j] == DYNAMIC_READY)
                dynamic_arrive(d, j, j < N / 2 ? 1 : 2, j < N / 2 ? 1 : 2);
        }
        dynamic_close(d, 2, &next_s);
        dynamic_end(d, 2, log_s, status);
    }
    is_int((long long)d->working, N / 2, "half are lost");
    near(d->sorted_s[d->working - 1], 2, 1e-6, "all others are in at 2 s");
    near(d->sorted_s[0], 2, 1e-6, "and none of them sooner");
    dynamic_free(d);
}

/* One worker, no model. */
static void alone(void)
{
    struct dynamic_spec spec;
    struct dynamic *d;
    const uint8_t part = DYNAMIC_READY, status = TIMING_EXACT;
    const float log_s = 0;
    double next_s;
    size_t good = 0;

    dynamic_spec_init(&spec);
    spec.n = 1;
    spec.late = LIVE_FRESH;
    dynamic_create(&spec, NULL, &d, NULL);
    for (int t = 0; t < 40; t++) {
        dynamic_begin(d, &part, NULL, 0);
        bool early = dynamic_close(d, .5, &next_s);
        dynamic_arrive(d, 0, 1, 1);
        good += !early && dynamic_close(d, 1, &next_s);
        dynamic_end(d, 1, &log_s, &status);
    }
    is_int((long long)good, 40, "one worker is waited for, without a model");
    dynamic_free(d);
}

int main(void)
{
    made_init(&made, N, NODES, .06);
    made.node_log_p[1 * PRED_M] = logf(.55f); /* node 1: often slow */
    made.node_log_p[1 * PRED_M + 2] = logf(.41f);
    warm_up();
    policies();
    foregone();
    cautious();
    mistaken();
    dry();
    sit_out();
    resume();
    other();
    damaged();
    units();
    hostile();
    lost();
    alone();
    made_free(&made);
    return done();
}
