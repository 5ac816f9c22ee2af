/* A memory pool of Plasmon as a table of functions.
 *
 * Allocators of other libraries (Arrow's MemoryPool, for example) are often built apart from this
 * library. They take a pool as this table, from plasmon_pool_open() in C, or in Python from the
 * capsule "plasmon_pool_api" that plasmon's native module makes. Every function may be called from
 * any thread.
 */
#ifndef PLASMON_POOL_H
#define PLASMON_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counters of a pool. */
typedef struct plasmon_pool_figures {
    /* Bytes of buffers in use, now and at most. */
    int64_t allocated_bytes;
    int64_t allocated_bytes_max;
    /* Bytes ever allocated, growth included, and buffers ever allocated. */
    int64_t total_bytes;
    int64_t allocations;
} plasmon_pool_figures;

/* A pool. `pool` goes first into every function. */
typedef struct plasmon_pool_api {
    /* sizeof(plasmon_pool_api) where it was made: more functions may follow in later versions. */
    size_t size;
    void *pool;
    /* Writes the address of a new buffer, a multiple of 64. Returns 0 or a plasmon_code. */
    int (*allocate)(void *pool, int64_t bytes, uint8_t **out);
    /* Changes a buffer's size; it may move, and keeps its contents. After an error it is
     * unchanged. */
    int (*reallocate)(void *pool, int64_t bytes, uint8_t **inout);
    /* Releases a buffer. Does nothing in a forked child. */
    void (*release)(void *pool, uint8_t *address);
    /* Gives idle memory back to the store. */
    void (*release_unused)(void *pool);
    void (*figures)(void *pool, plasmon_pool_figures *out);
    /* Add and drop a reference. Dropping the last one ends the pool; by then no buffer may be in
     * use. */
    void (*retain)(void *pool);
    void (*close)(void *pool);
} plasmon_pool_api;

#ifdef __cplusplus
}
#endif

#endif
