#!/usr/bin/env bash
# Runs the simulator of daemon, keeper and clients. Usage: sim.sh [options of plasmon-sim]
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --release --locked --manifest-path tests/sim/Cargo.toml \
	--target-dir target/sim -- "$@"
