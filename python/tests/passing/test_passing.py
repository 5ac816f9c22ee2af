"""Large values between processes: through multiprocessing's pickler, pools, queues and pipes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plasmon
import plasmon.multiprocessing
from plasmon import _by_reference

from ..conftest import DEADLINE_S, MIB

MIN_BYTES = 1024


def big():
    return np.arange(100_000.0)


def values():
    array = big()
    table = pa.table({"a": array, "b": pa.array(["x", None]).take(pa.array([0, 1] * 50_000))})
    frame = pd.DataFrame({"a": array, "o": [{"any": 1}] * len(array)})
    frame.attrs["unit"] = "m"
    yield array
    yield array.reshape(1000, 100).T[::2, ::-1]
    yield array.astype(">f4")
    yield table
    yield table.to_batches()[0]
    yield table["b"]
    yield table["b"].chunk(0)
    yield frame
    yield frame["a"]
    yield pl.DataFrame({"a": array})
    yield pl.Series("a", array)


def same(value, back):
    if type(back) is not type(value):
        return False
    if isinstance(value, np.ndarray):
        return back.dtype == value.dtype and np.array_equal(back, value)
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.equals(back) and value.attrs == back.attrs
    return value.equals(back)


@pytest.fixture
def installed(own):
    """A store through which values go; objects are counted in it."""
    store = own(capacity=256 * MIB)
    plasmon.multiprocessing.install(store, min_bytes=MIN_BYTES)
    yield store
    plasmon.multiprocessing.uninstall()


def settled(store, count):
    """Whether ``count`` objects are left; releases are noticed with a delay."""
    deadline = threading.Event()
    timer = threading.Timer(DEADLINE_S, deadline.set)
    timer.start()
    while not deadline.is_set():
        if len(store.list()) == count:
            timer.cancel()
            return True
    return False


@pytest.mark.parametrize("number", range(11))
def test_every_kind_of_value(installed, number):
    value = list(values())[number]
    data = bytes(ForkingPickler.dumps({"value": value}))
    assert len(data) < 1000
    assert len(installed.list()) == 1
    back = pickle.loads(data)["value"]
    assert same(value, back)
    # Its only reader has it deleted.
    assert installed.list() == []


def test_what_arrives_lies_in_the_store(installed):
    back = pickle.loads(ForkingPickler.dumps(big()))
    assert not back.flags.writeable
    assert back.ctypes.data % 64 == 0
    # Deleted, and there for as long as it is used.
    assert back.sum() == big().sum()
    before = installed.status().used_bytes
    assert before > back.nbytes
    del back
    again = pickle.loads(ForkingPickler.dumps(np.arange(10_000.0)))
    assert again.sum() == np.arange(10_000.0).sum()


def test_what_is_small_or_has_objects_is_pickled(installed):
    for value in (
        np.arange(10),
        np.array([{}] * 10_000, dtype=object),
        pa.array([1, 2]),
        big().view(np.recarray),
        [1, 2],
    ):
        data = ForkingPickler.dumps(value)
        assert installed.list() == []
        assert str(pickle.loads(data)) == str(value)


def test_the_smallest_value_that_is_sent(installed):
    for nbytes, count in ((MIN_BYTES - 8, 0), (MIN_BYTES, 1)):
        data = ForkingPickler.dumps(np.zeros(nbytes // 8))
        assert len(installed.list()) == count
        assert len(pickle.loads(data)) == nbytes // 8


def test_copies_on_request(own):
    store = own(capacity=64 * MIB)
    plasmon.multiprocessing.install(store, min_bytes=MIN_BYTES, writable=True)
    try:
        back = pickle.loads(ForkingPickler.dumps(big()))
        back += 1
        frame = pickle.loads(ForkingPickler.dumps(pd.DataFrame({"a": big()})))
        frame.loc[0, "a"] = 7.0
        assert (back[0], frame.loc[0, "a"]) == (1.0, 7.0)
    finally:
        plasmon.multiprocessing.uninstall()


def test_a_reference_is_for_one_reader(installed):
    data = ForkingPickler.dumps(big())
    assert same(big(), pickle.loads(data))
    with pytest.raises(plasmon.PlasmonError) as caught:
        pickle.loads(data)
    assert "one time" in "".join(caught.value.__notes__)


def test_a_full_store_is_no_reason_to_fail(own):
    store = own(capacity=16 * MIB)
    plasmon.multiprocessing.install(store, min_bytes=MIN_BYTES)
    try:
        value = np.arange(4_000_000.0)
        back = pickle.loads(ForkingPickler.dumps(value))
        assert np.array_equal(back, value)
        assert back.flags.writeable
        assert store.list() == []
    finally:
        plasmon.multiprocessing.uninstall()


class Registered:
    """A class for which another library registered a reducer with multiprocessing."""


def test_uninstalled(own):
    store = own(capacity=64 * MIB)
    plasmon.multiprocessing.install(store, min_bytes=MIN_BYTES)
    on_its_way = ForkingPickler.dumps(big())
    ForkingPickler.register(Registered, lambda value: (Registered, ()))
    plasmon.multiprocessing.uninstall()
    try:
        assert len(ForkingPickler.dumps(big())) > big().nbytes
        assert Registered in ForkingPickler._extra_reducers
        assert same(big(), pickle.loads(on_its_way))
    finally:
        del ForkingPickler._extra_reducers[Registered]


def double(value):
    return os.getpid(), value.flags.writeable, value * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_pools(installed, method):
    context = multiprocessing.get_context(method)
    with context.Pool(
        2,
        initializer=plasmon.multiprocessing.install,
        initargs=(str(installed.socket),),
    ) as pool:
        arrays = [big() + n for n in range(6)]
        back = pool.map(double, arrays, chunksize=1)
    for array, (pid, writeable, result) in zip(arrays, back, strict=True):
        assert pid != os.getpid()
        assert not writeable
        assert np.array_equal(result, array * 2)
    assert not back[0][2].flags.writeable
    assert installed.list() == []


def echo(source, sink):
    while (value := source.get()) is not None:
        sink.put(value)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_queues(installed):
    context = multiprocessing.get_context("fork")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(there, back))
    process.start()
    try:
        for value in values():
            there.put(value)
            assert same(value, back.get(timeout=DEADLINE_S))
        there.put(None)
    finally:
        process.join(DEADLINE_S)
    assert process.exitcode == 0
    assert installed.list() == []


def test_pipes(installed):
    one, other = multiprocessing.Pipe()
    with one, other:
        # Longer than the pipe holds, if its bytes went through it.
        one.send([big()] * 3)
        assert other.poll(DEADLINE_S)
        assert all(same(big(), part) for part in other.recv())


def test_the_store_of_this_user(tmp_path, monkeypatch):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    socket = _by_reference.keep_connection(None)
    try:
        assert socket.startswith(str(runtime))
        sender = _by_reference.Sender(socket, MIN_BYTES)
        function, arguments = sender(big())
        assert same(big(), function(*arguments))
    finally:
        own = _by_reference._connections.pop((os.getpid(), socket))
        # It would wait ten minutes for the next program.
        own.shutdown()
        own.disconnect()


def test_kept_values_are_put_once(own):
    store = own(capacity=64 * MIB)
    sender = _by_reference.KeptSender(str(store.socket), MIN_BYTES)
    first, second = big(), big() + 1
    references = [sender(first), sender(second), sender(first)]
    assert references[0] == references[2]
    assert len(store.list()) == 2
    views = [function(*arguments) for function, arguments in references]
    assert len(store.list()) == 2
    sender.end()
    assert store.list() == []
    assert same(first, views[2])
    assert same(second, views[1])
    assert sender(first) != references[0]
    sender.end()


def test_a_value_in_the_place_of_another(own):
    """A later array at the address of one that is gone is another array."""
    store = own(capacity=64 * MIB)
    sender = _by_reference.KeptSender(str(store.socket), MIN_BYTES)
    sums = []
    for number in range(50):
        function, arguments = sender(np.full(1000, float(number)))
        sums.append(function(*arguments).mean())
    assert sums == list(range(50))
    sender.end()


def test_another_process_gets_a_sender_of_its_own(own):
    store = own(capacity=64 * MIB)
    sender = _by_reference.KeptSender(str(store.socket), MIN_BYTES, writable=True)
    sender(big())
    other = pickle.loads(pickle.dumps(sender))
    other.end()
    assert len(store.list()) == 1
    assert (other.socket, other.min_bytes, other.writable) == (sender.socket, MIN_BYTES, True)
    sender.end()
    assert store.list() == []
