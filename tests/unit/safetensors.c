/* Reading and writing model files: what is not one, is cut short or lies is
 * refused by name. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors.h"
#include "tap.h"

static char dir[] = "/tmp/dsgd-test-XXXXXX";
static struct dsgd_error err;

/* A file of this header, length and bytes of data, the floats 0, 1, … */
static enum dsgd_err parse(const char *header, uint64_t length, size_t bytes,
                           struct safetensors **s)
{
    size_t n = strlen(header);
    unsigned char *file = calloc(1, 8 + n + bytes + 1);

    err.text[0] = '\0';
    memcpy(file, &length, 8);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        memcpy(file + 8 + n + i * sizeof(float), &(float){(float)i},
               sizeof(float));
    enum dsgd_err rc = safetensors_parse("FILE", file, 8 + n + bytes, s, &err);
    free(file);
    return rc;
}

/* Is there such a tensor, and does it begin so many floats in? */
static bool is_at(const struct safetensors *s, const char *name, size_t first)
{
    const struct safetensor *t = safetensors_find(s, name);

    return t && t->n && t->data[0] == (float)first;
}

static void refuse(const char *header, size_t bytes, const char *part,
                   const char *name)
{
    struct safetensors *s = (void *)1;
    enum dsgd_err rc = parse(header, strlen(header), bytes, &s);

    ok(rc == DSGD_E_FORMAT && !s && strstr(err.text, part), "%s", name);
    if (!strstr(err.text, part))
        printf("#   \"%s\" lacks \"%s\"\n", err.text, part);
}

#define T(name, dtype, shape, from, to)                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
    ",\"data_offsets\":[" from "," to "]}"

static void test_refused(void)
{
    struct safetensors *s;

    refuse("{" T("a", "F32", "[2]", "0", "8") "}", 4, "cut short: tensor \"a\"",
           "data cut short");
    refuse("{" T("a", "F32", "[2]", "0", "8") "}", 12, "4 bytes behind",
           "data too long");
    refuse("{" T("a", "F32", "[3]", "0", "8") "}", 8, "do not fit",
           "a shape that lies");
    refuse("{" T("a", "F32", "[2]", "8", "0") "}", 8, "do not fit",
           "offsets that run backwards");
    refuse("{" T("a", "F32", "[2]", "4", "12") "}", 12, "after a gap",
           "a gap before the first");
    refuse("{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4",
                                                    "12") "}",
           12, "inside the one before", "tensors that overlap");
    refuse("{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "0",
                                                    "8") "}",
           8, "inside the one before", "two tensors in one place");
    refuse("{" T("a", "F64", "[1]", "0", "8") "}", 8, "is F64",
           "another dtype");
    refuse("{" T("a", "F32", "[1,1,1,1,1]", "0", "4") "}", 4, "5 dimensions",
           "too many dimensions");
    refuse("{" T("a", "F32", "[-1]", "0", "4") "}", 4, "impossible shape",
           "a negative size");
    refuse("{" T("a", "F32", "[4294967296,4294967296,4]", "0", "0") "}", 0,
           "impossible shape", "a product that overflows");
    refuse("{" T("a", "F32", "[4611686018427387904]", "0", "0") "}", 0,
           "do not fit", "bytes that overflow");
    refuse("{" T("a", "F32", "[\"2\"]", "0", "8") "}", 8, "impossible shape",
           "a size that is no number");
    refuse("{\"a\":{\"dtype\":\"F32\"}}", 0, "lacks", "no shape");
    refuse("{\"a\":3}", 0, "lacks", "a tensor that is a number");
    refuse("{\"__metadata__\":{\"k\":1}}", 0, "not a string",
           "metadata that are no strings");
    refuse("{\"__metadata__\":[]}", 0, "__metadata__",
           "metadata that are no object");
    refuse("{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "0",
                                                    "4") "}",
           4, "not a safetensors", "a name twice");
    refuse("{\"a\":", 0, "not a safetensors", "broken JSON");
    refuse("[]", 0, "no JSON object", "JSON that is no object");
    ok(parse("{}", 100, 0, &s) == DSGD_E_FORMAT &&
           strstr(err.text, "cut short"),
       "a header cut short");
    ok(parse("{}", UINT64_MAX, 0, &s) == DSGD_E_FORMAT, "a header of 2^64 - 1");
    ok(safetensors_parse("FILE", "abc", 3, &s, &err) == DSGD_E_FORMAT &&
           strstr(err.text, "shorter than 8"),
       "three bytes");
    ok(safetensors_parse("FILE", "SQLite format 3", 16, &s, NULL) ==
           DSGD_E_FORMAT,
       "another kind of file, no error wanted");
}

/* A header as large as is read, of tensors in reverse: must not take
 * minutes. */
static void test_many(void)
{
    enum { N = 150000, ENTRY = 96 };
    char *header = malloc((size_t)N * ENTRY), *at = header;
    struct safetensors *s;

    for (int i = 0; i < N; i++)
        at += sprintf(at,
                      "%s\"%x\":{\"dtype\":\"F32\",\"shape\":[1],"
                      "\"data_offsets\":[%d,%d]}",
                      i ? "," : "{", (unsigned)i, 4 * (N - 1 - i), 4 * (N - i));
    strcpy(at, "}");
    ok(parse(header, strlen(header), 4 * (size_t)N, &s) == DSGD_OK &&
           is_at(s, "0", N - 1) && is_at(s, "249ef", 0),
       "many tensors, in reverse");
    safetensors_free(s);
    at = header + sprintf(header, "{\"__metadata__\":{");
    for (int i = 0; i <= SAFETENSORS_MAX_META; i++)
        at += sprintf(at, "%s\"%x\":\"\"", i ? "," : "", (unsigned)i);
    strcpy(at, "}}");
    refuse(header, 0, "4097 metadata; at most 4096", "metadata without end");
    free(header);
}

static void test_accepted(void)
{
    struct safetensors *s;

    ok(parse("{}  ", 4, 0, &s) == DSGD_OK && !safetensors_find(s, ""),
       "no tensors, blanks behind the header");
    safetensors_free(s);
    ok(parse("{" T("b", "F32", "[1]", "8",
                   "12") "," T("e", "F32", "[0,3]", "8",
                               "8") "," T("a", "F32", "[2]", "0", "8") "}",
             strlen("{" T("b", "F32", "[1]", "8", "12") "," T(
                 "e", "F32", "[0,3]", "8", "8") "," T("a", "F32", "[2]", "0",
                                                      "8") "}"),
             12, &s) == DSGD_OK,
       "any order, an empty tensor between");
    ok(is_at(s, "a", 0) && is_at(s, "b", 2), "each where it says");
    ok(!safetensors_find(s, "c") && safetensors_find(s, "b"), "found by name");
    ok(!safetensors_meta(s, "k"), "no metadata");
    safetensors_free(s);
    safetensors_free(NULL);
}

static void test_written(void)
{
    static const float value[] = {1, -2.5f, 3e-20f, 0, 7, 8};
    const struct safetensor t[] = {
        {.name = "w.x", .n_dims = 2, .shape = {2, 2}, .data = value},
        {.name = "b\"\xc3\xa4", .n_dims = 1, .shape = {2}, .data = value + 4}};
    const struct safetensors_meta meta[] = {{"model", "set"}, {"k", "a\n\"b"}};
    struct safetensors *s;
    struct safetensors_meta got;
    char path[64], odd[64];
    size_t n = 0;

    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    ok(safetensors_save(path, t, 2, meta, 2, &err) == DSGD_OK, "written");
    ok(safetensors_save(path, t, 2, meta, 2, &err) == DSGD_OK, "written over");
    ok(safetensors_load(path, &s, &err) == DSGD_OK, "read again");
    const struct safetensor *w = s ? safetensors_find(s, "w.x") : NULL;
    ok(w && w->n_dims == 2 && w->shape[1] == 2 && w->n == 4 &&
           memcmp(w->data, value, sizeof value - 8) == 0,
       "same bits");
    ok(s && safetensors_find(s, "b\"\xc3\xa4")->data[1] == 8, "an odd name");
    is_str(safetensors_meta(s, "k"), "a\n\"b", "metadata");
    while (safetensors_meta_at(s, n, &got))
        n++;
    is_int((long long)n, 2, "all metadata");
    safetensors_free(s);
    struct stat st;
    ok(stat(path, &st) == 0 && st.st_size % 8 == 0, "data begin at 8 bytes");
    unlink(path);

    const struct safetensor twice[] = {t[0], t[0]};
    ok(safetensors_save(path, twice, 2, NULL, 0, &err) == DSGD_E_RANGE &&
           access(path, F_OK) != 0,
       "a name twice");
    snprintf(odd, sizeof odd, "%s/none/m", dir);
    ok(safetensors_save(odd, t, 2, NULL, 0, &err) == DSGD_E_IO &&
           strstr(err.text, "none/m"),
       "no such directory");
    ok(safetensors_save("/dev/full/m", t, 2, NULL, 0, &err) == DSGD_E_IO,
       "not a directory");
}

/* Write the header of a file, then let the rest be missing, byte by byte. */
static void test_every_length(void)
{
    const struct safetensor t = {
        .name = "a", .n_dims = 1, .shape = {2}, .data = (float[]){1, 2}};
    char path[64];
    unsigned char bytes[256];
    struct safetensors *s;
    size_t refused = 0;

    snprintf(path, sizeof path, "%s/m", dir);
    safetensors_save(path, &t, 1, NULL, 0, NULL);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    unlink(path);
    for (ssize_t i = 0; i < n; i++) {
        unsigned char *exact = malloc((size_t)i + !i);
        memcpy(exact, bytes, (size_t)i);
        refused += safetensors_parse("FILE", exact, (size_t)i, &s, &err) ==
                   DSGD_E_FORMAT;
        free(exact);
    }
    ok(n > 0 && refused == (size_t)n, "each of %zd shorter files is refused",
       n);
    ok(safetensors_parse("FILE", bytes, (size_t)n, &s, &err) == DSGD_OK,
       "the whole is not");
    safetensors_free(s);
}

static void test_not_files(void)
{
    struct safetensors *s;
    char path[64];

    ok(safetensors_load("/nonexistent/x", &s, &err) == DSGD_E_IO &&
           strstr(err.text, "/nonexistent/x"),
       "no file");
    ok(safetensors_load(dir, &s, &err) == DSGD_E_IO, "a directory");
    snprintf(path, sizeof path, "%s/fifo", dir);
    ok(mkfifo(path, 0600) == 0 &&
           safetensors_load(path, &s, &err) == DSGD_E_IO && !s,
       "a pipe does not hang");
    unlink(path);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_refused();
    test_accepted();
    test_many();
    test_written();
    test_every_length();
    test_not_files();
    rmdir(dir);
    return done();
}
