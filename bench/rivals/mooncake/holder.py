"""The client of Mooncake that holds objects: puts what it is asked for, one line for each."""

from __future__ import annotations

import json
import os
import sys

from bench.rivals.mooncake.worker import connect
from bench.rivals.protocol import payload


def main() -> None:
    """Answers until its input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Whatever the library prints must not end up between two answers.
    os.dup2(2, 1)
    master, segment_bytes = sys.argv[1:]
    store = connect(master, int(segment_bytes))
    answers.write("ok\n")
    data = b""
    for line in sys.stdin:
        request = json.loads(line)
        if len(data) != request["bytes"]:
            data = bytes(payload(request["bytes"]))
        code = store.put(request["key"], data)
        answers.write("ok\n" if code == 0 else f"a put ended with {code}\n")


if __name__ == "__main__":
    main()
