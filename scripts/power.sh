#!/usr/bin/env bash
# Builds the machines' program without any library, and cuts the power of machines that run it.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
# With a target of its own the flags are not those of build scripts and macros.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --locked --release \
    --target "$target" --target-dir target/power/build -p plasmon-power
exec python3 -m scripts.power --program "target/power/build/$target/release/plasmon-power" "$@"
