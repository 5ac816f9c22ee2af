"""plasmon.compat.pyarrow_serialization: what pyarrow's own tests of it don't ask.

Those run over it too: scripts/pyarrow_tests.py.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import io
import pickle
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from plasmon.compat import pyarrow_serialization as ours

pytestmark = pytest.mark.filterwarnings("ignore:'pyarrow:FutureWarning")


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None


class Point3(Point):
    pass


class Slotted:
    __slots__ = ("x",)


Pair = collections.namedtuple("Pair", "left right")


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


def through(value, context=None):
    return ours.deserialize(ours.serialize(value, context).to_buffer(), context)


def context_with(*kinds, **options):
    context = ours.default_serialization_context()
    for kind in kinds:
        context.register_type(kind, kind.__name__, **options)
    return context


@pytest.mark.parametrize(
    "call",
    [
        lambda: ours.serialize(1),
        lambda: ours.serialize_to(1, io.BytesIO()),
        lambda: ours.deserialize(BYTES_OF_1),
        lambda: ours.read_serialized(pa.py_buffer(BYTES_OF_1)),
        lambda: ours.deserialize_from(pa.py_buffer(BYTES_OF_1), None),
        ours.default_serialization_context,
        ours.SerializationContext,
        ours.SerializedPyObject,
        lambda: ours.register_default_serialization_handlers(CONTEXT),
        lambda: ours.register_torch_serialization_handlers(CONTEXT),
    ],
)
def test_everything_says_that_it_is_deprecated(call):
    with pytest.warns(FutureWarning, match="^'pyarrow.* is deprecated") as found:
        call()
    # The warning is about the line that calls.
    assert found[0].filename == __file__


def test_what_is_no_call_of_the_old_interface_does_not_warn():
    serialized = ours.serialize([1, np.arange(3)])
    context = ours.default_serialization_context()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serialized.deserialize()
        context.clone().register_type(Point, "Point")
        ours.SerializedPyObject.from_components(serialized.to_components())


class TestContexts:
    def test_attributes(self):
        context = context_with(Point)
        value = [Point(n, {"a": np.arange(n)}) for n in range(20)]
        back = through(value, context)
        assert [type(point) for point in back] == [Point] * 20
        assert [(point.x, len(point.y["a"])) for point in back] == [(n, n) for n in range(20)]

    def test_a_subclass_comes_back_as_what_is_registered(self):
        assert through(Point3(1, 2), context_with(Point)) == Point(1, 2)
        assert through(Point3(1, 2), context_with(Point, Point3)) == Point3(1, 2)

    def test_callbacks(self):
        context = ours.SerializationContext()
        context.register_type(
            Slotted,
            "Slotted",
            custom_serializer=lambda value: {"x": value.x},
            custom_deserializer=lambda state: ("made of", state),
        )
        value = Slotted()
        value.x = np.arange(4)
        made, state = through(value, context)
        assert made == "made of"
        assert state["x"].tolist() == [0, 1, 2, 3]

    def test_named_tuples(self):
        back = through({Pair(1, "a"): Pair([2], None)}, context_with(Pair))
        assert back == {Pair(1, "a"): Pair([2], None)}
        assert {type(part) for pair in back.items() for part in pair} == {Pair}

    def test_pickle(self):
        context = context_with(Slotted, pickle=True)
        context.set_pickle(lambda value: b"x" * 10_000, lambda state: (state[:1], len(state)))
        assert through([Slotted()] * 2, context) == [(b"x", 10_000)] * 2

    def test_a_clone_is_apart(self):
        context = context_with(Point)
        clone = context.clone()
        clone.register_type(Pair, "Pair", custom_serializer=list, custom_deserializer=tuple)
        assert through(Pair(1, Point(2, 3)), clone) == (1, Point(2, 3))
        with pytest.raises(ours.SerializationCallbackError):
            ours.serialize(Pair(1, 2), context)

    def test_a_registration_can_be_replaced(self):
        context = context_with(Point)
        data = ours.serialize(Point(1, 2), context).to_buffer()
        assert ours.deserialize(data, context) == Point(1, 2)
        context.register_type(
            Point, "Point", custom_serializer=lambda value: value.x, custom_deserializer=str
        )
        assert through(Point(1, 2), context) == "1"

    def test_everything_else_can_be_registered(self):
        context = ours.default_serialization_context()
        context.register_type(object, "object", pickle=True)
        value = [Point(1, 2), decimal.Decimal("1.5"), Pair(1, 2), dt.date(2020, 1, 1)]
        assert through(value, context) == value

    def test_methods(self):
        context = context_with(Point)
        serialized = context.serialize(Point(1, 2))
        assert context.deserialize(serialized.to_buffer()) == Point(1, 2)
        assert context.deserialize_components(serialized.to_components()) == Point(1, 2)
        sink = io.BytesIO()
        context.serialize_to(Point(1, 2), sink)
        assert context.deserialize(sink.getvalue()) == Point(1, 2)

    def test_many_threads_with_one_context(self):
        context, outcomes = context_with(Point), []

        def work(number):
            value = [Point(number, n) for n in range(200)]
            outcomes.append(through(value, context) == value)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == [True] * 8


class TestErrors:
    def test_an_unknown_class(self):
        culprit = Point(1, 2)
        with pytest.raises(ours.SerializationCallbackError, match="Point") as caught:
            ours.serialize({"deep": [1, (culprit,)]})
        assert caught.value.example_object is culprit
        assert isinstance(caught.value, pa.ArrowException)

    def test_an_object_without_attributes(self):
        with pytest.raises(ours.SerializationCallbackError, match="do not know how"):
            ours.serialize(Slotted(), context_with(Slotted))

    def test_an_unknown_type_id(self):
        data = ours.serialize([Point(1, 2)], context_with(Point)).to_buffer()
        with pytest.raises(ours.DeserializationCallbackError) as caught:
            ours.deserialize(data)
        assert caught.value.type_id == "Point"

    def test_a_reader_without_the_callback(self):
        writer = context_with(Point, custom_serializer=vars, custom_deserializer=dict)
        data = ours.serialize(Point(1, 2), writer).to_buffer()
        with pytest.raises(ours.DeserializationCallbackError, match="custom_deserializer"):
            ours.deserialize(data, context_with(Point))

    def test_errors_of_callbacks_are_the_callers(self):
        class OwnError(ValueError):
            pass

        def fail(value):
            raise OwnError("mine")

        context = context_with(Point, custom_serializer=fail, custom_deserializer=fail)
        with pytest.raises(OwnError):
            ours.serialize([Point(1, 2)], context)
        data = ours.serialize(
            Point(1, 2), context_with(Point, custom_serializer=vars, custom_deserializer=fail)
        ).to_buffer()
        with pytest.raises(OwnError):
            ours.deserialize(data, context)

    @pytest.mark.parametrize("data", [b"", b"hello", bytes(64), b"PLO1", b"\xff\xff\xff\xff" * 99])
    def test_bytes_that_are_no_value(self, data):
        with pytest.raises(pa.ArrowInvalid):
            ours.deserialize(data)

    @pytest.mark.parametrize("value", [7, list(range(50_000)), np.arange(100_000)])
    def test_bytes_that_are_cut_off(self, value):
        data = ours.serialize(value).to_buffer().to_pybytes()
        for nbytes in (4, 15, 100, len(data) // 2, len(data) - 64):
            if nbytes < len(data) - 64 or len(data) > 128:
                with pytest.raises(pa.ArrowInvalid):
                    ours.deserialize(data[:nbytes])

    def test_an_object_that_was_never_filled(self):
        with pytest.raises(pa.ArrowInvalid, match="empty"):
            ours.SerializedPyObject().to_buffer()

    @pytest.mark.parametrize("wrong", [{"num_tensors": 1}, {"num_buffers": 3}, {"data": []}])
    def test_components_of_something_else(self, wrong):
        components = ours.serialize([1]).to_components()
        with pytest.raises(pa.ArrowInvalid):
            ours.deserialize_components({**components, **wrong})


class TestWritten:
    VALUE = ({"a": [1, "x", None], "b": (2.5, {3})}, np.arange(1000.0), np.arange(7, dtype="u1"))

    def holds(self, back):
        return repr(back) == repr(self.VALUE)

    def test_sizes(self):
        for value in (self.VALUE, 1, list(range(100_000))):
            serialized = ours.serialize(value)
            total = serialized.total_bytes
            assert total % 64 == 0
            assert serialized.to_buffer(nthreads=4).size == total
            sink = io.BytesIO()
            serialized.write_to(sink)
            assert sink.getvalue() == serialized.to_buffer().to_pybytes()
            assert ours.serialize(value).to_buffer().equals(serialized.to_buffer())

    def test_records_one_after_the_other(self, tmp_path):
        values = [1, self.VALUE, "x" * 100, list(range(20_000)), np.arange(3), None]
        path = tmp_path / "values"
        with open(path, "wb") as file:
            for value in values:
                ours.serialize_to(value, file)
        whole = pa.py_buffer(path.read_bytes())
        for open_source in (pa.BufferReader, pa.OSFile, io.FileIO):
            with open_source(whole if open_source is pa.BufferReader else str(path)) as source:
                back = [ours.read_serialized(source).deserialize() for _ in values]
                assert repr(back) == repr(values)
                assert source.tell() == whole.size

    def test_sinks_and_sources(self, tmp_path):
        path = tmp_path / "value"
        for sink in (path, str(path)):
            ours.serialize_to(self.VALUE, sink)
            assert self.holds(ours.deserialize_from(sink, None))
        with pa.memory_map(str(path)) as source:
            assert self.holds(ours.deserialize_from(source, source))
        assert self.holds(ours.deserialize(path.read_bytes()))
        assert self.holds(ours.deserialize(bytearray(path.read_bytes())))

    def test_arrays_lie_on_the_bytes(self):
        buffer = ours.serialize(self.VALUE).to_buffer()
        start, stop = buffer.address, buffer.address + buffer.size
        for array in ours.deserialize(buffer)[1:]:
            assert start <= array.ctypes.data < stop
            assert array.ctypes.data % 64 == 0
            assert not array.flags.writeable

    def test_components(self):
        serialized = ours.serialize(self.VALUE)
        components = serialized.to_components()
        assert components["num_buffers"] == 2
        # The arrays' bytes are where they were.
        assert components["data"][1].address == self.VALUE[1].ctypes.data
        sent = pickle.loads(pickle.dumps(components, protocol=-1))
        assert self.holds(ours.deserialize_components(sent))
        gathered = ours.SerializedPyObject.from_components(sent)
        assert gathered.to_buffer().equals(serialized.to_buffer())
        assert self.holds(ours.deserialize_components(gathered.to_components()))


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [
            1 << 200,
            1 + 2j,
            decimal.Decimal("1.50"),
            dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
            dt.timedelta(seconds=1.5),
            frozenset({1, "a"}),
            collections.deque([1, 2], maxlen=3),
            collections.OrderedDict(b=1, a=2),
            collections.defaultdict(list, {1: [2]}),
            range(3),
            [[[[[[]]]]]] * 2,
            {"_pytype_": "Point", "data": 1, "pickle": True},
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_exactly(self, value):
        back = through(value)
        assert type(back) is type(value)
        assert back == value
        assert repr(back) == repr(value)

    def test_deeper_than_it_ever_was(self):
        value = []
        for _ in range(1000):
            value = [value]
        back = through(value)
        for _ in range(1000):
            (back,) = back
        assert back == []

    def test_subclasses_of_basic_types_are_those(self):
        back = through([Colour.RED, Text("x"), {Text("k"): Colour.RED}])
        assert back == [1, "x", {"k": 1}]
        assert [type(part) for part in back[:2]] == [int, str]
        stamp = pd.Timestamp(2020, 1, 2, 3, 4, 5, 6)
        assert type(through(stamp)) is dt.datetime
        assert through(stamp) == stamp.to_pydatetime()

    def test_scalars_keep_their_types(self):
        for value in (np.int8(-1), np.float32(1.5), np.uint64(2**63 - 1), np.bool_(True)):
            assert type(through(value)) is type(value)
        with pytest.raises(pa.ArrowInvalid, match=r"2\*\*63"):
            ours.serialize([np.uint64(2**63)])

    def test_subclasses_of_arrays_are_arrays(self):
        class Own(np.ndarray):
            pass

        back = through(np.arange(3).view(Own))
        assert type(back) is np.ndarray
        assert type(through(np.ma.masked_array([1, 2], [True, False]))) is np.ma.MaskedArray

    def test_functions_and_classes(self):
        pytest.importorskip("cloudpickle")
        factor = 3
        assert through({"f": lambda x: factor * x})["f"](5) == 15
        assert through([int, dict]) == [int, dict]
        with pytest.raises(ours.SerializationCallbackError):
            ours.serialize(len, ours.SerializationContext())

    def test_pandas(self):
        frame = pd.DataFrame(
            {"a": [1.5, None], "b": ["x", None], "c": pd.date_range("2020", periods=2, tz="UTC")},
            index=pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]),
        )
        frame.attrs["unit"] = "m"
        frame["o"] = pd.Series([{"any": 1}, [2]], index=frame.index, dtype=object)
        back = through({"frame": frame, "series": frame["a"], "index": frame.index})
        pd.testing.assert_frame_equal(back["frame"], frame)
        assert back["frame"].attrs == {"unit": "m"}
        pd.testing.assert_series_equal(back["series"], frame["a"])
        pd.testing.assert_index_equal(back["index"], frame.index)

    def test_columns_of_frames_lie_on_the_bytes(self):
        buffer = ours.serialize(pd.DataFrame({"a": np.arange(1000.0)})).to_buffer()
        column = ours.deserialize(buffer)["a"].to_numpy()
        assert buffer.address <= column.ctypes.data < buffer.address + buffer.size

    def test_arrow(self):
        table = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})
        values = [
            table,
            table.to_batches()[0],
            table["a"],
            table["a"].chunk(0),
            pa.array([[1], []]),
        ]
        for value, back in zip(values, through(values), strict=True):
            assert type(back) is type(value)
            assert back.equals(value)
        assert through(pa.py_buffer(b"")).size == 0
        assert through([pa.py_buffer(b"abc")])[0].to_pybytes() == b"abc"

    def test_tensors(self):
        tensor = pa.Tensor.from_numpy(np.arange(6.0).reshape(2, 3).T, ["a", "b"])
        back = through(tensor)
        assert back.equals(tensor)
        assert list(back.dim_names) == ["a", "b"]
        assert back.strides == tensor.strides

    def test_the_order_of_the_axes_of_a_sparse_tensor(self):
        data = np.array([[1], [2], [3]])
        for order in ((0, 1), (1, 0)):
            tensor = pa.SparseCSFTensor.from_numpy(
                data, [np.array([0, 1, 3])], [np.array([0, 1]), np.array([0, 0, 2])], (3, 3), order
            )
            assert through(tensor).equals(tensor)

    def test_scipy(self):
        sparse = pytest.importorskip("scipy.sparse")
        dense = np.array([[0, 1.5], [2, 0]])
        for kind in (sparse.coo_matrix, sparse.csr_matrix, sparse.csc_matrix):
            back = through(kind(dense))
            assert type(back) is kind
            assert (back.toarray() == dense).all()

    def test_pydata_sparse(self, monkeypatch):
        # The package itself is not among what the tests need; this stands in for it.
        class Coo:
            def __init__(self, coords, data, shape, fill_value):
                self.coords, self.data = coords, data
                self.shape, self.fill_value = shape, fill_value

        module = type(sys)("sparse")
        module.COO = Coo
        monkeypatch.setitem(sys.modules, "sparse", module)
        context = ours.default_serialization_context()
        value = Coo(np.array([[0, 1], [1, 0]]), np.array([5.0, 6.0]), (2, 2), 0.0)
        back = through(value, context)
        assert type(back) is Coo
        assert (back.coords == value.coords).all()
        assert (back.shape, back.fill_value, back.data.tolist()) == ((2, 2), 0.0, [5.0, 6.0])

    def test_shared_arrays_are_stored_once(self):
        array = np.arange(10_000)
        assert ours.serialize([array, array]).total_bytes < 1.2 * array.nbytes
        first, second = through([array, array])
        assert first is second

    def test_values_that_contain_themselves(self):
        loop = [1, "x"]
        loop.append({"again": (loop,)})
        point = Point(1, None)
        point.y = [point]
        two = [[], []]
        two[0].append(two[1])
        two[1].append(two[0])
        for value in (loop, point, two, [list(range(20_000)), loop]):
            with pytest.raises(pa.lib.ArrowNotImplementedError, match="contain itself"):
                ours.serialize(value, context_with(Point))

    def test_values_that_only_share(self):
        part = [1, "x"]
        rows = [{"a": part, "b": n} for n in range(20)]
        for value in ([part, part], rows, (part, [part, (part,)], list(range(20_000)))):
            assert through(value) == value


BYTES_OF_1 = None
CONTEXT = None


@pytest.fixture(autouse=True, scope="module")
def _made_before():
    global BYTES_OF_1, CONTEXT  # noqa: PLW0603 - parameters of a test are made before fixtures
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BYTES_OF_1 = ours.serialize(1).to_buffer()
        CONTEXT = ours.SerializationContext()
