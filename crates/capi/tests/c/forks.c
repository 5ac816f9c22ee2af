/*
 * Forks and forbidden writes: a child has its own connection, sees and releases nothing of
 * its parent's, and a reader that writes to a sealed object dies of it and changes nothing.
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

/* The library lays no hand on signals, so the default action ends the child. */
static void a_writing_reader_dies(const plasmon_store *store, size_t bytes) {
    char *data = malloc(bytes);
    plasmon_buffer *buffer = NULL, *own = NULL;
    plasmon_id id;
    pid_t child;

    memset(data, 'x', bytes);
    check(plasmon_put(store, data, bytes, NULL, &id), "put");
    check(plasmon_get(store, &id, PLASMON_FOREVER, &buffer), "get");
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        check(plasmon_get(store, &id, PLASMON_NOW, &own), "get in the child");
        if (memcmp(plasmon_buffer_data(own), data, bytes) != 0) {
            _exit(1);
        }
        ((volatile char *)plasmon_buffer_data(own))[bytes / 2] = 'y';
        _exit(0);
    }
    int status = status_of(child);
    assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert(memcmp(plasmon_buffer_data(buffer), data, bytes) == 0);
    plasmon_buffer_release(buffer);
    check(plasmon_delete(store, &id, 1, NULL), "delete");
    free(data);
}

/* The parent's pin says nothing of the child: what the child inherited could be another object
 * by now, so it cannot be read. */
static void a_child_cannot_read_what_it_inherited(const plasmon_store *store) {
    plasmon_buffer *buffer = NULL;
    plasmon_id id;
    pid_t child;

    check(plasmon_put(store, "inherited", 9, NULL, &id), "put");
    check(plasmon_get(store, &id, PLASMON_FOREVER, &buffer), "get");
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(((volatile const char *)plasmon_buffer_data(buffer))[0]);
    }
    int status = status_of(child);
    assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert(memcmp(plasmon_buffer_data(buffer), "inherited", 9) == 0);
    plasmon_buffer_release(buffer);
    check(plasmon_delete(store, &id, 1, NULL), "delete");
}

static void a_child_has_its_own_connection(plasmon_store *store) {
    plasmon_buffer *buffer = NULL, *own = NULL;
    plasmon_writer *writer = NULL;
    plasmon_put_options options;
    plasmon_id id, made = {{7}}, parents, childs;
    int32_t contained = 0;
    pid_t child;

    check(plasmon_put(store, "shared", 6, NULL, &id), "put");
    check(plasmon_get(store, &id, PLASMON_FOREVER, &buffer), "get");
    check(plasmon_create(store, 100, NULL, &writer), "create");
    check(plasmon_put_options_init(&options), "options");
    options.id = &made;
    child = fork();
    if (child == 0) {
        /* Giving back what was inherited touches nothing of the parent's. */
        plasmon_buffer_release(buffer);
        assert(plasmon_writer_seal(writer, NULL) == PLASMON_FORKED);
        /* The store reconnects by itself. */
        check(plasmon_get(store, &id, PLASMON_NOW, &own), "get in the child");
        assert(memcmp(plasmon_buffer_data(own), "shared", 6) == 0);
        plasmon_buffer_release(own);
        check(plasmon_new_id(store, &childs), "id in the child");
        check(plasmon_put(store, &childs, sizeof childs, &options, NULL), "put in the child");
        plasmon_store_close(store);
        _exit(0);
    }
    int status = status_of(child);
    assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* The parent's pin held all the while: its object is deleted and still there to be read. */
    check(plasmon_delete(store, &id, 1, NULL), "delete");
    for (int i = 0; i < 200; i++) {
        check(plasmon_put(store, "other bytes in the same place", 29, NULL, NULL), "put");
    }
    check(plasmon_flush(store), "flush");
    assert(memcmp(plasmon_buffer_data(buffer), "shared", 6) == 0);
    plasmon_buffer_release(buffer);
    check(plasmon_writer_seal(writer, NULL), "seal");

    check(plasmon_contains(store, &made, &contained), "contains");
    assert(contained);
    check(plasmon_get(store, &made, PLASMON_NOW, &buffer), "get");
    check(plasmon_new_id(store, &parents), "id");
    assert(memcmp(plasmon_buffer_data(buffer), &parents, 12) != 0);
    plasmon_buffer_release(buffer);
}

/* One that waits and one that seals, forked from each other: each sleeps and wakes for itself. */
static void parent_and_child_wait_for_each_other(plasmon_store *store, uint8_t first) {
    plasmon_buffer *buffer = NULL;
    plasmon_put_options options;
    plasmon_id question = {{first}}, answer = {{first, 1}};
    pid_t child;

    check(plasmon_put_options_init(&options), "options");
    child = fork();
    if (child == 0) {
        check(plasmon_get(store, &question, PLASMON_FOREVER, &buffer), "get in the child");
        options.id = &answer;
        check(plasmon_put(store, plasmon_buffer_data(buffer), 8, &options, NULL), "answer");
        plasmon_buffer_release(buffer);
        plasmon_store_close(store);
        _exit(0);
    }
    options.id = &question;
    check(plasmon_put(store, "question", 8, &options, NULL), "question");
    check(plasmon_get(store, &answer, PLASMON_FOREVER, &buffer), "get in the parent");
    assert(memcmp(plasmon_buffer_data(buffer), "question", 8) == 0);
    plasmon_buffer_release(buffer);
    int status = status_of(child);
    assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    plasmon_store *store = NULL;
    check(plasmon_connect_or_start(NULL, NULL, &store), "connect");
    a_writing_reader_dies(store, 100);
    a_writing_reader_dies(store, 20 << 20);
    a_child_cannot_read_what_it_inherited(store);
    a_child_has_its_own_connection(store);
    for (uint8_t first = 100; first < 120; first++) {
        parent_and_child_wait_for_each_other(store, first);
    }
    plasmon_store_close(store);
    puts("forks: ok");
    return 0;
}
