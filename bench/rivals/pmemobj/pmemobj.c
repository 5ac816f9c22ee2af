/* Puts into a pool of libpmemobj: one transaction each, durable when it returns.
 *
 *   pmemobj <pool> <pool bytes> <object bytes> <count> <way>
 *
 * Ways: "rpmp", as RPMP's data server has it (PmemAllocator.h): under one lock, a transaction that
 * allocates zeroed memory, copies the value into it and links it at the head of a list. "tx_alloc":
 * memory that is not zeroed first, no list. Nothing is freed: each value comes to memory that was
 * not written before, as in a log. Prints the nanoseconds of each put, one a line, the first one
 * left out.
 */
#include <libpmemobj.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct entry {
    PMEMoid next, previous;
    uint64_t bytes;
    PMEMoid data;
};

struct root {
    PMEMoid head;
};

static PMEMobjpool *pool;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A value in memory of its own. */
static void put_alone(const char *value, size_t bytes) {
    TX_BEGIN(pool) {
        PMEMoid made = pmemobj_tx_alloc(bytes, 1);
        memcpy(pmemobj_direct(made), value, bytes);
    }
    TX_ONABORT { fail("tx_alloc"); }
    TX_END
}

/* A value and its entry at the head of the list. */
static void put_listed(struct root *root, const char *value, size_t bytes) {
    pthread_rwlock_wrlock(&lock);
    TX_BEGIN(pool) {
        PMEMoid made = pmemobj_tx_zalloc(sizeof(struct entry), 2);
        struct entry *entry = pmemobj_direct(made);
        entry->data = pmemobj_tx_zalloc(bytes, 1);
        entry->bytes = bytes;
        memcpy(pmemobj_direct(entry->data), value, bytes);
        pmemobj_tx_add_range_direct(root, sizeof(*root));
        entry->next = root->head;
        if (!OID_IS_NULL(root->head)) {
            struct entry *first = pmemobj_direct(root->head);
            pmemobj_tx_add_range_direct(first, sizeof(*first));
            first->previous = made;
        }
        root->head = made;
    }
    TX_ONABORT { fail("tx_zalloc"); }
    TX_END
    pthread_rwlock_unlock(&lock);
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: pmemobj POOL POOL_BYTES OBJECT_BYTES COUNT WAY\n");
        return 2;
    }
    size_t bytes = strtoull(words[3], NULL, 10);
    long turns = strtol(words[4], NULL, 10);
    int listed = strcmp(words[5], "rpmp") == 0;
    pool = pmemobj_create(words[1], "plasmon-bench", strtoull(words[2], NULL, 10), 0600);
    if (pool == NULL) {
        fail("pmemobj_create");
    }
    PMEMoid root_id = pmemobj_root(pool, sizeof(struct root));
    struct root *root = pmemobj_direct(root_id);
    char *value = malloc(bytes);
    if (value == NULL || root == NULL) {
        fail("memory");
    }
    for (size_t at = 0; at < bytes; at++) {
        value[at] = (char)(at * 31 + at / 251);
    }
    for (long turn = -1; turn < turns; turn++) {
        uint64_t begin = now();
        if (listed) {
            put_listed(root, value, bytes);
        } else {
            put_alone(value, bytes);
        }
        uint64_t taken = now() - begin;
        if (turn >= 0) {
            printf("%llu\n", (unsigned long long)taken);
        }
    }
    pmemobj_close(pool);
    return 0;
}
