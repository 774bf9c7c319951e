/* Operations against plain loops and libm, gradients against central
 * differences. */
#include <stdint.h>

#include "ops.h"
#include "tap.h"

static uint32_t seed = 1;

static float uniform(void) /* -1..1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.f - 1;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = uniform();
}

enum { POINTS = 20011 };

/* Largest relative error over lo..hi; where want is tiny, absolute / floor. */
static double map_error(ops_map_fn *fast, ops_map_fn *slow, float lo, float hi,
                        double floor)
{
    static float x[POINTS], got[POINTS], want[POINTS];
    double worst = 0;

    for (size_t i = 0; i < POINTS; i++)
        x[i] = lo + (hi - lo) * (float)i / (POINTS - 1);
    fast(POINTS, x, got);
    slow(POINTS, x, want);
    for (size_t i = 0; i < POINTS; i++) {
        double gap = fabs((double)got[i] - want[i]);
        double e = gap == 0 ? 0 : gap / (fabs((double)want[i]) + floor);
        worst = e > worst || isnan(e) ? e : worst;
    }
    return worst;
}

static void log_of_exp(size_t n, const float *x, float *out)
{
    ops_exp_ref(n, x, out);
    ops_log(n, out, out);
}

static void log_of_exp_ref(size_t n, const float *x, float *out)
{
    ops_exp_ref(n, x, out);
    ops_log_ref(n, out, out);
}

static void test_maps(void)
{
    near(map_error(ops_exp, ops_exp_ref, -87, 88, 0), 0, 2e-7, "exp");
    near(map_error(ops_exp, ops_exp_ref, -1, 1, 0), 0, 2e-7, "exp near 0");
    near(map_error(ops_log, ops_log_ref, 1e-3f, 4, 0), 0, 3e-7, "log");
    near(map_error(log_of_exp, log_of_exp_ref, -87, 88, 0), 0, 3e-7,
         "log, all magnitudes");
    near(map_error(ops_sigmoid, ops_sigmoid_ref, -80, 80, 0), 0, 3e-7,
         "sigmoid");
    near(map_error(ops_tanh, ops_tanh_ref, -12, 12, 0), 0, 3e-7, "tanh");
    near(map_error(ops_tanh, ops_tanh_ref, -.7f, .7f, 0), 0, 3e-7,
         "tanh near 0");
    near(map_error(ops_softplus, ops_softplus_ref, -80, 80, 0), 0, 3e-7,
         "softplus");
    near(map_error(ops_normal_sf, ops_normal_sf_ref, -14, 5, 0), 0, 1e-6,
         "normal survival");
    near(map_error(ops_normal_sf, ops_normal_sf_ref, 4, 12.5, 0), 0, 1e-6,
         "normal survival, far out");
    near(map_error(ops_normal_sf, ops_normal_sf_ref, 12.5, 90, 1), 0, 1e-35,
         "normal survival, nothing left");
}

static void test_special_values(void)
{
    static ops_map_fn *const map[] = {ops_exp,  ops_log,      ops_sigmoid,
                                      ops_tanh, ops_softplus, ops_normal_sf};
    static const char *const name[] = {"exp",  "log",      "sigmoid",
                                       "tanh", "softplus", "normal survival"};
    float x[20], out[20];

    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 20; j++)
            x[j] = NAN;
        map[i](20, x, out);
        ok(isnan(out[0]) && isnan(out[19]), "%s of NaN", name[i]);
    }
    x[0] = -INFINITY;
    x[1] = INFINITY;
    ops_exp(2, x, out);
    ok(out[0] == 0 && out[1] > 1e38f, "exp of infinities");
    ops_tanh(2, x, out);
    ok(out[0] == -1 && out[1] == 1, "tanh of infinities");
    ops_sigmoid(2, x, out);
    ok(out[0] < 1e-38f && out[1] == 1, "sigmoid of infinities");
    ops_normal_sf(2, x, out);
    ok(out[0] == 1 && out[1] == 0, "normal survival of infinities");
    ops_softplus(2, x, out);
    ok(out[0] == 0 && isinf(out[1]), "softplus of infinities");
}

static void test_hazard(void)
{
    near(ops_normal_hazard(0), 0.79788456080286535588, 1e-14, "hazard at 0");
    near(ops_normal_hazard(2) / 2.3732155328228606, 1, 1e-12, "hazard at 2");
    near(ops_normal_hazard(5) / ops_normal_hazard(5 - 1e-12), 1, 1e-11,
         "hazard has no step at 5");
    near(ops_normal_hazard(40), 40.024968847207625, 1e-9, "hazard at 40");
    near(ops_normal_hazard(-8), 5.052271083536893e-15, 1e-26, "hazard at -8");
    ok(isnan(ops_normal_hazard(NAN)), "hazard of NaN");
    near(ops_normal_beyond(2), 2.3732155328228606, 1e-12, "beyond a bound");
    near(ops_normal_beyond(-5), -2, 0, "by at most 3");
    near(ops_normal_beyond(-1e9), -5, 0, "of at least -8");
    near(ops_normal_beyond(1e9), 40.024968847207625, 1e-9, "and at most 40");
}

enum { BIG = 70 * 70 };

static void test_gemm(void)
{
    static const size_t size[] = {1, 2, 7, 16, 33, 64};
    static float a[BIG], b[BIG], got[BIG], want[BIG];
    double worst = 0;

    fill(a, BIG);
    fill(b, BIG);
    for (size_t i = 0; i < 6 * 6 * 6 * 8; i++) {
        size_t m = size[i % 6], n = size[i / 6 % 6], k = size[i / 36 % 6];
        bool ta = i / 216 & 1, tb = i / 432 & 1;
        float beta = i / 864 & 1 ? .5f : 0;
        fill(want, BIG);
        for (size_t j = 0; j < BIG; j++)
            got[j] = beta != 0 || j % 70 >= n ? want[j] : NAN;
        ops_gemm(ta, tb, m, n, k, a, 70, b, 70, beta, got, 70);
        ops_gemm_ref(ta, tb, m, n, k, a, 70, b, 70, beta, want, 70);
        for (size_t j = 0; j < m * 70; j++) {
            double e = fabs((double)got[j] - want[j]);
            worst = e > worst || isnan(e) ? e : worst;
        }
    }
    near(worst, 0, 1e-5, "products of all shapes, with gaps between rows");
}

/* Products that are split on each of their sides. */
static void test_large_gemm(void)
{
    static const size_t shape[][3] = {
        {5000, 9, 17}, {11, 3001, 33}, {17, 13, 4999}, {130, 131, 132}};
    enum { MOST = 5000 * 33 };
    float *a = malloc(MOST * sizeof *a), *b = malloc(MOST * sizeof *b);
    float *got = malloc(MOST * sizeof *got),
          *want = malloc(MOST * sizeof *want);
    double worst = 0;

    fill(a, MOST);
    fill(b, MOST);
    for (size_t i = 0; i < 4 * 8; i++) {
        size_t m = shape[i / 8][0], n = shape[i / 8][1], k = shape[i / 8][2];
        bool ta = i & 1, tb = i & 2;
        float beta = i & 4 ? 1 : 0;
        fill(want, m * n);
        for (size_t j = 0; j < m * n; j++)
            got[j] = beta != 0 ? want[j] : NAN;
        ops_gemm(ta, tb, m, n, k, a, ta ? m : k, b, tb ? k : n, beta, got, n);
        ops_gemm_ref(ta, tb, m, n, k, a, ta ? m : k, b, tb ? k : n, beta, want,
                     n);
        for (size_t j = 0; j < m * n; j++) {
            double e = fabs((double)got[j] - want[j]);
            worst = e > worst || isnan(e) ? e : worst;
        }
    }
    near(worst, 0, 1e-4, "large products");
    free(a);
    free(b);
    free(got);
    free(want);
}

/* Central differences of f over n parameters x against the gradient g. */
static double check_grad(double (*f)(void), float *x, const float *g, size_t n)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++) {
        float keep = x[i], step = 1e-2f;
        x[i] = keep + step;
        double up = f(), h = x[i];
        x[i] = keep - step;
        double down = f();
        h -= x[i];
        x[i] = keep;
        double e = fabs((up - down) / h - g[i]);
        worst = e > worst || isnan(e) ? e : worst;
    }
    return worst;
}

enum { ROWS = 3, IN = 5, HID = 4, GATES = 3 * HID };
static float x[ROWS * IN], h[ROWS * HID], c[ROWS * GATES], y[ROWS * GATES];
static float w_ih[GATES * IN], w_hh[GATES * HID], b_ih[GATES], b_hh[GATES];
static float work[ROWS * 6 * HID], cache[ROWS * 4 * HID];
static const struct ops_gru gru = {IN, HID, w_ih, w_hh, b_ih, b_hh};

static double dot(size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)y[i] * c[i];
    return sum;
}

static double linear_loss(void)
{
    ops_linear(ROWS, IN, GATES, x, w_ih, b_ih, y);
    return dot(ROWS * GATES);
}

static double gru_loss(void)
{
    float *gi = work, *gh = work + ROWS * GATES;

    ops_linear(ROWS, IN, GATES, x, gru.w_ih, gru.b_ih, gi);
    ops_linear(ROWS, HID, GATES, h, gru.w_hh, gru.b_hh, gh);
    ops_gru_gates(ROWS, HID, gi, gh, h, cache, y);
    return dot(ROWS * HID);
}

static double softplus_loss(void)
{
    ops_softplus(ROWS * IN, x, y);
    return dot(ROWS * IN);
}

static double tanh_loss(void)
{
    ops_tanh(ROWS * IN, x, y);
    return dot(ROWS * IN);
}

static double log_softmax_loss(void)
{
    ops_log_softmax(ROWS, IN, x, y);
    return dot(ROWS * IN);
}

static void fill_all(void)
{
    fill(x, ROWS * IN);
    fill(h, ROWS * HID);
    fill(c, ROWS * GATES);
    fill(w_ih, GATES * IN);
    fill(w_hh, GATES * HID);
    fill(b_ih, GATES);
    fill(b_hh, GATES);
}

static void test_linear_gradient(void)
{
    float dx[ROWS * IN], dw[GATES * IN] = {0}, db[GATES] = {0};

    fill_all();
    linear_loss();
    ops_linear_back(ROWS, IN, GATES, x, w_ih, c, dx, dw, db);
    near(check_grad(linear_loss, x, dx, ROWS * IN), 0, 5e-4, "linear dx");
    near(check_grad(linear_loss, w_ih, dw, GATES * IN), 0, 5e-4, "linear dw");
    near(check_grad(linear_loss, b_ih, db, GATES), 0, 5e-4, "linear db");
    float once = dw[0];
    ops_linear_back(ROWS, IN, GATES, x, w_ih, c, NULL, dw, db);
    near(dw[0], 2 * once, 1e-5, "parameter gradients add up");
}

static void test_gru_gradient(void)
{
    float dx[ROWS * IN], dh[ROWS * HID], dwi[GATES * IN] = {0};
    float dwh[GATES * HID] = {0}, dbi[GATES] = {0}, dbh[GATES] = {0};
    float *dgi = work, *dgh = work + ROWS * GATES;

    fill_all();
    gru_loss();
    ops_gru_gates_back(ROWS, HID, cache, h, c, dgi, dgh, dh);
    ops_linear_back(ROWS, IN, GATES, x, gru.w_ih, dgi, dx, dwi, dbi);
    ops_linear_back(ROWS, HID, GATES, h, gru.w_hh, dgh, NULL, dwh, dbh);
    ops_gemm(false, false, ROWS, HID, GATES, dgh, GATES, gru.w_hh, HID, 1, dh,
             HID);
    near(check_grad(gru_loss, x, dx, ROWS * IN), 0, 5e-4, "gru dx");
    near(check_grad(gru_loss, h, dh, ROWS * HID), 0, 5e-4, "gru dh");
    near(check_grad(gru_loss, w_ih, dwi, GATES * IN), 0, 5e-4, "gru dw_ih");
    near(check_grad(gru_loss, w_hh, dwh, GATES * HID), 0, 5e-4, "gru dw_hh");
    near(check_grad(gru_loss, b_ih, dbi, GATES), 0, 5e-4, "gru db_ih");
    near(check_grad(gru_loss, b_hh, dbh, GATES), 0, 5e-4, "gru db_hh");
}

static void test_map_gradients(void)
{
    float dx[ROWS * IN];

    fill_all();
    for (size_t i = 0; i < ROWS * IN; i++)
        x[i] *= 3;
    softplus_loss();
    ops_softplus_back(ROWS * IN, x, c, dx);
    near(check_grad(softplus_loss, x, dx, ROWS * IN), 0, 5e-4, "softplus dx");
    tanh_loss();
    ops_tanh_back(ROWS * IN, y, c, dx);
    near(check_grad(tanh_loss, x, dx, ROWS * IN), 0, 5e-4, "tanh dx");
    log_softmax_loss();
    ops_log_softmax_back(ROWS, IN, y, c, dx);
    near(check_grad(log_softmax_loss, x, dx, ROWS * IN), 0, 5e-4,
         "log softmax dx");
}

static void test_log_sum_exp(void)
{
    double v[] = {-1000, -1000}, none[] = {-INFINITY, -INFINITY};

    near(ops_log_sum_exp(2, v), -1000 + log(2), 1e-12, "log sum exp");
    ok(ops_log_sum_exp(2, none) == -INFINITY, "log sum exp of nothing");
    v[0] = NAN;
    ok(isnan(ops_log_sum_exp(2, v)), "log sum exp of NaN");
}

int main(void)
{
    test_maps();
    test_special_values();
    test_hazard();
    test_gemm();
    test_large_gemm();
    test_linear_gradient();
    test_gru_gradient();
    test_map_gradients();
    test_log_sum_exp();
    return done();
}
