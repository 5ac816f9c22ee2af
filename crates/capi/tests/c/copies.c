/* Copies are for objects of a pool, and this store belongs to none. */
#undef NDEBUG
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <string.h>

/* A put under this name with so many copies is refused, and the message has a word for it. */
static void refused(const plasmon_store *store, const char *name, int copies, int copies_min,
                    plasmon_code code, const char *word) {
    plasmon_put_options options;
    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    assert(options.copies == 0 && options.copies_min == 0);
    options.name = name;
    options.copies = (uint8_t)copies;
    options.copies_min = (uint8_t)copies_min;
    plasmon_writer *writer = NULL;
    assert(plasmon_put(store, "x", 1, &options, NULL) == code);
    assert(strstr(plasmon_error_message(), word) != NULL);
    assert(plasmon_create(store, 1, &options, &writer) == code && writer == NULL);
    assert(strstr(plasmon_error_message(), word) != NULL);
}

int main(void) {
    plasmon_store *store;
    assert(plasmon_connect_or_start(NULL, NULL, &store) == PLASMON_OK);

    refused(store, "sales", 2, 0, PLASMON_BAD_REQUEST, "begins with @");
    refused(store, "sales", 0, 1, PLASMON_BAD_REQUEST, "begins with @");
    refused(store, NULL, 2, 0, PLASMON_BAD_REQUEST, "begins with @");
    refused(store, "@prod:sales", 9, 0, PLASMON_BAD_REQUEST, "1 to 8 copies");
    refused(store, "@prod:sales", 2, 3, PLASMON_BAD_REQUEST, "copies_min");
    refused(store, "@prod:sales", 0, 0, PLASMON_UNSUPPORTED, "pool");
    refused(store, "@prod:sales", 3, 1, PLASMON_UNSUPPORTED, "pool");

    /* Without a name. */
    plasmon_put_options unnamed;
    plasmon_id id;
    plasmon_code outcome = PLASMON_OK;
    assert(plasmon_put_options_init(&unnamed) == PLASMON_OK);
    assert(unnamed.pool == 0 && unnamed.ack == PLASMON_ACK_DEFAULT);
    unnamed.pool = 1;
    assert(plasmon_put(store, "x", 1, &unnamed, NULL) == PLASMON_UNSUPPORTED);
    assert(strstr(plasmon_error_message(), "--cluster") != NULL);
    unnamed.ack = 3;
    assert(plasmon_put(store, "x", 1, &unnamed, NULL) == PLASMON_BAD_REQUEST);
    unnamed.pool = 0;
    unnamed.ack = PLASMON_ACK_LOCAL;
    assert(plasmon_put(store, "x", 1, &unnamed, NULL) == PLASMON_BAD_REQUEST);
    assert(plasmon_new_id(store, &id) == PLASMON_OK);
    assert(plasmon_settle(store, &id, 1, 0, &outcome) == PLASMON_OK);
    assert(outcome == PLASMON_BAD_REQUEST);

    /* Where its copies are. */
    plasmon_put_options spread;
    assert(plasmon_put_options_init(&spread) == PLASMON_OK);
    assert(spread.placement == PLASMON_PLACEMENT_LOCAL);
    spread.placement = PLASMON_PLACEMENT_SPREAD;
    assert(plasmon_put(store, "x", 1, &spread, NULL) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "placement") != NULL);

    /* Whether its members are deleted with it. */
    plasmon_put_options owner;
    assert(plasmon_put_options_init(&owner) == PLASMON_OK);
    owner.owns_members = 1;
    assert(plasmon_put(store, "x", 1, &owner, NULL) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "owns its members") != NULL);
    spread.name = "@prod:sales";
    assert(plasmon_put(store, "x", 1, &spread, NULL) == PLASMON_UNSUPPORTED);
    spread.placement = 2;
    assert(plasmon_put(store, "x", 1, &spread, NULL) == PLASMON_BAD_REQUEST);
    spread.struct_bytes = offsetof(plasmon_put_options, placement);
    assert(plasmon_put(store, "x", 1, &spread, NULL) == PLASMON_UNSUPPORTED);

    /* What it survives. */
    plasmon_put_options cache;
    assert(plasmon_put_options_init(&cache) == PLASMON_OK);
    assert(cache.storage == PLASMON_STORAGE_MEMORY);
    cache.storage = PLASMON_STORAGE_CACHE;
    assert(plasmon_put(store, "x", 1, &cache, NULL) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "storage") != NULL);
    cache.name = "@prod:sales";
    assert(plasmon_put(store, "x", 1, &cache, NULL) == PLASMON_UNSUPPORTED);
    cache.copies = 2;
    assert(plasmon_put(store, "x", 1, &cache, NULL) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "one copy") != NULL);
    cache.storage = 3;
    assert(plasmon_put(store, "x", 1, &cache, NULL) == PLASMON_BAD_REQUEST);

    /* A program of an earlier header does not know the last fields, whatever lies there. */
    plasmon_put_options options;
    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    options.struct_bytes = offsetof(plasmon_put_options, copies);
    options.copies = 77;
    options.name = "sales";
    assert(plasmon_put(store, "x", 1, &options, NULL) == PLASMON_OK);

    plasmon_store_close(store);
    puts("copies: ok");
    return 0;
}
