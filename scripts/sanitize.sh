#!/usr/bin/env bash
# Runs tests under the compilers' sanitizers.
#
#   sanitize.sh address          the C and C++ programs under AddressSanitizer, with leaks and
#                                undefined behaviour
#   sanitize.sh thread           shm's stress test and the client's tests of threads and waits under
#                                ThreadSanitizer
#   sanitize.sh thread ARGS      something else: the arguments of cargo test
#
# ThreadSanitizer looks at the threads of one process; orders between processes are loom's. It wants
# a standard library that is built with it (build-std.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build-std.sh

address() {
    # Memory that a program still holds at its end is a failure, too.
    export PLASMON_TEST_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
    cargo test --quiet --locked -p plasmon-capi --test examples
}

thread() {
    find_sources
    [ -n "$library" ] ||
        skip "there are no sources of Rust $(version): rustup component add rust-src"
    # The daemon under test is an ordinary one.
    cargo build --quiet --locked -p plasmon-daemon
    export PLASMON_DAEMON=${CARGO_TARGET_DIR:-$PWD/target}/debug/plasmond
    export TSAN_OPTIONS=halt_on_error=0:exitcode=66:second_deadlock_stack=1
    export RUSTFLAGS="-Zsanitizer=thread" DEBUG=line-tables-only
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/thread
    local triple
    triple=$(rustc -vV | sed -n 's/^host: //p')
    if [ $# -gt 0 ]; then
        std_cargo test --target "$triple" "$@"
        return
    fi
    std_cargo test --target "$triple" -p plasmon-shm --test stress
    std_cargo test --target "$triple" -p plasmon-client --test threads --test waits
}

part=${1:-}
[ $# = 0 ] || shift
case $part in
    address) address ;;
    thread) thread "$@" ;;
    *) say "unknown part \"$part\": address or thread"; exit 2 ;;
esac
