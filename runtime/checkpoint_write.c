#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "checkpoint_file.h"
#include "checkpoint_format.h"
#include "error.h"
#include "record_schema.h"
#include "text.h"

struct section {
    const char *name;
    const void *data;
    size_t bytes;
};
enum { N_SECTIONS = 4 };

static char *facts_text(const struct checkpoint_facts *f)
{
    char program[2 * sizeof f->program], identity[2 * sizeof f->identity],
        run[2 * sizeof f->run];

    text_to_utf8(program, f->program);
    text_to_utf8(identity, f->identity);
    text_to_utf8(run, f->run);
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}",
        "program", program, "identity", identity, "grad_elems",
        (json_int_t)f->grad_elems, "n_samples", (json_int_t)f->n_samples,
        "sampler", f->sampler == DSGD_SAMPLER_NONE ? "none" : "ranges", "step",
        (json_int_t)f->step, "epoch", (json_int_t)f->epoch, "batch",
        (json_int_t)f->batch, "n_workers", (json_int_t)f->n_workers, "n_nodes",
        (json_int_t)f->n_nodes, "run_samples", (json_int_t)f->run_samples,
        "run_s", f->run_s, "run", run);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    return text;
}

static void make_table(const struct section *s, unsigned char *table)
{
    uint64_t at = checkpoint_table_bytes(N_SECTIONS);
    unsigned char *to = table + CHECKPOINT_HEAD;

    memset(table, 0, checkpoint_table_bytes(N_SECTIONS));
    memcpy(table, CHECKPOINT_MAGIC, 8);
    record_put_u32(table + 8, CHECKPOINT_VERSION);
    record_put_u32(table + 12, N_SECTIONS);
    for (size_t i = 0; i < N_SECTIONS; i++, to += CHECKPOINT_ENTRY) {
        memcpy(to, s[i].name, strlen(s[i].name));
        record_put_u64(to + 16, at);
        record_put_u64(to + 24, s[i].bytes);
        record_put_u32(to + 32, checkpoint_crc(s[i].data, s[i].bytes));
        at += s[i].bytes;
    }
    record_put_u32(to, checkpoint_crc(table, (size_t)(to - table)));
}

static enum dsgd_err write_file(const char *path, const struct section *s,
                                struct dsgd_error *err)
{
    unsigned char table[CHECKPOINT_HEAD + N_SECTIONS * CHECKPOINT_ENTRY + 4];
    struct atomic_file f;
    enum dsgd_err rc =
        atomic_file_begin(&f, path, 0600, ATOMIC_FILE_DURABLE, err);

    if (rc != DSGD_OK)
        return rc;
    make_table(s, table);
    atomic_file_write(&f, table, sizeof table);
    for (size_t i = 0; i < N_SECTIONS; i++)
        atomic_file_write(&f, s[i].data, s[i].bytes);
    return atomic_file_end(&f, err);
}

enum dsgd_err checkpoint_write(const char *path, const struct checkpoint *c,
                               struct dsgd_error *err)
{
    char *facts = facts_text(&c->facts);

    if (!facts)
        return error_set(err, DSGD_E_NOMEM, "%.300s: no memory", path);
    const struct section sections[N_SECTIONS] = {
        {"facts", facts, strlen(facts)},
        {"sampler", c->sampler, c->sampler_bytes},
        {"timing", c->timing, c->timing_bytes},
        {"state", c->state, c->state_bytes},
    };
    enum dsgd_err rc = write_file(path, sections, err);
    free(facts);
    return rc;
}
