/* What writer and reader of a checkpoint agree on.
 *
 *   magic[8]  version u32  n u32
 *   n entries: name[16]  offset u64  bytes u64  crc32 u32  0 u32
 *   crc32 u32 of all that is before it
 *   the sections, without gaps, to the file's end
 *
 * Numbers are little-endian. */
#ifndef DSGD_CHECKPOINT_FORMAT_H
#define DSGD_CHECKPOINT_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#define CHECKPOINT_MAGIC "DSGDCKPT"

enum {
    CHECKPOINT_VERSION = 1,
    CHECKPOINT_HEAD = 16,
    CHECKPOINT_ENTRY = 40,
    CHECKPOINT_NAME = 16,
    CHECKPOINT_MAX_SECTIONS = 16 /* a later version may have more than ours */
};

static inline size_t checkpoint_table_bytes(size_t n)
{
    return CHECKPOINT_HEAD + n * CHECKPOINT_ENTRY + 4;
}

static inline uint32_t checkpoint_crc(const void *data, size_t bytes)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, bytes);
}

#endif
