/* What writer and reader of a record agree on: dsgd-formats(5) in C. */
#ifndef DSGD_RECORD_SCHEMA_H
#define DSGD_RECORD_SCHEMA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record.h"

#define RECORD_APPLICATION_ID 0x44534744 /* "DSGD" */
#define RECORD_VERSION        1          /* PRAGMA user_version */

/* Statements that make an empty database a record. */
extern const char record_schema_sql[];

/* The telemetry features, DSGD_N_TELEMETRY of them. */
extern const char *const record_telemetry_name[DSGD_N_TELEMETRY];

/* The word stored for an event, and back; an unknown word is a NOTE, so that
 * an old reader gets along with new kinds. */
const char *record_event_word(enum record_event_kind kind);
enum record_event_kind record_event_kind(const char *word);

/* The path with its directory made canonical, and the last component left as it
 * is: then SQLite can be told to follow no symbolic link.
 *   out  [size] out
 * Errors: DSGD_E_IO (no such directory, too long). */
enum dsgd_err record_canonical(const char *path, char *out, size_t size,
                               struct dsgd_error *err);

/* Blobs of a step row: bytes for n workers.  Numbers are little-endian. */
static inline size_t record_mask_bytes(size_t n)
{
    return n / 8 + (n % 8 != 0);
}
static inline size_t record_float_bytes(size_t n)
{
    return 4 * n;
}
static inline size_t record_range_bytes(size_t n)
{
    return 12 * n; /* first, 8 bytes, and count, 4 */
}

static inline void record_put_u32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}
static inline void record_put_u64(unsigned char *to, uint64_t v)
{
    record_put_u32(to, (uint32_t)v);
    record_put_u32(to + 4, (uint32_t)(v >> 32));
}
static inline void record_put_f32(unsigned char *to, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    record_put_u32(to, bits);
}
static inline uint32_t record_get_u32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}
static inline uint64_t record_get_u64(const unsigned char *from)
{
    return record_get_u32(from) | (uint64_t)record_get_u32(from + 4) << 32;
}
static inline float record_get_f32(const unsigned char *from)
{
    uint32_t bits = record_get_u32(from);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

#endif
