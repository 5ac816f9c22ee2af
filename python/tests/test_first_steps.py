"""What a new user tries first: it works, or says at once what to do instead.

Each test is a line of what was found when programs, data and habits from elsewhere were tried.
What is typed at the command is in `test_first_steps_command.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import plasmon
from plasmon import _memory_pool

from .conftest import DEADLINE_S, MIB, child, settles

PLASMON = Path(sys.executable).parent / "plasmon"


def command(*arguments: str | Path, socket: Path | str) -> subprocess.CompletedProcess[str]:
    """Runs the `plasmon` command on a store."""
    return subprocess.run(
        [PLASMON, "--socket", socket, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def printed(code: str) -> str:
    """What a program of its own prints."""
    found = child(code)
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    return found.stdout.strip()


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_two_programs_one_after_the_other(alone):
    """README's example as two scripts: the first one's store ended two seconds after it, the second
    started an empty one and waited in it forever."""
    assert printed("import plasmon; plasmon.connect().put(1, name='x')") == ""
    assert printed("import plasmon; print(plasmon.connect().get('x'))") == "1"
    store = plasmon.connect(start=False)
    # As long as a person may take between the two, and a setting like any other.
    assert store.status().linger_ms == 10 * 60 * 1000
    shown = command("status", socket=store.socket).stdout
    assert "10 min" in shown
    log = (alone / "plasmon" / "store.log").read_text()
    assert log.count("600 s after its last client") == 1
    store.disconnect()


def test_how_long_it_stays_is_a_setting(alone):
    store = plasmon.connect(settings={"linger_ms": 50})
    pid = store.status().pid
    store.disconnect()
    settles(lambda: not is_alive(pid))


def test_plasmon_start_takes_an_empty_store_over(alone):
    """The store of a program that had ended blocked `plasmon start`."""
    store = plasmon.connect(capacity="64m")
    pid, socket = store.status().pid, store.socket
    store.put(1, name="x")
    store.flush()
    held = command("start", "--capacity", "32m", socket=socket)
    assert held.returncode == 1
    assert "it holds objects: 1" in held.stderr
    assert "plasmon stop" in held.stderr
    store.delete("x")
    used = command("start", "--capacity", "32m", socket=socket)
    assert "it has other clients: 1" in used.stderr
    store.disconnect()
    started = command("start", "--capacity", "32m", socket=socket)
    assert started.returncode == 0, started.stderr
    assert f"had started (process {pid})" in started.stdout
    with plasmon.connect(socket) as ours:
        assert ours.capacity == 32 * MIB
        assert ours.status().linger_ms is None
    again = command("start", socket=socket)
    assert again.returncode == 1
    assert "already" in again.stderr


@pytest.mark.parametrize("end", ["by itself", "by kill -9"])
def test_a_store_that_was_not_stopped_ends_with_its_program(end):
    """Daemon, keeper and folder stayed for good."""
    code = """
        import plasmon, sys
        daemon = plasmon.start("16m")
        store = daemon.connect()
        status = store.status()
        print(daemon.socket, status.pid, status.keeper_pid, flush=True)
        sys.stdin.read()
    """
    program = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        socket, *pids = one.stdout.readline().split()
        assert all(is_alive(int(pid)) for pid in pids)
        if end == "by kill -9":
            one.send_signal(signal.SIGKILL)
        one.communicate(timeout=DEADLINE_S)
    settles(lambda: not any(is_alive(int(pid)) for pid in pids))
    settles(lambda: not Path(socket).parent.exists())


def test_what_its_children_still_read_stays():
    code = """
        import os, signal, sys, plasmon
        daemon = plasmon.start("16m")
        if os.fork() == 0:
            with daemon.connect() as store:
                print("connected", store.status().pid, flush=True)
                sys.stdin.readline()
                print(store.get(store.put(b"still here")), store.status().starter_pid, flush=True)
            os._exit(0)
        signal.pause()
    """
    program = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        pid = int(one.stdout.readline().split()[1])
        one.kill()
        one.wait(DEADLINE_S)
        one.stdin.write("\n")
        one.stdin.flush()
        assert one.stdout.readline() == "b'still here' 0\n"
    settles(lambda: not is_alive(pid))


def test_a_store_that_is_to_stay_stays(tmp_path):
    socket = tmp_path / "s.sock"
    printed(f"import plasmon; plasmon.start('16m', socket={str(socket)!r}, stays=True)")
    with plasmon.connect(socket) as store:
        assert store.status().starter_pid == 0
        store.shutdown()


#: Every way to ask for an object.
WAYS = {
    "get": lambda store, name, **how: store.get(name, **how),
    "get of many": lambda store, name, **how: store.get([store.put(b"here"), name], **how),
    "get_buffer": lambda store, name, **how: store.get_buffer(name, **how),
    "get_buffers": lambda store, name, **how: store.get_buffers([name], **how),
    "get_async": lambda store, name, **how: asyncio.run(store.get_async(name, **how)),
}


def test_a_get_of_what_is_not_there_is_a_key_error_at_once(store):
    """It waited forever, without a word: a misspelt name looked like a program that hangs."""
    for way, call in WAYS.items():
        with pytest.raises(KeyError, match='"nothing"') as raised:
            call(store, "nothing")
        assert type(raised.value) is plasmon.Absent, way
        assert raised.value.object_id == plasmon.ObjectId.from_name("nothing"), way


def test_a_get_waits_when_it_is_asked_to(store, other):
    for way, call in WAYS.items():
        with pytest.raises(plasmon.TimedOut, match='"nothing"'):
            call(store, "nothing", timeout=0.02)
        for how in ({"wait": True}, {"timeout": DEADLINE_S}):
            name = f"{way}, {how}"
            asked = threading.Thread(target=call, args=(store, name), kwargs=how)
            asked.start()
            settles(lambda: other.status().waits > 0)
            other.put(b"at last", name=name)
            asked.join(DEADLINE_S)
            assert not asked.is_alive(), name


def test_what_is_being_created_says_so_at_once(store, other):
    with store.create(8, name="unfinished"), pytest.raises(plasmon.NotSealed, match="unfinished"):
        other.get("unfinished")


def test_the_command_waits_when_it_is_asked_to(store, tmp_path):
    found = command("get", "later", socket=store.socket)
    assert (found.returncode, found.stdout) == (4, "")
    assert '"later"' in found.stderr
    assert command("get", "later", "--timeout", "0.05", socket=store.socket).returncode == 4
    with subprocess.Popen(
        [PLASMON, "--socket", store.socket, "get", "later", "--wait"], stdout=subprocess.PIPE
    ) as waiting:
        settles(lambda: store.status().waits > 0)
        store.put(b"at last", name="later")
        assert waiting.communicate(timeout=DEADLINE_S) == (b"at last", None)
    store.delete("later")


def test_a_misspelt_name_differs_from_a_missing_object(store):
    """And a program that expects to miss does not pay for it: the look-up is made when shown."""
    store.put(1, name="temperatures")
    store.put(2, name="pressures", namespace="weather")
    for typed, meant in [
        ("temperature", "'temperatures'"),
        ("Tempratures", "'temperatures'"),
        ("pressures", "'pressures' in the namespace 'weather'"),
    ]:
        with pytest.raises(plasmon.Absent) as raised:
            store.get(typed)
        assert str(raised.value).endswith(f"did you mean {meant}?")
        assert str(raised.value).count("did you mean") == 1
    with pytest.raises(plasmon.Absent) as raised:
        store.get("something else entirely")
    assert "did you mean" not in str(raised.value)
    store.delete(["temperatures", "pressures"])
    store.delete("pressures", namespace="weather")


def test_a_sort_of_what_is_not_there_says_so_at_once(store):
    """It waited forever; the command answered at once."""
    store.put(pa.table({"x": [2, 1]}), name="sortable")
    for tables in ("sortabel", ["sortable", "sortabel"]):
        with pytest.raises(plasmon.Absent, match=r"sortabel.*did you mean 'sortable'"):
            store.sort(tables, "x")
    found = command("sort", "sortabel", "--by", "x", "--name", "y", socket=store.socket)
    assert found.returncode == 4
    store.delete("sortable")


def test_thousands_of_waits_of_one_client_are_answered(store, other):
    """At 2,000 of them a client and its daemon waited for each other."""
    ids = [store.new_id() for _ in range(3000)]
    waits = [store._start_wait([id]) for id in ids]
    assert store.get(store.put(b"meanwhile")) == b"meanwhile"
    for id in ids:
        other.put(b"", id=id)
    undecided = {*range(len(ids))}

    def all_answered():
        undecided.difference_update([at for at in undecided if waits[at].poll() == ["sealed"]])
        return not undecided

    settles(all_answered)
    store.delete(ids)


def test_what_ended_long_ago_is_no_wait_and_no_lie(store):
    """How an object ended is forgotten after 16,384 others; a get of it waited forever then."""
    first = store.put(b"", policy="cache")
    store.delete(first)
    with pytest.raises(plasmon.Deleted):
        store.get(first)
    for _ in range(17):
        store.delete([store.put(b"") for _ in range(1000)])
    with pytest.raises(plasmon.Absent, match="no longer exists"):
        store.get(first)


def on_a_terminal(*arguments: str | Path, socket: Path | str) -> str:
    """What the command shows where its standard error is a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [PLASMON, "--socket", socket, *arguments], stdout=subprocess.DEVNULL, stderr=its
    ) as process:
        os.close(its)
        shown = b""
        # The end of a terminal that no process has open any more is an error.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                shown += piece
        assert process.wait(DEADLINE_S) == 0, shown
    os.close(ours)
    return shown.decode()


def test_long_work_shows_that_it_goes_on_where_a_person_sees_it(store, tmp_path):
    table = tmp_path / "long.csv"
    table.write_text("x,y\n" + "1,some text\n" * 500_000)
    back = tmp_path / "back.csv"
    for arguments in [("put", table, "--replace"), ("get", "long", "-o", back)]:
        assert "long" in on_a_terminal(*arguments, socket=store.socket), arguments
        assert command(*arguments, socket=store.socket).stderr == ""
    store.delete("long")


def test_without_a_store_it_says_how_to_start_one(tmp_path):
    with pytest.raises(plasmon.Disconnected, match="plasmon start"):
        plasmon.connect(tmp_path / "none.sock")


def test_a_client_that_meets_another_store_says_so(tmp_path):
    """A daemon without a keeper was killed and another one started on its socket: puts gave ids,
    and no call said that everything before was gone."""
    socket = tmp_path / "s.sock"

    def begin():
        return plasmon.start("16m", socket=socket, settings={"keeper": False})

    first = begin()
    with plasmon.connect(socket) as store:
        old = store.put(b"of the first")
        store.flush()
        os.kill(first.pid, signal.SIGKILL)
        settles(lambda: not is_alive(first.pid))
        second = begin()
        store.put(b"on its way")
        with pytest.raises(plasmon.Disconnected, match=r"another store now serves .*s\.sock"):
            store.flush()
        store.flush()
        with pytest.raises(plasmon.Absent):
            store.get(old)
        assert store.get(store.put(b"of the second")) == b"of the second"
    second.stop()


def test_paths_are_there_for_programs_in_c():
    """Library and headers had to be found in a build of the workspace."""
    found = subprocess.run([PLASMON, "paths", "--json"], capture_output=True, check=True)
    paths = json.loads(found.stdout)
    assert (Path(paths["include"]) / "plasmon.h").is_file()
    assert (Path(paths["lib"]) / "libplasmon.so").is_file()
    assert (Path(paths["pkg_config"]) / "plasmon.pc").is_file()
    assert (Path(paths["cmake"]) / "plasmon-config.cmake").is_file()


def test_a_memory_pool_that_is_not_built_says_the_command(store, monkeypatch, tmp_path):
    """The guide's `pool.stats()` was an AttributeError of pyarrow's own pool."""
    monkeypatch.setattr(_memory_pool, "folders", lambda: [tmp_path])
    monkeypatch.setattr(_memory_pool, "module_name", lambda major: "store_pool_0")
    with pytest.raises(ImportError, match=r"-m plasmon\.build_memory_pool$"):
        store.memory_pool()


def test_ingest_without_pyarrow_says_the_command():
    done = child(
        "import sys; sys.modules['pyarrow'] = None\nimport plasmon; plasmon.ingest('x.csv')"
    )
    assert done.stderr.splitlines()[-1].endswith(": pip install pyarrow")


def test_a_wrong_column_is_named_beside_those_that_there_are(store):
    table = store.table_builder({"n": "int64", "s": "string"})
    with table, pytest.raises(KeyError, match=r"unknown column 'm'; the table has \['n', 's'\]"):
        table.extend({"m": [1], "s": ["a"]})


def test_every_protocol_says_the_same_of_a_buffer(store):
    """DLPack gave the array, everything else its bytes."""
    array = np.arange(6.0).reshape(2, 3)
    buffer = store.get_buffer(store.put(array))
    for view in (np.asarray(buffer), np.asarray(memoryview(buffer)), np.from_dlpack(buffer)):
        assert view.dtype == array.dtype
        assert view.tolist() == array.tolist()
    assert buffer.__array_interface__["shape"] == (2, 3)
    assert buffer.data.tobytes() == array.tobytes()
