#!/usr/bin/env bash
# Builds the test programs of remote memory, and runs them in a machine with a software RDMA card.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet --locked -p plasmon-rdma
exec python3 -m scripts.rdma --init target/debug/plasmon-rdma "$@"
