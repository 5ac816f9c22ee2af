#!/usr/bin/env bash
# Builds the daemon and the soak and runs one soak by its name. "hooks" and "changing" are soaks of
# the installed Python package: values that change themselves while they are serialized, and objects
# whose memory changes while they are read; "objects" puts random values through it, and "tables"
# random tables. PROFILE=dev builds without optimizations, which is quicker when the tests have
# built the same before.
set -euo pipefail
cd "$(dirname "$0")/.."

name=$1
shift
case $name in
hooks | changing)
    export PYTHONMALLOC=debug
    exec .venv/bin/python -X faulthandler "python/tests/objects/$name.py" "$@"
    ;;
objects)
    exec .venv/bin/python -X faulthandler -m python.tests.random_values "$@"
    ;;
tables)
    exec .venv/bin/python -X faulthandler -m python.tests.random_tables "$@"
    ;;
esac
packages=(-p plasmon-daemon -p plasmon-soak)
programs=()
profile=${PROFILE:-release}
folder=${CARGO_TARGET_DIR:-target}/${profile/dev/debug}
if [ "$name" = cluster ]; then
    packages+=(-p plasmon-poold)
    programs+=(--pool-daemon "$folder/plasmon-poold")
fi
cargo build --quiet --locked --profile "$profile" "${packages[@]}"
exec "$folder/plasmon-soak" "$name" --daemon "$folder/plasmond" "${programs[@]}" "$@"
