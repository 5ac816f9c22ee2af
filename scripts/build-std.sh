# For scripts that build the standard library themselves; to be sourced, in the repository's root.
#
#   find_sources    sets `library` to the compiler's own sources, or leaves it empty
#   std_cargo ...   cargo, with a standard library that is built on the way
#   skip REASON     ends the suite as one that was skipped
#
# The sources are rustup's component rust-src where it is installed, otherwise Debian's package of
# exactly this version, which is unpacked into .rust-src (git-ignored).
# shellcheck shell=bash

readonly SOURCES_FOLDER=$PWD/.rust-src
readonly BACKPORTS=trixie-backports
readonly KEYRING=/usr/share/keyrings/debian-archive-trixie-automatic.gpg

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

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
        "$SOURCES_FOLDER/usr/src/rustc-$(version)/library"; do
        [ ! -e "$folder/Cargo.lock" ] || { echo "$folder"; return; }
    done
}

# Debian's package of the sources, through apt, which checks its signature. Its state is a private
# one: the release that it comes from is not this machine's.
download() {
    command -v apt-get >/dev/null || return 0
    [ -e "$KEYRING" ] || return 0
    local state=$SOURCES_FOLDER/state mirror found
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' |
        head -n 1)
    mkdir -p "$state/lists/partial" "$SOURCES_FOLDER/cache/archives/partial"
    echo "deb [signed-by=$KEYRING] $mirror $BACKPORTS main" >"$state/sources.list"
    local options=(
        -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State=$state" -o "Dir::Cache=$SOURCES_FOLDER/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=
    )
    apt-get "${options[@]}" -qq update >&2 || return 0
    found=$(apt-cache "${options[@]}" madison rust-src | awk '{ print $3 }' |
        grep "^$(version)+" | head -n 1) || return 0
    say "fetching the sources of Rust $found"
    (cd "$SOURCES_FOLDER" && apt-get "${options[@]}" -qq download "rust-src=$found" >&2 &&
        dpkg-deb -x rust-src_*.deb . && rm rust-src_*.deb) || return 0
}

find_sources() {
    library=$(sources)
    [ -n "$library" ] || download
    library=$(sources)
}

# Building the standard library is not stable yet, and finds the sources by a variable
# that cargo has for its own tests.
std_cargo() {
    local command=$1
    shift
    RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$library CARGO_PROFILE_DEV_DEBUG=${DEBUG:-none} \
        cargo "$command" --quiet --locked -Zbuild-std=std,panic_unwind,test "$@"
}
