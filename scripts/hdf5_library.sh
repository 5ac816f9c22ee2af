#!/usr/bin/env bash
# Builds HDF5 itself, once, for the tests and the bench of the connector: release 1.14.5, from
# Debian's source package. What is built stays in .hdf5 (git-ignored; `make clean` leaves it).
#
#   hdf5_library.sh serial     library, Fortran, tools, HDF5's tests of its interface (5 minutes)
#   hdf5_library.sh parallel   the library for MPICH, and those tests for several processes
#   hdf5_library.sh openmpi    the same for Open MPI
#   hdf5_library.sh where      prints the folder
#
# Each kind ends up in .hdf5/1.14.5/<kind>: bin (programs and libraries, which find each other),
# include, mod.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VERSION=1.14.5
readonly PACKAGE=hdf5_1.14.5+repack
readonly RELEASE=trixie
readonly KEYRING=/usr/share/keyrings/debian-archive-$RELEASE-stable.gpg
readonly HOME_FOLDER=$PWD/.hdf5
readonly DOWNLOAD=$HOME_FOLDER/download SOURCE=$HOME_FOLDER/source

say() { printf 'hdf5: %s\n' "$*" >&2; }
fail() { printf 'hdf5: %s\n' "$*" >&2; exit 1; }

# Debian's packages for what is missing.
missing_packages() {
    command -v cmake >/dev/null || echo cmake
    command -v ninja >/dev/null || echo ninja-build
    command -v gcc >/dev/null || echo gcc
    [ -e /usr/include/zlib.h ] || echo zlib1g-dev
    case "$1" in
        serial) command -v gfortran >/dev/null || echo gfortran ;;
        parallel) command -v mpicc.mpich >/dev/null || echo mpich libmpich-dev ;;
        openmpi) command -v mpicc.openmpi >/dev/null || echo openmpi-bin libopenmpi-dev ;;
    esac
}

install_packages() {
    local packages=$*
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null || fail "please install: $packages"
    [ "$(id -u)" = 0 ] || fail "please run: sudo apt-get install $packages"
    say "installing $packages"
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2
}

# The mirror of Debian that this machine uses.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' |
        head -n 1
}

# The sources, through apt, which checks their signature. Its state is a private one: the release
# they come from need not be this machine's.
download() {
    [ ! -e "$DOWNLOAD/$PACKAGE.orig.tar.gz" ] || return 0
    command -v apt-get >/dev/null || fail "apt-get is needed to fetch the sources of HDF5"
    [ -e "$KEYRING" ] || fail "the sources of HDF5 need $KEYRING (package debian-archive-keyring)"
    mkdir -p "$DOWNLOAD/state/lists/partial" "$DOWNLOAD/cache/archives/partial"
    local mirror
    mirror=$(mirror)
    [ -n "$mirror" ] || fail "apt knows no mirror of Debian: run apt-get update"
    echo "deb-src [signed-by=$KEYRING] $mirror $RELEASE main" >"$DOWNLOAD/sources.list"
    local options=(
        -o "Dir::Etc::SourceList=$DOWNLOAD/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State=$DOWNLOAD/state" -o "Dir::Cache=$DOWNLOAD/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=
    )
    say "fetching the sources of HDF5 $VERSION"
    apt-get "${options[@]}" -qq update >&2
    (cd "$DOWNLOAD" && apt-get "${options[@]}" -qq source --download-only hdf5) >&2
    [ -e "$DOWNLOAD/$PACKAGE.orig.tar.gz" ] ||
        fail "$RELEASE no longer has HDF5 $VERSION: $(ls "$DOWNLOAD")"
}

unpack() {
    download
    [ ! -e "$SOURCE/CMakeLists.txt" ] || return 0
    mkdir -p "$SOURCE"
    tar -xzf "$DOWNLOAD/$PACKAGE.orig.tar.gz" -C "$SOURCE" --strip-components=1
}

# The arguments of cmake, and the parts that are built.
options() {
    echo -DCMAKE_BUILD_TYPE=Release -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
        -DBUILD_STATIC_LIBS=OFF -DONLY_SHARED_LIBS=ON -DHDF5_BUILD_EXAMPLES=OFF \
        -DHDF5_TEST_API=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF
    case "$1" in
        serial) echo -DHDF5_BUILD_FORTRAN=ON ;;
        *)
            echo -DHDF5_ENABLE_PARALLEL=ON -DHDF5_BUILD_HL_LIB=OFF -DHDF5_BUILD_TOOLS=OFF ;;
    esac
    # Debian lets both implementations of MPI be installed; each has its own names.
    case "$1" in
        parallel) echo -DMPI_C_COMPILER=mpicc.mpich ;;
        openmpi) echo -DMPI_C_COMPILER=mpicc.openmpi ;;
    esac
}

targets() {
    case "$1" in
        serial)
            echo hdf5-shared hdf5_fortran-shared h5_api_test h5dump h5ls h5diff h5repack h5stat ;;
        *) echo hdf5-shared h5_api_test_parallel ;;
    esac
}

# Moves what was built to its place, which it gets only when it is whole.
keep() {
    local build=$1 fresh=$2
    rm -rf "$fresh"
    mkdir -p "$fresh/include" "$fresh/mod"
    cp -a "$build/bin" "$fresh/bin"
    cp "$SOURCE"/src/*.h "$SOURCE"/src/H5FDsubfiling/*.h "$build"/src/*.h "$fresh/include"
    cp "$SOURCE/COPYING" "$fresh"
    find "$build/bin/mod" "$build/mod" -name '*.mod' -exec cp -t "$fresh/mod" {} + 2>/dev/null ||
        true
}

build() {
    local kind=$1 folder=$HOME_FOLDER/$VERSION/$1 build=$HOME_FOLDER/build-$1
    [ ! -e "$folder/bin/libhdf5.so" ] || return 0
    # shellcheck disable=SC2046 # a list of words
    install_packages $(missing_packages "$kind")
    unpack
    say "building HDF5 $VERSION, $kind (some minutes, once); log: $build.log"
    # shellcheck disable=SC2046 # lists of words
    if ! { nice cmake -G Ninja -S "$SOURCE" -B "$build" $(options "$kind") &&
        nice ninja -C "$build" -j2 $(targets "$kind"); } >"$build.log" 2>&1; then
        tail -n 30 "$build.log" >&2
        fail "HDF5 cannot be built"
    fi
    mkdir -p "$HOME_FOLDER/$VERSION"
    keep "$build" "$folder.fresh"
    rm -rf "$folder"
    mv "$folder.fresh" "$folder"
    rm -rf "$build"
}

case "${1:-}" in
    serial | parallel | openmpi) build "$1" ;;
    where) echo "$HOME_FOLDER/$VERSION" ;;
    *) fail "unknown part \"${1:-}\": serial, parallel, openmpi or where" ;;
esac
