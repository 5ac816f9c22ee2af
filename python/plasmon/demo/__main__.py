"""``python -m plasmon.demo``, which ``plasmon run-demo`` runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from plasmon.demo import data, memory, report, workers
from plasmon.demo.tasks import plan, same

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon

_ROOM = 1.15


def parser() -> argparse.ArgumentParser:
    """The flags of the demo."""
    flags = argparse.ArgumentParser(prog="plasmon run-demo", description=__doc__)
    flags.add_argument("--input", type=Path, help="a Parquet file of yours instead of the made one")
    flags.add_argument("--rows", type=int, default=data.ROWS_DEFAULT, help="rows of the made file")
    flags.add_argument(
        "--data-dir", type=Path, default=_cache(), help="where the made file is kept"
    )
    flags.add_argument("--without-pickle", action="store_true", help="leave the comparison out")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead")
    return flags


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "plasmon"


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; the exit code is 0 when every answer agrees and memory holds one copy."""
    flags = parser().parse_args(arguments)
    if flags.rows < 1:
        print("plasmon run-demo: --rows takes at least 1", file=sys.stderr)
        return 2
    try:
        path = flags.input or _made(flags.data_dir, flags.rows)
        outcomes, facts = _job(path, not flags.without_pickle)
    except ModuleNotFoundError as error:
        needed = "the demonstration needs numpy and pyarrow: pip install 'plasmon[all]'"
        print(f"plasmon run-demo: {error}; {needed}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"plasmon run-demo: {error}", file=sys.stderr)
        return 1
    print(report.as_json(outcomes, facts) if flags.json else report.as_text(outcomes, facts))
    agree = all(
        same(one, other)
        for outcome in outcomes[1:]
        for one, other in zip(outcomes[0].answers, outcome.answers, strict=True)
    )
    return 0 if agree and report.one_copy(outcomes[0], facts) else 1


def _made(directory: Path, rows: int) -> Path:
    path = directory / f"sales-{rows}.parquet"
    shown = sys.stderr.isatty()

    def progress(done: int) -> None:
        if shown:
            print(f"\rmaking {path}: {done:,} of {rows:,} rows", end="", file=sys.stderr)

    data.ensure(path, rows, progress)
    if shown:
        print(file=sys.stderr)
    return path


def _job(path: Path, with_pickle: bool) -> tuple[list[workers.Outcome], report.Facts]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import plasmon

    start = time.perf_counter()
    # Whole columns, because pickle would send the buffers of each slice again and again.
    table = pq.read_table(path).combine_chunks()
    read_s = time.perf_counter() - start
    tasks = plan(table.schema)
    if table.num_rows == 0:
        raise ValueError(f"{path} has no rows")
    capacity = int(table.nbytes * _ROOM) + (64 << 20)
    with plasmon.start(capacity=capacity) as store:
        start = time.perf_counter()
        table_id = store.put(table, name="sales")
        put_s = time.perf_counter() - start
        facts = report.Facts(
            str(path), table.num_rows, table.num_columns, table.nbytes, read_s, put_s, tasks
        )
        if not with_pickle:
            del table
        pa.default_memory_pool().release_unused()
        _warn_of_copies(store, table_id)
        daemon = store.status().pid
        outcomes = [workers.share_by_store(store, table_id, tasks, [daemon])]
        facts.object_bytes = _object_bytes(store, table_id)
        facts.daemon_rss = memory.usage(daemon).rss
    if with_pickle:
        outcomes.append(_by_pickle(table, facts, columns_only=False))
        outcomes.append(_by_pickle(table, facts, columns_only=True))
    return outcomes, facts


def _by_pickle(table: pa.Table, facts: report.Facts, columns_only: bool) -> workers.Outcome:
    return workers.share_by_pickle(table, facts.tasks, columns_only, [os.getpid()])


def _object_bytes(store: plasmon.Store, table_id: plasmon.ObjectId) -> int:
    info = store.stat(table_id)
    assert info is not None, "the table was put and not deleted"
    return info.data_bytes + info.metadata_bytes


def _warn_of_copies(store: plasmon.Store, table_id: plasmon.ObjectId) -> None:
    """The proof counts the store's pages, which means nothing unless the table lies there."""
    table = store.get(table_id)
    if any(chunk.nbytes and not _inside(store, table_id, chunk) for chunk in table[0].chunks):
        raise ValueError("the table that the store returned does not lie in the store")


def _inside(store: plasmon.Store, table_id: plasmon.ObjectId, chunk: pa.Array) -> bool:
    with store.get_buffer(table_id) as buffer:
        begin, end = buffer.address, buffer.address + len(buffer)
    return all(
        begin <= part.address and part.address + part.size <= end
        for part in chunk.buffers()
        if part is not None and part.size
    )


if __name__ == "__main__":
    sys.exit(main())
