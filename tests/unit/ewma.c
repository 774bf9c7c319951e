/* Moving averages against the prototype's (tests/data/model/ewma.txt). */
#include "ewma.h"

#include "model_data.h"

enum { N = 6 };

static double worst, rows_differ;

/* A line: log durations, status, rows, means of the log predictions. */
static void step(struct ewma *e, char *line, double *x)
{
    float y[N];
    uint8_t status[N];
    char *word = strtok(line, " ");

    for (int j = 0; j < N; j++, word = strtok(NULL, " "))
        y[j] = strtof(word, NULL);
    for (int j = 0; j < N; j++, word = strtok(NULL, " "))
        status[j] = (uint8_t)atoi(word);
    ewma_observe(e, y, status);
    size_t rows = ewma_predict(e, x);
    rows_differ += rows != (size_t)atoi(word);
    for (int j = 0; rows && j < N; j++) {
        double mean = 0;
        for (size_t r = 0; r < rows; r++)
            mean += log(x[r * N + (size_t)j]) / (double)rows;
        worst = fmax(worst, fabs(mean - atof(strtok(NULL, " "))));
    }
}

static void nothing_known(struct ewma *e, double *x)
{
    const float y[N] = {0};
    uint8_t status[N];
    double before[N];
    size_t rows = ewma_predict(e, x);

    memcpy(before, x + (rows - 1) * N, sizeof before);
    memset(status, TIMING_NONE, sizeof status);
    for (int i = 0; i < 3 * EWMA_ROWS; i++)
        ewma_observe(e, y, status);
    rows = ewma_predict(e, x);
    double moved = 0;
    for (size_t j = 0; j < N; j++)
        moved = fmax(moved, fabs(log(x[(rows - 1) * N + j] / x[j])));
    near(moved, 0, 1e-9, "steps in which nothing is known move nothing");
    ok(isfinite(before[0]) && x[0] > 0, "and stay finite");
}

/* A few rows, side by side: the same samples. */
static void lanes(const struct ewma *e, const double *x)
{
    enum { MOST = 11, LANES = SORT_LANES };
    float y[2 * N * LANES];
    double off = 0;

    is_int((long long)ewma_predict_lanes(e, MOST, y), MOST, "rows, as asked");
    for (size_t r = 0; r < 2 * LANES; r++) {
        const double *row = x + (r < MOST ? r : 0) * N;
        const float *lane = y + r / LANES * N * LANES + r % LANES;
        for (size_t j = 0; j < N; j++)
            off = fmax(off, fabs(lane[j * LANES] - log(row[j])));
    }
    near(off, 0, 1e-6, "lanes without a row repeat the first");
}

int main(void)
{
    char path[DATA_PATH], line[1024];
    double x[EWMA_ROWS * N];
    struct ewma *e;
    struct dsgd_error err;

    is_int(ewma_create(0, &e, &err), DSGD_E_RANGE, "no workers");
    is_int(ewma_create(N, &e, &err), DSGD_OK, "created");
    is_int((long long)ewma_predict(e, x), 0, "nothing at first");
    is_int((long long)ewma_predict_lanes(e, 8, NULL), 0, "nor in lanes");
    FILE *in = fopen(data_path("ewma.txt", path), "r");
    if (!ok(in, "%s", path))
        return done();
    int lines = 0;
    while (fgets(line, sizeof line, in)) {
        if (line[0] != '#') {
            step(e, line, x);
            lines++;
        }
    }
    fclose(in);
    is_int(lines, 90, "90 steps");
    lanes(e, x);
    near(rows_differ, 0, 0, "as many rows");
    near(worst, 0, 1e-5, "the same predictions");
    nothing_known(e, x);
    ewma_free(e);
    ewma_free(NULL);
    return done();
}
