"""Machines of a measurement: made, told, and gone with everything that runs there."""

import subprocess

import pytest

from bench.machines import Machines, machines
from bench.worker import UnsupportedError


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_machines_reach_each_other_and_end_with_what_runs_there():
    try:
        network = machines(2)
        told = network.__enter__()
    except UnsupportedError as error:
        pytest.skip(str(error))
    try:
        first, second = told["nodes"]
        at_first, at_second = (["ip", "netns", "exec", one["namespace"]] for one in (first, second))
        assert first["address"] in output(*at_first, "ip", "-4", "addr", "show", "eth0")
        assert told["address"] in output("ip", "-4", "addr", "show", told["bridge"])
        program = (
            "import socket; server = socket.create_server((%r, 0)); "
            "print(server.getsockname()[1], flush=True); server.accept()[0].send(b'x'); "
            "server.accept()"
        )
        serving = subprocess.Popen(
            [*at_first, "python3", "-c", program % first["address"]],
            stdout=subprocess.PIPE,
            text=True,
        )
        port = int(serving.stdout.readline())
        asking = "import socket; print(socket.create_connection((%r, %d)).recv(1))"
        said = output(*at_second, "python3", "-c", asking % (first["address"], port))
        assert said == "b'x'\n"
    finally:
        network.__exit__(None, None, None)
    assert serving.wait(10) == -9
    serving.stdout.close()
    assert first["namespace"] not in output("ip", "netns", "list")
    assert told["bridge"] not in output("ip", "-o", "link", "show", "type", "bridge")


def test_a_machine_loses_its_cable_a_direction_or_its_speed():
    try:
        made = Machines(2)
    except UnsupportedError as error:
        pytest.skip(str(error))
    try:
        inside, other = made.inside(0), made.address(1)
        link = (*inside, "ip", "-o", "link", "show", "eth0")
        made.unplug(0)
        assert "NO-CARRIER" in output(*link)
        made.plug(0)
        assert "NO-CARRIER" not in output(*link)
        route = (*inside, "ip", "route", "show", "type", "blackhole")
        with made.blocked(0, other):
            assert other in output(*route)
        assert not output(*route)
        queue = (*inside, "tc", "qdisc", "show", "dev", "eth0")
        with made.slowed(0, 10):
            assert "rate 10Mbit" in output(*queue)
        assert "rate" not in output(*queue)
        assert made.received_bytes(0) >= 0
        assert made.host.rpartition(".")[0] == other.rpartition(".")[0]
    finally:
        made.close()
