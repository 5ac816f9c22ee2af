"""The backend of joblib."""

from __future__ import annotations

import os
import threading

import numpy as np
import pandas as pd
import pytest

joblib = pytest.importorskip("joblib")

import plasmon  # noqa: E402 - after the check
import plasmon.joblib  # noqa: E402 - after the check
from plasmon import _by_reference  # noqa: E402

from ..conftest import MIB  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@pytest.fixture(scope="module")
def store():
    """A store and processes for all of these tests."""
    with plasmon.start(capacity=256 * MIB) as store:
        yield store
        for workers in plasmon.joblib._kept.values():
            workers.executor.shutdown(kill_workers=True)
        plasmon.joblib._kept.clear()


def run(store, tasks, **options):
    with joblib.parallel_config(backend="plasmon", store=store, **options):
        return joblib.Parallel(n_jobs=2)(tasks)


def about(data, number):
    """What a task sees: defined in a function, so that it is pickled by value."""
    return {
        "pid": os.getpid(),
        "address": data.ctypes.data,
        "writeable": data.flags.writeable,
        "result": data * number,
    }


def local(function):
    """A copy that cloudpickle takes along: tests are no module of the workers."""
    made = type(function)(function.__code__, {"os": os}, function.__name__)
    made.__module__ = "__main__"
    return joblib.delayed(made)


def test_arguments_and_results(store):
    data = np.random.default_rng(1).random(200_000)
    back = run(store, (local(about)(data, number) for number in range(8)))
    assert os.getpid() not in {part["pid"] for part in back}
    assert not any(part["writeable"] for part in back)
    for number, part in enumerate(back):
        assert np.array_equal(part["result"], data * number)
        assert not part["result"].flags.writeable
        assert part["result"].ctypes.data % 64 == 0
    # One object, at one address in a process.
    assert len({(part["pid"], part["address"]) for part in back}) <= 2
    # The argument was deleted at the end, the results when they were read.
    assert store.list() == []


def test_copies_on_request(store):
    back = run(store, [local(about)(np.ones(100_000), 2)] * 2, writable=True)
    assert all(part["writeable"] for part in back)
    back[0]["result"][0] = 7


def test_what_is_small_is_pickled(store):
    back = run(store, [local(about)(np.ones(100), 2)] * 2)
    assert all(part["writeable"] for part in back)


def test_frames(store):
    frame = pd.DataFrame({"a": np.arange(100_000.0), "b": ["x"] * 100_000})

    def half(frame):
        return frame.iloc[: len(frame) // 2]

    (back,) = run(store, [local(half)(frame)])
    pd.testing.assert_frame_equal(back, frame.iloc[:50_000])


def test_processes_are_kept(store):
    def pid():
        import os

        return os.getpid()

    tasks = [local(pid)() for _ in range(20)]
    first, second = set(run(store, tasks)), set(run(store, tasks))
    assert first & second


def test_an_error_in_a_task(store):
    def fail(data):
        raise KeyError(len(data))

    with pytest.raises(KeyError, match="100000"):
        run(store, [local(fail)(np.ones(100_000))] * 4)
    assert run(store, [local(about)(np.ones(10), 3)])[0]["result"][0] == 3.0
    # What was sent for the tasks that failed is gone, too.
    assert store.list() == []


def test_a_task_that_ends_its_process(store):
    def end(data):
        import os

        os._exit(3)

    with pytest.raises(Exception, match=r"terminated|killed|unexpectedly"):
        run(store, [local(end)(np.ones(100_000))])
    assert len(run(store, [local(about)(np.ones(10), 3)] * 3)) == 3


def test_two_at_once_share_the_processes(store):
    outcomes = {}

    def work(number):
        data = np.full(100_000, float(number))
        with joblib.parallel_config(backend="plasmon", store=store):
            parallel = joblib.Parallel(n_jobs=2)
            found = [part["result"].mean() for part in parallel([local(about)(data, 1)] * 10)]
        outcomes[number] = found

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {0: [0.0] * 10, 1: [1.0] * 10}
    assert store.list() == []


def test_one_job_needs_no_process(store):
    with joblib.parallel_config(backend="plasmon", store=store):
        (back,) = joblib.Parallel(n_jobs=1)([joblib.delayed(about)(np.ones(100_000), 2)])
    assert back["pid"] == os.getpid()


def test_the_workers_are_initialized(store):
    """``Parallel(initializer=...)`` was ignored without a word, as any option was."""

    def begin(*values):
        import os

        os.environ["PLASMON_TEST_BEGUN"] = ",".join(map(str, values))

    def begun():
        import os

        return os.environ.get("PLASMON_TEST_BEGUN")

    begin.__module__ = "__main__"
    with joblib.parallel_config(backend="plasmon", store=store):
        for values in ((1, "a"), (2,), (2,)):
            parallel = joblib.Parallel(n_jobs=2, initializer=begin, initargs=values)
            found = parallel(local(begun)() for _ in range(4))
            assert set(found) == {",".join(map(str, values))}
        assert joblib.Parallel(n_jobs=2)([local(begun)()]) == [None]
        with pytest.raises(TypeError, match="'initialiser'"):
            joblib.Parallel(n_jobs=2, initialiser=begin)([local(begun)()])


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">M8[s]", ">U2", [("a", ">i2"), ("b", "<f4")]])
@pytest.mark.parametrize("count", [3, 100_000])
def test_the_order_of_bytes_is_kept(store, dtype, count):
    """Small arrays came out in the machine's order: as picklers before protocol 5 have it."""
    array = np.zeros(count, dtype)

    def same(array):
        return array.dtype.str, array

    ((text, back),) = run(store, [local(same)(array)])
    assert text == back.dtype.str == array.dtype.str
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_a_task_uses_the_backend(store):
    """A task that named the backend got an error; it is the one of its Parallel."""

    def outer(count):
        import joblib
        import numpy as np

        parts = joblib.Parallel(n_jobs=2, backend="plasmon")(
            joblib.delayed(np.sum)(np.full(100_000, float(n))) for n in range(count)
        )
        import plasmon.joblib

        return [float(part) for part in parts], plasmon.joblib._store_of_tasks

    for sums, socket in run(store, [local(outer)(3)] * 2):
        assert sums == [0.0, 100_000.0, 200_000.0]
        assert socket == str(store.socket)
    assert store.list() == []


def test_generators(store):
    data = np.ones(100_000)
    with joblib.parallel_config(backend="plasmon", store=store):
        parallel = joblib.Parallel(n_jobs=2, return_as="generator")
        sums = [part["result"].sum() for part in parallel(local(about)(data, n) for n in range(6))]
    assert sums == [100_000.0 * n for n in range(6)]


def test_kinds_are_distinguished_by_what_is_imported():
    assert {np.ndarray, pd.DataFrame} <= _by_reference.kinds()
