"""The tables of TPC-H: keys that join, and as many rows for a query as the specification means."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.tpch import files, tables

SCALE = 0.01


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = files.folder(SCALE, tmp_path_factory.mktemp("tpch"))
    return {name: pq.read_table(folder / f"{name}.parquet") for name in files.NAMES}


def _share(mask):
    return pc.mean(mask.cast(pa.int32())).as_py()


def test_tables_have_the_rows_of_their_scale(made):
    rows = {name: table.num_rows for name, table in made.items()}
    items = rows.pop("lineitem")
    assert rows == {
        "region": 5,
        "nation": 25,
        "supplier": 100,
        "part": 2000,
        "partsupp": 8000,
        "customer": 1500,
        "orders": 15000,
    }
    # From one to seven for each order.
    assert items == pytest.approx(60_000, rel=0.02)


def test_every_foreign_key_is_a_key(made):
    for table, column, other, key in (
        ("lineitem", "l_orderkey", "orders", "o_orderkey"),
        ("orders", "o_custkey", "customer", "c_custkey"),
        ("partsupp", "ps_partkey", "part", "p_partkey"),
        ("partsupp", "ps_suppkey", "supplier", "s_suppkey"),
        ("customer", "c_nationkey", "nation", "n_nationkey"),
        ("nation", "n_regionkey", "region", "r_regionkey"),
    ):
        keys = made[other][key]
        assert len(keys.unique()) == len(keys)
        assert pc.all(pc.is_in(made[table][column], keys.combine_chunks())).as_py()


def test_a_line_item_names_a_supplier_of_its_part(made):
    def pairs(table, part, supplier):
        return {*zip(table[part].to_pylist(), table[supplier].to_pylist(), strict=True)}

    offered = pairs(made["partsupp"], "ps_partkey", "ps_suppkey")
    assert len(offered) == made["partsupp"].num_rows
    assert pairs(made["lineitem"], "l_partkey", "l_suppkey") <= offered


def test_an_order_costs_what_its_items_do(made):
    items = made["lineitem"].slice(0, 50)
    first = items["l_orderkey"][0].as_py()
    names = ("l_orderkey", "l_extendedprice", "l_discount", "l_tax")
    rows = zip(*(items[name].to_pylist() for name in names), strict=True)
    paid = sum(price * (1 - off) * (1 + tax) for order, price, off, tax in rows if order == first)
    # A fraction of a cent of each item is dropped.
    assert float(made["orders"]["o_totalprice"][0].as_py()) == pytest.approx(float(paid), abs=0.07)


@pytest.mark.parametrize(
    ("table", "condition", "expected"),
    [
        # Queries 6, 1, 14 and 4: dates are even over nearly seven years.
        ("lineitem", pc.field("l_shipdate") < date(1995, 1, 1), 0.426),
        ("lineitem", pc.field("l_shipdate") <= date(1998, 9, 1), 0.983),
        ("lineitem", pc.field("l_commitdate") < pc.field("l_receiptdate"), 0.63),
        ("lineitem", pc.field("l_returnflag") == "R", 0.247),
        ("lineitem", pc.field("l_shipmode") == "MAIL", 1 / 7),
        ("orders", pc.field("o_orderstatus") == "P", 0.026),
        ("orders", pc.field("o_orderpriority") == "1-URGENT", 0.2),
        ("part", pc.match_like(pc.field("p_type"), "PROMO%"), 1 / 6),
        ("part", pc.match_like(pc.field("p_name"), "%green%"), 5 / 92),
        ("part", pc.field("p_brand") == "Brand#23", 1 / 25),
        ("customer", pc.field("c_mktsegment") == "BUILDING", 0.2),
        ("customer", pc.match_like(pc.field("c_phone"), "13-%"), 1 / 25),
    ],
)
def test_conditions_of_queries_keep_the_share_that_is_meant(made, table, condition, expected):
    found = made[table].filter(condition).num_rows / made[table].num_rows
    assert found == pytest.approx(expected, rel=0.25)


def test_a_third_of_the_customers_orders_nothing(made):
    buyers = made["orders"]["o_custkey"].unique().to_numpy()
    assert not np.any(buyers % 3 == 0)
    assert len(buyers) == pytest.approx(1000, rel=0.02)


def test_comments_have_the_words_that_queries_look_for(made):
    told = made["orders"]["o_comment"]
    assert 0.004 < _share(pc.match_like(told, "%special%requests%")) < 0.03
    suppliers = made["supplier"]["s_comment"]
    assert pc.any(pc.match_like(suppliers, "%Customer%Complaints%")).as_py()


def test_the_tables_are_the_same_in_every_run():
    first, second = (next(tables.orders_with_items(0.001)) for _ in range(2))
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])


def test_files_are_made_once(tmp_path):
    first = files.folder(0.001, tmp_path)
    made = (first / "lineitem.parquet").stat().st_mtime_ns
    assert files.folder(0.001, tmp_path) == first
    assert (first / "lineitem.parquet").stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
