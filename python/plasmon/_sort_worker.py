"""A worker process of a sort: one job from the standard input, progress to the standard output.

Started by :mod:`plasmon._sort_workers`, whose end it does not outlive: without a reader the next
line that it writes fails, and a closed standard input ends it as well.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from plasmon import _native
from plasmon._sort import Key
from plasmon._store import connect


def _tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _leave_with_parent() -> None:
    """Ends this process as soon as whoever started it closes the pipe."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def work(socket: str, job: dict[str, Any]) -> list[int]:
    """Makes this worker's partitions; how many rows each has."""
    from_hex = _native.ObjectId.from_hex
    by: list[Key] = [(column, descending, first) for column, descending, first in job["by"]]
    options = [
        {"id": from_hex(one["id"])} if "id" in one else {"name": one["name"]}
        for one in job["options"]
    ]
    with connect(socket, start=False, name="sort worker") as store:
        made = _native.sort_tables(
            store,
            [store.get_buffer(from_hex(text)) for text in job["inputs"]],
            by,
            {
                "partitions": job["partitions"],
                "only": tuple(job["only"]),
                "threads": job["threads"],
                "kind": job["kind"],
                "options": options,
                "progress": lambda done, total: _tell(steps=[done, total]),
                "made": [],
            },
        )
        store.flush()
    return [rows for _, rows in made]


def main() -> None:
    """Does one job."""
    job = json.loads(sys.stdin.readline())
    _leave_with_parent()
    try:
        try:
            _tell(rows=work(sys.argv[1], job))
        except Exception as error:
            _tell(error={"type": type(error).__name__, "text": str(error)})
    except BrokenPipeError:
        # Nothing reads any more: the sort is over.
        os._exit(1)
    # The thread that waits for the parent would hold up an orderly end.
    os._exit(0)


if __name__ == "__main__":
    main()
