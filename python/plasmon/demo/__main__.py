"""``python -m plasmon.demo``, which ``plasmon run-demo`` runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plasmon._command_line import USAGE, Parser, run, tell
from plasmon.demo import data, memory, report
from plasmon.demo.compare import Outcome, compare, survive
from plasmon.demo.progress import Progress
from plasmon.demo.tasks import plan, same

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon
    from plasmon.demo.ways import Way
    from plasmon.demo.workers import Pool

_ROOM = 1.15
_NAME = "sales"
_NEEDED = "pip install 'plasmon[demo]'"


def parser() -> Parser:
    """The flags of the demo."""
    flags = Parser(
        prog="plasmon run-demo",
        description="One big table in the store: four processes compute on it in place, then up to"
        " sixteen read it while the daemon is killed. The same work is then done in other ways"
        " for comparison. It takes a minute or two.",
    )
    flags.add_argument(
        "--input", type=Path, help="a Parquet file to use instead of the generated one"
    )
    flags.add_argument(
        "--rows", type=int, default=data.ROWS_DEFAULT, help="rows of the generated file"
    )
    flags.add_argument(
        "--data-dir", type=Path, default=_cache(), help="where the generated file is kept"
    )
    flags.add_argument(
        "--picture",
        type=Path,
        default=Path("plasmon-demo.png"),
        help="where the picture of the readers' memory goes (%(default)s)",
    )
    flags.add_argument("--without-pickle", action="store_true", help="skip pickle")
    flags.add_argument("--without-rivals", action="store_true", help="skip all other ways")
    flags.add_argument("--quick", action="store_true", help="one run of each way, four readers")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead")
    return flags


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "plasmon"


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo.

    The exit code is 0 when every answer agrees, memory holds one copy, and no read failed.
    """
    flags = parser().parse_args(arguments)
    if flags.rows < 1:
        tell("error: --rows takes at least 1", code="usage", own="")
        return USAGE
    progress = Progress()
    progress.say("one table, four processes, then up to sixteen: this takes a minute or two")
    return run(lambda: _ran(flags, progress), OSError, ValueError, needs=_NEEDED)


def _ran(flags: argparse.Namespace, progress: Progress) -> int:
    path = flags.input or _made(flags.data_dir, flags.rows, progress)
    outcomes, facts = _Run(flags, progress).job(path)
    facts.picture = _picture(outcomes, facts, flags.picture)
    progress.say("done")
    print(report.as_json(outcomes, facts) if flags.json else report.as_text(outcomes, facts))
    return 0 if _holds(outcomes, facts) else 1


def _holds(outcomes: list[Outcome], facts: report.Facts) -> bool:
    """Whether everything was as it should be."""
    agree = all(
        same(one, other)
        for outcome in outcomes[1:]
        if not outcome.missing
        for one, other in zip(outcomes[0].answers, outcome.answers, strict=True)
    )
    survived = facts.survival is not None and not facts.survival.wrong
    return agree and survived and report.one_copy(outcomes[0], facts)


def _picture(outcomes: list[Outcome], facts: report.Facts, path: Path) -> str:
    from plasmon.demo import picture

    try:
        picture.draw(outcomes, facts.table_bytes, path)
    except ImportError:
        return f"No picture, because matplotlib is not installed: {_NEEDED}"
    except OSError as error:
        return f"No picture: {error}"
    return f"The picture is in {path.absolute()}"


def _made(directory: Path, rows: int, progress: Progress) -> Path:
    path = directory / f"sales-{rows}.parquet"

    def written(done: int) -> None:
        progress.say(f"making {path}, once: {done:,} of {rows:,} rows")

    data.ensure(path, rows, written)
    return path


@dataclass
class _Run:
    """One run of the demo."""

    flags: argparse.Namespace
    progress: Progress

    def job(self, path: Path) -> tuple[list[Outcome], report.Facts]:
        """Everything that is measured."""
        self.progress.say(f"reading {path}")
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
        pa.default_memory_pool().release_unused()
        facts = report.Facts(
            str(path), table.num_rows, table.num_columns, table.nbytes, read_s, 0.0, tasks
        )
        facts.quick = self.flags.quick
        capacity = int(table.nbytes * _ROOM) + (64 << 20)
        self.progress.say("starting a store and putting the table into it")
        with plasmon.start(capacity=capacity) as store:
            outcomes = [self._ours(store, table, facts)]
        if not self.flags.without_rivals:
            outcomes += self._rivals(table, facts)
        return outcomes, facts

    def _ours(self, store: plasmon.Store, table: pa.Table, facts: report.Facts) -> Outcome:
        from plasmon.demo.ways import Plasmon

        start = time.perf_counter()
        table_id = store.put(table, name=_NAME)
        facts.put_s = time.perf_counter() - start
        _check_that_it_lies_there(store, table_id)
        facts.object_bytes = _object_bytes(store, table_id)
        facts.daemon_rss = memory.usage(store.status().pid).rss

        def kill(workers: Pool) -> None:
            self.progress.say(f"plasmon: the daemon is killed while {len(workers)} processes read")
            facts.survival = survive(store, workers, facts.tasks[2].value)

        outcome = self._compare(Plasmon(store, _NAME, facts.put_s), table, facts, kill)
        if outcome.missing:
            raise OSError(outcome.missing)
        return outcome

    def _rivals(self, table: pa.Table, facts: report.Facts) -> list[Outcome]:
        from plasmon.demo import ways
        from plasmon.demo.ray import Ray

        folder = self.flags.data_dir
        folder.mkdir(parents=True, exist_ok=True)
        others: list[ways.Way] = [
            ways.Fork(),
            ways.MappedFile(folder),
            ways.SharedMemory(),
            ways.JoblibMemmap(folder),
            Ray(),
        ]
        if not self.flags.without_pickle:
            others += [ways.Pickle(columns_only=True), ways.Pickle(columns_only=False)]
        return [self._compare(way, table, facts) for way in others]

    def _compare(
        self,
        way: Way,
        table: pa.Table,
        facts: report.Facts,
        also: Callable[[Pool], None] | None = None,
    ) -> Outcome:
        if self.flags.quick:
            way.hurry()
        return compare(way, table, facts.tasks, self.progress.say, also)


def _object_bytes(store: plasmon.Store, table_id: plasmon.ObjectId) -> int:
    info = store.stat(table_id)
    assert info is not None, "the table was put and not deleted"
    return info.data_bytes + info.metadata_bytes


def _check_that_it_lies_there(store: plasmon.Store, table_id: plasmon.ObjectId) -> None:
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
