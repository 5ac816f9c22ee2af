/* The calls of a pool, in a store that belongs to none: what is here is read, the rest refused. */
#undef NDEBUG
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <string.h>

static void ranges_of_a_local_object(const plasmon_store *store) {
    plasmon_range ranges[] = {{2, 3}, {0, 1}, {4, 0}, {9, 1}};
    const plasmon_part *parts;
    plasmon_pieces *pieces = NULL;
    plasmon_buffer *buffer = NULL;
    plasmon_id id;

    assert(plasmon_put(store, "0123456789", 10, NULL, &id) == PLASMON_OK);
    assert(plasmon_pool_read(store, &id, ranges, 4, PLASMON_NOW, &pieces) == PLASMON_OK);
    parts = plasmon_pieces_parts(pieces);
    assert(plasmon_get(store, &id, PLASMON_NOW, &buffer) == PLASMON_OK);
    /* In place: the same memory as that of a get. */
    assert(parts[0].data == (const char *)plasmon_buffer_data(buffer) + 2 && parts[0].bytes == 3);
    assert(*(const char *)parts[1].data == '0' && parts[1].bytes == 1);
    assert(parts[2].data == NULL && parts[2].bytes == 0);
    assert(*(const char *)parts[3].data == '9');
    plasmon_buffer_release(buffer);
    assert(plasmon_delete(store, &id, 1, NULL) == PLASMON_OK);
    assert(memcmp(parts[0].data, "234", 3) == 0);
    plasmon_pieces_free(pieces);
    /* It is gone, and is not waited for. */
    assert(plasmon_pool_read(store, &id, ranges, 1, PLASMON_NOW, &pieces) != PLASMON_OK);
    assert(pieces == NULL);
}

static void ranges_that_cannot_be(const plasmon_store *store) {
    plasmon_range beyond = {5, 6};
    plasmon_range endless = {UINT64_MAX, 2};
    plasmon_range last = {UINT64_MAX, 0};
    plasmon_pieces *pieces = NULL;
    plasmon_error facts;
    plasmon_id id;

    assert(plasmon_put(store, "0123456789", 10, NULL, &id) == PLASMON_OK);
    assert(plasmon_pool_read(store, &id, &beyond, 1, 0, &pieces) == PLASMON_BAD_REQUEST);
    assert(pieces == NULL);
    assert(plasmon_error_facts(&facts) == PLASMON_OK);
    assert(facts.wanted == 11 && facts.found == 10);
    assert(plasmon_pool_read(store, &id, &endless, 1, 0, &pieces) == PLASMON_BAD_REQUEST);
    assert(plasmon_pool_read(store, &id, &last, 1, 0, &pieces) == PLASMON_BAD_REQUEST);
    assert(plasmon_pool_read(store, &id, NULL, 0, 0, &pieces) == PLASMON_OK);
    assert(plasmon_pieces_parts(pieces) == NULL);
    plasmon_pieces_free(pieces);
    assert(plasmon_delete(store, &id, 1, NULL) == PLASMON_OK);
}

static void what_needs_a_pool(const plasmon_store *store) {
    plasmon_region_options options;
    plasmon_address address = {{{0}}, 0};
    plasmon_place *place = NULL;
    plasmon_id id;

    assert(plasmon_id_of_name("@prod", "x", &id) == PLASMON_OK);
    assert(plasmon_pool_where(store, &id, &place) == PLASMON_UNREACHABLE && place == NULL);
    assert(strstr(plasmon_error_message(), "pool daemon") != NULL);
    assert(plasmon_id_of_name(NULL, "x", &id) == PLASMON_OK);
    assert(plasmon_pool_where(store, &id, &place) == PLASMON_BAD_REQUEST && place == NULL);
    assert(plasmon_pool_allocate(store, 8, NULL, &address) == PLASMON_UNREACHABLE);
    assert(plasmon_region_options_init(&options) == PLASMON_OK);
    options.copies = 9;
    assert(plasmon_pool_allocate(store, 8, &options, &address) == PLASMON_BAD_REQUEST);
    /* A program of an earlier header does not know the last fields, whatever lies there. */
    options.struct_bytes = offsetof(plasmon_region_options, copies);
    assert(plasmon_pool_allocate(store, 8, &options, &address) == PLASMON_UNREACHABLE);
    address.id = id;
    assert(plasmon_pool_write(store, &address, "x", 1) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "no region") != NULL);
    assert(plasmon_pool_seal(store, &address) == PLASMON_BAD_REQUEST);
    assert(plasmon_pool_free(store, &address) == PLASMON_BAD_REQUEST);
    assert(plasmon_adopt(store, "@run", 0) == PLASMON_UNSUPPORTED);
}

static void addresses_as_text(void) {
    const char *const wrong[] = {"", "+1", "00", "0000000000000000000000000000000000000000+0"};
    plasmon_address address = {{{0}}, UINT64_MAX};
    char text[PLASMON_ADDRESS_TEXT_BYTES];
    size_t at;

    assert(plasmon_address_to_text(&address, text) == PLASMON_OK);
    assert(strlen(text) == PLASMON_ADDRESS_TEXT_BYTES - 1);
    for (at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        assert(plasmon_address_from_text(wrong[at], &address) == PLASMON_BAD_REQUEST);
    }
    assert(address.offset == UINT64_MAX);
}

/* What is named in an adopted namespace ends with the adoption. */
static void a_namespace_of_this_store(const plasmon_store *store) {
    plasmon_put_options options;
    plasmon_id id;
    int32_t is_there = 1;

    assert(plasmon_adopt(store, "run", 0) == PLASMON_OK);
    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    options.name_space = "run";
    options.name = "part";
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_OK);
    assert(plasmon_end_adoption(store, "run") == PLASMON_OK);
    assert(plasmon_contains(store, &id, &is_there) == PLASMON_OK && is_there == 0);
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_CANCELLED);
}

int main(void) {
    plasmon_store *store = NULL;
    assert(plasmon_connect_or_start(NULL, NULL, &store) == PLASMON_OK);
    ranges_of_a_local_object(store);
    ranges_that_cannot_be(store);
    what_needs_a_pool(store);
    addresses_as_text();
    a_namespace_of_this_store(store);
    plasmon_store_close(store);
    puts("pool_without: ok");
    return 0;
}
