/* The calls of a pool of two nodes, "node1" and "node2", whose sockets are the arguments. */
#undef NDEBUG
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BYTES 300000

static unsigned char content[BYTES];

static void check(plasmon_code code, const char *doing) {
    if (code != PLASMON_OK) {
        fprintf(stderr, "%s: %s: %s\n", doing, plasmon_code_key(code), plasmon_error_message());
    }
    assert(code == PLASMON_OK);
}

static plasmon_store *connect_to(const char *socket) {
    plasmon_connect_options options;
    plasmon_store *store = NULL;
    check(plasmon_connect_options_init(&options), "init");
    options.socket = socket;
    check(plasmon_connect(&options, &store), "connect");
    return store;
}

static void pause_a_little(void) {
    struct timespec time = {0, 50 * 1000 * 1000};
    nanosleep(&time, NULL);
}

/* A pool that has just started refuses puts until its nodes have joined. */
static plasmon_id put(const plasmon_store *store, const char *name, int copies) {
    plasmon_put_options options;
    plasmon_code code = PLASMON_UNREACHABLE;
    plasmon_id id;
    int tries;

    check(plasmon_put_options_init(&options), "init");
    options.name = name;
    options.copies = options.copies_min = (uint8_t)copies;
    for (tries = 0; code != PLASMON_OK && tries < 600; tries++) {
        code = plasmon_put(store, content, BYTES, &options, &id);
        assert(code == PLASMON_OK || code == PLASMON_UNREACHABLE ||
               code == PLASMON_NOT_ENOUGH_NODES);
        if (code != PLASMON_OK) {
            pause_a_little();
        }
    }
    check(code, "put");
    return id;
}

/* Only the parts come, and no copy is made. */
static void parts_and_places(const plasmon_store *a, const plasmon_store *b) {
    plasmon_range ranges[] = {{0, 16}, {200001, 70000}, {7, 0}};
    plasmon_range beyond = {BYTES - 1, 2};
    const plasmon_part *parts;
    plasmon_pieces *pieces = NULL;
    plasmon_place *place = NULL;
    plasmon_id id = put(a, "@prod:series", 1), absent;

    check(plasmon_pool_read(b, &id, ranges, 3, 0, &pieces), "read");
    parts = plasmon_pieces_parts(pieces);
    assert(parts[0].bytes == 16 && memcmp(parts[0].data, content, 16) == 0);
    assert(parts[1].bytes == 70000 && memcmp(parts[1].data, content + 200001, 70000) == 0);
    assert(parts[2].data == NULL && parts[2].bytes == 0);
    plasmon_pieces_free(pieces);
    check(plasmon_pool_where(b, &id, &place), "where");
    assert(place->standing == PLASMON_STANDING_LIVE && place->has_record == 1);
    assert(place->data_bytes == BYTES && place->metadata_bytes == 0);
    assert(place->copies == 1 && place->copies_min == 1);
    assert(strcmp(place->origin, "node1") == 0 && strncmp(place->primary, "node", 4) == 0);
    assert(place->holders_count == 1 && strcmp(place->holders[0], "node1") == 0);
    assert(place->caches_count == 0);
    plasmon_place_free(place);
    assert(plasmon_pool_read(b, &id, &beyond, 1, 0, &pieces) == PLASMON_BAD_REQUEST);
    assert(pieces == NULL);

    check(plasmon_id_of_name("@prod", "missing", &absent), "id");
    check(plasmon_pool_where(a, &absent, &place), "where");
    assert(place->standing == PLASMON_STANDING_ABSENT && place->has_record == 0);
    assert(place->holders_count == 0 && place->origin == NULL);
    plasmon_place_free(place);
    assert(plasmon_pool_read(b, &absent, ranges, 1, 0, &pieces) == PLASMON_ABSENT);
    assert(plasmon_pool_read(b, &absent, ranges, 1, 20, &pieces) == PLASMON_TIMED_OUT);
}

/* Two programs write one region by its address; sealed, it is an object for both. */
static void memory_by_address(const plasmon_store *a, const plasmon_store *b) {
    plasmon_range whole = {0, BYTES}, tail = {0, 16};
    plasmon_region_options options;
    const plasmon_part *part;
    plasmon_pieces *pieces = NULL;
    plasmon_buffer *buffer = NULL;
    plasmon_address address, there;
    char text[PLASMON_ADDRESS_TEXT_BYTES];

    check(plasmon_region_options_init(&options), "init");
    options.node = "nowhere";
    assert(plasmon_pool_allocate(a, BYTES, &options, &address) == PLASMON_BAD_REQUEST);
    options.node = "node2";
    check(plasmon_pool_allocate(a, BYTES, &options, &address), "allocate");
    check(plasmon_address_to_text(&address, text), "to text");
    check(plasmon_address_from_text(text, &there), "from text");
    assert(memcmp(&there.id, &address.id, sizeof there.id) == 0 && there.offset == 0);

    check(plasmon_pool_write(a, &address, content, 100000), "write");
    there.offset = 100000;
    check(plasmon_pool_write(b, &there, content + 100000, BYTES - 100000), "write");
    assert(plasmon_pool_write(b, &there, content, BYTES) == PLASMON_BAD_REQUEST);
    assert(plasmon_pool_read_at(a, &address, &tail, 1, 0, &pieces) == PLASMON_NOT_SEALED);
    check(plasmon_pool_seal(a, &there), "seal");
    assert(plasmon_pool_write(b, &address, content, 1) == PLASMON_ALREADY_SEALED);

    check(plasmon_pool_read_at(a, &address, &whole, 1, 0, &pieces), "read");
    part = plasmon_pieces_parts(pieces);
    assert(part->bytes == BYTES && memcmp(part->data, content, BYTES) == 0);
    plasmon_pieces_free(pieces);
    there.offset = BYTES - 16;
    check(plasmon_pool_read_at(b, &there, &tail, 1, 0, &pieces), "read");
    part = plasmon_pieces_parts(pieces);
    assert(memcmp(part->data, content + BYTES - 16, 16) == 0);
    plasmon_pieces_free(pieces);
    check(plasmon_get(a, &address.id, PLASMON_NOW, &buffer), "get");
    assert(plasmon_buffer_data_bytes(buffer) == BYTES);
    plasmon_buffer_release(buffer);
    check(plasmon_pool_free(b, &address), "free");

    check(plasmon_pool_allocate(b, 64, NULL, &address), "allocate");
    check(plasmon_pool_free(a, &address), "free");
    assert(plasmon_pool_write(a, &address, content, 1) == PLASMON_DELETED);
}

/* What another program put in an adopted namespace goes with the store of its parent. */
static void a_namespace_of_the_pool(const plasmon_store *b, const char *socket) {
    plasmon_store *parent = connect_to(socket);
    int32_t is_there = 1;
    int tries;
    plasmon_id id;

    check(plasmon_adopt(parent, "@run", 0), "adopt");
    assert(plasmon_adopt(b, "@run", 0) == PLASMON_EXISTS);
    check(plasmon_adopt(parent, "@run", 1 << 30), "limit");
    id = put(b, "@run:part", 2);
    check(plasmon_store_disconnect(parent), "disconnect");
    for (tries = 0; is_there && tries < 600; tries++) {
        check(plasmon_contains(b, &id, &is_there), "contains");
        pause_a_little();
    }
    assert(is_there == 0);
    plasmon_store_close(parent);
}

int main(int count, char **arguments) {
    plasmon_store *a, *b;
    size_t at;

    assert(count == 3);
    for (at = 0; at < BYTES; at++) {
        content[at] = (unsigned char)(at * 2654435761u >> 13);
    }
    a = connect_to(arguments[1]);
    b = connect_to(arguments[2]);
    (void)put(a, "@prod:both", 2);
    parts_and_places(a, b);
    memory_by_address(a, b);
    a_namespace_of_the_pool(b, arguments[1]);
    plasmon_store_close(a);
    plasmon_store_close(b);
    puts("pool: ok");
    return 0;
}
