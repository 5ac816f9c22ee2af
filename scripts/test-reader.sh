#!/usr/bin/env bash
# Tests the reader of objects for one language: java or javascript. What they build on is fetched
# the first time, and later taken from where Maven and npm keep it.
set -euo pipefail
cd "$(dirname "$0")/../readers/${1:?java or javascript}"

case $1 in
    java)
        mvn --batch-mode --no-transfer-progress -Dstyle.color=never test
        ;;
    javascript)
        npm ci --prefer-offline --no-audit --no-fund
        npm test
        ;;
    *)
        echo "test-reader: no reader for \"$1\": java or javascript" >&2
        exit 2
        ;;
esac
