/* A queue of rows between one producer and one consumer: bytes in a ring that
 * is allocated once.  The consumer reads ahead of what it releases, so that a
 * batch that could not be stored can be read again. */
#ifndef DSGD_RECORD_QUEUE_H
#define DSGD_RECORD_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record_queue {
    unsigned char *buf;
    size_t size;         /* a power of two */
    _Atomic size_t head; /* bytes ever published */
    _Atomic size_t tail; /* bytes ever released; tail <= cursor <= head */
    size_t cursor;       /* bytes ever read: the consumer's */
    size_t next;         /* head after record_queue_publish: the producer's */
};

/* Allocate, and touch, at least bytes.  False: no memory. */
bool record_queue_init(struct record_queue *q, size_t bytes);
void record_queue_free(struct record_queue *q);

/* Producer.  Room for a row of bytes, 8-aligned, or NULL when the queue is
 * full; it becomes visible with record_queue_publish.  kind >= 1.  Does not
 * block, no system call. */
void *record_queue_reserve(struct record_queue *q, uint32_t kind, size_t bytes);
void record_queue_publish(struct record_queue *q);

/* Consumer.  The next row, or NULL; valid until it is released. */
const void *record_queue_read(struct record_queue *q, uint32_t *kind);
/* Go back to the first row that was not released, or release what was read. */
void record_queue_rewind(struct record_queue *q);
void record_queue_release(struct record_queue *q);

/* Bytes published and not released; either side may ask. */
size_t record_queue_used(const struct record_queue *q);

#endif
