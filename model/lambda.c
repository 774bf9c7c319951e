#include "lambda.h"

#include <math.h>

void lambda_init(struct lambda *l, double half_steps)
{
    *l = (struct lambda){.keep = 1 - 1 / half_steps};
}

void lambda_seed(struct lambda *l, double throughput, double steps,
                 double step_s)
{
    if (!(throughput > 0) || !isfinite(throughput) || !(step_s > 0))
        return;
    l->time_s = steps * step_s;
    l->count = throughput * l->time_s;
}

void lambda_add(struct lambda *l, double c, double time_s)
{
    if (!(c >= 0) || !(time_s > 0) || !isfinite(c) || !isfinite(time_s))
        return;
    l->count = l->keep * l->count + c;
    l->time_s = l->keep * l->time_s + time_s;
}

double lambda_get(const struct lambda *l)
{
    return l->time_s > 0 ? l->count / l->time_s : NAN;
}

bool lambda_valid(const struct lambda *l)
{
    return l->keep >= 0 && l->keep < 1 && l->count >= 0 && l->time_s >= 0 &&
           isfinite(l->count) && isfinite(l->time_s);
}

double lambda_best_static(size_t n, const double *order_s, double overhead_s)
{
    double best = NAN;
    for (size_t c = 1; c <= n; c++) {
        double rate = (double)c / (order_s[c - 1] + overhead_s);
        if (!(rate <= best))
            best = rate;
    }
    return best;
}
