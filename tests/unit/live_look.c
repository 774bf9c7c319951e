/* What a look at the table of survivals leaves out, and what is summed before
 * it, changes no decision. */
#include "live_body.h"
#include "live_priv.h"
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
    const struct live_table *t = live_table(l[0]);
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

/* Plans beyond the ticks that a look read would not have been taken. */
static void stretches(void)
{
    struct made m;
    struct live *l;
    uint64_t state = 13;
    double x_s[300], next_s;
    size_t read = 0, ahead = 0;
    bool same = true;

    made_init(&m, 300, 7, .1);
    for (size_t j = 0; j < 300; j++)
        x_s[j] = made_duration(&m, j, &state);
    live_create(300, 7, m.node, .1, 0, &l, NULL);
    live_plan(l, &m.p, LIVE_FRESH);
    const struct live_table *t = live_table(l);
    for (size_t q = 0; q < t->cols; q++) {
        for (size_t j = 0; j < 300; j++) {
            if (x_s[j] < t->tau_s[q])
                live_arrive(l, j, x_s[j]);
        }
        if (live_close(l, t->tau_s[q], 250, &next_s))
            break;
        if (!l->decided || l->outlook.now_s < t->tau_s[q])
            continue;
        read += l->outlook.ticks;
        double planned_s = live_planned_s(l);
        live_look(l, t->tau_s[q], 1e-3); /* all ticks, or nearly */
        ahead += l->outlook.ticks;
        struct live_choice all = live_outlook_best(&l->outlook, 250);
        same &= !all.now && fabs(all.close_s - planned_s) < 1e-6;
    }
    ok(same && read < ahead, "of %zu ticks %zu are read: the same plans", ahead,
       read);
    live_free(l);
    made_free(&m);
}

int main(void)
{
    early(LIVE_FRESH);
    early(LIVE_POLL);
    stretches();
    return done();
}
