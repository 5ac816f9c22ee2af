#!/usr/bin/env bash
# Says what the formatters would change.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo fmt --manifest-path tests/sim/Cargo.toml --check
.venv/bin/ruff format --check .
