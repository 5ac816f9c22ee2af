#!/usr/bin/env bash
# Builds the daemon and the soak with optimizations and runs one soak by its name.
set -euo pipefail
cd "$(dirname "$0")/.."

name=$1
shift
cargo build --quiet --release -p plasmon-daemon -p plasmon-soak
target=${CARGO_TARGET_DIR:-target}
exec "$target/release/plasmon-soak" "$name" --daemon "$target/release/plasmond" "$@"
