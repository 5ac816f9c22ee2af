"""What the tests of the Plasma module share.

They describe Plasma's behaviour, so they run against either implementation: `PLASMA_MODULE` names
it, `plasmon.plasma` unless told otherwise. With `PLASMA_MODULE=pyarrow.plasma` (in an environment
with pyarrow 11) the reference itself is tested, which shows that the tests ask for what Plasma did.
Where Plasmon keeps a better promise the test is marked `improved` and the reference skips it.
"""

from __future__ import annotations

import importlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any, TypeVar

import pytest

MODULE = os.environ.get("PLASMA_MODULE", "plasmon.plasma")
IS_REFERENCE = MODULE == "pyarrow.plasma"

# Longer than anything takes on a busy machine.
DEADLINE_S = 30.0

Result = TypeVar("Result")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "improved: a promise that Plasma itself does not keep")
    config.addinivalue_line("filterwarnings", "ignore:Plasma is deprecated:DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore:'serialization_context':FutureWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not IS_REFERENCE:
        return
    for item in items:
        if item.get_closest_marker("improved"):
            item.add_marker(pytest.mark.skip(reason="Plasma does not keep this promise"))


def finish(work: Callable[[], Result]) -> Result:
    """What `work` returns, or a failure instead of a test that never ends."""
    outcome: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), "the call did not return in time"
    if raised:
        raise raised[0]
    return outcome[0]


class Running:
    """A store that runs, and the clients that a test connected to it."""

    def __init__(self, plasma: ModuleType, name: str, process: Any) -> None:
        self.plasma = plasma
        self.name = name
        self.process = process
        self.clients: list[Any] = []
        self.events: list[Events] = []

    def connect(self) -> Any:
        client = self.plasma.connect(self.name)
        self.clients.append(client)
        return client

    def subscribe(self) -> Events:
        client = self.connect()
        client.subscribe()
        return self.listen(client)

    def listen(self, client: Any) -> Events:
        events = Events(client)
        self.events.append(events)
        return events

    def leave(self) -> None:
        for events in self.events:
            events.socket.close()
        for client in self.clients:
            client.disconnect()


class Events:
    """The notifications of one client, read from its socket as an event loop would."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.socket: socket.socket = client.get_notification_socket()
        self.socket.settimeout(DEADLINE_S)

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = self.socket.recv(count)
            assert part, "the notification socket ended"
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def message(self) -> bytes:
        (length,) = struct.unpack("=q", self._read(8))
        return self._read(length)

    def next(self) -> list[tuple[Any, int, int]]:
        """The objects of the next message, with the sizes of their data and metadata."""
        ids, data_sizes, metadata_sizes = self.client.decode_notifications(self.message())
        return list(zip(ids, data_sizes, metadata_sizes, strict=True))

    def wait_for(self, object_id: Any) -> tuple[int, int]:
        """The sizes in the next notification about this object."""
        while True:
            for found, data_size, metadata_size in self.next():
                if found == object_id:
                    return data_size, metadata_size


@pytest.fixture(scope="session")
def plasma() -> ModuleType:
    return importlib.import_module(MODULE)


@pytest.fixture
def start(plasma: ModuleType) -> Iterator[Callable[..., Running]]:
    """Starts stores that end with the test."""
    with ExitStack() as stack:

        def start_one(capacity: int, **options: Any) -> Running:
            store = plasma.start_plasma_store(capacity, **options)
            name, process = stack.enter_context(store)
            running = Running(plasma, name, process)
            stack.callback(running.leave)
            return running

        yield start_one


@pytest.fixture
def running(start: Callable[..., Running]) -> Running:
    """A store of 100 MB."""
    return start(100_000_000)


@pytest.fixture
def client(running: Running) -> Any:
    return running.connect()


@pytest.fixture
def other(running: Running) -> Any:
    return running.connect()


@pytest.fixture
def make_id(plasma: ModuleType) -> Callable[[int], Any]:
    """Ids that a person can tell apart."""

    def make(number: int) -> Any:
        return plasma.ObjectID(number.to_bytes(4, "big") * 5)

    return make
