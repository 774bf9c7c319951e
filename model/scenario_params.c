/* The parameters of synthetic clusters: their table, the named compositions and
 * random ones. */
#include "scenario.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

struct key {
    const char *name;
    size_t at;
    double lo, hi; /* valid values */
    bool whole;
};

#define KEY(field, lo, hi)                                  \
    {                                                       \
#field, offsetof(struct scenario, field), lo, hi, 0 \
    }
#define COUNT(field, lo, hi)                                \
    {                                                       \
#field, offsetof(struct scenario, field), lo, hi, 1 \
    }

static const struct key keys[] = {
    COUNT(n, 1, 1e6),
    COUNT(N, 0, 1e6),
    COUNT(T, 1, 1e6),
    COUNT(seed, 0, 0x1p53),
    KEY(step_s, 1e-6, 1e6),
    KEY(cv, 0, 2),
    COUNT(shape, 0, N_NOISES - 1),
    KEY(df, 2.1, 1e3),
    KEY(war, 0, .999),
    KEY(warn, 0, 10),
    KEY(wvar, 0, 5),
    KEY(cvspread, 0, 3),
    KEY(hetero, 0, 100),
    KEY(ar, 0, 2),
    KEY(rho, 0, .9999),
    KEY(regimes_in, 0, 1),
    KEY(regimes_out, 1e-6, 1),
    KEY(regimes_lo, .01, 100),
    KEY(regimes_hi, .01, 100),
    KEY(wregimes_in, 0, 1),
    KEY(wregimes_out, 1e-6, 1),
    KEY(wregimes_lo, .01, 100),
    KEY(wregimes_hi, .01, 100),
    KEY(cotenant_rate, 0, 10),
    KEY(cotenant_steps, .01, 1e5),
    KEY(cotenant_slow, 0, 100),
    KEY(hiccup_p, 0, 1),
    KEY(hiccup_burst, 1, 1e4),
    KEY(hiccup_base, .01, 100),
    KEY(hiccup_alpha, .1, 100),
    COUNT(periodic_every, 0, 1e6),
    COUNT(periodic_for, 0, 1e6),
    KEY(periodic_share, .001, 1),
    KEY(periodic_factor, .01, 100),
    KEY(drift_factor, 0, 100),
    KEY(drift_steps, 1, 1e6),
    KEY(bimodal_p, 0, 1),
    KEY(bimodal_share, 0, 1),
    KEY(bimodal_factor, .01, 100),
    KEY(levels, 0, 1),
    KEY(bgload, 0, 10),
    KEY(own_load, 0, 10),
    KEY(job_steal, 0, 1),
    KEY(job_throttle, 0, 1),
    KEY(valid, 0, 1),
    KEY(missed, 0, 1),
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* What the effects are when they are on: the values of the named scenarios. */
static const struct scenario defaults = {
    .n = 158,
    .T = 600,
    .seed = 1,
    .step_s = 1,
    .cv = .06,
    .df = 4,
    .rho = .9,
    .regimes_out = .02,
    .regimes_lo = 1.6,
    .regimes_hi = 3,
    .wregimes_out = .1,
    .wregimes_lo = 1.2,
    .wregimes_hi = 3,
    .cotenant_steps = 12,
    .cotenant_slow = 1.5,
    .hiccup_burst = 3,
    .hiccup_base = 2,
    .hiccup_alpha = 1.5,
    .periodic_for = 5,
    .periodic_share = .25,
    .periodic_factor = 2,
    .drift_steps = 200,
    .bimodal_share = .25,
    .bimodal_factor = 2,
    .bgload = .05,
    .own_load = .9,
    .job_steal = .1,
    .job_throttle = .2,
    .valid = 1,
    .missed = .02,
};

/* Only what differs from the defaults and is not 0. */
static const struct scenario named[] = {
    {.name = "iid", .cv = .1},
    {.name = "hetero", .cv = .05, .hetero = 1.5},
    {.name = "regimes", .ar = .05, .regimes_in = .005},
    {.name = "cotenant", .cotenant_rate = .015},
    {.name = "hiccup", .hiccup_p = .01},
    {.name = "periodic", .periodic_every = 50},
    {.name = "drift", .drift_factor = 2},
    {.name = "bimodal", .bimodal_p = .3},
    {.name = "mix",
     .ar = .05,
     .regimes_in = .005,
     .cotenant_rate = .015,
     .hiccup_p = .01,
     .periodic_every = 50},
};
enum { N_NAMED = sizeof named / sizeof named[0] };

static double *field(struct scenario *s, const struct key *k)
{
    return (double *)(void *)((char *)s + k->at);
}

size_t scenario_names(void)
{
    return N_NAMED;
}

const char *scenario_name(size_t i)
{
    return i < N_NAMED ? named[i].name : NULL;
}

/* The keys, for messages: "n N … hiccup_p|burst|base|alpha …". */
static void list_keys(char *out, size_t size)
{
    size_t used = 0, common = 0;

    for (size_t i = 0; i < N_KEYS && used < size; i++) {
        const char *name = keys[i].name;
        bool same = common && strncmp(name, keys[i - 1].name, common) == 0;
        if (!same) {
            const char *bar = strchr(name, '_');
            common = bar ? (size_t)(bar - name) + 1 : 0;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 same ? "|"
                                 : i  ? " "
                                      : "",
                                 same ? name + common : name);
    }
}

static enum dsgd_err set_key(struct scenario *s, const struct key *k,
                             double value, struct dsgd_error *err)
{
    if (!(value >= k->lo && value <= k->hi) ||
        (k->whole && value != floor(value)))
        return error_set(
            err, DSGD_E_USAGE, "scenario: %s=%g: give a%s number from %g to %g",
            k->name, value, k->whole ? " whole" : "", k->lo, k->hi);
    *field(s, k) = value;
    return DSGD_OK;
}

static enum dsgd_err set(struct scenario *s, const char *key, double value,
                         struct dsgd_error *err)
{
    /* shorter than the error's text, which names the key as well */
    char valid[460];

    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(key, keys[i].name) == 0)
            return set_key(s, &keys[i], value, err);
    }
    list_keys(valid, sizeof valid);
    return error_set(err, DSGD_E_USAGE, "scenario: no key \"%.16s\"; keys: %s",
                     key, valid);
}

static enum dsgd_err start_named(const char *name, size_t length,
                                 struct scenario *s, struct dsgd_error *err)
{
    char valid[128] = "";

    for (size_t i = 0; i < N_NAMED; i++) {
        if (strlen(named[i].name) != length ||
            strncmp(name, named[i].name, length) != 0) {
            strcat(strcat(valid, i ? "|" : ""), named[i].name);
            continue;
        }
        *s = defaults;
        strcpy(s->name, named[i].name);
        for (size_t k = 0; k < N_KEYS; k++) {
            struct scenario own = named[i];
            if (*field(&own, &keys[k]) != 0)
                *field(s, &keys[k]) = *field(&own, &keys[k]);
        }
        return DSGD_OK;
    }
    return error_set(err, DSGD_E_USAGE, "scenario: \"%.*s\" is none of %s",
                     (int)(length < 40 ? length : 40), name, valid);
}

/* One "key=value" of `length` bytes. */
static enum dsgd_err parse_pair(const char *text, size_t length,
                                struct scenario *s, struct dsgd_error *err)
{
    char pair[64], *end;

    if (length >= sizeof pair)
        return error_set(err, DSGD_E_USAGE,
                         "scenario: \"%.40s…\" is too long for key=value",
                         text);
    memcpy(pair, text, length);
    pair[length] = '\0';
    char *equals = strchr(pair, '=');
    if (!equals)
        return error_set(err, DSGD_E_USAGE,
                         "scenario: \"%s\": give key=value, such as n=158",
                         pair);
    *equals = '\0';
    double value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end)
        return error_set(err, DSGD_E_USAGE,
                         "scenario: %s=%s: the value is not a number", pair,
                         equals + 1);
    return set(s, pair, value, err);
}

static enum dsgd_err check_together(const struct scenario *s,
                                    struct dsgd_error *err)
{
    if (s->N > s->n)
        return error_set(err, DSGD_E_USAGE,
                         "scenario: N=%g nodes are more than the n=%g workers",
                         s->N, s->n);
    if (s->regimes_lo > s->regimes_hi || s->wregimes_lo > s->wregimes_hi)
        return error_set(err, DSGD_E_USAGE,
                         "scenario: regimes_lo and wregimes_lo must not be "
                         "above regimes_hi and wregimes_hi");
    return DSGD_OK;
}

enum dsgd_err scenario_parse(const char *text, struct scenario *out,
                             struct dsgd_error *err)
{
    struct scenario s;
    size_t length = strcspn(text, ":");
    enum dsgd_err rc = start_named(text, length, &s, err);

    text += length;
    while (rc == DSGD_OK && *text) {
        text++; /* the ':' or ',' */
        length = strcspn(text, ",");
        rc = parse_pair(text, length, &s, err);
        text += length;
    }
    if (rc == DSGD_OK)
        rc = check_together(&s, err);
    if (rc == DSGD_OK)
        *out = s;
    return rc;
}

static bool chance(struct rng *r, double p)
{
    return rng_uniform(r) < p;
}

static void random_workers(struct rng *r, struct scenario *s)
{
    s->cv = rng_log_range(r, .01, .2);
    s->bgload = rng_range(r, 0, .1);
    if (chance(r, .4)) {
        s->shape = 1 + (double)rng_below(r, N_NOISES - 1);
        s->df = rng_range(r, 2.5, 6);
    }
    if (chance(r, .25)) {
        s->war = rng_range(r, .3, .97);
        s->warn = chance(r, .5) ? .3 : 0;
    }
    if (chance(r, .1))
        s->wvar = rng_range(r, .5, 1.3);
    else if (chance(r, .4))
        s->wvar = rng_log_range(r, .01, .6);
    if (chance(r, .3))
        s->cvspread = rng_range(r, 0, .6);
    if (chance(r, .2)) {
        s->wregimes_in = rng_log_range(r, .0005, .01);
        s->wregimes_out = rng_log_range(r, .01, .3);
        s->wregimes_lo = 1.2;
        s->wregimes_hi = rng_range(r, 1.4, 4);
    }
    if (chance(r, .35)) {
        s->hiccup_p = rng_log_range(r, .001, .04);
        s->hiccup_burst = rng_range(r, 1, 5);
        s->hiccup_base = rng_range(r, 1.2, 2.5);
        s->hiccup_alpha = rng_range(r, 1.1, 3);
    }
}

static void random_nodes(struct rng *r, struct scenario *s)
{
    if (chance(r, .25))
        s->hetero = rng_range(r, 1.1, 2.5);
    if (chance(r, .35)) {
        s->regimes_in = rng_log_range(r, .002, .02);
        s->regimes_out = rng_log_range(r, .01, .2);
        s->regimes_lo = 1.3;
        s->regimes_hi = rng_range(r, 1.6, 4);
    }
    if (chance(r, .35)) {
        s->cotenant_rate = rng_log_range(r, .005, .04);
        s->cotenant_steps = rng_range(r, 4, 25);
        s->cotenant_slow = rng_range(r, .8, 2.2);
    }
    if (chance(r, .2)) {
        s->periodic_every = 20 + (double)rng_below(r, 80);
        s->periodic_for = 1 + (double)rng_below(r, 9);
        s->periodic_share = chance(r, .5) ? .25 : .5;
        s->periodic_factor = rng_range(r, 1.3, 3);
    }
}

static void random_cluster(struct rng *r, struct scenario *s)
{
    if (chance(r, .4)) {
        s->ar = rng_range(r, .01, .12);
        s->rho = rng_range(r, .5, .98);
    }
    if (chance(r, .2)) {
        s->drift_factor = rng_range(r, 1.2, 2.5);
        s->drift_steps = rng_range(r, 80, 400);
    }
    if (chance(r, .2)) {
        s->bimodal_p = rng_range(r, .05, .6);
        s->bimodal_share = rng_range(r, .05, .6);
        s->bimodal_factor = rng_range(r, 1.3, 3);
    }
    if (chance(r, .2))
        s->levels = rng_range(r, .003, .02);
}

/* Which sources a site has differs, and how long a step is in seconds decides
 * how old the averages are. */
static void random_telemetry(struct rng *r, struct scenario *s)
{
    s->step_s = rng_log_range(r, .02, 30);
    s->own_load = rng_range(r, .1, 1.2);
    s->job_steal = chance(r, .3) ? rng_range(r, 0, 1) : 0;
    s->job_throttle = chance(r, .4) ? rng_range(r, 0, 1) : 0;
    s->valid = chance(r, .6) ? rng_range(r, .4, 1) : 0;
    s->missed = chance(r, .5) ? rng_range(r, 0, .2) : 0;
}

void scenario_random(struct rng *r, struct scenario *s)
{
    *s = defaults;
    strcpy(s->name, "random");
    s->n = 16;
    s->N = 4;
    random_workers(r, s);
    random_nodes(r, s);
    random_cluster(r, s);
    random_telemetry(r, s);
}
