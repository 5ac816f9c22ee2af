/*
 * Puts an object, reads it in place, waits for another one, and looks at what an error says.
 *
 *     cc put_get.c -lplasmon && ./a.out
 */
#undef NDEBUG /* the asserts are the point */
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the library's own words when something fails. */
static void check(plasmon_code code, const char *what) {
    if (code != PLASMON_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, plasmon_error_message(), plasmon_code_key(code));
        exit(1);
    }
}

static plasmon_store *open_store(void) {
    plasmon_connect_options options;
    plasmon_store *store = NULL;
    check(plasmon_connect_options_init(&options), "options");
    options.name = "put_get.c";
    check(plasmon_connect_or_start(&options, NULL, &store), "connect");
    return store;
}

static void put_and_get(const plasmon_store *store) {
    plasmon_put_options options;
    plasmon_id id, same;
    plasmon_buffer *buffer = NULL;

    check(plasmon_put_options_init(&options), "options");
    options.name_space = "examples";
    options.name = "greeting";
    options.metadata = "text/plain";
    options.metadata_bytes = strlen("text/plain");
    check(plasmon_put(store, "hello, world", 12, &options, &id), "put");

    /* A name determines the id, so a client that knows the name finds the object. */
    check(plasmon_id_of_name("examples", "greeting", &same), "id");
    assert(memcmp(&id, &same, sizeof id) == 0);
    check(plasmon_get(store, &same, PLASMON_NOW, &buffer), "get");
    assert(plasmon_buffer_data_bytes(buffer) == 12);
    assert(memcmp(plasmon_buffer_data(buffer), "hello, world", 12) == 0);
    assert(memcmp(plasmon_buffer_metadata(buffer), "text/plain", 10) == 0);

    /* Deleting takes the object out of sight; the buffer keeps its bytes. */
    check(plasmon_delete(store, &id, 1, NULL), "delete");
    assert(memcmp(plasmon_buffer_data(buffer), "hello, world", 12) == 0);
    plasmon_buffer_release(buffer);
}

static void write_in_place(const plasmon_store *store) {
    enum { COUNT = 1000 };
    plasmon_writer *writer = NULL;
    plasmon_buffer *buffer = NULL;
    plasmon_id id;
    const double *numbers;
    double sum = 0;

    check(plasmon_create(store, COUNT * sizeof(double), NULL, &writer), "create");
    for (int i = 0; i < COUNT; i++) {
        ((double *)plasmon_writer_data(writer))[i] = i;
    }
    check(plasmon_writer_seal(writer, &id), "seal");
    check(plasmon_get(store, &id, PLASMON_FOREVER, &buffer), "get");
    numbers = plasmon_buffer_data(buffer);
    for (int i = 0; i < COUNT; i++) {
        sum += numbers[i];
    }
    assert(sum == 499500.0);
    plasmon_buffer_release(buffer);
}

static void look_at_an_error(const plasmon_store *store) {
    plasmon_id unknown = {{1, 2, 3}};
    plasmon_buffer *buffer = NULL;
    plasmon_error facts;

    assert(plasmon_get(store, &unknown, PLASMON_NOW, &buffer) == PLASMON_ABSENT);
    assert(buffer == NULL);
    check(plasmon_error_facts(&facts), "facts");
    assert(facts.code == PLASMON_ABSENT && facts.has_id);
    assert(memcmp(&facts.id, &unknown, sizeof unknown) == 0);
    assert(strstr(plasmon_error_message(), "010203") != NULL);
    assert(plasmon_get(NULL, &unknown, PLASMON_NOW, &buffer) == PLASMON_BAD_REQUEST);
}

int main(void) {
    plasmon_store *store = open_store();
    put_and_get(store);
    write_in_place(store);
    look_at_an_error(store);
    plasmon_store_close(store);
    puts("put_get: ok");
    return 0;
}
