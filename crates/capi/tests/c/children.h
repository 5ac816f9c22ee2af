/* What programs of several processes share: calls that must succeed, and how a child ended. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <assert.h>
#include <plasmon.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(plasmon_code code, const char *what) {
    if (code != PLASMON_OK) {
        fprintf(stderr, "%s: %s\n", what, plasmon_error_message());
        _exit(1);
    }
}

static int status_of(pid_t child) {
    int status = 0;
    assert(waitpid(child, &status, 0) == child);
    return status;
}

#endif
