/* The queue between the coordinator's thread and the record's. */
#include "record_queue.h"

#include <pthread.h>
#include <sched.h>

#include "tap.h"

enum { N_ROWS = 200000 };

/* Rows of 8 to 800 bytes, each filled with its number. */
static size_t row_words(uint64_t i)
{
    return 1 + i * 2654435761u % 100;
}

static void *produce(void *arg)
{
    struct record_queue *q = arg;

    for (uint64_t i = 0; i < N_ROWS;) {
        uint64_t *row = record_queue_reserve(q, 1 + i % 3, 8 * row_words(i));
        if (!row) {
            sched_yield();
            continue;
        }
        for (size_t k = 0; k < row_words(i); k++)
            row[k] = i;
        record_queue_publish(q);
        i++;
    }
    return NULL;
}

static void test_threads(void)
{
    struct record_queue q;
    pthread_t thread;
    uint64_t wrong = 0;

    ok(record_queue_init(&q, 1000), "a queue of a page");
    is_int((long long)q.size, 4096, "its size is a power of two");
    pthread_create(&thread, NULL, produce, &q);
    for (uint64_t i = 0; i < N_ROWS;) {
        uint32_t kind;
        const uint64_t *row = record_queue_read(&q, &kind);
        if (!row) {
            record_queue_release(&q);
            sched_yield();
            continue;
        }
        wrong += kind != 1 + i % 3;
        for (size_t k = 0; k < row_words(i); k++)
            wrong += row[k] != i;
        i++;
    }
    pthread_join(thread, NULL);
    is_int((long long)wrong, 0, "every row arrives once, whole, in order");
    record_queue_release(&q);
    is_int((long long)record_queue_used(&q), 0, "and the queue is empty");
    record_queue_free(&q);
}

static void test_full(void)
{
    struct record_queue q;
    uint32_t kind, n = 0, read = 0;
    const uint32_t *row;

    record_queue_init(&q, 4096);
    for (uint32_t *to; (to = record_queue_reserve(&q, 7, 100)); n++) {
        *to = n;
        record_queue_publish(&q);
    }
    is_int(n, 36, "36 rows of 8 + 104 bytes fit into 4096");
    while ((row = record_queue_read(&q, &kind)))
        read += *row == read && kind == 7;
    is_int(read, n, "all can be read");
    ok(!record_queue_reserve(&q, 7, 100),
       "rows that were read keep their room");
    record_queue_rewind(&q);
    row = record_queue_read(&q, &kind);
    ok(row && *row == 0, "after rewind the first is read again");
    record_queue_release(&q);
    ok(record_queue_reserve(&q, 7, 100) != NULL, "a released row makes room");
    ok(!record_queue_reserve(&q, 7, 3000),
       "a row of more than half is refused");
    record_queue_free(&q);
}

int main(void)
{
    test_full();
    test_threads();
    return done();
}
