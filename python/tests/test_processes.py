"""Several processes: stores that start and stop, forks, pools."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import plasmon

from .conftest import DEADLINE_S, MIB, child


def gone(pid):
    """Whether a process ends in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], DEADLINE_S)[0])
    finally:
        os.close(fd)


def test_one_line_is_enough(alone):
    found = child(
        "import plasmon, numpy as np; s = plasmon.connect(); i = s.put(np.arange(1e6));"
        " print(s.get(i).sum())"
    )
    assert found.stdout.strip() == "499999500000.0", found.stderr
    assert found.stderr == ""


def test_a_store_ends_with_its_last_client(alone):
    first = plasmon.connect(capacity=64 * MIB, settings={"linger_ms": 100})
    assert first.capacity == 64 * MIB
    assert str(first.socket).startswith(str(alone))
    second = plasmon.connect()
    id = first.put(b"shared by default")
    assert second.get(id, timeout=DEADLINE_S) == b"shared by default"
    pid = first.status().pid
    first.disconnect()
    assert second.get(id) == b"shared by default"
    second.disconnect()
    assert gone(pid)


def test_processes_that_start_a_store_at_once_get_the_same(alone):
    code = "import plasmon, sys; s = plasmon.connect(); print(s.status().pid, flush=True);"
    code += " sys.stdin.read()"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    pids = {int(one.stdout.readline()) for one in children}
    for one in children:
        one.communicate()
    assert len(pids) == 1


def test_the_socket_of_the_environment(daemon, monkeypatch):
    monkeypatch.setenv("PLASMON_SOCKET", daemon.socket)
    assert str(plasmon.default_socket()) == daemon.socket
    with plasmon.connect() as store:
        assert str(store.socket) == daemon.socket


def test_a_store_of_ones_own_is_stopped_and_swept_away(tmp_path):
    with plasmon.start(capacity=8 * MIB, settings={"spin_us": 0, "keeper": False}) as store:
        pid, directory = store.status().pid, store.socket.parent
        assert store.capacity == 8 * MIB
        assert store.get(store.put(b"x")) == b"x"
    assert gone(pid)
    assert not directory.exists()
    started = plasmon.start(capacity="8m", socket=tmp_path / "own.sock")
    assert str(tmp_path) in repr(started)
    with pytest.raises(plasmon.AlreadyRunning):
        plasmon.start(capacity="8m", socket=tmp_path / "own.sock")
    started.stop()
    started.stop()
    assert gone(started.pid)


@pytest.mark.parametrize("settings", [{"colour": "red"}, {"spin_us": "many"}, {"level": "secret"}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(plasmon.PlasmonError) as caught:
        plasmon.start(capacity=8 * MIB, settings=settings)
    assert next(iter(settings)) in str(caught.value)


def test_a_daemon_that_is_not_there(monkeypatch):
    monkeypatch.setenv("PLASMON_DAEMON", "/nonexistent/plasmond")
    with pytest.raises(plasmon.PlasmonError, match="plasmond"):
        plasmon.start()


def _double(arguments):
    socket, id = arguments
    with plasmon.connect(socket) as store:
        return store.put(store.get(id) * 2)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes_works_on_shared_arrays(store, method):
    ids = [store.put(np.full(10_000, n)) for n in range(8)]
    store.flush()
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map_async(_double, [(str(store.socket), id) for id in ids]).get(DEADLINE_S)
    for n, id in enumerate(results):
        assert np.all(store.get(id) == 2 * n)
    store.delete([*ids, *results])


def _in_fork(work):
    """What `work` returns in a forked child, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_uses_the_store_and_leaves_the_parents_pins(store):
    id = store.put(b"from the parent")
    store.flush()
    buffer = store.get_buffer(id)

    def work():
        for use in (lambda: bytes(buffer), lambda: np.asarray(buffer), lambda: len(buffer)):
            with pytest.raises(plasmon.Forked, match="get the object again"):
                use()
        mine = store.get(id)
        buffer.release()
        made = store.put(b"from the child", name="forked", namespace="processes")
        store.flush()
        return mine == b"from the parent" and store.contains(made)

    assert _in_fork(work) == "True"
    assert store.stat(id).pins == 1
    assert bytes(buffer) == b"from the parent"
    assert store.get("forked", namespace="processes") == b"from the child"
    store.delete("forked", namespace="processes")


def _sum_of_inherited(array, pipe):
    pipe.recv()
    pipe.send(float(array.sum()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kept", [True, False])
def test_an_inherited_array_never_shows_other_bytes(store, kept):
    """A child that inherited an array read the bytes of other objects from it, once its parent had
    let go: the mean of an array of ones became 7, without an error."""
    id = store.put(np.full(25_000, 1.0))
    array = store.get(id)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_sum_of_inherited, args=(array, theirs))
    child.start()
    theirs.close()
    if not kept:
        del array
        store.delete(id)
        for _ in range(60):
            store.put(np.full(25_000, 7.0), policy="cache")
        store.flush()
    ours.send("go on")
    child.join(DEADLINE_S)
    # The memory is not the child's: it ends, whether its parent still holds the array or not.
    assert child.exitcode == -signal.SIGSEGV
    assert not ours.poll() or _nothing_came(ours)
    if kept:
        assert array.sum() == 25_000


def _nothing_came(pipe):
    try:
        pipe.recv()
    except EOFError:
        return True
    return False


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_seal_what_its_parent_writes(store):
    writer = store.create(10)
    assert _in_fork(writer.seal).startswith("Forked")
    assert store.states(writer.id) == ["creating"]
    writer.abort()


def test_pins_of_a_killed_process_are_dropped(store):
    id = store.put(b"x" * 1000)
    store.flush()
    code = """
        import os, sys, plasmon
        store = plasmon.connect(sys.argv[1])
        buffer = store.get_buffer(plasmon.ObjectId.from_hex(sys.argv[2]))
        assert store.stat(buffer.id).pins == 1
        os.kill(os.getpid(), 9)
    """
    assert child(code, str(store.socket), id.hex()).returncode == -9
    deadline = time.monotonic() + DEADLINE_S
    while store.stat(id).pins:
        assert time.monotonic() < deadline


def test_importing_the_package_brings_nothing_along():
    code = """
        import sys
        before = set(sys.modules)
        import plasmon
        print(sorted({"numpy", "pyarrow", "pandas", "polars", "asyncio", "multiprocessing"}
                     & set(sys.modules)))
    """
    found = child(code)
    assert found.stdout.strip() == "[]", found.stderr
