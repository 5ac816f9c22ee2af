"""Waiting inside an event loop, by descriptors that it watches. No threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plasmon._native import PendingWait


async def readable(fd: int) -> None:
    """Returns when there is something to read on ``fd``."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def answer(pending: PendingWait) -> list[str]:
    """The states that a wait ends with; a cancelled task cancels the wait."""
    try:
        while True:
            states = pending.poll()
            if states is not None:
                return states
            await readable(pending.fileno())
    finally:
        pending.close()
