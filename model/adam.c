#include "adam.h"

#include <math.h>
#include <string.h>

void adam_init(struct adam *a, size_t n, float *moments)
{
    *a = (struct adam){.n = n,
                       .beta1 = .9,
                       .beta2 = .99,
                       .epsilon = 1e-8,
                       .clip = 1,
                       .m = moments,
                       .v = moments + n};
    memset(moments, 0, 2 * n * sizeof *moments);
}

static double norm(size_t n, const float *x)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

double adam_step(struct adam *a, float *params, float *grad, double lr)
{
    double length = norm(a->n, grad);

    if (!isfinite(length))
        return length;
    if (a->clip > 0 && length > a->clip) {
        float scale = (float)(a->clip / length);
        for (size_t i = 0; i < a->n; i++)
            grad[i] *= scale;
    }
    a->steps++;
    /* The corrections of the moments' bias are folded into the rate and into
     * epsilon, as in section 2 of the paper. */
    double root2 = sqrt(1 - pow(a->beta2, (double)a->steps));
    float rate = (float)(lr * root2 / (1 - pow(a->beta1, (double)a->steps)));
    float epsilon = (float)(a->epsilon * root2);
    float b1 = (float)a->beta1, b2 = (float)a->beta2;
    for (size_t i = 0; i < a->n; i++) {
        float g = grad[i];
        a->m[i] = b1 * a->m[i] + (1 - b1) * g;
        a->v[i] = b2 * a->v[i] + (1 - b2) * g * g;
        params[i] -= rate * a->m[i] / (sqrtf(a->v[i]) + epsilon);
    }
    return length;
}

double adam_cosine(double lr, double floor, double warmup, double step,
                   double total)
{
    double done = total > 0 ? fmin(1, step / total) : 1;
    double rise = warmup > 0 ? fmin(1, (step + 1) / warmup) : 1;

    return lr * rise * (floor + (1 - floor) * .5 * (1 + cos(acos(-1) * done)));
}
