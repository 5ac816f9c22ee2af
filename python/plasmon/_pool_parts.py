"""Parts of objects of a pool, without the rest of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

from plasmon import _native
from plasmon._arrow_notes import give_metadata
from plasmon._errors import Corrupt
from plasmon._pool_regions import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import CapsuleType

    from plasmon._errors import PlasmonError
    from plasmon._native import Buffer, ObjectId, Store

#: Pieces of a stream that are under way, unless the caller says otherwise.
WINDOW = 4


def read(
    store: Store,
    id: ObjectId | str | Address,
    ranges: Iterable[tuple[int, int]],
    namespace: str,
    timeout: float | None,
) -> list[memoryview]:
    """Ranges of an object, each as a view of it."""
    wanted = [(offset, nbytes) for offset, nbytes in ranges]
    for offset, nbytes in wanted:
        if offset < 0 or nbytes < 0:
            text = "a range is an offset and a number of bytes, neither of them negative"
            raise ValueError(f"{text}, found {(offset, nbytes)!r}")
    if isinstance(id, Address):
        places = _native._PoolRegions.read(store, id.id, id.offset, wanted, timeout)
    else:
        places = _native._PoolParts.read(store, id, wanted, namespace, timeout)
    views: dict[int, memoryview] = {}
    return [_view(place, views) for place in places]


def gather(
    store: Store,
    reads: Iterable[tuple[ObjectId | str, Iterable[tuple[int, int]]]],
    namespace: str,
    timeout: float | None,
) -> list[list[memoryview] | PlasmonError]:
    """Ranges of many objects, for each a list of views or the exception."""
    wanted = [(id, [(offset, nbytes) for offset, nbytes in ranges]) for id, ranges in reads]
    views: dict[int, memoryview] = {}
    found = _native._PoolParts.gather(store, wanted, namespace, timeout)
    return [
        [_view(place, views) for place in places] if isinstance(places, list) else places
        for places in found
    ]


def _view(place: tuple[Buffer, int, int] | None, views: dict[int, memoryview]) -> memoryview:
    if place is None:
        return memoryview(b"")
    buffer, start, end = place
    # A view of the whole, which the others are cut from, counts its memory once.
    whole = views.get(buffer.address)
    if whole is None:
        whole = views[buffer.address] = buffer.data
    return whole[start:end]


@final
class Stream:
    """The data of an object in pieces, in order: an iterator of read-only views.

    It asks for the next pieces while the program works on one. ``close()``, also at the end of a
    ``with`` block, gives up what is under way.
    """

    __slots__ = ("_stream",)

    def __init__(
        self,
        store: Store,
        id: ObjectId | str,
        window: int,
        namespace: str,
        timeout: float | None,
    ) -> None:
        self._stream: Any = _native._PoolParts.stream(store, id, window, namespace, timeout)

    def __iter__(self) -> Iterator[memoryview]:
        return self

    def __next__(self) -> memoryview:
        place = None if self._stream is None else self._stream.next()
        if place is None:
            self._stream = None
            raise StopIteration
        return _view(place, {})

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream."""
        self._stream = None


class _Capsules:
    """Arrow data for pyarrow."""

    def __init__(self, stream: CapsuleType) -> None:
        self._stream = stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        return self._stream


def read_columns(
    store: Store,
    id: ObjectId | str,
    columns: Sequence[str | int],
    rows: tuple[int, int] | None,
    namespace: str,
    timeout: float | None,
) -> Any:
    """Columns of a table, as a pyarrow table."""
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise ImportError("reading columns of an object needs pyarrow") from missing
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names or numbers, not the str {columns!r}")
    if rows is not None:
        first, end = rows
        if not 0 <= first <= end:
            raise ValueError(f"rows are from a first to an end, found {rows!r}")
        rows = (first, end)
    table = _native._PoolParts.table(store, id, namespace, timeout)
    header = table.header()
    places = table.places(list(columns))
    found = pa.table(_Capsules(table.read(places, rows)))
    if header is None:
        return found
    kind, text = header
    if not text or kind not in {_native.TABLE_TABLE, _native.TABLE_RECORD_BATCH}:
        return found
    try:
        noted = give_metadata(found, _notes_of(text, places))
        if places:
            return noted
        # Made of its columns, a table without any would have no rows.
        rows_alone = pa.table({"": pa.nulls(found.num_rows)})
        return rows_alone.replace_schema_metadata(noted.schema.metadata).select([])
    except (AttributeError, LookupError, TypeError, ValueError) as bad:
        text = f"reading columns of an object: its notes are broken: {bad}"
        raise Corrupt(text, None) from bad


def _notes_of(text: str, places: Sequence[int]) -> str:
    """The notes of a table that has these columns of the one that they were made for."""
    notes = json.loads(text)
    kept: list[Any] = []
    for at, pairs in notes.get("metadata", ()):
        if at is None:
            kept.append([None, pairs])
        kept.extend([to, pairs] for to, place in enumerate(places) if place == at)
    return json.dumps({**notes, "metadata": kept})
