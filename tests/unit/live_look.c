/* What a look at the table of survivals leaves out, and what is summed before
 * it, changes no decision; and plans between ticks. */
#include <stdlib.h>

#include "live_body.h"
#include "predictive_make.h"
#include "tap.h"

/* The sums made for the first ticks give what a sum over the late workers does,
 * with some of them lagging or absent. */
static void early(enum live_late late)
{
    struct made m;
    struct live *l[2];
    uint64_t state = 5;
    double x_s[300], worst = 0, next_s;
    size_t looks = 0;

    made_init(&m, 300, 7, .1);
    for (size_t j = 0; j < 300; j++)
        x_s[j] = made_duration(&m, j, &state);
    for (size_t i = 0; i < 2; i++) {
        live_create(300, 7, m.node, .01, 0, &l[i], NULL);
        if (i)
            live_early_destroy(&l[i]->early);
        live_plan(l[i], &m.p, late);
        for (size_t j = 0; j < 300; j += 9)
            live_lagging(l[i], j, .05);
        for (size_t j = 1; j < 300; j += 11)
            live_absent(l[i], j);
    }
    ok(l[0]->early.sum && !l[1]->early.sum, "one with such sums, one without");
    const struct live_table *t = &l[0]->table;
    for (size_t q = 0; q < LIVE_EARLY; q++) {
        for (size_t i = 0; i < 2; i++) {
            for (size_t j = 0; j < 300; j++) {
                if (j == 18)
                    live_start(l[i], j, .04);
                if (x_s[j] < t->tau_s[q])
                    live_arrive(l[i], j, x_s[j]);
            }
            live_close(l[i], t->tau_s[q], 250, &next_s);
            l[i]->quiet_s = 0;
        }
        looks += l[0]->now_is_tick && l[0]->summed[3] && !l[1]->summed[3];
        for (size_t k = 0; k < l[1]->outlook.ticks; k++)
            worst = fmax(worst,
                         fabs(l[0]->outlook.left[k] - l[1]->outlook.left[k]));
        ok(l[0]->outlook.ticks == l[1]->outlook.ticks, "as many ticks read");
    }
    is_int((long long)looks, LIVE_EARLY, "a look at each of the first ticks");
    near(worst, 0, 2e-4, "expected late, of 300");
    for (size_t i = 0; i < 2; i++)
        live_free(l[i]);
    made_free(&m);
}

/* A thousand are late, and still are at now + t with probability
 * exp(-t^power). */
static void dense_init(struct live_outlook *o, double power, double *tau_s)
{
    *o = (struct live_outlook){.now_s = 2,
                               .arrived = 500,
                               .late = 1000,
                               .ticks = 30,
                               .dense = true,
                               .tau_s = tau_s};
    for (size_t q = 0; q < o->ticks; q++) {
        tau_s[q] = 2 + .07 * (double)(q + 1);
        o->left[q] = 1000 * exp(-pow(tau_s[q] - 2, power));
    }
}

/* The best time for lambda, by fine steps, and what it gains. */
static double fine_best(double power, double lambda, double *gain)
{
    double at = 0;

    *gain = 0;
    for (double t = 1e-5; t < 2; t += 1e-5) {
        double v = 1000 * (1 - exp(-pow(t, power))) - lambda * t;
        if (v > *gain) {
            *gain = v;
            at = t;
        }
    }
    return at;
}

static void between_ticks(void)
{
    struct live_outlook o;
    double tau_s[LIVE_COLS], gain, off_s = 0, off = 0;
    size_t between = 0;

    dense_init(&o, 2, tau_s);
    for (double lambda = 300; lambda < 640; lambda += 20) {
        struct live_choice c = live_outlook_best(&o, lambda);
        double best_s = fine_best(2, lambda, &gain);
        between += c.between && c.count == SIZE_MAX;
        off_s = fmax(off_s, fabs(c.close_s - 2 - best_s));
        off = fmax(off, gain - (c.expected - 500 - lambda * (c.close_s - 2)));
    }
    is_int((long long)between, 17, "closes between ticks");
    near(off_s, 0, .002, "at the best time");
    near(off, 0, .02, "which is worth what it could be");
    o.dense = false;
    ok(!live_outlook_best(&o, 500).between, "few to come: not between ticks");

    dense_init(&o, 1, tau_s);
    ok(live_outlook_is_dense(&o), "a thousand late are many");
    ok(live_outlook_best(&o, 995).now && live_outlook_best(&o, 1005).now,
       "next to nothing to gain: closes");
    near(live_outlook_best(&o, 970).close_s, 2 - log(.97), 5e-4,
         "before the first tick");
    for (size_t q = 0; q < o.ticks; q++)
        o.left[q] = q < 4 ? 1000 : 0;
    struct live_choice c = live_outlook_best(&o, 500);
    ok(!c.now && c.expected >= 0 && c.expected <= 1500 && c.close_s > 2 &&
           c.close_s <= tau_s[4],
       "all at once: a plan that can be");
    o.late = 10;
    for (size_t q = 0; q < o.ticks; q++)
        o.left[q] = 10 * exp(-(tau_s[q] - 2));
    ok(!live_outlook_is_dense(&o), "ten late are few");
}

/* What is expected late between ticks, and the rate of arrivals. */
static void moments(void)
{
    struct live_outlook o;
    double tau_s[LIVE_COLS], off = 0;

    dense_init(&o, 2, tau_s);
    for (double t = 0; t < 1.5; t += .01)
        off = fmax(off, fabs(live_outlook_left_at(&o, 2 + t) -
                             1000 * exp(-pow(t, 2))));
    near(off, 0, .05, "late between ticks");
    ok(isnan(live_outlook_left_at(&o, 1.9)) &&
           isnan(live_outlook_left_at(&o, 9)),
       "not known before now, nor beyond the ticks");
    near(live_outlook_rate(&o), 0, 1e-9, "nobody comes at once");
    dense_init(&o, 1, tau_s);
    near(live_outlook_rate(&o), 1000, 1e-6, "a thousand a second");
}

static void pace(void)
{
    struct live_pace p = {0};

    for (int i = 0; i < 400; i++) {
        struct live_paced s = {.open = true};
        if (i == 30)
            near(live_pace_get(&p), 1, 1e-12, "at first nothing is learnt");
        live_paced_add(&s, 60, 50);
        live_paced_add(&s, 37, 50);
        live_paced_add(&s, 9, NAN);
        live_paced_add(&s, 9, 0);
        live_pace_add(&p, &s);
        live_pace_add(&p, &s);
    }
    near(live_pace_get(&p), .9713, .001, "97 come of 100, and of 300 all");
    ok(live_pace_valid(&p), "a state that can be");
    p.came = 1e9;
    near(live_pace_get(&p), 1.05, 1e-12, "at most");
    p.due = NAN;
    ok(!live_pace_valid(&p), "no sum");
}

/* The plan had all ticks been read and all kinds of plans been weighed. */
static struct live_choice of_all(struct live *l, double now_s, double lambda)
{
    struct live_outlook *o = &l->outlook;
    double p[PRED_G] = {0};

    live_look(l, now_s, 1e-3);
    for (size_t k = 0; k < LIVE_LANES; k++)
        p[k / PRED_M] += l->posterior[k];
    o->counts = o->late < l->counts ? o->late : l->counts;
    live_outlook_expect(o, p, l->sum);
    return live_outlook_best(o, lambda);
}

/* Plans beyond the ticks that a look read would not have been taken, nor those
 * for counts where it left them out. */
static void stretches(size_t n, size_t nodes)
{
    struct made m;
    struct live *l;
    uint64_t state = 13;
    double *x_s = calloc(n, sizeof *x_s), lambda = .83 * (double)n, next_s;
    size_t read = 0, ahead = 0, skipped = 0;
    bool same = true;

    made_init(&m, n, nodes, .1);
    for (size_t j = 0; j < n; j++)
        x_s[j] = made_duration(&m, j, &state);
    live_create(n, nodes, m.node, .1, 0, &l, NULL);
    live_plan(l, &m.p, LIVE_FRESH);
    const struct live_table *t = &l->table;
    for (size_t q = 0; q < t->cols; q++) {
        for (size_t j = 0; j < n; j++) {
            if (x_s[j] < t->tau_s[q])
                live_arrive(l, j, x_s[j]);
        }
        if (live_close(l, t->tau_s[q], lambda, &next_s))
            break;
        if (!l->decided || l->outlook.now_s < t->tau_s[q])
            continue;
        read += l->outlook.ticks;
        skipped += l->outlook.counts == 0;
        double planned_s = live_planned_s(l);
        struct live_choice all = of_all(l, t->tau_s[q], lambda);
        ahead += l->outlook.ticks;
        same &= !all.now && fabs(all.close_s - planned_s) < 1e-6;
    }
    ok(same && read < ahead && skipped,
       "n=%zu: of %zu ticks %zu are read: the same plans", n, ahead, read);
    live_free(l);
    made_free(&m);
    free(x_s);
}

/* Fifty steps of 2000 workers, with what is learnt already; returns the mean
 * close. */
static double closes(double came, double due, struct live_pace *pace)
{
    struct made m;
    struct live *l;
    uint64_t state = 23;
    double x_s[2000], sum = 0;
    struct live_state before = {NAN, NAN, NAN, {came, due, 100}};

    made_init(&m, 2000, 8, .1);
    live_create(2000, 8, m.node, .1, 0, &l, NULL);
    live_set_state(l, &before);
    for (int step = 0; step < 50; step++) {
        bool closed = false;
        double next_s = 0, now_s = 0;
        for (size_t j = 0; j < 2000; j++)
            x_s[j] = made_duration(&m, j, &state);
        live_plan(l, &m.p, LIVE_FRESH);
        while (!closed && isfinite(next_s)) {
            now_s = next_s;
            for (size_t j = 0; j < 2000; j++) {
                if (x_s[j] <= now_s)
                    live_arrive(l, j, x_s[j]);
            }
            closed = live_close(l, now_s, .83 * 2000, &next_s);
        }
        sum += now_s / 50;
    }
    *pace = live_state(l).pace;
    live_free(l);
    made_free(&m);
    return sum;
}

static void learns(void)
{
    struct live_pace same, low, high;
    double mean_s = closes(0, 0, &same);

    ok(closes(4000, 8000, &low) < mean_s && closes(8000, 4000, &high) > mean_s,
       "fewer come than expected: closes earlier, more: later");
    ok(same.steps > 140 && same.due > 300, "steps are learnt from");
    near(same.came / same.due, 1, .1, "as many come as expected");
}

/* Thousands are asked between ticks, and close there; where few come they are
 * not. */
static size_t asked_between(size_t n, size_t nodes, size_t *closed_between)
{
    struct made m;
    struct live *l;
    uint64_t state = 17;
    double *x_s = calloc(n, sizeof *x_s);
    size_t asked = 0;

    made_init(&m, n, nodes, .1);
    live_create(n, nodes, m.node, .1, 0, &l, NULL);
    *closed_between = 0;
    for (int step = 0; step < 10; step++) {
        bool closed = false;
        double next_s = 0;
        for (size_t j = 0; j < n; j++)
            x_s[j] = made_duration(&m, j, &state);
        live_plan(l, &m.p, LIVE_FRESH);
        while (!closed && isfinite(next_s)) {
            double now_s = next_s;
            for (size_t j = 0; j < n; j++) {
                if (x_s[j] <= now_s)
                    live_arrive(l, j, x_s[j]);
            }
            bool between = now_s > 0 && now_s == l->ask_s;
            closed = live_close(l, now_s, .83 * (double)n, &next_s);
            asked += between;
            *closed_between += closed && between;
            if (!closed && !(next_s > now_s))
                ok(false, "asked for again at once");
        }
        live_end(l, 1);
    }
    live_free(l);
    made_free(&m);
    free(x_s);
    return asked;
}

static void between(void)
{
    size_t closed, asked = asked_between(2000, 60, &closed);

    ok(closed > 3 && closed <= asked && asked < 40,
       "2000 workers: asked between ticks %zu times, closes at %zu", asked,
       closed);
    is_int((long long)asked_between(150, 4, &closed), 0,
           "150 workers: never asked between ticks");
}

int main(void)
{
    early(LIVE_FRESH);
    early(LIVE_POLL);
    between_ticks();
    moments();
    pace();
    learns();
    stretches(300, 7);
    stretches(2000, 60);
    between();
    return done();
}
