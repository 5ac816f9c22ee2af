"""What a new user tries first: it works, or says at once what to do instead.

Each test is a line of what was found when programs, data and habits from elsewhere were tried.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import plasmon

from .conftest import DEADLINE_S, settles

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


#: Every way to ask for an object.
WAYS = {
    "get": lambda store, name, **how: store.get(name, **how),
    "get of many": lambda store, name, **how: store.get([store.put(b"here"), name], **how),
    "get_buffer": lambda store, name, **how: store.get_buffer(name, **how),
    "get_buffers": lambda store, name, **how: store.get_buffers([name], **how),
    "get_async": lambda store, name, **how: asyncio.run(store.get_async(name, **how)),
}


def test_a_get_of_what_is_not_there_is_a_key_error_at_once(store):
    """It waited for ever, without a word: a misspelt name looked like a program that hangs."""
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
