"""Durable objects: the machine's power is taken away by killing the daemon and its keeper."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plasmon

from .conftest import DEADLINE_S, MIB


class Machine:
    """A folder of a log, and one store after the other that has it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = {"durable_dir": str(folder / "log"), "durable_segment_bytes": MIB}
        self.settings |= settings
        self.daemon: plasmon.Daemon | None = None
        self.started = 0

    def start(self, capacity: int = 16 * MIB, **settings: Any) -> plasmon.Store:
        """The next store, with nothing of the one before but its log."""
        self.started += 1
        socket = self.folder / f"{self.started}.sock"
        self.daemon = plasmon.start(capacity, socket=socket, settings=self.settings | settings)
        return self.daemon.connect()

    def lose_power(self, store: plasmon.Store) -> None:
        """Kills the daemon and the keeper at once: the memory is gone."""
        status = store.status()
        watched = [os.pidfd_open(pid) for pid in (status.keeper_pid, status.pid)]
        # A process that is stopped cannot start another one.
        os.kill(status.keeper_pid, signal.SIGSTOP)
        os.kill(status.pid, signal.SIGKILL)
        os.kill(status.keeper_pid, signal.SIGKILL)
        for fd in watched:
            assert select.select([fd], [], [], DEADLINE_S)[0]
            os.close(fd)
        with contextlib.suppress(plasmon.PlasmonError):
            store.disconnect()
        self.daemon = None

    def kill_daemon(self, store: plasmon.Store) -> None:
        """The keeper starts another daemon, which takes the memory over."""
        before = store.status()
        os.kill(before.pid, signal.SIGKILL)
        while store.status().epoch == before.epoch:
            pass

    def end(self) -> None:
        if self.daemon is not None:
            self.daemon.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.end()


def command(*words: str, socket: str) -> str:
    """What `plasmon` prints."""
    program = shutil.which("plasmon")
    assert program is not None
    ran = subprocess.run(
        [program, "--socket", socket, *words],
        capture_output=True,
        check=False,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_many_that_are_put_at_once_are_there_after_a_loss_of_power(machine):
    store = machine.start()
    values = [bytes([number % 251]) * (number * 37 % 5000) for number in range(200)]
    values[70] = os.urandom(2 * MIB)
    ids = store.put_many(iter(values), durable=True, metadata=b"m")
    assert len(set(ids)) == 200
    assert store.put_many([], durable=True) == []
    assert store.get(store.put_many([b"volatile"])) == [b"volatile"]
    machine.lose_power(store)
    store = machine.start()
    assert store.status().log["objects"] == 200
    assert store.get(ids) == values
    assert bytes(store.get_buffer(ids[3]).metadata) == b"m"


def test_many_are_refused_before_any_is_put(machine):
    store = machine.start()
    with pytest.raises(TypeError, match=r"put_many\(\) takes bytes, found .*int"):
        store.put_many([b"one", 2], durable=True)
    for options in ({"name": "x"}, {"id": store.new_id()}):
        with pytest.raises(plasmon.PlasmonError, match="cannot share one id or name"):
            store.put_many([b"one", b"two"], durable=True, **options)
    assert store.status().log["objects"] == 0


def test_what_was_put_is_there_after_a_loss_of_power(machine):
    pa = pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    store = machine.start()
    table = pa.table({"x": list(range(1000)), "text": ["a", None] * 500})
    array = np.arange(12.0).reshape(3, 4)
    values: dict[str, Any] = {
        "bytes": b"some bytes",
        "empty": b"",
        "large": os.urandom(3 * MIB),
        "object": {"a": [1, 2.5, None], "b": ("x", {3})},
    }
    for name, value in values.items():
        store.put(value, name=name, namespace="ns", durable=True)
    store.put(table, name="table", durable=True)
    store.put(array, name="array", durable=True)
    unnamed = store.put(b"without a name", durable=True, metadata=b"meta")
    with store.create(5, name="built", durable=True) as writer:
        memoryview(writer)[:] = b"built"
    store.put(b"gone with the memory", name="volatile")
    deleted = store.put(b"deleted", name="deleted", durable=True)
    store.delete(deleted)
    before = {info.id: info for info in store.list() if info.durable}
    assert len(before) == 8
    machine.lose_power(store)

    store = machine.start()
    assert store.status().log["objects"] == 8
    after = {info.id: info for info in store.list()}
    assert after.keys() == before.keys()
    for id, info in after.items():
        old = before[id]
        assert (info.name, info.namespace, info.kind) == (old.name, old.namespace, old.kind)
        assert (info.created, info.durable) == (old.created, True)
        assert (info.data_bytes, info.state) == (old.data_bytes, "spilled")
    for name, value in values.items():
        assert store.get(name, namespace="ns") == value
    assert store.get("table").equals(table)
    assert (store.get("array") == array).all()
    assert store.get(unnamed) == b"without a name"
    assert bytes(store.get_buffer(unnamed).metadata) == b"meta"
    assert store.get("built") == b"built"
    for name in ("volatile", "deleted"):
        with pytest.raises(plasmon.Absent):
            store.get(name)
    # What is in memory again is still durable.
    machine.lose_power(store)
    assert machine.start().get("bytes", namespace="ns") == b"some bytes"


def test_a_daemon_that_is_replaced_knows_which_objects_are_in_the_log(machine):
    store = machine.start(capacity=8 * MIB)
    contents = [os.urandom(MIB) for _ in range(12)]
    ids = [store.put(content, durable=True) for content in contents]
    assert store.status().log["objects_away"] > 0
    machine.kill_daemon(store)
    log = store.status().log
    assert (log["objects"], log["fault"]) == (12, "")
    # They leave the memory and come back as before.
    assert [store.get(id) for id in ids] == contents
    store.delete(ids[:6])
    machine.kill_daemon(store)
    assert store.status().log["objects"] == 6
    machine.lose_power(store)
    store = machine.start()
    assert {info.id for info in store.list()} == set(ids[6:])


def test_a_log_whose_disk_is_away_is_waited_for_and_no_other_one_begun(machine):
    """A daemon that took over began an empty log where the disk had been, and took objects there
    that were missing as soon as the disk was back, as the earlier ones were before."""
    store = machine.start()
    contents = {store.put(b"%d" % at, name=f"{at}", durable=True): b"%d" % at for at in range(4)}
    folder = machine.folder / "log"
    folder.rename(machine.folder / "elsewhere")
    machine.kill_daemon(store)
    for call in (
        lambda: store.put(b"x", name="refused", durable=True),
        lambda: store.delete(next(iter(contents))),
    ):
        with pytest.raises(plasmon.PlasmonError) as caught:
            call()
        assert caught.value.key == "io"
    assert "cannot find the log" in store.status().log["fault"]
    assert not folder.exists()
    assert all(store.get(id) == content for id, content in contents.items())
    (machine.folder / "elsewhere").rename(folder)
    while store.status().log["fault"]:
        pass
    contents[store.put(b"later", name="later", durable=True)] = b"later"
    machine.lose_power(store)
    store = machine.start()
    assert {info.id: store.get(info.id) for info in store.list()} == contents


def test_objects_leave_the_memory_without_a_spill_folder_and_come_back(machine):
    store = machine.start(capacity=8 * MIB)
    kept = store.put(b"k" * MIB)
    contents = {store.put(os.urandom(MIB), durable=True, policy="cache"): at for at in range(40)}
    status = store.status()
    assert status.log["objects"] == 40
    assert status.log["objects_away"] >= 33
    assert (status.spilled, status.evicted_total) == (0, 0)
    assert all(len(store.get(id)) == MIB for id in contents)
    assert store.get(kept) == b"k" * MIB
    first = next(iter(contents))
    assert store.read(first, 10, 5) == store.get(first)[10:15]


def test_replaced_and_expired_objects_do_not_come_back(machine):
    store = machine.start()
    for version in range(5):
        store.put(b"%d" % version, name="versions", durable=True, replace=True)
    store.put(b"old", name="demoted", durable=True)
    store.put(b"new", name="demoted", replace=True)
    store.put(b"short", name="short", durable=True, ttl=0.01)
    store.put(b"long", name="long", durable=True, ttl=1000)
    expires = next(info.expires for info in store.list() if info.name == "long")
    while store.contains("short"):
        pass
    machine.lose_power(store)
    store = machine.start()
    assert store.get("versions") == b"4"
    assert {info.name for info in store.list()} == {"versions", "long"}
    assert next(info.expires for info in store.list() if info.name == "long") == expires


def test_a_store_without_a_log_says_how_to_get_one(store):
    for write in (store.put, lambda value, **how: store.create(len(value), **how)):
        with pytest.raises(plasmon.Unsupported, match="--durable-dir"):
            write(b"x", name="x", durable=True)
    with pytest.raises(plasmon.Unsupported, match="--durable-dir"):
        store.put(b"x", storage="durable")
    assert store.status().log is None
    assert not store.contains("x")


def test_what_cannot_be_durable_says_so(machine):
    store = machine.start()
    member = store.put(b"member")
    for options, word in [
        ({"name": "@prod:x"}, "begin with @"),
        ({"owned": True}, "owned"),
        ({"members": [member]}, "not durable"),
    ]:
        with pytest.raises(plasmon.Unsupported, match=word):
            store.put(b"x", durable=True, **options)
    store.put(b"x", durable=True, members=[store.put(b"member", durable=True)])


def test_a_full_log_says_so_and_loses_nothing(machine):
    store = machine.start(durable_bytes_max=6 * MIB)
    ids = []
    with pytest.raises(plasmon.StoreFull, match="plasmon start --set durable_bytes_max="):
        while True:
            ids.append(store.put(os.urandom(MIB // 4), durable=True))
    assert len(ids) >= 6
    assert store.status().log["fault"] == ""
    volatile = store.put(b"as ever")
    # Deleting makes room.
    store.delete(ids[::2])
    again = [store.put(os.urandom(MIB // 4), durable=True) for _ in range(len(ids) // 2 - 3)]
    contents = {id: store.get(id) for id in ids[1::2] + again}
    assert store.get(volatile) == b"as ever"
    machine.lose_power(store)
    store = machine.start(durable_bytes_max=6 * MIB)
    assert {info.id for info in store.list()} == contents.keys()
    assert all(store.get(id) == content for id, content in contents.items())


def test_a_full_disk_says_so_and_loses_nothing(machine, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={8 * MIB}", "plasmon-test", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a file system of a fixed size cannot be mounted here")
    try:
        store = machine.start(durable_dir=str(disk / "log"), durable_device="file")
        contents = {}
        with pytest.raises(plasmon.StoreFull, match=str(disk)):
            while True:
                content = os.urandom(MIB // 4)
                contents[store.put(content, durable=True)] = content
        assert all(store.get(id) == content for id, content in contents.items())
        # Deletes one by one: those after the first fifteen were refused, and made no room.
        for gone in [*contents][::2]:
            store.delete(gone)
            del contents[gone]
        for content in (os.urandom(MIB // 4) for _ in range(len(contents) // 2)):
            contents[store.put(content, durable=True)] = content
        machine.lose_power(store)
        store = machine.start(durable_dir=str(disk / "log"), durable_device="file")
        assert {info.id for info in store.list()} == contents.keys()
        assert all(store.get(id) == content for id, content in contents.items())
        machine.end()
        machine.daemon = None
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_one_store_at_a_time_has_the_folder(machine, tmp_path):
    store = machine.start()
    id = store.put(b"x", durable=True)
    with pytest.raises(plasmon.PlasmonError, match="another process"):
        plasmon.start(MIB, socket=tmp_path / "second.sock", settings=machine.settings)
    assert store.get(id) == b"x"
    # It is free when the store has stopped, and nothing in it goes with the store.
    machine.end()
    assert machine.start().get(id) == b"x"


def test_a_folder_that_cannot_be_used_is_an_error_of_the_start(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(plasmon.PlasmonError, match="durable"):
        plasmon.start(MIB, socket=tmp_path / "1.sock", settings={"durable_dir": str(file / "log")})
    for settings, word in [
        ({"durable_segment_bytes": 1}, "1 MiB"),
        ({"durable_bytes_max": MIB}, "segments"),
        ({"durable_device": "tape"}, "auto, file, dax"),
    ]:
        settings["durable_dir"] = str(tmp_path / "log")
        with pytest.raises(plasmon.PlasmonError, match=word):
            plasmon.start(MIB, socket=tmp_path / "2.sock", settings=settings)


def test_the_command_knows_durable_objects(machine, tmp_path):
    store = machine.start()
    socket = str(machine.daemon.socket)
    file = tmp_path / "notes"
    file.write_text("some text")
    command("put", str(file), "--durable", socket=socket)
    assert json.loads(command("--json", "stat", "notes", socket=socket))["durable"] is True
    assert "durable     yes" in command("stat", "notes", socket=socket)
    status = json.loads(command("--json", "status", socket=socket))
    assert status["log"]["objects"] == 1
    assert "1 object (0 in the log alone)" in command("status", socket=socket)
    assert "durable log" in command("doctor", socket=socket)
    machine.lose_power(store)
    assert machine.start().get("notes") == b"some text"


def test_puts_of_many_threads_share_syncs_and_all_are_there(machine):
    store = machine.start()
    names = [f"{thread}-{at}" for thread in range(8) for at in range(25)]

    def work(thread: int) -> None:
        for at in range(25):
            store.put(f"{thread}-{at}".encode(), name=f"{thread}-{at}", durable=True)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    machine.lose_power(store)
    store = machine.start()
    assert {name: store.get(name) for name in names} == {name: name.encode() for name in names}


def test_random_changes_and_kills_agree_with_a_dictionary(machine):
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"replay with SEED={seed}")
    dice = random.Random(seed)
    store = machine.start(capacity=8 * MIB)
    known: dict[str, bytes] = {}
    for _ in range(int(os.environ.get("STEPS", "300"))):
        name, step = f"n{dice.randrange(20)}", dice.randrange(100)
        if step < 55:
            content = dice.randbytes(dice.choice([0, 10, 5000, 300_000]))
            how = {"replace": dice.random() < 0.7, "policy": dice.choice(["keep", "cache"])}
            if how["replace"] or name not in known:
                store.put(content, name=name, durable=True, **how)
                known[name] = content
            else:
                with pytest.raises(plasmon.Exists):
                    store.put(content, name=name, durable=True, **how)
        elif step < 70 and name in known:
            store.delete(name)
            del known[name]
        elif step < 90:
            assert store.get(name, None) == known.get(name)
        elif step < 97:
            machine.kill_daemon(store)
        else:
            machine.lose_power(store)
            store = machine.start(capacity=8 * MIB)
            assert {info.name for info in store.list()} == known.keys()
    machine.lose_power(store)
    store = machine.start(capacity=8 * MIB)
    assert {info.name: store.get(info.name) for info in store.list()} == known
