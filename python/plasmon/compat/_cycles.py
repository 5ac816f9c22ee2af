"""Whether a value that was serialized contains itself.

The format has no trouble with such values; `pyarrow.serialize` refused them, and programs may count
on that. The answer is in the tables of the object: its nodes, and the slots that refer to nodes a
second time (sections 2 to 4 of ``spec/objects.md``). Without such slots, as is usual, there is
nothing to look at; else a depth-first walk looks for a node that is reached from itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_SMALL_MAGIC = b"PLO1"

#: The stream form: where its constant parts end, and where the places of buffers are.
_SCHEMA_BYTES, _BATCH_BYTES, _BUFFERS_AT = 3328, 3264, 1136

#: The number of the size that counts references.
_SLOT_REF = 8

#: Slots that hold the number of a node: its first mention, and others.
_NODE, _REF = 6, 7
_DICT, _DICT_ROWS, _TUPLE_ROWS, _OBJECT_ROWS = 2, 5, 6, 7
_ELEM_NODES, _ELEM_SLOTS, _ELEM_ROWS = 8, 9, 10


class _Tables(NamedTuple):
    """The columns with the references between nodes."""

    types: Any
    offsets: Any
    firsts: Any
    refs: Any
    kind: Any
    elem: Any
    elem2: Any
    start: Any
    length: Any
    start2: Any


#: The types of those columns, and which buffers of the stream form they are.
_TYPES = ("i1", "<i4", "<i4", "<i4", "u1", "u1", "u1", "<i4", "<i4", "<i4")
_STREAM_BUFFERS = (2, 3, 15, 17, 26, 28, 30, 32, 34, 36)
#: Which of the buffers of the small form, one for each of these.
_SMALL_BUFFERS = (0, 1, 7, 8, 11, 12, 13, 14, 15, 16)


def _small_places(front: memoryview) -> list[tuple[int, int]]:
    """Where the first buffers of an object in the small form lie: start and bytes."""
    given = int.from_bytes(front[8:16], "little")
    numbers = iter(np.frombuffer(front, "<u4", given.bit_count(), 16).tolist())
    sizes = [next(numbers) if given >> number & 1 else 0 for number in range(given.bit_length())]
    sizes += [0] * (12 - len(sizes))
    slots, _, bools, ints, floats, *indices, nodes = sizes[:12]
    wanted = [slots, 4 * slots, (bools + 7) // 8, 8 * ints, 8 * floats]
    wanted += [4 * count for count in indices]
    wanted += [nodes, nodes, nodes, 4 * nodes, 4 * nodes, 4 * nodes]
    places, at = [], 16 + 4 * given.bit_count()
    for nbytes in wanted:
        at = -(-at // 8) * 8
        places.append((at, nbytes))
        at += nbytes
    return places


def _stream_places(front: memoryview) -> list[tuple[int, int]]:
    """Where the first buffers of an object in the stream form lie: start and bytes."""
    count = 2 * (_STREAM_BUFFERS[-1] + 1)
    told = np.frombuffer(front, "<i8", count, _SCHEMA_BYTES + _BUFFERS_AT).reshape(-1, 2)
    body = _SCHEMA_BYTES + _BATCH_BYTES
    return [(body + start, nbytes) for start, nbytes in told.tolist()]


def _tables(front: memoryview) -> _Tables:
    small = front[:4] == _SMALL_MAGIC
    places = _small_places(front) if small else _stream_places(front)
    columns = []
    for buffer, kind in zip(_SMALL_BUFFERS if small else _STREAM_BUFFERS, _TYPES, strict=True):
        start, nbytes = places[buffer]
        columns.append(np.frombuffer(front[start : start + nbytes], kind))
    return _Tables(*columns)


def _of_run(tables: _Tables, elem: int, start: int, length: int) -> Iterator[int]:
    """The nodes among the values of a run."""
    if elem == _ELEM_NODES:
        yield from range(start, start + length)
    elif elem == _ELEM_ROWS:
        yield start
    elif elem == _ELEM_SLOTS:
        types = tables.types[start : start + length]
        for slot in (np.flatnonzero((types == _NODE) | (types == _REF)) + start).tolist():
            column = tables.firsts if tables.types[slot] == _NODE else tables.refs
            yield int(column[tables.offsets[slot]])


def _children(tables: _Tables, node: int) -> Iterator[int]:
    kind, length = int(tables.kind[node]), int(tables.length[node])
    start, start2 = int(tables.start[node]), int(tables.start2[node])
    if kind in {_DICT_ROWS, _TUPLE_ROWS, _OBJECT_ROWS}:
        if kind == _DICT_ROWS:
            yield from _of_run(tables, int(tables.elem[node]), start, start2)
        yield from range(node + 1, node + 1 + start2)
        return
    yield from _of_run(tables, int(tables.elem[node]), start, length)
    if kind == _DICT:
        yield from _of_run(tables, int(tables.elem2[node]), start2, length)


def _has_references(front: memoryview) -> bool:
    if front[:4] == _SMALL_MAGIC:
        return bool(int.from_bytes(front[8:16], "little") >> _SLOT_REF & 1)
    length_at = (
        _SCHEMA_BYTES + _BUFFERS_AT + 16 * _STREAM_BUFFERS[_Tables._fields.index("refs")] + 8
    )
    return front[length_at : length_at + 8] != bytes(8)


def has_cycle(front: memoryview) -> bool:
    """Whether the value contains itself somewhere; ``front`` is the object up to its heap."""
    if not _has_references(front):
        return False
    tables = _tables(front)
    is_open = np.zeros(len(tables.kind), bool)
    is_done = np.zeros(len(tables.kind), bool)
    stack = [(0, _children(tables, 0))]
    is_open[0] = True
    while stack:
        node, children = stack[-1]
        child = next((child for child in children if not is_done[child]), None)
        if child is None:
            is_open[node], is_done[node] = False, True
            stack.pop()
        elif is_open[child]:
            return True
        else:
            is_open[child] = True
            stack.append((child, _children(tables, child)))
    return False
