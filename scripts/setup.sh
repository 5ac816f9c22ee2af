#!/usr/bin/env bash
# Installs what the machine lacks and the package into .venv. Quick when there is nothing to do.
#
#   setup.sh machine       compilers, Python's venv, Rust
#   setup.sh languages     what the readers for Java and JavaScript are tested with
#   setup.sh etcd          what the pool is tested with; without it these tests are skipped
#   setup.sh pool-rivals   what a pool is measured beside; without it these rows are missing.
#                          Rivals from PyPI have environments of their own, made when measured
#   setup.sh durable-rivals   what durable objects are measured beside, likewise
#   setup.sh power         an emulator, and a kernel for it, unpacked into target/power
#   setup.sh fabric        libfabric, if it can be had: nodes write into each other's memory with it
#   setup.sh rdma          emulator, kernel, libfabric, and what lets it use a software card
#   setup.sh environment   the machine, and .venv with what the tests need
#   setup.sh [package]     that, and the package itself
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Debian's packages for what is missing.
missing_packages() {
    command -v gcc >/dev/null || echo gcc
    command -v g++ >/dev/null || echo g++
    command -v make >/dev/null || echo make
    command -v git >/dev/null || echo git
    command -v pkg-config >/dev/null || echo pkg-config
    command -v python3 >/dev/null || echo python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

missing_language_packages() {
    command -v javac >/dev/null || echo openjdk-17-jdk-headless
    command -v mvn >/dev/null || echo maven
    command -v node >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
}

# Installs packages, if there are any.
install_packages() {
    local packages=$*
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null || fail "please install: $packages"
    [ "$(id -u)" = 0 ] || fail "please run: sudo apt-get install $packages"
    say "installing $packages"
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
}

machine() {
    # shellcheck disable=SC2046 # a list of words
    install_packages $(missing_packages)
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or later is needed; found $(python3 --version)"
    command -v cargo >/dev/null ||
        fail "Rust is needed: install its stable toolchain with rustup, then open a new shell"
}

etcd_server() {
    local packages=
    command -v etcd >/dev/null || packages="etcd-server"
    command -v ip >/dev/null && command -v tc >/dev/null || packages="$packages iproute2"
    if [ "$packages" ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null ||
        ! install_packages "$packages"; }; then
        say "without $packages tests of the pool are skipped; its demo needs etcd"
    fi
}

pool_rivals() {
    local packages=
    command -v redis-server >/dev/null || packages="redis-server"
    command -v iperf3 >/dev/null || packages="$packages iperf3"
    command -v memcached >/dev/null || packages="$packages memcached"
    # What Mooncake is linked with, and the servers of vineyard.
    ldconfig -p | grep -q libibverbs.so.1 || packages="$packages libibverbs1"
    # By what nodes write into each other's memory, and what measures such libraries.
    ldconfig -p | grep -q 'libfabric\.so\.1 ' || packages="$packages libfabric1"
    command -v fi_pingpong >/dev/null || packages="$packages libfabric-bin"
    command -v ucx_perftest >/dev/null || packages="$packages ucx-utils"
    if [ "$packages" ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null ||
        ! install_packages "$packages"; }; then
        say "the pool is measured without $packages"
    fi
}

durable_rivals() {
    local packages=
    command -v redis-server >/dev/null || packages="redis-server"
    pkg-config --exists libpmemobj || packages="$packages libpmemobj-dev"
    if [ "$packages" ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null ||
        ! install_packages "$packages"; }; then
        say "durable objects are measured without $packages"
    fi
}

# The kernel is not installed: only its files are taken.
power() {
    local packages=
    command -v qemu-system-x86_64 >/dev/null || packages="qemu-system-x86"
    command -v mke2fs >/dev/null || packages="$packages e2fsprogs"
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages
    ls target/power/kernel/boot/vmlinuz-* >/dev/null 2>&1 && return
    command -v apt-get >/dev/null || fail "please unpack a Linux kernel into target/power/kernel"
    local kernel
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
    say "unpacking $kernel into target/power/kernel"
    mkdir -p target/power/package
    (cd target/power/package && apt-get download -qq "$kernel")
    dpkg-deb -x target/power/package/"$kernel"_*.deb target/power/kernel
    rm -rf target/power/package
}

fabric() {
    ldconfig -p | grep -q 'libfabric\.so\.1 ' && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || ! install_packages libfabric1; then
        say "without libfabric1 tests of what nodes write into each other's memory are skipped"
    fi
}

rdma() {
    local packages=
    ldconfig -p | grep -q 'libfabric\.so\.1 ' || packages="libfabric1"
    [ -e /etc/libibverbs.d/rxe.driver ] || packages="$packages ibverbs-providers"
    command -v rdma >/dev/null || packages="$packages iproute2"
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages
}

languages() {
    # shellcheck disable=SC2046 # a list of words
    install_packages $(missing_language_packages)
    local found
    found=$(javac -version 2>&1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    [ "${found:-0}" -ge 17 ] || fail "Java 17 or later is needed; found $(javac -version 2>&1)"
    found=$(node --version | sed 's/v\([0-9]*\).*/\1/')
    [ "${found:-0}" -ge 18 ] || fail "Node.js 18 or later is needed; found $(node --version)"
}

# One digest over the content of files.
digest() { sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1; }

interpreter() { [ -x .venv/bin/python ] || python3 -m venv .venv; }

environment() {
    local requirements=python/requirements-test.txt stamp=.venv/made-from wanted
    wanted="$(python3 --version) $(printf '%s\0' "$requirements" | digest)"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    say "making .venv"
    interpreter
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
    printf '%s' "$wanted" >"$stamp"
}

# What the package is built from, as far as a change of it asks for another build.
package_sources() {
    find Cargo.toml Cargo.lock pyproject.toml setup.py setup.cfg MANIFEST.in crates hdf5 python \
        -type f -not -path '*/__pycache__/*' -not -path '*/tests/*' -not -path '*/_bin/*' \
        -not -name '*.so' -print0 2>/dev/null || true
}

# Compiles the parts of the package as it will be compiled, while pip fetches what the tests need:
# all that have Arrow at the same time, so that no core waits, then the daemons. The two variables
# are those that setuptools-rust sets; with others PyO3 would be compiled again. What fails here is
# said when the package is built.
compile_ahead() {
    export CARGO_PROFILE_RELEASE_DEBUG=none PYO3_BUILD_EXTENSION_MODULE=1
    export PYO3_PYTHON="$PWD/.venv/bin/python"
    cargo build --quiet --release --locked \
        -p plasmon-cli -p plasmon-hdf5 -p plasmon-capi -p plasmon-python || return 0
    cargo build --quiet --release --locked -p plasmon-daemon -p plasmon-poold || return 0
}

# The environment and the package; on a machine that has neither, both at the same time.
environment_and_package() {
    if [ -f .venv/package-made-from ]; then
        environment
    else
        say "compiling (a few minutes the first time)"
        interpreter
        compile_ahead 2>/dev/null &
        environment
        wait
    fi
    package
}

package() {
    local stamp=.venv/package-made-from wanted
    wanted=$(package_sources | digest)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    say "building the package"
    # setuptools packs whatever it finds there, also modules that are no longer in the tree.
    rm -rf build/lib.*
    # Debug information is stripped from what is installed, so none is made.
    CARGO_PROFILE_RELEASE_DEBUG=none \
        .venv/bin/python -m pip install --quiet --disable-pip-version-check .
    .venv/bin/python -m plasmon.build_memory_pool >/dev/null
    printf '%s' "$wanted" >"$stamp"
}

case "${1:-package}" in
    machine) machine ;;
    languages) languages ;;
    etcd) etcd_server ;;
    fabric) fabric ;;
    pool-rivals) pool_rivals ;;
    durable-rivals) durable_rivals ;;
    power) machine; power ;;
    rdma) machine; power; rdma ;;
    environment) machine; environment ;;
    package) machine; environment_and_package ;;
    *) fail "unknown part \"$1\": the parts are listed at the top of scripts/setup.sh" ;;
esac
