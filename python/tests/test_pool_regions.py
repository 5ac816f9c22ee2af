"""Memory of the pool by address: written from several processes on two whole nodes."""

from __future__ import annotations

import array
import os
import pickle
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import plasmon

from . import test_pool_parts
from .conftest import DEADLINE_S, MIB, settles
from .test_pool_parts import Nodes

pool_of_two, nodes = test_pool_parts.pool_of_two, test_pool_parts.nodes

#: Allocates on another node and prints the address; with a child that goes on, or without.
ALLOCATOR = """
import os, sys, time, plasmon
store = plasmon.connect(sys.argv[1], start=False)
address = store.pool.allocate(50 << 20, node=sys.argv[2])
store.pool.write(address, 0, b"begun")
if sys.argv[3] == "forks" and os.fork() == 0:
    time.sleep(600)
print(address, flush=True)
time.sleep(600)
"""


def socket_of(store: plasmon.Store) -> str:
    return str(store.socket)


def node_of(store: plasmon.Store) -> str:
    return store.status().node_name


def allocate(nodes: Nodes, nbytes: int, **options: object) -> plasmon.Address:
    """Allocates on the second node for the first."""
    return nodes.one.pool.allocate(nbytes, node=node_of(nodes.two), **options)


def test_random_pieces_of_several_programs_are_what_is_sealed(nodes):
    dice = random.Random(3)
    length = 3 * MIB + 11
    data = dice.randbytes(length)
    address = allocate(nodes, length, copies=2)
    again = plasmon.Address.parse(str(address))
    assert again == address == pickle.loads(pickle.dumps(address))
    assert hash(again) == hash(address)
    places = list(range(0, length, 70_001))
    dice.shuffle(places)

    def write(store: plasmon.Store, mine: list[int]) -> None:
        for at in mine:
            piece = data[at : at + 70_001]
            store.pool.write(address, at, b"x" * len(piece))
            store.pool.write(address + at, 0, memoryview(piece))

    halves = [(nodes.one, places[::2]), (nodes.two, places[1::2])]
    with ThreadPoolExecutor() as threads:
        for written in [threads.submit(write, *half) for half in halves]:
            written.result(DEADLINE_S)
    for store in (nodes.one, nodes.two):
        with pytest.raises(plasmon.NotSealed, match="once it is sealed"):
            store.pool.read(address, [(0, 1)])
        with pytest.raises(plasmon.TimedOut):
            store.pool.read(address, [(0, 1)], timeout=0.05)
        with pytest.raises(plasmon.BadRequest, match="not within"):
            store.pool.write(address, length - 5, b"123456")
        with pytest.raises(plasmon.BadRequest, match="not within"):
            store.pool.write(address, 2**64 - 1, b"12")
    nodes.one.pool.write(address, 0, b"")
    id = nodes.one.pool.seal(address)
    assert id == address.id
    for store in (nodes.one, nodes.two):
        assert bytes(store.get_buffer(id).data) == data
        (view,) = store.pool.read(address + 1000, [(5, 20)])
        assert view == data[1005:1025]
        assert view.readonly
        with pytest.raises(plasmon.BadRequest):
            store.pool.read(address + length, [(0, 1)])
        for refused in (
            lambda store=store: store.pool.write(address, 0, b"1"),
            lambda store=store: store.pool.seal(address),
        ):
            with pytest.raises(plasmon.AlreadySealed):
                refused()
        del view
    assert len(nodes.one.pool.where(id).holders) == 2
    nodes.one.pool.free(address)
    # A node that has a copy drops it when it hears of the end, a moment later.
    for store in (nodes.one, nodes.two):
        settles(lambda store=store: is_gone(store, address))


def is_gone(store: plasmon.Store, address: plasmon.Address) -> bool:
    try:
        store.pool.read(address, [(0, 1)])
    except (plasmon.Deleted, plasmon.Absent):
        return True
    return False


def test_arrays_are_written_as_their_bytes(nodes):
    numbers = array.array("d", [1.5, 2.5, 3.5])
    address = allocate(nodes, 24)
    nodes.one.pool.write(address, 0, numbers)
    nodes.two.pool.seal(address.id)
    assert nodes.one.get_buffer(address.id).data.cast("d").tolist() == numbers.tolist()
    with pytest.raises(BufferError):
        nodes.one.pool.write(address, 0, memoryview(numbers)[::2])


@pytest.mark.parametrize("how", ["alone", "forks"])
def test_a_program_that_is_killed_leaves_no_region(nodes, how):
    command = [sys.executable, "-c", ALLOCATOR, socket_of(nodes.one), node_of(nodes.two), how]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert program.stdout is not None
    try:
        address = plasmon.Address.parse(program.stdout.readline().strip())
        nodes.two.pool.write(address, 7, b"more")
        assert nodes.two.status().used_bytes >= 50 * MIB
        program.kill()
        settles(lambda: nodes.two.status().used_bytes < 50 * MIB)
        for store in (nodes.one, nodes.two):
            for refused in (
                lambda store=store: store.pool.write(address, 0, b"1"),
                lambda store=store: store.pool.read(address, [(0, 1)]),
                lambda store=store: store.pool.seal(address),
                lambda store=store: store.pool.free(address),
            ):
                with pytest.raises(plasmon.CreatorDied, match="allocated the region"):
                    refused()
    finally:
        program.stdout.close()
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def test_what_ends_with_its_store_and_what_is_freed(nodes):
    store = plasmon.connect(socket_of(nodes.one), start=False)
    address = store.pool.allocate(10)
    store.disconnect()
    settles(lambda: refuses(nodes, address))
    address = allocate(nodes, 10)
    nodes.two.pool.free(address + 3)
    with pytest.raises(plasmon.Deleted, match="freed"):
        nodes.one.pool.write(address, 0, b"1")


def refuses(nodes: Nodes, address: plasmon.Address) -> bool:
    try:
        nodes.one.pool.write(address, 0, b"1")
    except plasmon.CreatorDied:
        return True
    return False


def test_addresses_and_calls_that_are_none(nodes):
    id = plasmon.ObjectId.random()
    assert plasmon.Address.parse(str(plasmon.Address(id, 7))).offset == 7
    assert plasmon.Address(id, 7) - 7 < plasmon.Address(id, 7) + 1
    for text in ("", id.hex(), f"{id.hex()}+", f"{id.hex()}+-1", f"{id.hex()}+x", "12+3"):
        with pytest.raises(ValueError, match="40"):
            plasmon.Address.parse(text)
    for offset in (-1, 2**64):
        with pytest.raises(ValueError, match="an offset is"):
            plasmon.Address(id, offset)
        with pytest.raises(ValueError, match="an offset is"):
            nodes.one.pool.write(id, offset, b"")
    with pytest.raises(TypeError):
        plasmon.Address(str(id))
    with pytest.raises(TypeError, match="named with an Address"):
        nodes.one.pool.seal("@prod:x")
    for refused in (
        lambda: nodes.one.pool.seal(id),
        lambda: nodes.one.pool.write(id, 0, b"1"),
        lambda: nodes.one.pool.free(id),
        lambda: nodes.one.pool.read(plasmon.Address(id), [(0, 1)]),
    ):
        with pytest.raises(plasmon.BadRequest, match="no region"):
            refused()
    with pytest.raises(plasmon.BadRequest, match="no node"):
        nodes.one.pool.allocate(1, node="nowhere")
    with pytest.raises(plasmon.BadRequest, match="1 to 8 copies"):
        nodes.one.pool.allocate(1, 9)
    with pytest.raises(ValueError, match="copies is 1 to 8 nodes"):
        nodes.one.pool.allocate(1, 0)
    with pytest.raises(plasmon.TooLarge):
        nodes.one.pool.allocate(1 << 40)


def test_a_store_without_a_pool_says_so(store):
    with pytest.raises(plasmon.Unreachable, match="no pool daemon"):
        store.pool.allocate(1)
