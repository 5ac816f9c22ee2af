"""Objects of which one word changes in the middle of reading: each word, and many times.

What was checked can be something else when it is used, because the memory of an object may be
written to while it is read. ``changing.py`` has another process write at random; here the value's
own code, a deserializer, writes one word after the check, so that every word has its turn and a run
is the same each time. Any outcome is fine, an error too; a crash is not::

    python one_word.py
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import struct
from collections.abc import Callable
from typing import Any

from changing import look

from plasmon import SerializationContext

#: Enough for rows, a form of containers that are alike.
ROWS = 9


class Trigger:
    """Its deserializer changes the memory."""

    action: Callable[[], None] = staticmethod(lambda: None)

    @classmethod
    def pull(cls, _value: Any) -> Trigger:
        cls.action()
        return cls()


def context() -> SerializationContext:
    made = SerializationContext("never")
    made.register(Trigger, serializer=lambda _: None, deserializer=Trigger.pull)
    return made


def values() -> list[Any]:
    """Values with rows, runs and nodes that could be taken for one another."""
    return [
        {(n, f"{n}"): (n, n / 2) for n in range(ROWS)},
        [[(n, n) for n in range(ROWS)], [(n, "x") for n in range(ROWS)]],
        [{"a": (n, n), "b": (n, "y")} for n in range(ROWS)],
        [[[n], {n}, {"key": n}] for n in range(3)],
    ]


def read_changed(known: SerializationContext, original: bytes, at: int, word: int) -> Any:
    """The value of an object whose word at a place changes to another while it is read."""
    memory = bytearray(original)
    Trigger.action = lambda: struct.pack_into("<I", memory, 4 * at, word)
    return known.loads(memory)


def main() -> None:
    faulthandler.enable()
    known = context()
    read = failed = 0
    for value in values():
        for parts in ([value, Trigger()], [Trigger(), value]):
            original = known.dumps(parts)
            words = struct.unpack_from(f"<{len(original) // 4}I", original)
            others = sorted({word for word in words if word < 64} | {1, 2, 3})
            for at, was in enumerate(words):
                for word in others:
                    if word == was:
                        continue
                    try:
                        got = read_changed(known, original, at, word)
                    except Exception:
                        failed += 1
                    else:
                        read += 1
                        with contextlib.suppress(Exception):
                            look(got)
            # What is held by nothing is looked at by the collector.
            gc.collect()
    print(f"none crashed: {read} values, {failed} errors", flush=True)


if __name__ == "__main__":
    main()
