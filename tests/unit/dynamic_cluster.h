/* A small simulated cluster whose steps a dynamic cutoff ends. */
#ifndef DSGD_TESTS_DYNAMIC_CLUSTER_H
#define DSGD_TESTS_DYNAMIC_CLUSTER_H

#include "dynamic_priv.h"
#include "fake_timing.h"
#include "rng.h"

enum { N = 48, NODES = 4 };

struct cluster {
    struct rng rng;
    double x_s[N], left_s[N]; /* durations; what is left of an old batch */
    bool sat_out[N];
    size_t count;
    double total_s;
    size_t sits;
};

/* Durations as predicted; node 1 is slow in half of the steps. */
static void draw(struct cluster *c)
{
    bool slow = rng_uniform(&c->rng) < .5;
    for (size_t j = 0; j < N; j++)
        c->x_s[j] =
            exp((double)made.mu[j * PRED_K] + .06 * rng_normal(&c->rng) +
                (slow && made.node[j] == 1 ? .8 : 0));
}

/* One step at a resolution of a millisecond; returns its time. */
static double step(struct dynamic *d, struct cluster *c, enum live_late late)
{
    const double overhead_s = .02;
    uint8_t part[N], status[N];
    float log_s[N];
    double start_s[N], next_s, now = 0;
    bool in[N] = {false}, started[N], closed;

    draw(c);
    for (size_t j = 0; j < N; j++) {
        bool busy = late == LIVE_BUSY && c->left_s[j] > 0;
        part[j] = busy ? DYNAMIC_BUSY : DYNAMIC_READY;
        start_s[j] = busy ? c->left_s[j] : 0;
        started[j] = !busy;
        c->sat_out[j] = false;
    }
    dynamic_begin(d, part, NULL, overhead_s);
    closed = dynamic_close(d, 0, &next_s);
    for (now = 0; !closed && now < 20; now += .001) {
        bool event = false;
        for (size_t j = 0; j < N; j++) {
            if (!started[j] && start_s[j] <= now) {
                started[j] = event = true;
                c->sat_out[j] = !dynamic_start(d, j, start_s[j]);
                c->sits += c->sat_out[j];
            }
            if (started[j] && !in[j] && !c->sat_out[j] &&
                start_s[j] + c->x_s[j] <= now) {
                in[j] = event = true;
                dynamic_arrive(d, j, c->x_s[j], start_s[j] + c->x_s[j]);
            }
        }
        if (event || now >= next_s)
            closed = dynamic_close(d, now, &next_s);
    }
    for (size_t j = 0; j < N; j++) {
        double own_s = now - start_s[j];
        bool bound = !in[j] && late == LIVE_BUSY;
        status[j] = c->sat_out[j] || !started[j] ? TIMING_NONE
                    : bound                      ? TIMING_CENSORED
                                                 : TIMING_EXACT;
        log_s[j] = (float)log(bound ? fmax(own_s, 1e-3) : c->x_s[j]);
        c->left_s[j] = in[j] || c->sat_out[j]
                           ? 0
                           : fmax(start_s[j] + (started[j] ? c->x_s[j] : 0) -
                                      now - overhead_s,
                                  0);
    }
    dynamic_end(d, now, log_s, status);
    c->count += dynamic_record(d)->contributors;
    c->total_s += now + overhead_s;
    return now;
}

#endif
