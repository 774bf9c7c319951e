/* Momentum, schedules, and what they count. */
#include "train_optim.h"

#include "tap.h"

static void test_update(void)
{
    float p[2] = {1, -1}, v[2] = {0, 2}, g[2] = {0.5f, 0.25f};

    train_update(2, p, v, g, 0.125f, 0.5f);
    ok(v[0] == 0.5f && v[1] == 1.25f, "velocity");
    ok(p[0] == 0.9375f && p[1] == -1.15625f, "parameters");
    train_update(2, p, v, g, 0.125f, 0.5f);
    ok(v[0] == 0.75f && p[0] == 0.84375f, "momentum goes on");
}

/* The bits must not depend on how the compiler arranged the loop. */
static void test_bits(void)
{
    enum { N = 1003 };
    static float p[N], v[N], g[N], p1[N], v1[N];

    for (int i = 0; i < N; i++) {
        p[i] = p1[i] = 1 / (float)(i + 3);
        v[i] = v1[i] = 1 / (float)(i + 7);
        g[i] = 1 / (float)(i + 11);
    }
    train_update(N, p, v, g, 0.1f, 0.9f);
    for (int i = 0; i < N; i++) {
        volatile float kept = 0.9f * v1[i];
        v1[i] = kept + g[i];
        volatile float move = 0.1f * v1[i];
        p1[i] = p1[i] - move;
    }
    ok(memcmp(p, p1, sizeof p) == 0 && memcmp(v, v1, sizeof v) == 0,
       "every product and sum is rounded once, in order");
}

static void test_count(void)
{
    struct train_counters c = {0};
    struct dsgd_mean m = {.step = 1, .samples = 30};

    train_count(&c, &m);
    ok(c.step == 1 && c.epoch == 0 && c.epoch_samples == 30, "a mean");
    near(train_epochs_done(&c, 100), 0.3, 1e-12, "epochs done");
    m = (struct dsgd_mean){.step = 2, .samples = 60, .epoch_end = true};
    train_count(&c, &m);
    ok(c.step == 2 && c.epoch == 1 && c.epoch_samples == 0, "an epoch's end");
    near(train_epochs_done(&c, 100), 1, 1e-12, "dropped samples don't lag");
    m = (struct dsgd_mean){.step = 3, .epoch = 2, .samples = 10};
    train_count(&c, &m);
    ok(c.epoch == 2 && c.epoch_samples == 10, "an end that was not seen");
    c.epoch_samples = 120;
    near(train_epochs_done(&c, 100), 3, 1e-12, "never past the epoch");
}

static double rate_at(struct train_schedule_spec *s, double epochs)
{
    struct train_counters c = {.epoch = (uint64_t)epochs};

    c.epoch_samples = (uint64_t)((epochs - floor(epochs)) * 1000 + 0.5);
    c.step = (uint64_t)(epochs * 10);
    return train_learning_rate(s, &c, 100);
}

static void test_schedules(void)
{
    struct train_schedule_spec s = {
        .schedule = TRAIN_CONSTANT, .lr = 0.5, .epochs = 4, .n_samples = 1000};
    double worst = 0;

    near(rate_at(&s, 0), 0.5, 0, "constant");
    near(rate_at(&s, 4), 0.5, 0, "constant to the end");
    s.schedule = TRAIN_STEP;
    near(rate_at(&s, 1.9), 0.5, 1e-12, "step: first half");
    near(rate_at(&s, 2), 0.05, 1e-12, "step: then a tenth");
    near(rate_at(&s, 3), 0.005, 1e-12, "step: then a hundredth");
    s.schedule = TRAIN_COSINE;
    for (double e = 0; e <= 4; e += 0.125) {
        double d = fabs(rate_at(&s, e) - 0.25 * (1 + cos(M_PI * e / 4)));
        worst = d <= worst ? worst : d;
    }
    ok(worst < 1e-9, "cosine");
    near(rate_at(&s, 4), 0, 1e-9, "cosine ends at 0");
    s.schedule = TRAIN_CONSTANT;
    s.warmup_epochs = 0.5;
    near(rate_at(&s, 0), 0.1, 1e-12, "warm-up: the first step counts");
    near(rate_at(&s, 0.2), 0.3, 1e-12, "warm-up");
    near(rate_at(&s, 0.4), 0.5, 1e-12, "warm-up is over");
    s.max_steps = 20;
    s.schedule = TRAIN_STEP;
    s.warmup_epochs = 0;
    near(rate_at(&s, 1), 0.05, 1e-12, "the earlier end counts");
}

int main(void)
{
    test_update();
    test_bits();
    test_count();
    test_schedules();
    return done();
}
