/*
 * Follows the lives of objects, waits in an event loop, and lists what is there.
 */
#undef NDEBUG /* the asserts are the point */
#include <assert.h>
#include <plasmon.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(plasmon_code code, const char *what) {
    if (code != PLASMON_OK) {
        fprintf(stderr, "%s: %s\n", what, plasmon_error_message());
        exit(1);
    }
}

static void follow(const plasmon_store *store, plasmon_subscription *subscription) {
    static const int32_t states[] = {PLASMON_STATE_SEALED, PLASMON_STATE_DELETED};
    plasmon_notification notification;
    plasmon_id id;

    check(plasmon_put(store, "12345", 5, NULL, &id), "put");
    check(plasmon_delete(store, &id, 1, NULL), "delete");
    for (int i = 0; i < 2; i++) {
        check(plasmon_subscription_next(subscription, PLASMON_FOREVER, &notification), "next");
        assert(!notification.lost && notification.state == states[i]);
        assert(memcmp(&notification.id, &id, sizeof id) == 0 && notification.data_bytes == 5);
    }
    assert(plasmon_subscription_next(subscription, PLASMON_NOW, &notification)
           == PLASMON_TIMED_OUT);
}

static void wait_in_an_event_loop(const plasmon_store *store) {
    plasmon_put_options options;
    plasmon_pending *pending = NULL;
    plasmon_id id;
    struct pollfd watched;
    int32_t state = -1;

    check(plasmon_new_id(store, &id), "id");
    check(plasmon_wait_start(store, &id, 1, 1, PLASMON_FOREVER, &pending), "wait");
    assert(plasmon_pending_poll(pending, &state) == PLASMON_PENDING);

    check(plasmon_put_options_init(&options), "options");
    options.id = &id;
    check(plasmon_put(store, "", 0, &options, NULL), "put");
    watched.fd = plasmon_pending_fd(pending);
    watched.events = POLLIN;
    assert(poll(&watched, 1, -1) == 1);
    check(plasmon_pending_poll(pending, &state), "poll");
    assert(state == PLASMON_STATE_SEALED);
    assert(plasmon_pending_poll(pending, &state) == PLASMON_END);
    plasmon_pending_free(pending);
}

static void list_by_prefix(const plasmon_store *store) {
    plasmon_put_options options;
    plasmon_listing *listing = NULL;
    plasmon_info info;
    plasmon_code code;
    char name[32];
    int count = 0;

    check(plasmon_put_options_init(&options), "options");
    options.name_space = "watch";
    options.name = name;
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%s/%d", i % 3 == 0 ? "third" : "other", i);
        check(plasmon_put(store, name, strlen(name), &options, NULL), "put");
    }
    check(plasmon_list(store, "watch", "third/", &listing), "list");
    while ((code = plasmon_listing_next(listing, &info)) == PLASMON_OK) {
        assert(strcmp(info.name_space, "watch") == 0 && strncmp(info.name, "third/", 6) == 0);
        assert(info.data_bytes == strlen(info.name) && info.state == PLASMON_STATE_SEALED);
        count++;
    }
    assert(code == PLASMON_END && count == 100);
    plasmon_listing_free(listing);
}

int main(void) {
    plasmon_store *store = NULL;
    plasmon_subscription *subscription = NULL;
    char *json = NULL;

    check(plasmon_connect_or_start(NULL, NULL, &store), "connect");
    check(plasmon_subscribe(store, NULL, NULL, &subscription), "subscribe");
    follow(store, subscription);
    plasmon_subscription_free(subscription);
    wait_in_an_event_loop(store);
    list_by_prefix(store);

    check(plasmon_status_json(store, &json), "status");
    assert(strstr(json, "\"capacity_bytes\":") != NULL);
    plasmon_text_free(json);
    plasmon_store_close(store);
    puts("watch: ok");
    return 0;
}
