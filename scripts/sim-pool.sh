#!/usr/bin/env bash
# Runs the nodes of a pool from seeds. Environment: SEEDS, FIRST, SEED; MUTATIONS=all breaks rules
# on purpose, one after the other, and prints the seed that found each.
set -euo pipefail
cd "$(dirname "$0")/.."

test=random_runs
if [ "${MUTATIONS:-}" = all ]; then
    test=broken_rules_are_found
fi
exec cargo test --quiet --release --locked -p plasmon-pool --lib -- --nocapture "$test"
