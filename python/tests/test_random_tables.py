"""Random tables come back as what they were, and sorted as the guide says; see ``random_tables``.

The seed is printed when one does not, and ``make soak NAME=tables SEED=...`` begins with it.
"""

from __future__ import annotations

import os

import pytest

import plasmon

pytest.importorskip("pyarrow")
pytest.importorskip("polars")

from .random_tables import checks, exact, made

COUNT = 300
PARTS = 10
#: Sorts that spill take longest.
SPILLING_EVERY = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_random_tables(store: plasmon.Store, part: int) -> None:
    first = int(os.environ.get("SEED", "1")) + part * (COUNT // PARTS)
    for seed in range(first, first + COUNT // PARTS):
        try:
            checks.check(seed, store, spilling=seed % SPILLING_EVERY == 0)
        except checks.Failure as failure:
            text = f"make soak NAME=tables SEED={seed} shows it: {failure}"
            raise AssertionError(text) from failure


def test_the_reference_reads_arrays_as_pyarrow_does() -> None:
    """The plain reference goes through buffers and offsets by itself: here is it looked at."""
    import pyarrow as pa

    whole = pa.int32()
    pair = [pa.field("x", whole), pa.field("y", pa.list_(whole, 2))]
    for kind in (
        *(whole, pa.list_(whole), pa.large_list(whole), pa.list_(whole, 2), pa.list_view(whole)),
        *(pa.struct(pair), pa.map_(whole, whole), pa.dictionary(pa.int8(), whole)),
        *(pa.run_end_encoded(pa.int16(), whole), pa.sparse_union(pair), pa.dense_union(pair)),
    ):
        for seed in range(20):
            array = made.Make(seed).array(kind, 20)
            found = exact.exact(array)
            if pa.types.is_union(kind):
                found = [value for _, value in found]
            assert found == [_plain(value) for value in array.to_pylist()], (kind, seed)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value


def test_an_empty_slice_of_runs_of_views_can_be_put(store: plasmon.Store) -> None:
    """Found by seed 5447: what followed an empty batch of such could not be read any more."""
    import pyarrow as pa

    views = pa.array(["longer than a view holds itself", "short"], pa.string_view())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), views)
    table = pa.table({"a": pa.chunked_array([runs[1:1], runs[1:]])})
    assert store.get(store.put(table))["a"].to_pylist() == runs[1:].to_pylist()


def test_lists_that_leave_no_value_of_runs_of_views_can_be_put(store: plasmon.Store) -> None:
    """Found by seed 4493: the batch could not be read; before, whole empty batches were looked at.

    What is nested is written as a slice of no values: the rows of each are lists without values.
    """
    import pyarrow as pa

    views = pa.array(["longer than a view holds itself", "short"], pa.string_view())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), views)
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3], pa.int32()), runs)
    large = pa.LargeListArray.from_arrays(pa.array([0, 3, 3], pa.int64()), runs)
    keys = pa.array([1, 2, 3])
    pairs = pa.StructArray.from_arrays([keys, runs], ["x", "y"])
    made = [
        lists[1:],
        large[1:],
        pa.MapArray.from_arrays(pa.array([0, 3, 3], pa.int32()), keys, runs)[1:],
        pa.ListArray.from_arrays(pa.array([0, 3, 3], pa.int32()), pairs)[1:],
        pa.StructArray.from_arrays([lists, keys[:2]], ["x", "y"])[1:],
        pa.FixedSizeListArray.from_arrays(lists, 1)[1:],
        pa.ListViewArray.from_arrays(
            pa.array([0], pa.int32()), pa.array([1], pa.int32()), lists[1:]
        ),
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [lists, keys[:2]])[1:],
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [lists[1:]]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), lists)[2:],
        # These leave some.
        lists[:1],
        pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), runs)[1:],
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), lists)[1:],
    ]
    for array in made:
        array.validate(full=True)
        table = pa.table(
            {
                "a": array,
                "b": pa.array([None] * (len(array) - 1) + views[:1].to_pylist(), pa.string_view()),
            }
        )
        found = store.get(store.put(table))
        assert found.schema == table.schema
        assert found.to_pylist() == table.to_pylist(), array.type
        found.validate(full=True)
