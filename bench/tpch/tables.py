"""The eight tables of TPC-H at any scale, piece by piece, the same in every run.

They follow the specification (4.2.3) in keys, distributions, dates and texts, so that queries are
as selective as they are meant to be; they are not the bytes that dbgen makes. Every piece has
random numbers of its own, from its table and its number.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.tpch import words
from bench.tpch.columns import (
    Numbers,
    addresses,
    chosen,
    comments,
    dates,
    numbered,
    numbers,
    phones,
    prices,
    taken,
)

SEED = 20_251_018
#: Rows of a piece, of orders and of others.
ORDERS_PIECE = 250_000
PIECE = 500_000
#: Rows at scale factor 1.
SUPPLIERS, PARTS, CUSTOMERS, ORDERS, CLERKS = 10_000, 200_000, 150_000, 1_500_000, 1_000
PARTSUPPS_PER_PART = 4


def _day(year: int, month: int, day: int) -> int:
    return (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days


FIRST_DAY, LAST_DAY, TODAY = _day(1992, 1, 1), _day(1998, 12, 31), _day(1995, 6, 17)


def _rng(table: int, piece: int) -> np.random.Generator:
    return np.random.default_rng([SEED, table, piece])


def _scaled(rows: int, scale: float) -> int:
    return max(1, round(rows * scale))


def _pieces(rows: int, piece: int) -> Iterator[tuple[int, Numbers]]:
    """The number of each piece and the numbers of its rows, from 1."""
    for number, first in enumerate(range(1, rows + 1, piece)):
        yield number, np.arange(first, min(first + piece, rows + 1), dtype=np.int64)


def region(scale: float) -> Iterator[pa.Table]:
    """The five regions."""
    rows = len(words.REGIONS)
    yield pa.table(
        {
            "r_regionkey": numbers(np.arange(rows)),
            "r_name": pa.array(words.REGIONS),
            "r_comment": comments(_rng(0, 0), rows, 31, 115),
        }
    )


def nation(scale: float) -> Iterator[pa.Table]:
    """The 25 nations."""
    rows = len(words.NATIONS)
    yield pa.table(
        {
            "n_nationkey": numbers(np.arange(rows)),
            "n_name": pa.array([name for name, _ in words.NATIONS]),
            "n_regionkey": numbers(np.array([region for _, region in words.NATIONS])),
            "n_comment": comments(_rng(1, 0), rows, 31, 114),
        }
    )


def supplier(scale: float) -> Iterator[pa.Table]:
    """Suppliers, of which 5 in 10,000 have complaints in their comments, and 5 recommendations."""
    for piece, keys in _pieces(_scaled(SUPPLIERS, scale), PIECE):
        rng = _rng(2, piece)
        rows = len(keys)
        nations = rng.integers(0, len(words.NATIONS), rows)
        told = comments(rng, rows, 25, 100).to_pylist()
        some = rng.permutation(rows)[: max(2, rows // 1000)]
        for turn, row in enumerate(some):
            word = "Complaints" if turn % 2 else "Recommends"
            told[row] = f"{told[row][:12]}Customer{told[row][12:18]}{word}{told[row][18:60]}"
        yield pa.table(
            {
                "s_suppkey": numbers(keys),
                "s_name": numbered(b"Supplier#", keys),
                "s_address": addresses(rng, rows),
                "s_nationkey": numbers(nations),
                "s_phone": phones(rng, nations),
                "s_acctbal": prices(rng.integers(-99_999, 999_999, rows, endpoint=True)),
                "s_comment": pa.array(told),
            }
        )


def _retail_cents(parts: Numbers) -> Numbers:
    found: Numbers = 90_000 + parts // 10 % 20_001 + 100 * (parts % 1000)
    return found


def _supplier_of(parts: Numbers, turn: Numbers | int, scale: float) -> Numbers:
    """One of the four suppliers of a part."""
    suppliers = _scaled(SUPPLIERS, scale)
    step = suppliers // PARTSUPPS_PER_PART + (parts - 1) // suppliers
    found: Numbers = (parts + turn * step) % suppliers + 1
    return found


def part(scale: float) -> Iterator[pa.Table]:
    """Parts, whose names are five colours."""
    for piece, keys in _pieces(_scaled(PARTS, scale), PIECE):
        rng = _rng(3, piece)
        rows = len(keys)
        lots = rng.random((rows, len(words.COLOURS)), np.float32)
        few = np.argpartition(lots, 5, axis=1)[:, :5]
        order = np.argsort(np.take_along_axis(lots, few, axis=1), axis=1)
        colours = np.take_along_axis(few, order, axis=1)
        named = [taken(colours[:, at], words.COLOURS).cast(pa.string()) for at in range(5)]
        maker = rng.integers(1, 5, rows, endpoint=True)
        brand = maker * 10 + rng.integers(1, 5, rows, endpoint=True)
        kinds = [f"{a} {b} {c}" for a in words.TYPES[0] for b in words.TYPES[1]
                 for c in words.TYPES[2]]  # fmt: skip
        boxes = [f"{a} {b}" for a in words.CONTAINERS[0] for b in words.CONTAINERS[1]]
        yield pa.table(
            {
                "p_partkey": numbers(keys),
                "p_name": pc.binary_join_element_wise(*named, " "),
                "p_mfgr": taken(maker, [f"Manufacturer#{at}" for at in range(6)]),
                "p_brand": taken(brand, [f"Brand#{at}" for at in range(56)]),
                "p_type": chosen(rng, rows, kinds),
                "p_size": numbers(rng.integers(1, 50, rows, endpoint=True), pa.int32()),
                "p_container": chosen(rng, rows, boxes),
                "p_retailprice": prices(_retail_cents(keys)),
                "p_comment": comments(rng, rows, 5, 22),
            }
        )


def partsupp(scale: float) -> Iterator[pa.Table]:
    """What four suppliers have of each part."""
    parts = _scaled(PARTS, scale)
    for piece, row_numbers in _pieces(parts * PARTSUPPS_PER_PART, PIECE):
        rng = _rng(4, piece)
        rows = len(row_numbers)
        keys = (row_numbers - 1) // PARTSUPPS_PER_PART + 1
        turn = (row_numbers - 1) % PARTSUPPS_PER_PART
        yield pa.table(
            {
                "ps_partkey": numbers(keys),
                "ps_suppkey": numbers(_supplier_of(keys, turn, scale)),
                "ps_availqty": numbers(rng.integers(1, 9999, rows, endpoint=True), pa.int32()),
                "ps_supplycost": prices(rng.integers(100, 100_000, rows, endpoint=True)),
                "ps_comment": comments(rng, rows, 49, 198),
            }
        )


def customer(scale: float) -> Iterator[pa.Table]:
    """Customers, of whom a third never orders."""
    for piece, keys in _pieces(_scaled(CUSTOMERS, scale), PIECE):
        rng = _rng(5, piece)
        rows = len(keys)
        nations = rng.integers(0, len(words.NATIONS), rows)
        yield pa.table(
            {
                "c_custkey": numbers(keys),
                "c_name": numbered(b"Customer#", keys),
                "c_address": addresses(rng, rows),
                "c_nationkey": numbers(nations),
                "c_phone": phones(rng, nations),
                "c_acctbal": prices(rng.integers(-99_999, 999_999, rows, endpoint=True)),
                "c_mktsegment": chosen(rng, rows, words.SEGMENTS),
                "c_comment": comments(rng, rows, 29, 116),
            }
        )


def orders(scale: float) -> Iterator[pa.Table]:
    """Orders, whose keys leave out three of four numbers."""
    return (orders for orders, _ in orders_with_items(scale))


def orders_with_items(scale: float) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Orders piece by piece, each with its line items."""
    customers = _scaled(CUSTOMERS, scale)
    for piece, row_numbers in _pieces(_scaled(ORDERS, scale), ORDERS_PIECE):
        rng = _rng(6, piece)
        rows = len(row_numbers)
        # Eight numbers in use, then 24 that are not.
        keys = (row_numbers - 1) // 8 * 32 + (row_numbers - 1) % 8 + 1
        ordered = rng.integers(FIRST_DAY, LAST_DAY - 151, rows, endpoint=True)
        counts = rng.integers(1, 7, rows, endpoint=True)
        items, totals, shipped = _items(rng, scale, keys, ordered, counts)
        # No customer whose number can be divided by three orders anything.
        buyers = rng.integers(0, customers, rows)
        buyers = np.where(buyers % 3 == 2, buyers - 1, buyers) + 1
        state = np.where(shipped == counts, 0, np.where(shipped == 0, 1, 2))
        clerks = rng.integers(1, _scaled(CLERKS, scale), rows, endpoint=True)
        yield (
            pa.table(
                {
                    "o_orderkey": numbers(keys),
                    "o_custkey": numbers(buyers),
                    "o_orderstatus": taken(state, "FOP"),
                    "o_totalprice": prices(totals),
                    "o_orderdate": dates(ordered),
                    "o_orderpriority": chosen(rng, rows, words.PRIORITIES),
                    "o_clerk": numbered(b"Clerk#", clerks),
                    "o_shippriority": numbers(np.zeros(rows, np.int64), pa.int32()),
                    "o_comment": comments(rng, rows, 19, 78),
                }
            ),
            items,
        )


def _items(
    rng: np.random.Generator, scale: float, keys: Numbers, ordered: Numbers, counts: Numbers
) -> tuple[pa.Table, Numbers, Numbers]:
    """Line items; of each order what they cost together and how many were shipped."""
    rows = int(counts.sum())
    firsts = np.cumsum(counts) - counts
    day = np.repeat(ordered, counts)
    parts = rng.integers(1, _scaled(PARTS, scale), rows, endpoint=True)
    quantity = rng.integers(1, 50, rows, endpoint=True)
    cents = quantity * _retail_cents(parts)
    discount = rng.integers(0, 10, rows, endpoint=True)
    tax = rng.integers(0, 8, rows, endpoint=True)
    ship = day + rng.integers(1, 121, rows, endpoint=True)
    commit = day + rng.integers(30, 90, rows, endpoint=True)
    receipt = ship + rng.integers(1, 30, rows, endpoint=True)
    is_shipped = ship <= TODAY
    returned = np.where(receipt <= TODAY, rng.integers(0, 2, rows), 2)
    suppliers = _supplier_of(parts, rng.integers(0, PARTSUPPS_PER_PART, rows), scale)
    items = pa.table(
        {
            "l_orderkey": numbers(np.repeat(keys, counts)),
            "l_partkey": numbers(parts),
            "l_suppkey": numbers(suppliers),
            "l_linenumber": numbers(np.arange(rows) - np.repeat(firsts, counts) + 1, pa.int32()),
            "l_quantity": prices(quantity * 100),
            "l_extendedprice": prices(cents),
            "l_discount": prices(discount),
            "l_tax": prices(tax),
            "l_returnflag": taken(returned, "RAN"),
            "l_linestatus": taken(np.where(is_shipped, 0, 1), "FO"),
            "l_shipdate": dates(ship),
            "l_commitdate": dates(commit),
            "l_receiptdate": dates(receipt),
            "l_shipinstruct": chosen(rng, rows, words.INSTRUCTIONS),
            "l_shipmode": chosen(rng, rows, words.MODES),
            "l_comment": comments(rng, rows, 10, 43),
        }
    )
    paid = cents * (100 - discount) * (100 + tax) // 10_000
    return items, np.add.reduceat(paid, firsts), np.add.reduceat(is_shipped.astype(int), firsts)


#: All tables but orders and their line items, which are made together.
TABLES: dict[str, Callable[[float], Iterator[pa.Table]]] = {
    table.__name__: table for table in (region, nation, supplier, part, partsupp, customer)
}
