#!/usr/bin/env bash
# Compiles the node's crates for AArch64, and runs the stress test of several processes under an
# emulator of that processor.
#
#   aarch64.sh check    the compiler's checks alone
#   aarch64.sh stress   the stress test under qemu-user
#
# The standard library for AArch64 is built from the compiler's own sources: rustup's component
# rust-src where it is installed, otherwise Debian's package of exactly this version, which is
# unpacked into .aarch64 (git-ignored). Where neither can be had the suite says so and is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-unknown-linux-gnu
readonly HOME_FOLDER=$PWD/.aarch64
readonly CRATES=(proto shm store media client daemon)
readonly BACKPORTS=trixie-backports
readonly KEYRING=/usr/share/keyrings/debian-archive-trixie-automatic.gpg

say() { printf 'aarch64: %s\n' "$*" >&2; }

skip() {
    say "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

version() { rustc --version | cut -d ' ' -f 2; }

# The library folder of the compiler's sources, if it is on this machine.
sources() {
    local folder
    for folder in "$(rustc --print sysroot)/lib/rustlib/src/rust/library" \
        "$HOME_FOLDER/usr/src/rustc-$(version)/library"; do
        [ ! -e "$folder/Cargo.lock" ] || { echo "$folder"; return; }
    done
}

# Debian's package of the sources, through apt, which checks its signature. Its state is a private
# one: the release that it comes from is not this machine's.
download() {
    command -v apt-get >/dev/null || return 0
    [ -e "$KEYRING" ] || return 0
    local state=$HOME_FOLDER/state mirror found
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' |
        head -n 1)
    mkdir -p "$state/lists/partial" "$HOME_FOLDER/cache/archives/partial"
    echo "deb [signed-by=$KEYRING] $mirror $BACKPORTS main" >"$state/sources.list"
    local options=(
        -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State=$state" -o "Dir::Cache=$HOME_FOLDER/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=
    )
    apt-get "${options[@]}" -qq update >&2 || return 0
    found=$(apt-cache "${options[@]}" madison rust-src | awk '{ print $3 }' |
        grep "^$(version)+" | head -n 1) || return 0
    say "fetching the sources of Rust $found"
    (cd "$HOME_FOLDER" && apt-get "${options[@]}" -qq download "rust-src=$found" >&2 &&
        dpkg-deb -x rust-src_*.deb . && rm rust-src_*.deb) || return 0
}

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

# Cargo, with a standard library that is built on the way. Building it is not stable yet, and is
# told where the sources are by a variable that cargo has for its own tests.
cross_cargo() {
    local command=$1
    shift
    RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$library CARGO_PROFILE_DEV_DEBUG=none \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
        cargo "$command" --quiet --locked --target "$TARGET" -Zbuild-std=std,panic_unwind,test "$@"
}

case "${1:-}" in
    check | stress) ;;
    *) say "unknown part \"${1:-}\": check or stress"; exit 2 ;;
esac
packages "$1"
library=$(sources)
[ -n "$library" ] || download
library=$(sources)
[ -n "$library" ] || skip "there are no sources of Rust $(version): rustup component add rust-src"

case "$1" in
    check) cross_cargo check "${CRATES[@]/#/-pplasmon-}" ;;
    stress)
        export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu PLASMON_STRESS_RUNNER=qemu-aarch64
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$PLASMON_STRESS_RUNNER
        cross_cargo test -p plasmon-shm --test stress
        ;;
esac
