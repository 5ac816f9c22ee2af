"""What a new user types first: `plasmon` does it, or says what to type instead.

Each test is a line of what was found when the command was tried with files and habits from
elsewhere.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import plasmon

from .conftest import DEADLINE_S

PLASMON = Path(sys.executable).parent / "plasmon"


@pytest.fixture(scope="module")
def daemon():
    """A store that only these tests put into: what they count is theirs."""
    daemon = plasmon.start("64m")
    yield daemon
    daemon.stop()


@pytest.fixture
def typed(store, tmp_path):
    """Types a command in a folder of the test's own; what it prints and how it ends."""

    def run(*arguments: str, code: int = 0, **environment: str) -> str:
        found = subprocess.run(
            [PLASMON, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PLASMON_SOCKET": str(store.socket), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert found.returncode == code, f"{arguments}: {found.stdout}{found.stderr}"
        return found.stdout if code == 0 else found.stderr

    yield run
    for name in store.list(namespace="typed"):
        store.delete(name.id)


@pytest.fixture
def terminal(store):
    """Types a command at a terminal, and keys when it has shown what they answer."""

    def run(*arguments: str, keys: tuple[tuple[str, str], ...] = (), **environment: str) -> str:
        own, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        modes = termios.tcgetattr(its)
        environment = {"TERM": "xterm", "PLASMON_SOCKET": str(store.socket), **environment}
        command = subprocess.Popen(
            [PLASMON, *arguments], stdin=its, stdout=its, stderr=its, env=os.environ | environment
        )
        seen, end = b"", time.monotonic() + DEADLINE_S
        for shown, key in keys:
            while shown.encode() not in seen:
                assert time.monotonic() < end, f"{shown} was not shown: {seen!r}"
                if select.select([own], [], [], 0.1)[0]:
                    seen += os.read(own, 65536)
            os.write(own, key.encode())
        command.wait(DEADLINE_S)
        while select.select([own], [], [], 0)[0]:
            seen += os.read(own, 65536)
        assert termios.tcgetattr(its) == modes, "the terminal is as it was"
        os.close(its)
        os.close(own)
        return seen.decode()

    return run


@pytest.fixture
def table(store):
    pa = pytest.importorskip("pyarrow")
    store.put(pa.table({"x": [1, 2], "s": ["a", "b"]}), name="t", namespace="typed")


def test_arrow_files_are_what_pandas_polars_and_feather_read(typed, table, tmp_path):
    """`-o x.arrow` wrote a stream, which all of them refuse."""
    from pyarrow import feather

    for name in ("t.arrow", "t.feather", "t.ipc"):
        typed("get", "typed:t", "-o", name)
        assert feather.read_table(tmp_path / name).column("x").to_pylist() == [1, 2]
        pl = pytest.importorskip("polars")
        assert pl.read_ipc(tmp_path / name)["s"].to_list() == ["a", "b"]
        pd = pytest.importorskip("pandas")
        assert pd.read_feather(tmp_path / name)["x"].tolist() == [1, 2]
    typed("get", "typed:t", "-o", "t.arrows")
    assert pl.read_ipc_stream(tmp_path / "t.arrows")["x"].to_list() == [1, 2]
    pl.read_ipc(tmp_path / "t.ipc").write_ipc(tmp_path / "own.ipc", compression="zstd")
    typed("put", "own.ipc", "--namespace", "typed")
    assert typed("get", "typed:own", "--format", "csv") == "x,s\n1,a\n2,b\n"


def test_json_and_compressed_csv_are_what_pandas_reads(typed, table, tmp_path):
    """`.json` and `.csv.gz` were the bytes of the object, and the command said "written"."""
    pd = pytest.importorskip("pandas")
    for name, read in (
        ("t.json", pd.read_json),
        ("t.jsonl", lambda path: pd.read_json(path, lines=True)),
        ("t.csv.gz", pd.read_csv),
    ):
        typed("get", "typed:t", "-o", name)
        assert read(tmp_path / name)["x"].tolist() == [1, 2], name
    pd.DataFrame({"x": [3]}).to_json(tmp_path / "own.json", orient="records")
    typed("put", "own.json", "--namespace", "typed")
    assert typed("get", "typed:own", "--format", "csv") == "x\n3\n"
    for name in ("t.xlsx", "t.txt"):
        assert ".jsonl" in typed("get", "typed:t", "-o", name, code=1)
        (tmp_path / name).write_text("x")
        assert "--format raw" in typed("put", name, code=1)


def test_csv_that_is_no_csv_says_what_it_is(typed, tmp_path):
    (tmp_path / "s.csv").write_text("x;s\n1;a\n")
    assert "--delimiter ';'" in typed("put", "s.csv", code=1)
    typed("put", "s.csv", "--delimiter", ";", "--namespace", "typed")
    (tmp_path / "none.csv").write_text("")
    assert "it is empty" in typed("put", "none.csv", code=1)


def test_a_name_is_found_as_it_was_given(typed, store, tmp_path):
    """`--name a:b` was stored where `get a:b` does not look."""
    (tmp_path / "b").write_bytes(b"bytes")
    typed("put", "b", "--name", "typed:b")
    assert typed("get", "typed:b") == "bytes"
    assert bytes(store.get("b", namespace="typed")) == b"bytes"
    store.put(b"python", name="typed-a:b")
    assert "\n:typed-a:b " in typed("ls")
    assert typed("get", ":typed-a:b") == "python"
    store.delete("typed-a:b")


def test_errors_say_what_to_type(typed, table, tmp_path):
    told = typed("get", "typed:r", code=4)
    assert 'did you mean "typed:t"?' in told
    (tmp_path / "t.csv").write_text("x\n1\n")
    assert "--replace" in typed("put", "t.csv", "--namespace", "typed", code=1)
    none = str(tmp_path / "none.sock")
    assert "`plasmon start`" in typed("ls", "--socket", none, code=3)
    error = json.loads(typed("get", "typed:r", "--json", code=4))
    assert (error["code"], error["object"]) == ("absent", "typed:r")
    assert json.loads(typed("put", "--json", code=2))["code"] == "usage"


def test_objects_without_a_name_can_be_deleted(typed, store):
    """Nothing but the 40 digits of their ids could delete them."""
    ids = [store.put(b"left behind") for _ in range(3)]
    store.flush()
    told = typed("rm", "--unnamed", code=2)
    assert "3 objects" in told
    assert "--yes" in told
    assert typed("rm", str(ids[0])[:8]) == f"{str(ids[0])[:8]}: deleted\n"
    assert typed("rm", "--unnamed", "--older", "1h", "--yes") == "nothing to delete\n"
    assert json.loads(typed("rm", "--unnamed", "--yes", "--json"))["deleted"] == 2


def test_what_is_shown_fits_and_tells(typed, table, store):
    listed = typed("ls", "--namespace", "typed")
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert str(store.stat("t", namespace="typed").id)[:8] in listed
    shown = typed("stat", "typed:t")
    assert "rows        2" in shown
    assert "x: Int64" in shown


def test_a_terminal_has_a_question_keys_and_colours(terminal, typed, store):
    for name in ("q1", "q2"):
        store.put(b"1", name=name, namespace="typed")
    assert "nothing was deleted" in terminal("rm", "typed:q*", keys=(("[y/N]", "n\n"),))
    assert "2 objects deleted" in terminal("rm", "typed:q*", keys=(("[y/N]", "y\n"),))
    keys = (("objects by size", "s"), ("objects newest first", "rq"))
    assert "PID" in terminal("top", "--interval", "60", keys=keys)
    assert "\x1b[" in terminal("ls")
    assert "\x1b[" not in terminal("ls", NO_COLOR="1")
    assert "\x1b[" not in typed("ls")


def test_more_capacity_than_memory_is_warned_of(typed, tmp_path):
    started = json.loads(
        typed("start", "--capacity", "1000t", "--socket", str(tmp_path / "s.sock"), "--json")
    )
    typed("stop", "--socket", str(tmp_path / "s.sock"))
    assert "memory" in started["warning"]


@pytest.fixture
def completed(typed):
    """What a shell offers at the end of a line."""

    def words(*line: str) -> set[str]:
        asked = {"PLASMON_COMPLETE": "bash", "_CLAP_COMPLETE_INDEX": str(len(line))}
        return set(typed("--", "plasmon", *line, **asked, _CLAP_IFS="\n").split())

    return words


def test_names_of_objects_are_completed(completed, table):
    assert completed("get", "typed:") == {"typed:t"}


def test_bash_asks_for_names(table, typed, tmp_path):
    """Names have colons, at which bash would begin another word."""
    (tmp_path / "script").write_text(typed("completions", "bash"))
    line = """
        source ./script
        [[ $COMP_WORDBREAKS != *:* ]] || exit 1
        COMP_WORDS=(plasmon get typed:) COMP_CWORD=2
        _clap_complete_plasmon plasmon typed: get
        echo "${COMPREPLY[@]}"
    """
    path = {"PATH": f"{PLASMON.parent}:{os.environ['PATH']}"}
    socket = typed("status", "--json")
    found = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env={**os.environ, **path, "PLASMON_SOCKET": json.loads(socket)["socket"]},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert found.stdout.split() == ["typed:t"], found.stderr


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The commands and long flags of a parser and of those of its commands."""
    found = {flag for flag in parser._option_string_actions if flag.startswith("--")}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, own in action.choices.items():
                found |= {name} | options_of(own)
    return found


def test_commands_in_python_look_and_end_like_the_others(completed, typed, tmp_path):
    """They had argparse's help, ended with 1 where no store ran, and nothing completed them."""
    from plasmon import paths
    from plasmon.demo.__main__ import parser as demo
    from plasmon.hdf5.__main__ import _parser as hdf5

    for name, parser in (("hdf5", hdf5()), ("run-demo", demo()), ("paths", paths._parser())):
        offered = completed(name, "--") | (completed(name, "") if name == "hdf5" else set())
        assert options_of(parser) <= offered, name
        shown = typed(name, "--help")
        assert f"Usage: plasmon {name} " in shown
        assert "\nOptions:\n" in shown
        told = typed(name, "--nonsense", code=2)
        assert told.startswith("error: ")
        assert "try '--help'" in told
        assert json.loads(typed("--json", name, "--nonsense", code=2))["code"] == "usage"


def test_hdf5_tools_end_as_the_other_commands_do(typed, tmp_path):
    pytest.importorskip("h5py")
    none = str(tmp_path / "none.sock")
    view = ("hdf5", "view", "store:x", "--out", "v.h5")
    assert "`plasmon start`" in typed(*view, "--store", none, code=3)
    assert typed("--socket", none, *view, code=3).startswith("plasmon: ")
    assert json.loads(typed("--json", *view, code=1))["code"] == "failed"
    assert typed("hdf5", "export", "none.h5", "x.h5", code=1).startswith("plasmon: ")


def test_what_needs_the_package_or_a_library_says_the_command(typed, tmp_path):
    bare = tmp_path / "bin" / "python3"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True, timeout=DEADLINE_S
    )
    told = typed("hdf5", "doctor", code=1, PLASMON_PYTHON=str(bare))
    assert f"{bare} -m pip install plasmon" in told
    error = json.loads(typed("--json", "run-demo", code=1, PLASMON_PYTHON=str(bare)))
    assert "pip install plasmon" in error["error"]
    # A package of the name, found before it, stands for one that is not installed.
    for name, line in (("h5py", ("hdf5", "doctor")), ("pyarrow", ("run-demo", "--rows", "10"))):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name}')\n")
        extra = "hdf5" if name == "h5py" else "demo"
        told = typed(*line, code=1, PYTHONPATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
        assert f"pip install 'plasmon[{extra}]'" in told
