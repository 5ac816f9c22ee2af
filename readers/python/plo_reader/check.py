"""The rules of section 4: every entry of a table is used, in the order of the nodes."""

from __future__ import annotations

from .buffers import SIZES, Tables
from .values import PloError

TYPED = ["bits", "bits", "i32", "i64", "f64", "strs", "refs", "bins"]
NODES, SLOTS, ROWS, TENSORS, EXTS = 8, 9, 10, 11, 12
LIST, TUPLE, DICT, SET, FROZENSET, DICT_ROWS, TUPLE_ROWS, OBJECT_ROWS = range(8)
FIELD, OBJECT, ARRAY = 8, 9, 10
ROW_KINDS = (DICT_ROWS, TUPLE_ROWS, OBJECT_ROWS)
ATTRIBUTES, STATE, CALL, NEW, NEW_EX, VALUE = range(6)
FIELDS_MAX, ROW_FIELDS_MAX, DIMENSIONS_MAX, NAME_BYTES_MAX = 1024, 64, 64, 4096
_SLOT_TABLES = {4: "strs", 5: "bins", 8: "tensors", 9: "exts"}

Run = tuple[int, int, int]


def broken(what: str, at: int) -> PloError:
    """The error of a broken rule."""
    return PloError(f"the object is broken: {what} at {at}")


def runs(tables: Tables, node: int) -> list[Run]:
    """The runs of a node: element, start and length. Those of rows are their fields'."""
    kind, length = tables.node_kind[node], tables.node_length[node]
    first, start2 = (tables.node_elem[node], tables.node_start[node]), tables.node_start2[node]
    if kind == DICT:
        return [(*first, length), (tables.node_elem2[node], start2, length)]
    if kind == DICT_ROWS:
        return [(*first, start2)]
    return [] if kind in (TUPLE_ROWS, OBJECT_ROWS) else [(*first, length)]


class Check:
    """Goes through the nodes as their writer did, with a counter for each table.

    What is mentioned for the first time must be the next entry. So nothing is used twice, nothing
    leads outside, and what is built afterwards takes a constant times the object's size.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.used = dict.fromkeys(SIZES, 0)

    def run(self) -> None:
        tables, sizes = self.tables, self.tables.sizes
        for offsets, end in [
            ("str_offsets", "strs_bytes"),
            ("bin_offsets", "bins_bytes"),
            ("name_offsets", "class_name_bytes"),
            ("field_offsets", "class_fields"),
            ("field_name_offsets", "class_field_bytes"),
            ("dtype_offsets", "dtype_bytes"),
            ("shape_offsets", "tensor_shape"),
            ("stride_offsets", "tensor_strides"),
            ("data_offsets", "ext_bytes"),
            ("heaps_offsets", "ext_heaps"),
            ("heap_offsets", "heap_bytes"),
        ]:
            listed = getattr(tables, offsets).tolist() or [0]
            if listed[0] != 0 or listed[-1] != sizes[end] or listed != sorted(listed):
                raise PloError(f"{offsets} don't rise from 0 to {sizes[end]}")
        if any(offset % 64 for offset in tables.heap_offsets):
            raise PloError("heap entries that don't start at multiples of 64")
        self.slots(0, 1)
        for node in range(sizes["nodes"]):
            if node >= self.used["nodes"]:
                raise broken("a node without an owner", node)
            self.node(node)
        for table in ["slots", *SIZES[1:16], "strs", "refs", "bins", "classes", "tensors", "exts"]:
            if self.used[table] != sizes[table]:
                raise broken(f"{table} that are not used", self.used[table])

    def take(self, table: str, start: int, count: int) -> None:
        """Uses the next entries of a table."""
        if start != self.used[table] or start + count > self.tables.sizes[table]:
            raise broken(f"a run that is not the next one of {table}", start)
        self.used[table] += count

    def mention(self, table: str, index: int) -> bool:
        """Uses an entry that was used before or is the next; whether it is the next."""
        if not 0 <= index <= self.used[table] or index >= self.tables.sizes[table]:
            raise broken(f"an index of {table} that is neither in use nor the next", index)
        first = index == self.used[table]
        self.used[table] += first
        return first

    def slots(self, start: int, count: int) -> None:
        tables, self_used = self.tables, self.used
        self.take("slots", start, count)
        for slot in range(start, start + count):
            kind = tables.slot_type[slot]
            if not 0 <= kind <= 9:
                raise broken(f"a slot of the unknown type {kind}", slot)
            name = SIZES[1 + kind]
            at = tables.slot_offset[slot]
            self.take(name, at, 1)
            if kind == 6:
                self.own(tables.node[at], 1)
            elif kind == 7:
                to = tables.ref[at]
                if not 0 <= to < self_used["nodes"] or 5 <= tables.node_kind[to] <= 8:
                    raise broken("a reference to a node that does not exist yet, or to rows", slot)
            elif kind > 3:
                self.mention_of(_SLOT_TABLES[kind], getattr(tables, name)[at])

    def mention_of(self, table: str, index: int, shape: bool = False) -> None:
        """An entry of strs, bins, tensors or exts. Only arrays of objects have shapes."""
        self.mention(table, index)
        if table == "tensors" and (self.tables.tensor_kind[index] == 2) != shape:
            raise broken("a tensor of the wrong kind", index)

    def own(self, start: int, count: int) -> None:
        self.take("nodes", start, count)
        for node in range(start, start + count):
            if 5 <= self.tables.node_kind[node] <= 8 or self.tables.node_kind[node] > ARRAY:
                raise broken("a node without a value", node)

    def own_rows(self, node: int, length: int) -> None:
        tables, count = self.tables, self.tables.node_start2[node]
        if tables.node_kind[node] not in ROW_KINDS or not 1 <= count <= ROW_FIELDS_MAX:
            raise broken("rows without a row node", node)
        self.take("nodes", node, 1 + count)
        fields = range(node + 1, node + 1 + count)
        if any(tables.node_length[n] != length for n in (node, *fields)) or any(
            tables.node_kind[n] != FIELD for n in fields
        ):
            raise broken("rows without fields of their length", node)
        inner = (tables.node_start[n] for n in fields if tables.node_elem[n] == ROWS)
        if not self.is_solid(node) and not any(self.is_solid(rows) for rows in inner):
            raise broken("rows of nothing but bits and rows", node)

    def is_solid(self, rows: int) -> bool:
        """Whether a row takes bytes of its own: one of its fields is neither bits nor rows."""
        fields = range(rows + 1, rows + 1 + self.tables.node_start2[rows])
        return any(self.tables.node_elem[n] not in (0, 1, ROWS) for n in fields)

    def run_of(self, elem: int, start: int, length: int) -> None:
        if length <= 0:
            if (elem, start, length) != (0, 0, 0):
                raise broken("an empty run with a place", start)
        elif elem <= 1:
            self.take("bits", start, length)
        elif elem < NODES:
            self.take(TYPED[elem], start, length)
            for index in self.tables.refs[start : start + length] if elem == 6 else ():
                self.mention("strs", index)
        elif elem == NODES:
            self.own(start, length)
        elif elem == SLOTS:
            self.slots(start, length)
        elif elem == ROWS:
            self.own_rows(start, length)
        elif elem in (TENSORS, EXTS):
            table = "tensors" if elem == TENSORS else "exts"
            if start != self.used[table] or start + length > self.tables.sizes[table]:
                raise broken(f"a run that is not the next one of {table}", start)
            for index in range(start, start + length):
                self.mention_of(table, index)
        else:
            raise broken(f"a run of the unknown kind {elem}", start)

    def node(self, node: int) -> None:
        tables = self.tables
        kind, start2 = tables.node_kind[node], tables.node_start2[node]
        unused = tables.node_elem2[node] if kind != DICT else 0
        if kind in (LIST, TUPLE, SET, FROZENSET, FIELD):
            unused |= start2
        elif kind in (TUPLE_ROWS, OBJECT_ROWS):
            unused |= tables.node_elem[node] | (tables.node_start[node] * (kind == TUPLE_ROWS))
        if unused:
            raise broken("a node with fields that it does not use", node)
        if kind == OBJECT:
            self.object(start2, tables.node_length[node])
            if tables.node_elem[node] == ROWS:
                raise broken("an object whose parts are rows", node)
        elif kind == OBJECT_ROWS:
            self.object(tables.node_start[node], start2)
        elif kind == ARRAY:
            self.mention_of("tensors", start2, shape=True)
        for run in runs(tables, node):
            self.run_of(*run)

    def object(self, index: int, parts: int) -> None:
        tables, first = self.tables, self.mention("classes", index)
        source, make = tables.class_source[index], tables.class_make[index]
        fields = tables.field_offsets[index + 1] - tables.field_offsets[index]
        name_bytes = tables.name_offsets[index + 1] - tables.name_offsets[index]
        if name_bytes > NAME_BYTES_MAX:
            raise broken("the name of a class past its limit", index)
        if source > 3 or make > VALUE or fields > FIELDS_MAX or (fields and make != ATTRIBUTES):
            raise broken("a class of an unknown kind, or with fields it can't have", index)
        if source != 3 and tables.class_ext[index] != -1:
            raise broken("a class with a name and a pickle", index)
        if first and source == 3:
            self.mention("exts", tables.class_ext[index])
        least, most = [(fields, fields), (1, 1), (1, 5), (1, 5), (2, 6), (0, 0)][make]
        if not least <= parts <= most:
            raise broken(f"an object with {parts} parts", index)
