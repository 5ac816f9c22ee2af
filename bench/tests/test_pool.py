"""The pool's suite: what it promises, what it counts, and its rivals where they are installed."""

import os
import shutil
import socket
import sys

import pytest

from bench.case import FREE, Side
from bench.environments import ROOT, MissingError
from bench.pool_nodes import is_pool_daemon, received_bytes
from bench.report import document, insert, pages
from bench.rivals.pingpong import worker as pingpong
from bench.rivals.protocol import UnsupportedError as RivalUnsupportedError
from bench.run import Context, Results
from bench.suites import pool
from bench.tests.test_report import FACTS
from bench.worker import UnsupportedError, Worker

TARGETS = {
    "get_1mib_vs_tcp": "<= 1.5", "get_1mib_ratio_redis": ">= 1.3", "stream_vs_iperf": ">= 0.9",
    "stream_ratio_ray": ">= 4", "read_blackhole_ms": "<= 700", "stream4_vs_iperf": ">= 0.95",
    "second_get_ns": "<= 25", "bytes_moved_8_readers": "<= 1.01",
    "put_free_1kib_round_trips": "<= 5", "two_copies_ratio": "<= 2.2", "read_failover_ms": "<= 200",
    "commit_failover_ms": "<= 4500", "local_get_with_agent_ratio": "<= 1.05",
    "local_put_with_agent_ratio": "<= 1.05", "poold_idle_mb": "<= 20",
    "column_share_ratio": "<= 1.3", "tls_stream_vs_plain": ">= 0.5",
    "fabric_shm_1mib_ratio_redis": ">= 3", "fabric_net_1mib_ratio_tcp": ">= 1.3",
}  # fmt: skip


def test_entries_and_figures_name_what_exists():
    sides = {side.name for side in pool.SIDES}
    for case in pool.CASES:
        labels = [entry.label for entry in case.entries]
        assert len(labels) == len(set(labels)), f"{case.name} has two entries of one name"
        assert {entry.side for entry in case.entries} <= sides
    for figure in pool.FIGURES:
        with pytest.raises(MissingError):
            figure.compute(Results())


def test_the_designs_figures_and_targets_are_there():
    limits = {figure.name: str(figure.target) for figure in pool.FIGURES if figure.target}
    assert limits.items() >= TARGETS.items()


def test_results_become_figures_and_a_page():
    results = Results()
    for case in pool.CASES:
        for pinning in case.pinnings:
            for entry in case.entries:
                key = (case.name, entry.label, pinning.name)
                results.rounds[key] = [[2e6 if entry.side == pool.POOL else 1e6]] * 3
                results.notes[key] = [{"cpu_ns": [3 << 28]}] * 3
    content = document(pool.SUITE, results, FACTS)
    figures = content["figures"]
    assert figures["get_1mib_vs_tcp"] == 2
    assert figures["get_1mib_ratio_redis"] == figures["stream_vs_iperf"] == 0.5
    assert figures["get_1mib_us"] == 2000
    assert figures["cpu_s_per_gb"] == pytest.approx(3)
    page = insert((ROOT / pool.SUITE.page).read_text(), pages(content))
    assert "| stream | iperf3 | 1.00 ms | 268.44 | 3.00 |" in page
    assert "| put of a name whose records the node led | 2,000,000, 2,000,000, 2,000,000 |" in page


def test_costs_that_were_not_measured_leave_their_cells_empty():
    results = Results()
    results.rounds["stream", pool.REDIS, FREE.name] = [[1e9]]
    parts = pool.SUITE.parts(results)
    assert parts["costs"].splitlines()[2:] == ["| stream | redis | 1.00 s | 0.27 |  |"]
    assert len(parts["deaths"].splitlines()) == 2


def test_a_pool_daemon_is_known_by_its_program_and_its_node():
    line = b"/x/plasmon-poold\0--socket\0/tmp/node2/store.sock\0"
    assert is_pool_daemon(line)
    assert is_pool_daemon(line, "node2")
    assert not is_pool_daemon(line, "node1")
    assert not is_pool_daemon(b"/x/plasmond\0--socket\0/tmp/node2/store.sock\0")
    assert not is_pool_daemon(b"")


def test_received_bytes_are_those_of_tcp_connections():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
        with sender, receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
            before = received_bytes(os.getpid())
            sender.sendall(bytes(100_000))
            receiver.recv(100_000, socket.MSG_WAITALL)
            assert received_bytes(os.getpid()) == before + 100_000


def test_a_side_that_does_not_rest_is_not_frozen(tmp_path, monkeypatch):
    frozen = []
    monkeypatch.setattr(Worker, "freeze", lambda worker: frozen.append(worker.side))
    program = (
        "from bench.rivals.protocol import serve\n"
        "class Side:\n"
        "    def op_start(self, directory, capacity_bytes):\n"
        "        return {'address': directory}\n"
        "serve(Side())"
    )
    sides = tuple(
        Side(name, "Python", ("-c", program), "", rests=name == "rests")
        for name in ("rests", "stays")
    )
    context = Context(sides, tmp_path, quick=False)
    monkeypatch.setattr(context, "command", lambda name: [sys.executable, "-c", program])
    try:
        for name in ("rests", "stays"):
            context.worker(name).side = name
        for name in ("rests", "stays"):
            with context.awake(name):
                pass
        assert set(frozen) == {"rests"}
    finally:
        monkeypatch.undo()
        context.end()


FI_PINGPONG = """\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
1m      200     =200     400m        0.05s   9292.39     112.84       0.01
"""
UCX_PERFTEST = """\
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+
                         200     66.575    68.167    68.169    14669.76   14669.76       14670
"""


@pytest.mark.parametrize(
    ("name", "told", "microseconds"),
    [("fi_pingpong", FI_PINGPONG, 112.84), ("ucx_perftest", UCX_PERFTEST, 68.167)],
)
def test_pingpongs_are_read_or_say_what_is_not_installed(name, told, microseconds, monkeypatch):
    program = pingpong.PROGRAMS[name]
    assert float(program.answer.search(told).group("us")) == microseconds
    for command in (program.server("shm", 7, 1 << 20, 50), program.client("shm", 7, 1 << 20, 50)):
        assert command[0] == name
        assert "7" in command
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RivalUnsupportedError, match=f"apt-get install {program.package}"):
        pingpong.Pingpong(program).op_start("", 0)


@pytest.mark.parametrize(
    ("name", "program", "requests"),
    [
        ("iperf", "iperf3", [{"op": "fetch", "object_bytes": 1 << 20, "count": 1, "at_once": 2}]),
        (
            "memcached",
            "memcached",
            [
                {"op": "fetch", "object_bytes": 1 << 20, "count": 2, "batch": 2},
                {"op": "put_copies", "object_bytes": 100_000, "copies": 1, "count": 2},
            ],
        ),
        (
            "redis",
            "redis-server",
            [
                {"op": "fetch", "object_bytes": 1 << 20, "count": 2},
                {"op": "fetch", "object_bytes": 0, "count": 1},
                {"op": "put_copies", "object_bytes": 100_000, "copies": 1, "count": 2},
                {"op": "put_copies", "object_bytes": 100_000, "copies": 2, "count": 2},
                {"op": "put_settled", "object_bytes": 1024, "count": 2, "batch": 1200},
            ],
        ),
    ],
)
def test_rivals_answer_or_say_what_is_not_installed(name, program, requests, tmp_path):
    worker = Worker([sys.executable, "-m", f"bench.rivals.{name}.worker"], tmp_path)
    start = {"op": "start", "directory": str(tmp_path), "capacity_bytes": 1 << 20}
    try:
        if shutil.which(program) is None:
            with pytest.raises(UnsupportedError, match="apt-get install"):
                worker.call(start)
            return
        assert name in worker.call(start)["versions"]
        for request in requests:
            answer = worker.call(request)
            samples = answer["samples"]
            assert len(samples) == request["count"]
            if request["op"] == "fetch":
                assert len(answer["cpu_ns"]) == request["count"]
                assert min(answer["cpu_ns"]) >= 0
            assert all(sample > 0 for sample in samples)
    finally:
        worker.end()
