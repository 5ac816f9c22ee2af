/* Every null that is not allowed is a clear error, and every sloppy end is harmless. */
#undef NDEBUG
#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED(call)                                             \
    do {                                                          \
        assert((call) == PLASMON_BAD_REQUEST);                    \
        assert(strstr(plasmon_error_message(), "null") != NULL);  \
    } while (0)

static void without_a_store(void) {
    plasmon_id id = {{0}};
    plasmon_buffer *buffer = NULL;
    plasmon_code code = PLASMON_OK;
    plasmon_store_facts facts;
    plasmon_info info;
    plasmon_scope *scope = NULL;
    plasmon_pieces *pieces = NULL;
    plasmon_place *place = NULL;
    plasmon_address address = {{{0}}, 0};
    int32_t number = 0;
    char *json = NULL;

    REFUSED(plasmon_put(NULL, "x", 1, NULL, &id));
    REFUSED(plasmon_put_parts(NULL, NULL, 0, NULL, &id));
    REFUSED(plasmon_flush(NULL));
    REFUSED(plasmon_create(NULL, 1, NULL, NULL));
    /* What a failure leaves is NULL, whatever was there: it may be released. */
    buffer = (plasmon_buffer *)&id;
    REFUSED(plasmon_get(NULL, &id, 0, &buffer));
    assert(buffer == NULL);
    REFUSED(plasmon_get_many(NULL, &id, 1, 0, &buffer, &code));
    REFUSED(plasmon_contains(NULL, &id, &number));
    REFUSED(plasmon_states(NULL, &id, 1, &number));
    REFUSED(plasmon_wait(NULL, &id, 1, 0, 0, &number));
    REFUSED(plasmon_wait_start(NULL, &id, 1, 0, 0, NULL));
    REFUSED(plasmon_delete(NULL, &id, 1, NULL));
    REFUSED(plasmon_settle(NULL, &id, 1, 0, &code));
    REFUSED(plasmon_delete_soon(NULL, &id));
    REFUSED(plasmon_evict(NULL, 1, NULL, NULL));
    REFUSED(plasmon_touch(NULL, &id, 1));
    REFUSED(plasmon_set_quota(NULL, 1));
    REFUSED(plasmon_stat(NULL, &id, &info));
    REFUSED(plasmon_list(NULL, NULL, NULL, NULL));
    REFUSED(plasmon_subscribe(NULL, NULL, NULL, NULL));
    REFUSED(plasmon_status_json(NULL, &json));
    REFUSED(plasmon_clients_json(NULL, &json));
    REFUSED(plasmon_store_describe(NULL, &facts));
    REFUSED(plasmon_store_disconnect(NULL));
    REFUSED(plasmon_store_shutdown(NULL));
    REFUSED(plasmon_new_id(NULL, &id));
    REFUSED(plasmon_scope_open(NULL, &id, 1, NULL));
    scope = (plasmon_scope *)&id;
    REFUSED(plasmon_scope_open(NULL, &id, 1, &scope));
    assert(scope == NULL);
    REFUSED(plasmon_scope_add(NULL, &id, 1));
    REFUSED(plasmon_scope_publish(NULL));
    REFUSED(plasmon_digest(NULL, &id, NULL));
    REFUSED(plasmon_connect_options_init(NULL));
    REFUSED(plasmon_put_options_init(NULL));
    REFUSED(plasmon_start_options_init(NULL));
    REFUSED(plasmon_error_facts(NULL));
    REFUSED(plasmon_id_of_name(NULL, NULL, &id));
    REFUSED(plasmon_id_to_text(&id, NULL));
    REFUSED(plasmon_id_from_text(NULL, &id));
    REFUSED(plasmon_builder_append(NULL, 0, NULL));
    REFUSED(plasmon_builder_append_values(NULL, 0, NULL, 0));
    REFUSED(plasmon_builder_append_nulls(NULL, 0, 1));
    REFUSED(plasmon_builder_length(NULL, 0, NULL));
    REFUSED(plasmon_builder_finish(NULL, NULL, NULL));
    plasmon_builder_free(NULL);
    REFUSED(plasmon_read_arrow(NULL, NULL));
    REFUSED(plasmon_pool_open(NULL, NULL));
    pieces = (plasmon_pieces *)&id;
    REFUSED(plasmon_pool_read(NULL, &id, NULL, 0, 0, &pieces));
    assert(pieces == NULL);
    place = (plasmon_place *)&id;
    REFUSED(plasmon_pool_where(NULL, &id, &place));
    assert(place == NULL);
    REFUSED(plasmon_adopt(NULL, "ns", 0));
    REFUSED(plasmon_end_adoption(NULL, "ns"));
    REFUSED(plasmon_address_to_text(NULL, NULL));
    REFUSED(plasmon_address_to_text(&address, NULL));
    REFUSED(plasmon_address_from_text(NULL, &address));
    REFUSED(plasmon_region_options_init(NULL));
    REFUSED(plasmon_pool_allocate(NULL, 1, NULL, &address));
    REFUSED(plasmon_pool_write(NULL, &address, NULL, 0));
    REFUSED(plasmon_pool_read_at(NULL, &address, NULL, 0, 0, &pieces));
    REFUSED(plasmon_pool_seal(NULL, &address));
    REFUSED(plasmon_pool_free(NULL, &address));
}

static void without_an_argument(plasmon_store *store) {
    plasmon_id id = {{0}};
    plasmon_part part = {NULL, 1};
    plasmon_scope *scope = NULL;
    plasmon_pieces *pieces = NULL;
    plasmon_range range = {0, 0};
    plasmon_address address = {{{0}}, 0};

    REFUSED(plasmon_pool_read(store, NULL, NULL, 0, 0, &pieces));
    REFUSED(plasmon_pool_read(store, &id, NULL, 1, 0, &pieces));
    REFUSED(plasmon_pool_read(store, &id, &range, 1, 0, NULL));
    REFUSED(plasmon_pool_where(store, NULL, NULL));
    REFUSED(plasmon_adopt(store, NULL, 0));
    REFUSED(plasmon_end_adoption(store, NULL));
    REFUSED(plasmon_pool_allocate(store, 1, NULL, NULL));
    REFUSED(plasmon_pool_write(store, NULL, NULL, 0));
    REFUSED(plasmon_pool_write(store, &address, NULL, 1));
    REFUSED(plasmon_pool_read_at(store, NULL, NULL, 0, 0, &pieces));
    REFUSED(plasmon_pool_seal(store, NULL));
    REFUSED(plasmon_pool_free(store, NULL));
    REFUSED(plasmon_builder_open(store, NULL, 0, 0, NULL));
    REFUSED(plasmon_put_arrow(store, NULL, NULL, NULL, NULL, NULL));
    REFUSED(plasmon_pool_open(store, NULL));
    REFUSED(plasmon_put(store, NULL, 1, NULL, &id));
    REFUSED(plasmon_put_parts(store, &part, 1, NULL, &id));
    REFUSED(plasmon_put_parts(store, NULL, 1, NULL, &id));
    REFUSED(plasmon_create(store, 1, NULL, NULL));
    REFUSED(plasmon_get(store, NULL, 0, NULL));
    REFUSED(plasmon_get(store, &id, 0, NULL));
    REFUSED(plasmon_get_many(store, &id, 1, 0, NULL, NULL));
    REFUSED(plasmon_scope_open(store, NULL, 1, &scope));
    REFUSED(plasmon_scope_open(store, NULL, 0, NULL));
    REFUSED(plasmon_wait(store, NULL, 1, 0, 0, NULL));
    REFUSED(plasmon_delete(store, NULL, 1, NULL));
    REFUSED(plasmon_writer_seal(NULL, &id));
    REFUSED(plasmon_writer_id(NULL, &id));
    REFUSED(plasmon_buffer_id(NULL, &id));
    REFUSED(plasmon_buffer_clone(NULL, NULL));
    REFUSED(plasmon_listing_next(NULL, NULL));
    REFUSED(plasmon_subscription_next(NULL, 0, NULL));
    REFUSED(plasmon_pending_poll(NULL, NULL));
    REFUSED(plasmon_pending_cancel(NULL));
    /* Nothing with null is nothing, and no error. */
    assert(plasmon_scope_open(store, NULL, 0, &scope) == PLASMON_OK);
    REFUSED(plasmon_scope_add(scope, NULL, 1));
    assert(plasmon_scope_add(scope, NULL, 0) == PLASMON_OK);
    assert(plasmon_scope_publish(scope) == PLASMON_OK);
    assert(plasmon_put(store, NULL, 0, NULL, NULL) == PLASMON_OK);
    assert(plasmon_delete(store, NULL, 0, NULL) == PLASMON_OK);
    assert(plasmon_wait(store, NULL, 0, 0, PLASMON_FOREVER, NULL) == PLASMON_OK);
}

static void sloppy_ends(void) {
    plasmon_store_close(NULL);
    plasmon_buffer_release(NULL);
    plasmon_listing_free(NULL);
    plasmon_subscription_free(NULL);
    plasmon_pending_free(NULL);
    plasmon_text_free(NULL);
    plasmon_pieces_free(NULL);
    plasmon_place_free(NULL);
    assert(plasmon_writer_abort(NULL) == PLASMON_OK);
    assert(plasmon_scope_abort(NULL) == PLASMON_OK);
    assert(plasmon_writer_data(NULL) == NULL && plasmon_writer_data_bytes(NULL) == 0);
    assert(plasmon_buffer_data(NULL) == NULL && plasmon_buffer_data_bytes(NULL) == 0);
    assert(plasmon_pieces_parts(NULL) == NULL);
    assert(plasmon_pending_fd(NULL) == -1 && plasmon_subscription_fd(NULL) == -1);
}

static void senseless_options(const plasmon_store *store) {
    plasmon_put_options options;
    plasmon_id id;

    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    options.policy = 9;
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_BAD_REQUEST);
    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    options.name = "a\nb";
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_BAD_REQUEST);
    options.name = "\xff";
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_BAD_REQUEST);
    memset(&options, 0, sizeof options);
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_BAD_REQUEST);
    assert(strstr(plasmon_error_message(), "init") != NULL);
    /* A program built with an older, shorter struct. */
    assert(plasmon_put_options_init(&options) == PLASMON_OK);
    options.struct_bytes = offsetof(plasmon_put_options, policy);
    options.policy = 9;
    assert(plasmon_put(store, "x", 1, &options, &id) == PLASMON_OK);
    assert(plasmon_id_from_text("12", &id) == PLASMON_BAD_REQUEST);
}

/* Arrow's C data interface, as its specification has it. */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

static void let_go(struct ArrowSchema *schema) {
    schema->release = NULL;
}

static int count_objects(plasmon_store *store) {
    plasmon_listing *listing = NULL;
    plasmon_info info;
    int count = 0;

    assert(plasmon_list(store, NULL, NULL, &listing) == PLASMON_OK);
    while (plasmon_listing_next(listing, &info) == PLASMON_OK) {
        count++;
    }
    plasmon_listing_free(listing);
    return count;
}

/* That there is no room for the id was found out after the object was made, which nothing could
 * name then. */
static void no_room_for_an_id(plasmon_store *store) {
    struct ArrowSchema numbers = {.format = "l", .name = "", .flags = 2, .release = let_go};
    plasmon_builder *builder = NULL;
    int64_t values[] = {1, 2, 3};
    plasmon_id id;
    int before;

    assert(plasmon_builder_open(store, &numbers, 0, 0, &builder) == PLASMON_OK);
    assert(plasmon_builder_append_values(builder, 0, values, sizeof values) == PLASMON_OK);
    /* With what the builder is making. */
    before = count_objects(store);
    REFUSED(plasmon_builder_finish(builder, NULL, NULL));
    assert(count_objects(store) == before);
    assert(plasmon_builder_finish(builder, NULL, &id) == PLASMON_OK);
    plasmon_builder_free(builder);
    assert(plasmon_delete(store, &id, 1, NULL) == PLASMON_OK);
}

/* A time without an end, or with one that no clock reaches, was a panic in the library. */
static void times_without_end(plasmon_store *store) {
    const int64_t times[] = {PLASMON_FOREVER, INT64_MIN, INT64_MAX, INT64_MAX / 1000};
    plasmon_connect_options options;
    plasmon_start_options start;
    size_t i;

    for (i = 0; i < sizeof times / sizeof times[0]; i++) {
        plasmon_buffer *buffer = NULL;
        plasmon_pending *pending = NULL;
        plasmon_store *other = NULL;
        plasmon_code code = PLASMON_OK;
        plasmon_id id;
        int32_t state = 0;

        assert(plasmon_put(store, "x", 1, NULL, &id) == PLASMON_OK);
        assert(plasmon_get(store, &id, times[i], &buffer) == PLASMON_OK);
        plasmon_buffer_release(buffer);
        assert(plasmon_get_many(store, &id, 1, times[i], &buffer, &code) == PLASMON_OK);
        plasmon_buffer_release(buffer);
        assert(plasmon_wait(store, &id, 1, 0, times[i], &state) == PLASMON_OK);
        assert(plasmon_wait_start(store, &id, 1, 0, times[i], &pending) == PLASMON_OK);
        plasmon_pending_free(pending);
        assert(plasmon_delete(store, &id, 1, NULL) == PLASMON_OK);
        assert(plasmon_connect_options_init(&options) == PLASMON_OK);
        options.connect_timeout_ms = times[i];
        options.reconnect_timeout_ms = times[i];
        options.request_timeout_ms = times[i];
        assert(plasmon_start_options_init(&start) == PLASMON_OK);
        start.timeout_ms = times[i];
        assert(plasmon_connect_or_start(&options, &start, &other) == PLASMON_OK);
        plasmon_store_close(other);
        assert(plasmon_start(&start, NULL) == PLASMON_ALREADY_RUNNING);
    }
}

int main(void) {
    plasmon_store *store = NULL;
    assert(strcmp(plasmon_error_message(), "") == 0);
    without_a_store();
    sloppy_ends();
    assert(plasmon_connect_or_start(NULL, NULL, &store) == PLASMON_OK);
    without_an_argument(store);
    no_room_for_an_id(store);
    times_without_end(store);
    senseless_options(store);
    plasmon_store_close(store);
    puts("nulls: ok");
    return 0;
}
