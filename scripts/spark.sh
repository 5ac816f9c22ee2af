#!/usr/bin/env bash
# Builds and tests the Spark shuffle.
#
#   spark.sh jar [PREFIX]  build spark/target/plasmon-spark.jar, with library and daemon inside, and
#                          copy it to where the `plasmon` in PREFIX/bin looks for it
#   spark.sh unit          the tests that need no Spark
#   spark.sh environments  the Sparks to test with, into .venvs/spark35 and .venvs/spark4
#   spark.sh test [..]     all tests; what follows goes to pytest
#   spark.sh pool [..]     the tests on a pool of three machines, and a table of them
#   spark.sh lines         a few jobs and faults with every line that the tests leave out
#   spark.sh suites [..]   Spark's own suites with both managers (over half an hour); a name: one
#   spark.sh demo [..]     jobs with both shuffle managers, a table and a picture of their times
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'spark: %s\n' "$*" >&2; }

maven() {
    mvn --batch-mode --no-transfer-progress -Dstyle.color=never -f spark/pom.xml "$@"
}

# The native library and the daemon, where Maven takes them from.
native() {
    local folder
    folder="spark/target/native/linux-$(uname -m)"
    cargo build --quiet --locked --release -p plasmon-jni -p plasmon-daemon
    mkdir -p "$folder"
    install -s -m 755 target/release/libplasmon_jni.so target/release/plasmond "$folder"
}

jar() {
    native
    maven --quiet -DskipTests package
    say "spark/target/plasmon-spark.jar"
    [ -z "${1:-}" ] || place "$1"
}

# Copies the jar into an environment. A file that a running program has open is replaced.
place() {
    local folder="$1/share/plasmon"
    mkdir -p "$folder"
    install -m 644 spark/target/plasmon-spark.jar "$folder/.plasmon-spark.jar.part"
    mv "$folder/.plasmon-spark.jar.part" "$folder/plasmon-spark.jar"
    say "$folder/plasmon-spark.jar"
}

unit() {
    native
    maven test
}

# The Sparks to test with: the oldest line that is supported, and the newest.
environments() {
    scripts/setup.sh environment
    .venv/bin/python -c 'from bench import environments
for name in ("spark35", "spark4"):
    environments.rival(name)'
}

# The newest of each line between the oldest and the newest, and the newest of the oldest.
OTHERS="3.5.9 4.0.5 4.1.4 4.2.1"

case "${1:-}" in
    jar) jar "${2:-}" ;;
    unit) unit ;;
    environments) environments ;;
    suites)
        shift
        environments
        jar
        exec .venv/bin/python scripts/spark_suites.py "$@"
        ;;
    demo)
        shift
        environments
        jar
        cargo build --quiet --locked --release -p plasmon-poold
        exec .venv/bin/python -m scripts.demo_spark "$@"
        ;;
    test)
        shift
        environments
        native
        maven package
        exec .venv/bin/python -m pytest -q -rs -c spark/tests/pytest.ini spark/tests "$@"
        ;;
    pool)
        shift
        environments
        jar
        cargo build --quiet --locked --release -p plasmon-poold
        exec .venv/bin/python -m pytest -q -rs -c spark/tests/pytest.ini spark/tests/pool "$@"
        ;;
    lines)
        environments
        .venv/bin/python -c 'import sys
from bench import environments
for version in sys.argv[1:]:
    environments.spark(version)' $OTHERS
        jar
        SPARK_VERSIONS="$OTHERS" exec .venv/bin/python -m pytest -q -c spark/tests/pytest.ini \
            spark/tests/test_jobs.py spark/tests/test_faults.py spark/tests/test_memory.py \
            -m "not slow"
        ;;
    *)
        sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
