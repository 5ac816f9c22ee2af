"""The store's process, its command, and the processes of its clients."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from .conftest import DEADLINE_S, IS_REFERENCE, Running
from .test_plasma_objects import make

Ids = Callable[[int], Any]


def command(*flags: str) -> list[str]:
    """The `plasma_store` command of the environment that runs the tests."""
    return [os.path.join(sysconfig.get_path("scripts"), "plasma_store"), *flags]


@contextlib.contextmanager
def launched(*flags: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(*flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def refused(*flags: str) -> str:
    """What the command says when it does not start."""
    with launched(*flags) as process:
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    return said


@pytest.fixture
def path() -> Iterator[str]:
    # Socket paths are short; the directories of pytest are not.
    with tempfile.TemporaryDirectory(prefix="plasma") as directory:
        yield os.path.join(directory, "s")


def test_the_store_is_a_process(running: Running) -> None:
    assert isinstance(running.process, subprocess.Popen)
    assert running.process.poll() is None
    assert isinstance(running.name, str)


def test_the_store_ends_with_its_block(plasma: ModuleType) -> None:
    with plasma.start_plasma_store(1_000_000) as (name, process):
        assert os.path.exists(name)
    assert process.wait(timeout=DEADLINE_S) is not None
    assert not os.path.exists(name)


def test_the_store_ends_when_its_block_raises(plasma: ModuleType) -> None:
    with (
        pytest.raises(KeyError),
        plasma.start_plasma_store(1_000_000) as (_, process),
    ):
        raise KeyError
    assert process.wait(timeout=DEADLINE_S) is not None


def test_a_terminated_store_ends_with_success(running: Running, make_id: Ids) -> None:
    client = running.connect()
    make(client, make_id(1), b"x")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(timeout=5) == 0


def test_buffers_outlive_the_store(running: Running, make_id: Ids) -> None:
    client = running.connect()
    make(client, make_id(1), b"still here")
    (buffer,) = client.get_buffers([make_id(1)])
    running.process.kill()
    running.process.wait()
    assert buffer.to_pybytes() == b"still here"


def test_calls_fail_when_the_store_is_gone(running: Running, make_id: Ids) -> None:
    client = running.connect()
    running.process.kill()
    running.process.wait()
    for call in (
        lambda: client.create(make_id(1), 1),
        lambda: client.contains(make_id(1)),
        lambda: client.get_buffers([make_id(1)], timeout_ms=0),
        client.list,
        lambda: client.evict(1),
    ):
        with pytest.raises(OSError):  # noqa: PT011 - the words differ
            call()


def test_a_disconnected_client_is_refused(running: Running, make_id: Ids) -> None:
    client = running.connect()
    client.disconnect()
    client.disconnect()
    with pytest.raises(OSError):  # noqa: PT011
        client.contains(make_id(1))
    with pytest.raises(OSError):  # noqa: PT011
        client.create(make_id(1), 1)


def test_connecting_to_nothing_fails_after_its_retries(plasma: ModuleType, path: str) -> None:
    with pytest.raises(OSError, match=re.escape(path)):
        plasma.connect(path, num_retries=2)


def test_valgrind_and_a_profiler_exclude_each_other(plasma: ModuleType) -> None:
    with (
        pytest.raises(Exception, match="same time"),
        plasma.start_plasma_store(1_000_000, use_valgrind=True, use_profiler=True),
    ):
        pass


def answer(plasma: ModuleType, name: str, number: int) -> None:
    """Puts an object back to front, under another id."""
    client = plasma.connect(name)
    first, second = (plasma.ObjectID((number + n).to_bytes(4, "big") * 5) for n in (0, 1000))
    client.create_and_seal(second, client.get_buffers([first])[0].to_pybytes()[::-1])
    client.disconnect()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_connect_on_their_own(
    running: Running, plasma: ModuleType, make_id: Ids
) -> None:
    client = running.connect()
    context = multiprocessing.get_context("fork")
    for number in range(3):
        make(client, make_id(number), b"from parent %d" % number)
    children = [
        context.Process(target=answer, args=(plasma, running.name, number)) for number in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(DEADLINE_S)
        assert child.exitcode == 0
    for number in range(3):
        (buffer,) = client.get_buffers([make_id(number + 1000)])
        assert buffer.to_pybytes() == (b"from parent %d" % number)[::-1]


def test_another_program_connects(running: Running, plasma: ModuleType, make_id: Ids) -> None:
    client = running.connect()
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        f"import {plasma.__name__} as plasma\n"
        f"client = plasma.connect({running.name!r})\n"
        f"client.put([1, 2, 3], plasma.ObjectID({make_id(1).binary()!r}))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)
    assert client.get(make_id(1)) == [1, 2, 3]


class TestCommand:
    """`plasma_store`."""

    def test_it_serves_until_it_is_terminated(
        self, plasma: ModuleType, path: str, make_id: Ids
    ) -> None:
        with launched("-s", path, "-m", "1000000") as process:
            client = plasma.connect(path)
            assert client.store_capacity() == 1_000_000
            make(client, make_id(1), b"x")
            client.disconnect()
            process.terminate()
            assert process.wait(timeout=5) == 0
        assert IS_REFERENCE or not os.path.exists(path)

    @pytest.mark.parametrize("interrupt", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.improved
    def test_it_cleans_up_with_an_external_store(
        self, plasma: ModuleType, path: str, make_id: Ids, interrupt: int
    ) -> None:
        with launched("-s", path, "-m", "1000000", "-e", "hashtable://x") as process:
            client = plasma.connect(path)
            for number in range(3):
                make(client, make_id(number), bytes(500_000))
            assert all(client.contains(make_id(number)) for number in range(3))
            client.disconnect()
            process.send_signal(interrupt)
            assert process.wait(timeout=5) == 0
        assert not os.path.exists(path)

    def test_a_socket_is_needed(self) -> None:
        assert "-s" in refused("-m", "1000000")

    def test_a_size_is_needed(self, path: str) -> None:
        assert "-m" in refused("-s", path)

    @pytest.mark.parametrize("size", ["lots", "10k", "1.5"])
    def test_a_size_is_a_number_of_bytes(self, path: str, size: str) -> None:
        assert "-m switch takes memory in bytes" in refused("-s", path, "-m", size)

    @pytest.mark.improved
    @pytest.mark.parametrize("size", ["0", "-5"])
    def test_a_size_is_positive(self, path: str, size: str) -> None:
        assert "-m" in refused("-s", path, "-m", size)

    def test_an_unknown_flag_is_named(self, path: str) -> None:
        assert "'x'" in refused("-x")

    def test_an_unknown_external_store_is_named(self, path: str) -> None:
        said = refused("-s", path, "-m", "1000000", "-e", "bogus://x")
        assert 'no such external store "bogus"' in said

    @pytest.mark.improved
    def test_a_malformed_endpoint_is_shown(self, path: str) -> None:
        said = refused("-s", path, "-m", "1000000", "-e", "hashtable")
        assert "Malformed endpoint hashtable" in said

    @pytest.mark.improved
    def test_a_missing_directory_is_named(self, path: str) -> None:
        said = refused("-s", path, "-m", "1000000", "-d", f"{path}.d")
        assert f"{path}.d" in said

    def test_a_directory_is_taken(
        self, plasma: ModuleType, path: str, tmp_path: pathlib.Path
    ) -> None:
        with launched("-s", path, "-m", "1000000", "-d", str(tmp_path)):
            plasma.connect(path).disconnect()

    @pytest.mark.improved
    def test_huge_pages_are_refused_where_none_are_reserved(self, path: str) -> None:
        # The reference dies of SIGBUS.
        memory = pathlib.Path("/proc/meminfo").read_text()
        if re.search(r"HugePages_Total:\s+[1-9]", memory):
            pytest.skip("huge pages are reserved here")
        assert "vm.nr_hugepages" in refused("-s", path, "-m", "1000000", "-h")

    @pytest.mark.improved
    def test_a_live_socket_is_not_taken_over(
        self, plasma: ModuleType, running: Running, make_id: Ids
    ) -> None:
        client = running.connect()
        make(client, make_id(1), b"x")
        assert running.name in refused("-s", running.name, "-m", "1000000")
        assert plasma.connect(running.name).contains(make_id(1))

    @pytest.mark.improved
    def test_a_stale_socket_is_replaced(self, plasma: ModuleType, path: str) -> None:
        with launched("-s", path, "-m", "1000000") as process:
            plasma.connect(path).disconnect()
            process.kill()
            process.wait()
        with launched("-s", path, "-m", "2000000"):
            assert plasma.connect(path).store_capacity() == 2_000_000

    @pytest.mark.improved
    def test_the_other_name_of_the_command(self, path: str) -> None:
        other_name = os.path.join(sysconfig.get_path("scripts"), "plasma-store-server")
        done = subprocess.run([other_name], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "-s" in done.stderr


class TestFaults:
    """What harms a store, or its objects, elsewhere."""

    @pytest.mark.improved
    @pytest.mark.parametrize(
        "garbage",
        [b"x", bytes(8), b"\xff" * 24, (1 << 62).to_bytes(8, "little") * 3, os.urandom(60_000)],
        ids=["short", "zeroes", "ones", "long", "random"],
    )
    def test_garbage_on_the_socket_is_survived(
        self, running: Running, make_id: Ids, garbage: bytes
    ) -> None:
        client = running.connect()
        make(client, make_id(1), b"x")
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            with socket.socket(socket.AF_UNIX, kind) as hostile, contextlib.suppress(OSError):
                hostile.connect(running.name)
                hostile.sendall(garbage)
                hostile.settimeout(DEADLINE_S)
                while hostile.recv(4096):
                    pass
        make(client, make_id(2), b"y")
        assert running.connect().get_buffers([make_id(1)])[0].to_pybytes() == b"x"
        assert running.process.poll() is None

    @pytest.mark.improved
    def test_a_reader_that_writes_dies_and_the_object_does_not_change(
        self, running: Running, plasma: ModuleType, make_id: Ids
    ) -> None:
        client = running.connect()
        make(client, make_id(1), b"immutable")
        program = (
            "import ctypes, sys, warnings; warnings.simplefilter('ignore')\n"
            f"import {plasma.__name__} as plasma\n"
            f"client = plasma.connect({running.name!r})\n"
            f"(buffer,) = client.get_buffers([plasma.ObjectID({make_id(1).binary()!r})])\n"
            "ctypes.memset(buffer.address, 0, 1)\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=DEADLINE_S)
        assert ended.returncode == -signal.SIGSEGV
        assert client.get_buffers([make_id(1)])[0].to_pybytes() == b"immutable"

    @pytest.mark.improved
    def test_a_thread_that_waits_does_not_stop_the_others(
        self, running: Running, make_id: Ids
    ) -> None:
        # The reference holds one lock per client for as long as a get takes.
        import threading

        client = running.connect()
        found: list[Any] = []
        waiting = threading.Thread(
            target=lambda: found.append(client.get_buffers([make_id(1)])[0].to_pybytes())
        )
        waiting.start()
        make(client, make_id(1), b"by the same client")
        waiting.join(DEADLINE_S)
        assert found == [b"by the same client"]
