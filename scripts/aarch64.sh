#!/usr/bin/env bash
# Compiles the node's crates for AArch64, and runs the stress test of several processes under an
# emulator of that processor.
#
#   aarch64.sh check    the compiler's checks alone
#   aarch64.sh stress   the stress test under qemu-user
#
# The standard library for AArch64 is built from the compiler's own sources (build-std.sh). Where
# they cannot be had the suite says so and is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build-std.sh

readonly TARGET=aarch64-unknown-linux-gnu
readonly CRATES=(proto shm store spill log client daemon)

packages() {
    local missing=()
    command -v aarch64-linux-gnu-gcc >/dev/null ||
        missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
    [ "$1" = check ] || command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        skip "please install: ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >&2
}

cross_cargo() {
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
        std_cargo "$@" --target "$TARGET"
}

case "${1:-}" in
    check | stress) ;;
    *) say "unknown part \"${1:-}\": check or stress"; exit 2 ;;
esac
packages "$1"
find_sources
[ -n "$library" ] || skip "there are no sources of Rust $(version): rustup component add rust-src"

case "$1" in
    check) cross_cargo check "${CRATES[@]/#/-pplasmon-}" ;;
    stress)
        export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu PLASMON_STRESS_RUNNER=qemu-aarch64
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$PLASMON_STRESS_RUNNER
        cross_cargo test -p plasmon-shm --test stress
        ;;
esac
