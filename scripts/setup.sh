#!/usr/bin/env bash
# Installs what the machine lacks and the package into .venv. Quick when there is nothing to do.
#
#   setup.sh machine       compilers, Python's venv, Rust
#   setup.sh environment   that, and .venv with what the tests need
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

machine() {
    local packages
    packages=$(missing_packages | tr '\n' ' ')
    if [ -n "$packages" ]; then
        command -v apt-get >/dev/null || fail "please install: $packages"
        [ "$(id -u)" = 0 ] || fail "please run: sudo apt-get install $packages"
        say "installing $packages"
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
    fi
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or later is needed; found $(python3 --version)"
    command -v cargo >/dev/null ||
        fail "Rust is needed: install its stable toolchain with rustup, then open a new shell"
}

# One digest over the content of files.
digest() { sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1; }

environment() {
    local requirements=python/requirements-test.txt stamp=.venv/made-from wanted
    wanted="$(python3 --version) $(printf '%s\0' "$requirements" | digest)"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    say "making .venv"
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
    printf '%s' "$wanted" >"$stamp"
}

# What the package is built from, as far as a change of it asks for another build.
package_sources() {
    find Cargo.toml Cargo.lock pyproject.toml setup.py setup.cfg MANIFEST.in crates python \
        -type f -not -path '*/__pycache__/*' -not -path '*/tests/*' -not -path '*/_bin/*' \
        -not -name '*.so' -print0 2>/dev/null || true
}

package() {
    local stamp=.venv/package-made-from wanted
    wanted=$(package_sources | digest)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    say "building the package (a few minutes the first time)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check .
    printf '%s' "$wanted" >"$stamp"
}

case "${1:-package}" in
    machine) machine ;;
    environment) machine; environment ;;
    package) machine; environment; package ;;
    *) fail "unknown part \"$1\": machine, environment or package" ;;
esac
