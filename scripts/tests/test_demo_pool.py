"""The demo of a pool says that all is well only when it is."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.demo_pool import __main__ as demo
from scripts.demo_pool import checks, network, processes, report, scene
from scripts.demo_pool.node import Copy
from scripts.demo_pool.worker import Worker, WorkerError

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 60.0
OBJECT = 1 << 30
PLAN = scene.Plan(nbytes=OBJECT, copies=2, readers=2, victim=0, network="auto")


def holding(copy: str = "", shared: int = OBJECT, received: int | None = 0) -> scene.Holding:
    found = Copy("sealed", copy == "kept", OBJECT) if copy else None
    return scene.Holding(True, found, shared if copy else 0, received)


def moment(what: str, *nodes: scene.Holding) -> scene.Moment:
    return scene.Moment(what, {f"node{at + 1}": node for at, node in enumerate(nodes)})


def good() -> scene.Account:
    """A story in which nothing went wrong."""
    account = scene.Account(PLAN, "network namespaces", 1000, 8, OBJECT, OBJECT, 1.0, 2.0)
    account.digest = "d"
    account.digests = {f"node{at // 2 + 1}-{at % 2}": "d" for at in range(6)}
    account.digests |= {"node2-2": "d", "node3-2": "d"}
    account.first_get_s = {"node1": 0.001, "node2": 0.001, "node3": 1.5}
    account.later_get_s = dict.fromkeys(account.first_get_s, 2e-8)
    account.victim, account.repaired_s = "node1", 4.2
    account.reads = [scene.Reads(f"node{at}-0", 100, 500, 0.01, 0, []) for at in (2, 3)]
    kept, cached, dead = holding("kept"), holding("cache"), scene.Holding(up=False)
    account.moments = [
        moment(scene.JOINED, holding(), holding(), holding()),
        moment(scene.PUT, kept, holding("kept", received=OBJECT + 1000), holding()),
        moment(scene.GOT, kept, kept, holding("cache", received=OBJECT + 2000)),
        moment(scene.READ, kept, kept, cached),
        moment(scene.KILLED, dead, kept, cached),
        moment(scene.REPAIRED, dead, kept, kept),
    ]
    return account


def failed(account: scene.Account) -> list[str]:
    return [check.what for check in checks.all_of(account) if not check.holds]


def test_a_good_story_holds_and_can_be_told():
    account = good()
    found = checks.all_of(account)
    assert failed(account) == []
    text = report.as_text(account, found)
    for words in ("2 copies", "repaired after", "4.2 s", "cache  1,074  +1,074", "dead", "20 ns"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 110
    document = json.loads(report.as_json(account, found))
    assert document["repaired_s"] == account.repaired_s
    assert all(check["holds"] for check in document["checks"])


def change(what: str, at: int, **fields: object):
    """A story in which a node holds something else at one moment."""

    def changed(account: scene.Account) -> None:
        node = f"node{at}"
        nodes = account.moment(what).nodes
        nodes[node] = scene.Holding(**{**nodes[node].__dict__, **fields})

    return changed


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change(scene.PUT, 2, copy=None), "the put left 2 copies"),
        (change(scene.REPAIRED, 3, copy=Copy("sealed", False, OBJECT)), "copies again"),
        (change(scene.REPAIRED, 3, copy=Copy("corrupt", True, OBJECT)), "copies again"),
        (lambda account: setattr(account, "repaired_s", None), "copies again"),
        (lambda account: account.digests.update({"node2-1": "e"}), "the values that were put"),
        (lambda account: account.digests.pop("node2-2"), "the values that were put"),
        (change(scene.READ, 3, shared_bytes=2 * OBJECT), "one copy in memory"),
        (change(scene.READ, 3, shared_bytes=0), "one copy in memory"),
        (change(scene.PUT, 2, received_bytes=3 * OBJECT), "the put moved"),
        (change(scene.GOT, 3, received_bytes=2 * OBJECT), "the first gets"),
        (change(scene.READ, 3, received_bytes=OBJECT), "later gets"),
        (lambda account: setattr(account, "reads", []), "went on"),
        (lambda account: setattr(account.reads[0], "after", 0), "went on"),
        (lambda account: setattr(account.reads[0], "wrong", 1), "went on"),
        (lambda account: account.reads[1].errors.append("Absent: gone"), "went on"),
    ],
)
def test_what_went_wrong_is_named(spoil, words):
    account = copy.deepcopy(good())
    spoil(account)
    assert any(words in what for what in failed(account))
    assert "FAIL" in report.as_text(account, checks.all_of(account))


def test_bytes_that_are_not_counted_are_not_checked():
    account = good()
    for one in account.moments:
        for name, node in one.nodes.items():
            one.nodes[name] = scene.Holding(node.up, node.copy, node.shared_bytes, None)
    assert failed(account) == []
    assert "+" not in report.as_text(account, checks.all_of(account)).split("Checks")[0]


@pytest.mark.parametrize("flags", [["--copies", "1"], ["--copies", "3"], ["--bytes", "0"], ["--k"]])
def test_a_wrong_command_line_is_refused(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        demo.plan_of(flags)
    assert ended.value.code == 2
    assert "demo-pool" in capsys.readouterr().err


def test_namespaces_are_made_and_leave_nothing():
    try:
        made = network.Namespaces(2)
    except network.NetworkError as error:
        pytest.skip(str(error))
    try:
        names = [made.inside(at)[-1] for at in range(2)]
        inside = [*made.inside(1), "ip", "-o", "-4", "addr"]
        found = subprocess.run(inside, capture_output=True, text=True, check=True)
        assert made.address(1).split(":")[0] in found.stdout
        before = made.received_bytes(1)
        assert before is not None
        made.cut(1)
    finally:
        made.close()
        made.close()
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert not any(name in left.stdout for name in names)
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert names[0].split("-")[0] not in links.stdout


def test_all_processes_with_a_mark_are_killed_also_those_of_other_sessions(tmp_path):
    mark = processes.new_mark()
    script = "setsid sleep 600 & echo $! > pid; exec sleep 600"
    log = tmp_path / "log"
    process = processes.spawn(["sh", "-c", script], mark, log, cwd=tmp_path)
    pid = tmp_path / "pid"
    processes.until("it started", DEADLINE_S, lambda: pid.exists() and pid.read_text().strip())
    processes.until("both run", DEADLINE_S, lambda: len(processes.marked(mark)) == 2)
    processes.kill(mark)
    assert processes.marked(mark) == []
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert os.getpid() not in processes.marked(mark)


def test_without_a_pool_daemon_the_demo_says_what_is_missing(tmp_path):
    daemon = tmp_path / "plasmond"
    daemon.touch(0o700)
    environment = {**os.environ, "PLASMON_DAEMON": str(daemon), "PATH": "/usr/bin:/bin"}
    environment.pop("PLASMON_POOLD", None)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo_pool"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "plasmon-poold is neither beside" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_small_table_outlives_a_node():
    """The demo as it is, with real nodes, on a table that is brought in a moment."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo_pool", "--json", "--readers=1", "--bytes=50000000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3 * DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert all(check["holds"] for check in told["checks"])
    assert told["reads"]


def test_answers_that_come_at_once_are_all_there():
    """The second of two answers was read with the first, and then waited for until the timeout."""
    program = 'print(\'{"one": 1}\\n{"two": 2}\', flush=True); input()'
    reader = Worker.__new__(Worker)
    reader.name, reader._log, reader._unread = "reader", Path("/nonexistent"), b""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    reader._process = subprocess.Popen([sys.executable, "-c", program], text=True, **pipes)
    assert reader.answer(DEADLINE_S) == {"one": 1}
    assert reader.answer(DEADLINE_S) == {"two": 2}
    reader._process.stdin.write("\n")
    reader._process.stdin.flush()
    with pytest.raises(WorkerError, match="reader has ended"):
        reader.answer(DEADLINE_S)
    reader.close()
