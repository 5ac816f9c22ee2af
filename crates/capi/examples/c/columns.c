/*
 * Builds a column in the store, reads it in place, and puts a table whose buffers lie in a pool.
 *
 *     cc columns.c -lplasmon && ./a.out
 *
 * The structures of Arrow's C data interface are declared here; programs that use an Arrow library
 * have them from there.
 */
#undef NDEBUG /* the asserts are the point */
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

enum { ROWS = 100000 };

static void check(plasmon_code code, const char *what) {
    if (code != PLASMON_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, plasmon_error_message(), plasmon_code_key(code));
        exit(1);
    }
}

/* Everything here lives as long as the program. */
static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_array(struct ArrowArray *array) { array->release = NULL; }
static void release_stream(struct ArrowArrayStream *stream) { stream->release = NULL; }

static struct ArrowSchema schema_of(const char *format, const char *name) {
    struct ArrowSchema schema = {format, name, NULL, 0, 0, NULL, NULL, release_schema, NULL};
    return schema;
}

/* ---- A column that grows -------------------------------------------------------------------- */

static plasmon_id build(const plasmon_store *store) {
    struct ArrowSchema schema = schema_of("l", "numbers");
    plasmon_builder *builder = NULL;
    plasmon_id id;
    uint64_t length;
    int64_t part[1000];

    check(plasmon_builder_open(store, &schema, 0, 0, &builder), "open");
    assert(schema.release == NULL);
    for (int64_t start = 0; start < ROWS; start += 1000) {
        for (int64_t at = 0; at < 1000; at++) part[at] = start + at;
        check(plasmon_builder_append_values(builder, 0, part, sizeof part), "append");
    }
    check(plasmon_builder_append_nulls(builder, 0, 2), "append nulls");
    assert(plasmon_builder_append_values(builder, 0, part, 7) == PLASMON_BAD_REQUEST);
    assert(plasmon_builder_append_values(builder, 1, part, 8) == PLASMON_BAD_REQUEST);
    check(plasmon_builder_length(builder, 0, &length), "length");
    assert(length == ROWS + 2);
    check(plasmon_builder_finish(builder, NULL, &id), "finish");
    plasmon_builder_free(builder);
    return id;
}

static void read_numbers(const plasmon_store *store, const plasmon_id *id, int64_t nulls) {
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch, end;
    plasmon_buffer *buffer = NULL;

    check(plasmon_get(store, id, PLASMON_NOW, &buffer), "get");
    assert(plasmon_buffer_tag(buffer) == PLASMON_TAG_COMPOSITE);
    check(plasmon_read_arrow(buffer, &stream), "read");
    plasmon_buffer_release(buffer);
    assert(stream.get_schema(&stream, &schema) == 0);
    assert(strcmp(schema.children[0]->format, "l") == 0);
    assert(stream.get_next(&stream, &batch) == 0);
    assert(batch.length == ROWS + nulls && batch.children[0]->null_count == nulls);
    const int64_t *values = batch.children[0]->buffers[1];
    assert((uintptr_t)values % 64 == 0);
    assert(values[0] == 0 && values[ROWS - 1] == ROWS - 1);
    assert(stream.get_next(&stream, &end) == 0 && end.release == NULL);
    batch.release(&batch);
    schema.release(&schema);
    stream.release(&stream);
}

/* ---- A table whose buffers lie in a pool ---------------------------------------------------- */

static struct ArrowSchema column_schema, *columns_of_schema[] = {&column_schema};
static struct ArrowArray column, *columns[] = {&column};
static const void *column_buffers[2], *no_buffers[1];
static int batches_left = 1;

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema) {
    (void)stream;
    column_schema = schema_of("l", "numbers");
    *schema = schema_of("+s", "");
    schema->n_children = 1;
    schema->children = columns_of_schema;
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *batch) {
    (void)stream;
    memset(batch, 0, sizeof *batch);
    if (batches_left-- > 0) {
        struct ArrowArray numbers = {ROWS,           0,    0,    2,    0, column_buffers,
                                     NULL, NULL, release_array, NULL};
        struct ArrowArray rows = {ROWS, 0, 0, 1, 1, no_buffers, columns, NULL, release_array, NULL};
        column = numbers;
        *batch = rows;
    }
    return 0;
}

static plasmon_id share(const plasmon_store *store, const plasmon_pool_api *pool) {
    struct ArrowArrayStream stream = {get_schema, get_next, NULL, release_stream, NULL};
    plasmon_pool_figures figures;
    uint8_t *memory = NULL;
    uint64_t copied = 99;
    plasmon_id id;

    assert(pool->size == sizeof *pool);
    assert(pool->allocate(pool->pool, 1000, &memory) == 0);
    memory[0] = 77;
    assert(pool->reallocate(pool->pool, ROWS * sizeof(int64_t), &memory) == 0);
    assert(memory[0] == 77 && (uintptr_t)memory % 64 == 0);
    for (int64_t at = 0; at < ROWS; at++) ((int64_t *)(void *)memory)[at] = at;
    column_buffers[1] = memory;
    check(plasmon_put_arrow(store, pool, &stream, NULL, &id, &copied), "put");
    assert(copied == 0 && stream.release == NULL);
    pool->figures(pool->pool, &figures);
    assert(figures.allocated_bytes == ROWS * sizeof(int64_t) && figures.allocations == 1);
    /* What was shared stays readable here until it is freed. */
    assert(((int64_t *)(void *)memory)[ROWS - 1] == ROWS - 1);
    pool->release(pool->pool, memory);
    return id;
}

int main(void) {
    plasmon_store *store = NULL;
    plasmon_pool_api pool;
    plasmon_id id;

    check(plasmon_connect_or_start(NULL, NULL, &store), "connect");
    id = build(store);
    read_numbers(store, &id, 2);
    check(plasmon_delete(store, &id, 1, NULL), "delete");
    check(plasmon_pool_open(store, &pool), "pool");
    id = share(store, &pool);
    read_numbers(store, &id, 0);
    pool.close(pool.pool);
    plasmon_store_close(store);
    puts("columns: ok");
    return 0;
}
