#!/usr/bin/env bash
# The linters; a warning is an error. So is a lock file that its workspace has outgrown.
set -euo pipefail
cd "$(dirname "$0")/.."

for workspace in fuzz tests/sim; do
    cargo tree --quiet --locked --manifest-path "$workspace/Cargo.toml" >/dev/null
done
cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
.venv/bin/ruff check .
