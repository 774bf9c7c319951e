/* IDX files, good and hostile. */
#include "train_idx.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "scratch.h"
#include "tap.h"
#include "train_data.h"

static char dir[] = "/tmp/dsgd-idx-XXXXXX";

static const char *const names[] = {
    "train-images-idx3-ubyte",    "train-labels-idx1-ubyte",
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte",     "t10k-labels-idx1-ubyte"};

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void wipe(void)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unlink(path_of(names[i]));
        rmdir(path_of(names[i]));
    }
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    const char *path = path_of(name);

    if (strstr(name, ".gz")) {
        gzFile f = gzopen(path, "wb");
        gzwrite(f, bytes, (unsigned)n);
        gzclose(f);
    } else {
        FILE *f = fopen(path, "wb");
        fwrite(bytes, 1, n, f);
        fclose(f);
    }
}

/* 3 images of 2 x 4 pixels, and their labels. */
static const unsigned char images[] = {
    0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4, 1,   2,   3,   4,
    5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2, 0, 0, 0, 0, 255, 255, 255, 255};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 0, 4};

static void write_good(const char *prefix, const char *suffix)
{
    char name[64];

    snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", prefix, suffix);
    write_file(name, images, sizeof images);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", prefix, suffix);
    write_file(name, labels, sizeof labels);
}

static enum dsgd_err read_set(size_t limit, struct dsgd_error *err)
{
    struct train_set set;
    enum dsgd_err rc = train_set_read(dir, "train", limit, 10, &set, err);

    if (rc != DSGD_OK && (set.n || set.pixels || set.labels))
        return DSGD_E_STATE; /* an error must leave nothing */
    train_set_free(&set);
    return rc;
}

/* Expect an error whose text has all parts. */
static void refuses(const char *what, size_t limit, enum dsgd_err want,
                    const char *part, const char *more)
{
    struct dsgd_error err = {""};

    is_int(read_set(limit, &err), want, what);
    has_str(err.text, part, "its text");
    if (more)
        has_str(err.text, more, "its text");
    wipe();
}

static void test_good(const char *suffix)
{
    struct train_set set;
    struct dsgd_error err;

    write_good("train", suffix);
    if (!ok(train_set_read(dir, "train", 0, 10, &set, &err) == DSGD_OK,
            "a good pair \"%s\"", suffix))
        printf("#   %s\n", err.text);
    ok(set.n == 3 && set.rows == 2 && set.cols == 4, "its shape");
    ok(memcmp(set.pixels, images + 16, 24) == 0, "its pixels");
    ok(memcmp(set.labels, labels + 8, 3) == 0, "its labels");
    train_set_free(&set);
    train_set_read(dir, "train", 2, 10, &set, &err);
    ok(set.n == 2 && set.pixels[15] == 2, "the first two only");
    train_set_free(&set);
    wipe();
}

static void test_missing(void)
{
    struct train_set set;
    struct dsgd_error err;

    is_int(train_set_read("/nonexistent/mnist", "train", 0, 10, &set, &err),
           DSGD_E_IO, "no folder");
    has_str(err.text, "/nonexistent/mnist: No such file or directory",
            "names the folder");
    has_str(err.text, "apt-get install dataset-fashion-mnist", "the remedy");
    is_int(train_set_read("/dev/null", "train", 0, 10, &set, &err), DSGD_E_IO,
           "not a folder");
    refuses("an empty folder", 0, DSGD_E_IO,
            "neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz is "
            "in",
            dir);
    write_file(names[0], images, sizeof images);
    refuses("no labels", 0, DSGD_E_IO,
            "neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz",
            NULL);
    write_good("train", "");
    unlink(path_of(names[0]));
    mkdir(path_of(names[0]), 0700);
    refuses("a folder in place of a file", 0, DSGD_E_IO, "Is a directory",
            names[0]);
}

/* The good pair with bytes of the images or labels replaced. */
static void write_changed(bool of_labels, size_t at, unsigned char value)
{
    unsigned char changed[sizeof images];
    size_t n = of_labels ? sizeof labels : sizeof images;

    write_good("train", "");
    memcpy(changed, of_labels ? labels : images, n);
    changed[at] = value;
    write_file(names[of_labels], changed, n);
}

static void test_hostile(void)
{
    write_changed(false, 3, 1);
    refuses("images with the magic of labels", 0, DSGD_E_FORMAT,
            "is not an IDX file of images: it begins with 00000801, not "
            "00000803",
            names[0]);
    write_changed(true, 2, 13);
    refuses("labels of floats", 0, DSGD_E_FORMAT,
            "is not an IDX file of labels: it begins with 00000d01", names[1]);
    write_changed(false, 7, 0);
    refuses("no images", 0, DSGD_E_FORMAT, "its header says 0 items", NULL);
    write_changed(false, 8, 255);
    refuses("four thousand million rows", 0, DSGD_E_FORMAT, "4278190082", NULL);
    write_changed(false, 4, 255);
    refuses("four thousand million images", 0, DSGD_E_FORMAT, "4278190083",
            NULL);
    write_changed(false, 7, 4);
    refuses("one image more than labels", 0, DSGD_E_FORMAT, "has 4 images",
            "has 3 labels");
    write_changed(true, 9, 10);
    refuses("a label out of range", 0, DSGD_E_FORMAT,
            "label 1 is 10, and there are only 10 classes (0 to 9)", names[1]);
    write_good("train", "");
    refuses("more than there are", 4, DSGD_E_USAGE,
            "--train-samples: 4 is more than the 3 images", names[0]);
}

static void test_short(void)
{
    write_good("train", "");
    write_file(names[0], images, 0);
    refuses("an empty file", 0, DSGD_E_FORMAT, "is cut short: 0 bytes of 16",
            names[0]);
    write_good("train", "");
    write_file(names[0], images, 15);
    refuses("half a header", 0, DSGD_E_FORMAT, "is cut short: 15 bytes of 16",
            NULL);
    write_good("train", "");
    write_file(names[0], images, sizeof images - 1);
    refuses("one pixel missing", 0, DSGD_E_FORMAT,
            "is cut short: 39 bytes of 40", names[0]);
    write_good("train", "");
    write_file(names[1], labels, sizeof labels - 2);
    refuses("two labels missing", 0, DSGD_E_FORMAT,
            "is cut short: 9 bytes of 11", names[1]);
    write_good("train", "");
    unsigned char longer[sizeof labels + 1] = {0};
    memcpy(longer, labels, sizeof labels);
    write_file(names[1], longer, sizeof longer);
    refuses("a byte too many", 0, DSGD_E_FORMAT, "is longer than the 3 items",
            names[1]);
}

/* A gzip file cut at every length is an error, whatever is cut. */
static void test_short_gz(void)
{
    unsigned char bytes[256];
    struct dsgd_error err;
    size_t refused = 0;

    write_good("train", ".gz");
    FILE *f = fopen(path_of(names[2]), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut++) {
        f = fopen(path_of(names[2]), "wb");
        fwrite(bytes, 1, cut, f);
        fclose(f);
        refused += read_set(0, &err) == DSGD_E_FORMAT;
    }
    is_int((long long)refused, (long long)n, "a gzip file cut anywhere");
    bytes[n - 6] ^= 1; /* in its checksum */
    f = fopen(path_of(names[2]), "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
    refuses("a gzip file with a wrong checksum", 0, DSGD_E_FORMAT,
            "incorrect data check", names[2]);
}

static void test_data(void)
{
    struct train_data data;
    struct dsgd_error err;
    float x[8];
    double sum = 0, squares = 0;

    write_good("train", "");
    write_good("t10k", "");
    is_int(train_data_read(dir, 0, true, &data, &err), DSGD_OK, "both sets");
    for (size_t i = 0; i < 3; i++) {
        train_data_input(&data, &data.train, i, x);
        for (size_t k = 0; k < 8; k++) {
            sum += x[k];
            squares += (double)x[k] * x[k];
        }
    }
    near(sum / 24, 0, 1e-6, "inputs have mean 0");
    near(squares / 24, 1, 1e-6, "inputs have variance 1");
    train_data_free(&data);

    unlink(path_of(names[4]));
    is_int(train_data_read(dir, 0, true, &data, &err), DSGD_E_IO,
           "no test images");
    has_str(err.text, "t10k-images-idx3-ubyte", "its text");
    is_int(train_data_read(dir, 0, false, &data, &err), DSGD_OK,
           "nobody tests: no test images needed");
    train_data_free(&data);

    unsigned char turned[sizeof images];
    memcpy(turned, images, sizeof images);
    turned[11] = 4;
    turned[15] = 2;
    write_file(names[4], turned, sizeof turned);
    is_int(train_data_read(dir, 0, true, &data, &err), DSGD_E_FORMAT,
           "test images of another shape");
    has_str(err.text, "training images have 2 x 4 pixels, test images 4 x 2",
            "its text");
    memset(turned + 16, 7, 24);
    memcpy(turned, images, 16);
    write_file(names[0], turned, sizeof turned);
    is_int(train_data_read(dir, 0, false, &data, &err), DSGD_E_FORMAT,
           "all pixels equal");
    has_str(err.text, "has the value 7", "its text");
    wipe();
}

int main(void)
{
    scratch_dir(dir);
    test_good("");
    test_good(".gz");
    test_missing();
    test_hostile();
    test_short();
    test_short_gz();
    test_data();
    return done();
}
