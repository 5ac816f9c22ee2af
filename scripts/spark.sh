#!/usr/bin/env bash
# Builds and tests the Spark shuffle.
#
#   spark.sh jar           build spark/target/plasmon-spark.jar, with library and daemon inside
#   spark.sh unit          the tests that need no Spark
#   spark.sh environments  the Sparks to test with, into .venvs/spark35 and .venvs/spark4
#   spark.sh test [..]     all tests; what follows goes to pytest
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest line that is supported, and the newest.
SPARK35=3.5.7
SPARK4=4.3.0

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
}

unit() {
    native
    maven test
}

# One environment with one Spark, unless it is there.
environment() {
    local name=$1 version=$2 python=.venvs/$1/bin/python
    if [ -x "$python" ] && "$python" -c "import pyspark; assert pyspark.__version__ == '$version'" \
        2>/dev/null; then
        return
    fi
    say "installing pyspark $version into .venvs/$name"
    python3 -m venv ".venvs/$name"
    "$python" -m pip install --quiet --disable-pip-version-check "pyspark==$version"
}

environments() {
    mkdir -p .venvs
    environment spark35 "$SPARK35"
    environment spark4 "$SPARK4"
}

case "${1:-}" in
    jar) jar ;;
    unit) unit ;;
    environments) environments ;;
    test)
        shift
        environments
        native
        maven package
        exec .venv/bin/python -m pytest -q -c spark/tests/pytest.ini spark/tests "$@"
        ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
