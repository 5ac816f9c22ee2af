/*
 * Scopes: their objects stay together or not at all, whether they are published, aborted, or their
 * process is killed; a forked child ends nothing of its parent's.
 */
#undef NDEBUG
#include <assert.h>
#include <plasmon.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"

#define IDS_MAX 8192
#define DEADLINE_MS 30000

static void put(const plasmon_store *store, const plasmon_id *id) {
    plasmon_put_options options;

    check(plasmon_put_options_init(&options), "options");
    options.id = id;
    check(plasmon_put(store, "a part", 6, &options, NULL), "put");
}

static int32_t state_of(const plasmon_store *store, const plasmon_id *id) {
    int32_t state = -1;
    check(plasmon_states(store, id, 1, &state), "states");
    return state;
}

static void published_or_aborted(const plasmon_store *store) {
    plasmon_id ids[3] = {{{1}}, {{2}}, {{3}}};
    plasmon_scope *scope = NULL;

    for (int publish = 0; publish < 2; publish++) {
        check(plasmon_scope_open(store, ids, 2, &scope), "open");
        check(plasmon_scope_add(scope, &ids[2], 1), "add");
        for (int at = 0; at < 3; at++) {
            put(store, &ids[at]);
            assert(state_of(store, &ids[at]) == PLASMON_STATE_SEALED);
        }
        check(publish ? plasmon_scope_publish(scope) : plasmon_scope_abort(scope), "end");
        for (int at = 0; at < 3; at++) {
            int32_t state = state_of(store, &ids[at]);
            assert(state == (publish ? PLASMON_STATE_SEALED : PLASMON_STATE_DELETED));
        }
    }
}

/* What the child made goes with it; what the parent has under one of the ids stays. */
static void a_killed_process_leaves_nothing(const plasmon_store *store) {
    plasmon_id ids[2] = {{{11}}, {{12}}};
    plasmon_subscription *subscription = NULL;
    plasmon_notification found = {0};
    plasmon_scope *scope = NULL;
    pid_t child;

    put(store, &ids[1]);
    check(plasmon_subscribe(store, NULL, NULL, &subscription), "subscribe");
    child = fork();
    if (child == 0) {
        check(plasmon_scope_open(store, ids, 2, &scope), "open in the child");
        put(store, &ids[0]);
        kill(getpid(), SIGKILL);
    }
    int status = status_of(child);
    assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (found.state != PLASMON_STATE_DELETED) {
        check(plasmon_subscription_next(subscription, DEADLINE_MS, &found), "a notification");
        assert(memcmp(&found.id, &ids[0], sizeof found.id) == 0);
    }
    plasmon_subscription_free(subscription);
    assert(state_of(store, &ids[0]) == PLASMON_STATE_DELETED);
    assert(state_of(store, &ids[1]) == PLASMON_STATE_SEALED);
}

static void a_child_ends_nothing_of_its_parents(const plasmon_store *store) {
    plasmon_id id = {{21}};
    plasmon_scope *scope = NULL;

    for (int publish = 0; publish < 2; publish++) {
        check(plasmon_scope_open(store, &id, 1, &scope), "open");
        put(store, &id);
        pid_t child = fork();
        if (child == 0) {
            assert(plasmon_scope_add(scope, &id, 1) == PLASMON_FORKED);
            assert((publish ? plasmon_scope_publish : plasmon_scope_abort)(scope) ==
                   PLASMON_FORKED);
            /* The store reconnects by itself, and the child has scopes of its own. */
            plasmon_id own = {{22}};
            check(plasmon_scope_open(store, &own, 1, &scope), "open in the child");
            put(store, &own);
            check(plasmon_scope_abort(scope), "abort in the child");
            _exit(state_of(store, &own) != PLASMON_STATE_DELETED);
        }
        int status = status_of(child);
        assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert(state_of(store, &id) == PLASMON_STATE_SEALED);
        check(plasmon_scope_abort(scope), "abort");
        assert(state_of(store, &id) == PLASMON_STATE_DELETED);
    }
}

static void too_many_ids_are_refused(const plasmon_store *store) {
    plasmon_id *ids = calloc(IDS_MAX + 1, sizeof *ids);
    plasmon_scope *scope = (plasmon_scope *)ids;
    plasmon_error facts;

    assert(ids != NULL);
    for (int at = 0; at <= IDS_MAX; at++) {
        ids[at].bytes[0] = 31;
        memcpy(&ids[at].bytes[1], &at, sizeof at);
    }
    assert(plasmon_scope_open(store, ids, IDS_MAX + 1, &scope) == PLASMON_LIMIT_REACHED);
    assert(scope == NULL);
    assert(strstr(plasmon_error_message(), "8192") != NULL);
    check(plasmon_error_facts(&facts), "facts");
    assert(facts.wanted == IDS_MAX + 1 && facts.found == IDS_MAX);
    check(plasmon_scope_open(store, ids, IDS_MAX, &scope), "open");
    assert(plasmon_scope_add(scope, &ids[IDS_MAX], 1) == PLASMON_LIMIT_REACHED);
    /* None of them is added twice. */
    check(plasmon_scope_add(scope, ids, IDS_MAX), "add again");
    put(store, &ids[0]);
    put(store, &ids[IDS_MAX]);
    check(plasmon_scope_abort(scope), "abort");
    assert(state_of(store, &ids[0]) == PLASMON_STATE_DELETED);
    assert(state_of(store, &ids[IDS_MAX]) == PLASMON_STATE_SEALED);
    free(ids);
}

/* As a writer does, a scope keeps the connection when the store is given back. */
static void a_scope_outlives_its_store(const plasmon_store *store) {
    plasmon_id id = {{41}};
    plasmon_store *other = NULL;
    plasmon_scope *scope = NULL;

    check(plasmon_connect(NULL, &other), "connect");
    check(plasmon_scope_open(other, &id, 1, &scope), "open");
    put(other, &id);
    plasmon_store_close(other);
    check(plasmon_scope_publish(scope), "publish");
    assert(state_of(store, &id) == PLASMON_STATE_SEALED);
}

int main(void) {
    plasmon_store *store = NULL;
    check(plasmon_connect_or_start(NULL, NULL, &store), "connect");
    published_or_aborted(store);
    a_killed_process_leaves_nothing(store);
    a_child_ends_nothing_of_its_parents(store);
    too_many_ids_are_refused(store);
    a_scope_outlives_its_store(store);
    plasmon_store_close(store);
    puts("scopes: ok");
    return 0;
}
