#include "train_idx.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "error.h"

enum {
    MAGIC_LABELS = 0x0801, /* unsigned bytes, one dimension */
    MAGIC_IMAGES = 0x0803, /* unsigned bytes, three */
    MAX_SIDE = 1024,       /* pixels */
    MAX_ITEMS = 100000000, /* of a file */
    BUFFER_BYTES = 1 << 18
};

/* An open file of one kind. */
struct idx {
    gzFile file;
    char path[PATH_MAX];
    size_t shape[3]; /* items, rows, columns; 1 where there is none */
};

static enum dsgd_err check_dir(const char *dir, struct dsgd_error *err)
{
    struct stat st;

    if (stat(dir, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return DSGD_OK;
        errno = ENOTDIR;
    }
    return error_set(err, DSGD_E_IO,
                     "--data: %.200s: %s: give a folder with a MNIST-like "
                     "data set, or install one: apt-get install "
                     "dataset-fashion-mnist",
                     dir, strerror(errno));
}

/* Open dir/stem, or dir/stem.gz. */
static enum dsgd_err idx_open(struct idx *f, const char *dir, const char *stem,
                              struct dsgd_error *err)
{
    static const char *const suffix[] = {"", ".gz"};

    for (int i = 0; i < 2; i++) {
        int n =
            snprintf(f->path, sizeof f->path, "%s/%s%s", dir, stem, suffix[i]);
        if (n < 0 || (size_t)n >= sizeof f->path)
            return error_set(err, DSGD_E_IO,
                             "--data: \"%.40s…\" is too long for a path", dir);
        f->file = gzopen(f->path, "rb");
        if (f->file) {
            gzbuffer(f->file, BUFFER_BYTES);
            return DSGD_OK;
        }
        if (errno != ENOENT)
            return error_set(err, DSGD_E_IO, "%.300s: %s", f->path,
                             errno ? strerror(errno) : "no memory");
    }
    return error_set(err, DSGD_E_IO,
                     "--data: neither %s nor %s.gz is in %.200s", stem, stem,
                     dir);
}

/* Read exactly n bytes at offset `at` of `total`. */
static enum dsgd_err idx_read(struct idx *f, void *to, size_t n, size_t at,
                              size_t total, struct dsgd_error *err)
{
    size_t got = 0;

    while (got < n) {
        size_t want = n - got < 1 << 30 ? n - got : 1 << 30;
        int some = gzread(f->file, (char *)to + got, (unsigned)want);
        if (some <= 0)
            break;
        got += (size_t)some;
    }
    if (got == n)
        return DSGD_OK;
    int code;
    const char *why = gzerror(f->file, &code); /* begins with the path */
    if (code == Z_ERRNO)
        return error_set(err, DSGD_E_IO, "%.300s: %s", f->path,
                         strerror(errno));
    if (code != Z_OK && code != Z_BUF_ERROR)
        return error_set(err, DSGD_E_FORMAT, "%.400s", why);
    return error_set(err, DSGD_E_FORMAT,
                     "%.300s is cut short: %zu bytes of %zu", f->path, at + got,
                     total);
}

static size_t be32(const unsigned char *p)
{
    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

static size_t header_bytes(unsigned magic)
{
    return 4 + 4 * (size_t)(magic & 0xff);
}

static enum dsgd_err idx_header(struct idx *f, unsigned magic,
                                struct dsgd_error *err)
{
    unsigned char head[16] = {0};
    size_t n_dims = magic & 0xff, bytes = header_bytes(magic);
    enum dsgd_err rc = idx_read(f, head, bytes, 0, bytes, err);

    if (rc != DSGD_OK)
        return rc;
    if (be32(head) != magic)
        return error_set(err, DSGD_E_FORMAT,
                         "%.300s is not an IDX file of %s: it begins with "
                         "%08zx, not %08x",
                         f->path, n_dims == 3 ? "images" : "labels", be32(head),
                         magic);
    for (size_t i = 0; i < 3; i++)
        f->shape[i] = i < n_dims ? be32(head + 4 + 4 * i) : 1;
    if (f->shape[0] < 1 || f->shape[0] > MAX_ITEMS || f->shape[1] < 1 ||
        f->shape[1] > MAX_SIDE || f->shape[2] < 1 || f->shape[2] > MAX_SIDE)
        return error_set(err, DSGD_E_FORMAT,
                         "%.300s: its header says %zu items of %zu x %zu, "
                         "which is not a data set (up to %d of up to %d x %d)",
                         f->path, f->shape[0], f->shape[1], f->shape[2],
                         MAX_ITEMS, MAX_SIDE, MAX_SIDE);
    return DSGD_OK;
}

/* Read the first n items after the header; when these are all, nothing may
 * follow. */
static enum dsgd_err idx_items(struct idx *f, unsigned magic, size_t n,
                               uint8_t **items, struct dsgd_error *err)
{
    size_t each = f->shape[1] * f->shape[2], head = header_bytes(magic);
    unsigned char extra;

    *items = malloc(n * each);
    if (!*items)
        return error_set(err, DSGD_E_NOMEM, "%.300s: no memory for %zu bytes",
                         f->path, n * each);
    enum dsgd_err rc =
        idx_read(f, *items, n * each, head, head + f->shape[0] * each, err);
    if (rc != DSGD_OK)
        return rc;
    /* This read also makes zlib compare the checksum at the end. */
    if (n == f->shape[0] && gzread(f->file, &extra, 1) > 0)
        return error_set(err, DSGD_E_FORMAT,
                         "%.300s is longer than the %zu items that its header "
                         "says",
                         f->path, n);
    int code;
    const char *why = gzerror(f->file, &code);
    if (code != Z_OK)
        return error_set(err, DSGD_E_FORMAT, "%.400s", why);
    return DSGD_OK;
}

static enum dsgd_err check_counts(const struct idx *images,
                                  const struct idx *labels, size_t limit,
                                  struct dsgd_error *err)
{
    if (images->shape[0] != labels->shape[0])
        return error_set(err, DSGD_E_FORMAT,
                         "%.200s has %zu images, and %.200s has %zu labels",
                         images->path, images->shape[0], labels->path,
                         labels->shape[0]);
    if (limit > images->shape[0])
        return error_set(err, DSGD_E_USAGE,
                         "--train-samples: %zu is more than the %zu images in "
                         "%.300s",
                         limit, images->shape[0], images->path);
    return DSGD_OK;
}

static enum dsgd_err check_labels(const struct idx *f,
                                  const struct train_set *set, size_t classes,
                                  struct dsgd_error *err)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->labels[i] >= classes)
            return error_set(err, DSGD_E_FORMAT,
                             "%.300s: label %zu is %u, and there are only %zu "
                             "classes (0 to %zu)",
                             f->path, i, set->labels[i], classes, classes - 1);
    }
    return DSGD_OK;
}

/* Both files are open: read them. */
static enum dsgd_err read_pair(struct idx *images, struct idx *labels,
                               size_t limit, size_t classes,
                               struct train_set *set, struct dsgd_error *err)
{
    enum dsgd_err rc = idx_header(images, MAGIC_IMAGES, err);

    if (rc == DSGD_OK)
        rc = idx_header(labels, MAGIC_LABELS, err);
    if (rc == DSGD_OK)
        rc = check_counts(images, labels, limit, err);
    if (rc != DSGD_OK)
        return rc;
    set->n = limit ? limit : images->shape[0];
    set->rows = images->shape[1];
    set->cols = images->shape[2];
    rc = idx_items(labels, MAGIC_LABELS, set->n, &set->labels, err);
    if (rc == DSGD_OK)
        rc = check_labels(labels, set, classes, err);
    if (rc == DSGD_OK)
        rc = idx_items(images, MAGIC_IMAGES, set->n, &set->pixels, err);
    return rc;
}

enum dsgd_err train_set_read(const char *dir, const char *prefix, size_t limit,
                             size_t classes, struct train_set *set,
                             struct dsgd_error *err)
{
    struct idx images = {0}, labels = {0};
    char stem[64];

    memset(set, 0, sizeof *set);
    enum dsgd_err rc = check_dir(dir, err);
    if (rc != DSGD_OK)
        return rc;
    snprintf(stem, sizeof stem, "%.32s-images-idx3-ubyte", prefix);
    rc = idx_open(&images, dir, stem, err);
    if (rc == DSGD_OK) {
        snprintf(stem, sizeof stem, "%.32s-labels-idx1-ubyte", prefix);
        rc = idx_open(&labels, dir, stem, err);
    }
    if (rc == DSGD_OK)
        rc = read_pair(&images, &labels, limit, classes, set, err);
    if (images.file)
        gzclose_r(images.file);
    if (labels.file)
        gzclose_r(labels.file);
    if (rc != DSGD_OK)
        train_set_free(set);
    return rc;
}

void train_set_free(struct train_set *set)
{
    free(set->pixels);
    free(set->labels);
    memset(set, 0, sizeof *set);
}
