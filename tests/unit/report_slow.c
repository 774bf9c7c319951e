/* Who is slow, on simulated runs: the slow are named, and nobody else. */
#include "report_slow.h"

#include "record_sim.h"
#include "report.h"
#include "report_stats.h"
#include "tap.h"

enum { SEEDS = 200 };

/* What report_advise looks at of a report, filled from a simulation. */
struct collect {
    struct report r;
    char name[SIM_MAX_NODES][16];
    uint32_t *worker_node;
    uint64_t row;
};

static void on_step(void *arg, const struct record_step *s)
{
    struct collect *c = arg;
    float *to = c->r.duration_s + c->row * c->r.n_tasks;

    for (size_t w = 0; w < c->r.n_tasks; w++) {
        to[w] = s->duration_s[w];
        if (!s->mask[w] && s->publish_s > (double)s->lag_s[w])
            to[w] = (float)((double)s->lag_s[w] - s->publish_s);
        c->r.worker[w].wanted++;
        c->r.worker[w].cut += !s->mask[w];
        c->r.node[c->worker_node[w]].wanted++;
        c->r.node[c->worker_node[w]].cut += !s->mask[w];
    }
    c->r.step[c->row++] = s->step;
}

static void on_late(void *arg, const struct record_late *late)
{
    struct collect *c = arg;
    c->r.duration_s[(late->step - 1) * c->r.n_tasks + late->worker] =
        late->duration_s;
}

static void collect(struct collect *c, const struct sim *sim)
{
    struct report *r = &c->r;
    size_t n = sim->nodes * sim->per_node;

    memset(c, 0, sizeof *c);
    r->state = "COMPLETED";
    r->n_nodes = sim->nodes;
    r->n_tasks = n;
    r->n_steps = sim->steps;
    r->step = calloc(sim->steps, sizeof *r->step);
    r->duration_s = calloc(sim->steps * n, sizeof *r->duration_s);
    r->node = calloc(sim->nodes, sizeof *r->node);
    r->worker = calloc(n, sizeof *r->worker);
    r->member = calloc(n, sizeof *r->member);
    c->worker_node = calloc(n, sizeof *c->worker_node);
    r->worker_node = c->worker_node;
    for (uint32_t k = 0; k < sim->nodes; k++) {
        snprintf(c->name[k], sizeof c->name[k], "n%u", k + 1);
        r->node[k].node = c->name[k];
        r->node[k].rank = NAN;
        r->node[k].workers = sim->per_node;
    }
    for (uint32_t w = 0; w < n; w++) {
        c->worker_node[w] = w / sim->per_node;
        r->member[w] = w;
        r->worker[w] = r->node[w / sim->per_node];
        r->worker[w].rank = w;
        r->worker[w].workers = 1;
    }
    sim_run(sim, on_step, on_late, c);
}

static void release(struct collect *c)
{
    free(c->r.step);
    free(c->r.duration_s);
    free(c->r.node);
    free(c->r.worker);
    free(c->r.member);
    free(c->r.advice);
    free(c->worker_node);
}

/* What is said of a run: "n3", "n3 n4", "w5", "none", "few". */
static const char *verdict(const struct sim *sim, struct dsgd_error *text)
{
    static char out[256];
    struct collect c;
    size_t used = 0;

    collect(&c, sim);
    out[0] = '\0';
    if (report_advise(&c.r, text) != DSGD_OK)
        return "error";
    for (size_t i = 0; i < c.r.n_advice && used < sizeof out; i++) {
        const struct report_advice *a = &c.r.advice[i];
        const char *space = used ? " " : "";
        if (i == 0)
            snprintf(text->text, sizeof text->text, "%s", a->text);
        if (a->kind == REPORT_SLOW_NODE)
            used += (size_t)snprintf(out + used, sizeof out - used, "%s%s",
                                     space, a->node);
        else if (a->kind == REPORT_SLOW_WORKER)
            used += (size_t)snprintf(out + used, sizeof out - used, "%sw%.0f",
                                     space, a->rank);
        else if (a->kind == REPORT_NONE_SLOW || a->kind == REPORT_TOO_FEW)
            used +=
                (size_t)snprintf(out + used, sizeof out - used, "%s%s", space,
                                 a->kind == REPORT_TOO_FEW ? "few" : "none");
    }
    release(&c);
    return out;
}

/* In how many of SEEDS runs the verdict is want, at least. */
static void expect(const struct sim *base, const char *want, int least,
                   const char *name)
{
    struct sim sim = *base;
    struct dsgd_error text, other = {""};
    int right = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim.seed = seed;
        const char *got = verdict(&sim, &text);
        if (strcmp(got, want) == 0)
            right++;
        else
            other = text;
    }
    if (!ok(right >= least, "%s: \"%s\" in %d of %d runs", name, want, right,
            SEEDS))
        printf("#   else: %s\n", other.text);
}

static const struct sim quiet = {
    .nodes = 4,
    .per_node = 4,
    .steps = 120,
    .steps_per_epoch = 60,
    .median_s = .05,
    .sigma = .3,
};

/* At most one of 1000 runs with equal nodes may name one: of 200, two would be
 * less than 2 % likely. */
static void test_nobody(void)
{
    struct sim s = quiet;

    expect(&s, "none", SEEDS - 1, "lognormal, sigma .3");
    s.sigma = 1;
    expect(&s, "none", SEEDS - 1, "lognormal, sigma 1");
    s.per_node = 1;
    expect(&s, "none", SEEDS - 1, "the same, one worker a node");
    s.steps = 30;
    expect(&s, "none", SEEDS - 1, "the same, 30 steps");
    s = quiet;
    s.tail = .1;
    s.common = .5;
    expect(&s, "none", SEEDS - 1, "heavy tails, a common factor");
    s.keep = 12;
    expect(&s, "none", SEEDS - 1, "the same, static:12");
    s.polls = true;
    expect(&s, "none", SEEDS - 1, "the same, with polls");
    s = quiet;
    for (uint32_t k = 0; k < 4; k++)
        s.node_factor[k] = .95 + .1 * k / 3;
    expect(&s, "none", SEEDS - 1, "nodes that differ by 10 %");
    s = quiet;
    s.nodes = 2;
    s.sigma = .6;
    expect(&s, "none", SEEDS - 1, "two nodes");
    s.nodes = 16;
    s.per_node = 2;
    expect(&s, "none", SEEDS - 1, "sixteen nodes");
    s = quiet;
    s.nodes = 1;
    s.per_node = 8;
    expect(&s, "none", SEEDS - 1, "one node");
    s.tail = .1;
    s.sigma = .6;
    expect(&s, "none", SEEDS - 1, "one node, heavy tails");
}

static void test_somebody(void)
{
    struct sim s = quiet;

    s.node_factor[2] = 2;
    expect(&s, "n3", SEEDS, "a node twice as slow");
    s.keep = 12;
    expect(&s, "n3", SEEDS, "that is always cut");
    s.polls = true;
    expect(&s, "n3", SEEDS, "that abandons");
    s.tail = .1;
    s.common = .5;
    expect(&s, "n3", SEEDS, "among heavy tails and a common factor");
    s.steps = 30;
    expect(&s, "n3", SEEDS, "within 30 steps");
    s = quiet;
    s.node_factor[2] = 1.5;
    expect(&s, "n3", SEEDS, "a node half as slow again");
    s.node_factor[0] = 2;
    s.node_factor[2] = 2;
    expect(&s, "n1 n3", SEEDS, "two slow nodes of four");
    s.keep = 8;
    expect(&s, "n1 n3", SEEDS, "two slow nodes of four, static:8");
    s.keep = 0;
    s.nodes = 3;
    expect(&s, "n1 n3", SEEDS, "two slow nodes of three");
    s.nodes = 2;
    expect(&s, "n1", SEEDS, "one of two");
    s = quiet;
    s.node_factor[1] = 2;
    s.slow_from = 61;
    s.slow_to = 120;
    expect(&s, "n2", SEEDS, "a node slow in the second half");
    s = quiet;
    s.nodes = 1;
    s.per_node = 8;
    s.slow_worker = 3;
    expect(&s, "w2", SEEDS, "a slow worker on the only node");
    s = quiet;
    s.slow_worker = 6;
    expect(&s, "none w5", SEEDS, "a slow worker on a node that is not");
    s.per_node = 2;
    expect(&s, "none w5", SEEDS, "a slow worker, two workers a node");
}

static void test_few(void)
{
    struct sim s = quiet;
    struct dsgd_error text = {""};

    s.node_factor[2] = 3;
    s.steps = 8;
    is_str(verdict(&s, &text), "few", "8 steps tell nothing");
    has_str(text.text, "8 steps are too few", "that is said");
    s.steps = 12;
    is_str(verdict(&s, &text), "n3", "12 of 12 do");
    s.nodes = 1;
    s.per_node = 1;
    is_str(verdict(&s, &text), "few", "one worker is compared with nobody");
    has_str(text.text, "none to compare it with", "that is said");
}

static void test_text(void)
{
    struct sim s = quiet;
    struct dsgd_error text = {""};

    s.node_factor[2] = 3;
    s.keep = 12;
    s.polls = true;
    s.sigma = .001;
    verdict(&s, &text);
    has_str(text.text,
            "n3 is slow: its workers' median step takes 3 times that of the "
            "other nodes (0.15 s against 0.05 s; 4 workers, slower in 119 of "
            "119 steps). It was cut 480 times in 480 worker-steps",
            "who, how much, against what, in how many steps");
    s.slow_from = 61;
    s.slow_to = 120;
    verdict(&s, &text);
    has_str(text.text, "n3 is slow from step 61 to 120: ", "and from when on");
    s.node_factor[2] = 0;
    verdict(&s, &text);
    has_str(text.text, "No slow node: the slowest, n", "or that nobody is");
    s.nodes = 1;
    verdict(&s, &text);
    has_str(text.text, " (n1), takes 1.00 times the median of the others (",
            "no worker either");
}

static void test_others(void)
{
    const float value[5] = {1, NAN, 4, 2, 8};
    size_t order[5];
    double others[5];

    report_slow_others(5, value, order, others);
    near(others[0], 4, 0, "the median of the other three");
    ok(isnan(others[1]), "not for one that is not known");
    near(others[3], 4, 0, "again");
    near(others[4], 2, 0, "and again");
    report_slow_others(4, value, order, others);
    near(others[2], sqrt(2), 1e-15, "of two: their geometric mean");
    report_slow_others(1, value, order, others);
    ok(isnan(others[0]), "of none: not known");
}

/* A duration of which only a lower bound is known. */
static void test_bounds(void)
{
    enum { ROWS = 40 };
    float x[ROWS][3];
    struct report_slow s[3];

    for (int i = 0; i < ROWS; i++) {
        x[i][0] = 1;
        x[i][1] = 1.25f;
        x[i][2] = i % 2 ? -2.f : -.5f;
    }
    report_slow(ROWS, 3, x[0], s, NULL);
    is_int((long long)s[2].steps, ROWS / 2, "a low bound is not compared");
    is_int((long long)s[2].slower, ROWS / 2, "a high one is slower");
    ok(s[2].slow, "and tells who is slow");
    near(s[2].ratio, 2, 0, "by that ratio at least");
    ok(!s[0].slow && !s[1].slow, "and the others are not");
}

static void test_tail(void)
{
    near(report_slow_tail(10, 10), 1. / 1024, 1e-12, "ten heads of ten");
    near(report_slow_tail(10, 8), 56. / 1024, 1e-12, "eight and more");
    near(report_slow_tail(7, 0), 1, 0, "none and more");
    near(report_slow_tail(1000001, 500001), .5, 1e-9, "half of a million");
}

static void test_quantile(void)
{
    float x[20], one = 3;

    for (int i = 0; i < 20; i++)
        x[i] = (float)((i * 7) % 20);
    near(report_quantile(x, 20, .95), 18, 0, "p95 of 0..19, nearest rank");
    near(report_quantile(x, 20, .5), 9, 0, "median");
    near(report_quantile(x, 20, 1), 19, 0, "maximum");
    near(report_quantile(&one, 1, .95), 3, 0, "of one");
    ok(isnan(report_quantile(x, 0, .5)), "of none");
}

int main(void)
{
    test_quantile();
    test_tail();
    test_others();
    test_bounds();
    test_text();
    test_few();
    test_somebody();
    test_nobody();
    return done();
}
