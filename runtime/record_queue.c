#include "record_queue.h"

#include <stdlib.h>
#include <string.h>

enum { SKIP = 0 }; /* kind of the filler at the end of the ring */

struct entry {
    uint32_t kind;
    uint32_t bytes; /* of the payload, a multiple of 8 */
};

bool record_queue_init(struct record_queue *q, size_t bytes)
{
    size_t size = 4096;

    memset(q, 0, sizeof *q);
    while (size < bytes) {
        if (size > SIZE_MAX / 4)
            return false;
        size *= 2;
    }
    q->buf = malloc(size);
    if (!q->buf)
        return false;
    memset(q->buf, 0, size);
    q->size = size;
    return true;
}

void record_queue_free(struct record_queue *q)
{
    free(q->buf);
    q->buf = NULL;
}

void *record_queue_reserve(struct record_queue *q, uint32_t kind, size_t bytes)
{
    size_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
    size_t at = head & (q->size - 1), to_end = q->size - at;

    if (bytes > q->size / 2)
        return NULL;
    struct entry entry = {kind, (uint32_t)((bytes + 7) & ~(size_t)7)};
    size_t need = sizeof entry + entry.bytes;
    size_t skip = need > to_end ? to_end : 0;
    if (skip + need > q->size - (head - tail))
        return NULL;
    if (skip) {
        struct entry filler = {SKIP, (uint32_t)(to_end - sizeof filler)};
        memcpy(q->buf + at, &filler, sizeof filler);
        at = 0;
    }
    memcpy(q->buf + at, &entry, sizeof entry);
    q->next = head + skip + need;
    return q->buf + at + sizeof entry;
}

void record_queue_publish(struct record_queue *q)
{
    atomic_store_explicit(&q->head, q->next, memory_order_release);
}

const void *record_queue_read(struct record_queue *q, uint32_t *kind)
{
    size_t head = atomic_load_explicit(&q->head, memory_order_acquire);

    while (q->cursor != head) {
        const unsigned char *at = q->buf + (q->cursor & (q->size - 1));
        struct entry entry;
        memcpy(&entry, at, sizeof entry);
        q->cursor += sizeof entry + entry.bytes;
        if (entry.kind != SKIP) {
            *kind = entry.kind;
            return at + sizeof entry;
        }
    }
    return NULL;
}

void record_queue_rewind(struct record_queue *q)
{
    q->cursor = atomic_load_explicit(&q->tail, memory_order_relaxed);
}

void record_queue_release(struct record_queue *q)
{
    atomic_store_explicit(&q->tail, q->cursor, memory_order_release);
}

size_t record_queue_used(const struct record_queue *q)
{
    size_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
    return atomic_load_explicit(&q->head, memory_order_acquire) - tail;
}
