"""Containers and objects, made without recursion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from .buffers import Tables
from .check import (
    ARRAY,
    DICT,
    DICT_ROWS,
    EXTS,
    FROZENSET,
    LIST,
    NODES,
    OBJECT,
    OBJECT_ROWS,
    ROWS,
    SET,
    SLOTS,
    TENSORS,
    TUPLE,
    TUPLE_ROWS,
    TYPED,
    broken,
    runs,
)
from .leaves import Leaves
from .values import Object, ObjectArray, PloClass


class Build:
    """Makes the values of the nodes.

    Everything mutable is made empty first, so that it can be referred to. Then the immutable ones,
    each after those it holds; then the mutable ones are filled, those that hash last.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.leaves = Leaves(tables)
        self.slot_readers: list[Callable[[int], Any]] = [
            lambda at: None,
            lambda at: bool(tables.bool[at >> 3] >> (at & 7) & 1),
            tables.int.__getitem__,
            tables.float.__getitem__,
            lambda at: self.leaves.strs[tables.str[at]],
            lambda at: self.leaves.bins[tables.bytes[at]],
            lambda at: self.built[tables.node[at]],
            lambda at: self.built[tables.ref[at]],
            lambda at: self.leaves.tensors[tables.tensor[at]],
            lambda at: self.leaves.exts[tables.ext[at]],
        ]
        self.built: list[Any] = [self.shell(node) for node in range(tables.sizes["nodes"])]

    def run(self) -> Any:
        kinds = self.tables.node_kind.tolist()
        missing = [kind in (TUPLE, FROZENSET, TUPLE_ROWS) for kind in kinds]
        for node in range(len(kinds) - 1, -1, -1):
            if missing[node]:
                self.make(node, missing)
        hashing = (DICT, SET, DICT_ROWS)
        for late in (False, True):
            for node, kind in enumerate(kinds):
                if (kind in hashing) == late:
                    self.fill(node, kind)
        return self.values(SLOTS, 0, 1)[0]

    def shell(self, node: int) -> Any:
        """What a mutable node is before it is filled; None for the others."""
        tables, kind, length = self.tables, self.tables.node_kind[node], 0
        length = tables.node_length[node]
        if kind == OBJECT:
            return Object(self.leaves.classes[tables.node_start2[node]])
        if kind == DICT_ROWS:
            return [{} for _ in range(length)]
        if kind == OBJECT_ROWS:
            cls = self.leaves.classes[tables.node_start[node]]
            return [Object(cls) for _ in range(length)]
        if kind == ARRAY:
            shape = self.leaves.tensors[tables.node_start2[node]].shape
            if math.prod(shape) != length:
                raise broken(f"an array of objects of shape {shape} and {length} items", node)
            return ObjectArray(shape, [])
        made = {LIST: list, DICT: dict, SET: set}.get(kind)
        return made() if made else None

    def make(self, root: int, missing: list[bool]) -> None:
        """Builds an immutable and first what is missing in it, without recursion."""
        open_ones, stack = {root}, [(root, self.children(root))]
        while stack:
            node, children = stack[-1]
            child = next((child for child in children if missing[child]), None)
            if child is None:
                self.built[node] = self.immutable(node)
                missing[node] = False
                open_ones.discard(node)
                stack.pop()
            elif child in open_ones:
                raise broken("an immutable that contains itself", child)
            else:
                open_ones.add(child)
                stack.append((child, self.children(child)))

    def children(self, node: int) -> Iterator[int]:
        """The nodes among the values of an immutable one."""
        tables, parts = self.tables, runs(self.tables, node)
        if tables.node_kind[node] == TUPLE_ROWS:
            fields = range(node + 1, node + 1 + tables.node_start2[node])
            parts = [run for at in fields for run in runs(tables, at)]
        for elem, start, length in parts:
            if elem == NODES:
                yield from range(start, start + length)
            elif elem == ROWS:
                yield start
            elif elem == SLOTS:
                for slot in range(start, start + length):
                    if tables.slot_type[slot] in (6, 7):
                        column = tables.node if tables.slot_type[slot] == 6 else tables.ref
                        yield column[tables.slot_offset[slot]]

    def immutable(self, node: int) -> Any:
        kind = self.tables.node_kind[node]
        if kind == TUPLE_ROWS:
            return list(zip(*self.columns(node), strict=True))
        (run,) = runs(self.tables, node)
        return tuple(self.values(*run)) if kind == TUPLE else frozenset(self.values(*run))

    def columns(self, node: int) -> list[list[Any]]:
        """The values of each field of a row node."""
        fields = range(node + 1, node + 1 + self.tables.node_start2[node])
        return [self.values(*runs(self.tables, at)[0]) for at in fields]

    def fill(self, node: int, kind: int) -> None:
        """Fills what was made empty."""
        target = self.built[node]
        if kind == DICT_ROWS:
            keys = self.values(*runs(self.tables, node)[0])
            for row, values in zip(target, zip(*self.columns(node), strict=True), strict=True):
                row.update(zip(keys, values, strict=True))
        elif kind == OBJECT_ROWS:
            for row, values in zip(target, zip(*self.columns(node), strict=True), strict=True):
                row.fields.update(_parts_by_name(row.cls, values))
        elif kind in (LIST, DICT, SET, OBJECT, ARRAY):
            first, *second = [self.values(*run) for run in runs(self.tables, node)]
            if kind == OBJECT:
                target.fields.update(_parts_by_name(target.cls, first))
            elif kind == DICT:
                target.update(zip(first, *second, strict=True))
            elif kind == SET:
                target.update(first)
            else:
                (target.items if kind == ARRAY else target).extend(first)

    def values(self, elem: int, start: int, length: int) -> list[Any]:
        """The values of a run."""
        tables, leaves, end = self.tables, self.leaves, start + length
        values: Any
        if elem == 0:
            values = [None] * length
        elif elem == 1:
            values = [bool(tables.bits[at >> 3] >> (at & 7) & 1) for at in range(start, end)]
        elif elem <= 4:
            values = getattr(tables, TYPED[elem])[start:end].tolist()
        elif elem == 6:
            values = [leaves.strs[index] for index in tables.refs[start:end]]
        elif elem == SLOTS:
            readers, kinds, offsets = self.slot_readers, tables.slot_type, tables.slot_offset
            values = [readers[kinds[slot]](offsets[slot]) for slot in range(start, end)]
        elif elem == ROWS:
            values = self.built[start]
        else:
            held: list[list[Any]] = [
                leaves.strs,
                leaves.bins,
                self.built,
                leaves.tensors,
                leaves.exts,
            ]
            values = held[[5, 7, NODES, TENSORS, EXTS].index(elem)][start:end]
        return list(values)


def _parts_by_name(cls: PloClass, parts: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """The parts of an object under their names."""
    if cls.make == "attributes":
        return dict(zip(cls.fields, parts, strict=True))
    call = ("args", "state", "items", "pairs", "setter")
    names = {"state": ("state",), "new_ex": ("args", "kwargs", *call[1:])}.get(cls.make, call)
    return dict(zip(names, parts, strict=False))
