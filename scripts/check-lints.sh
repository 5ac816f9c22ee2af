#!/usr/bin/env bash
# The linters; a warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
.venv/bin/ruff check .
