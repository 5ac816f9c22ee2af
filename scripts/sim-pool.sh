#!/usr/bin/env bash
# Runs a pool from seeds, in two parts: its nodes over a double of their stores, and whole nodes
# with the real store. Environment: PART=nodes|whole for one of them; SEEDS for the first and WHOLE
# for the second say how many; FIRST, SEED, EVENTS; MUTATIONS=all breaks rules on purpose, one after
# the other, and prints the seed that found each.
set -uo pipefail
cd "$(dirname "$0")/.."

nodes=random_runs
whole=whole_nodes_keep_every_promise
if [ "${MUTATIONS:-}" = all ]; then
    nodes=broken_rules_are_found
    whole=a_broken_rule_is_found
fi

run() {
    cargo test --quiet --release --locked "$@"
}

failed=0
if [ "${PART:-nodes}" = nodes ]; then
    run -p plasmon-pool --lib -- --nocapture "$nodes" || failed=1
fi
if [ "${PART:-whole}" = whole ]; then
    run -p plasmon-pool-tests --test nodes -- --nocapture --include-ignored "$whole" || failed=1
fi
exit "$failed"
