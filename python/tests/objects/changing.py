"""Objects whose memory is written to while they are read.

At the level "leased" a writer keeps its mapping of an object that it has sealed. So what was
checked can be something else when it is used. Here another process flips words of objects while
``loads`` reads them, over and over. Any outcome is fine, an error too; a crash is not. Each round
has its own seed, though two processes never run the same twice::

    python changing.py --rounds 1000 --seed 1

Run it with PYTHONMALLOC=debug: what lies outside of an object is then more often no value.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import faulthandler
import mmap
import os
import random
import resource
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from plasmon import SerializationContext

#: How long the memory of one object is written to.
ROUND_S = 0.05
#: How often a word is written before it is another's turn.
FLIPS = 300
#: A size that was flipped must not make the machine run out of memory.
MEMORY_MAX = 8 << 30

VECTORS = Path(__file__).parents[3] / "spec" / "objects"

#: Numbers that lead elsewhere.
WORDS = [0, 1, 2, 3, 7, 64, 255, 256, 1 << 15, 1 << 20, (1 << 31) - 1, (1 << 32) - 1]


@dataclasses.dataclass
class Point:
    x: int
    y: float
    name: str


def context() -> SerializationContext:
    made = SerializationContext("never")
    made.register(Point)
    return made


def values() -> list[Any]:
    """Values that have something in every table."""
    shared = ["shared"]
    knot: list[Any] = [shared, shared]
    knot.append(knot)
    ring = np.empty((3, 2), "O")
    ring[:] = None
    ring[0, 0] = {"ring": ring}
    return [
        [1, 2**40, 1.5, "text", b"bytes", None, True, [1, [2, [3]]]],
        [f"text {n}" for n in range(50)],
        ["größer", "ascii", "ż" * 40, "x"] * 8,
        ["long " * 4000, "größer" * 4000, b"y" * 20_000],
        [np.arange(10), np.ones((4, 5)), np.arange(24.0).reshape(4, 6)[::2, 1:4]],
        [np.full((3, 4), None, "O"), np.array([[1], ["a"]], "O"), ring],
        [memoryview(bytes(100)), memoryview(np.arange(6).reshape(2, 3))],
        [Point(n, n / 2, f"point {n}") for n in range(30)],
        [{"a": n, "b": [n]} for n in range(30)],
        [(n, (n, "x")) for n in range(30)],
        {f"key {n}": {n, n + 1} for n in range(20)},
        knot,
        [collections.deque([1, 2]), collections.OrderedDict(a=1), complex(1, 2), 2**100],
        [frozenset([1, 2]), {"x", "y"}, (None,) * 9, [True, False] * 9, [None] * 99],
    ]


def small_values() -> list[Any]:
    """Values of few words, so that each of them is written to often."""
    return [
        np.arange(10),
        np.arange(6.0).reshape(2, 3).T,
        np.full((4, 50), None, "O"),
        memoryview(np.arange(6).reshape(2, 3)),
        "ascii, and more than a few bytes of it, so that it is copied at once",
        "x" * 20_000,
        [1, 2, 3],
        [[1], ["a"]],
        {"key": 1.5},
        Point(1, 2.0, "x"),
    ]


def originals() -> list[bytes]:
    known = context()
    made = [known.dumps(one, form=form) for one in values() for form in ("small", "stream")]
    made += [known.dumps(one) for one in small_values() for _ in range(6)]
    kept = (path.read_bytes() for path in sorted(VECTORS.glob("*.plo")))
    return made + [data for data in kept if len(data) < 50_000]


def flip(memory: mmap.mmap, original: bytes, rng: random.Random) -> None:
    """Writes words, and what was there before, until this process is ended, or its parent is."""
    parent = os.getppid()
    end = len(original) // 4
    # Where the tables are is where it matters most.
    front = max(1, min(end, rng.choice([40, 400, end])))
    words = (ctypes.c_uint32 * end).from_buffer(memory)
    whole = list((ctypes.c_uint32 * end).from_buffer_copy(original[: 4 * end]))
    places = [end - 1 - rng.randrange(front) if rng.random() < 0.3 else rng.randrange(front)]
    places += [rng.randrange(end) for _ in range(rng.randrange(3))]
    while os.getppid() == parent:
        for place in places:
            was = whole[place]
            word = rng.choice([rng.choice(WORDS), was + 1, was ^ 1 << rng.randrange(32)])
            word &= 0xFFFF_FFFF
            for _ in range(FLIPS):
                words[place] = word
                words[place] = was
        if rng.random() < 0.1:
            places[rng.randrange(len(places))] = rng.randrange(front)


def look(value: Any, depth: int = 0) -> None:
    """Looks at everything in a value."""
    if isinstance(value, str):
        # Of a string that says that it is ASCII the encoder takes the bytes as they are. With other
        # ones among them an iterator over its characters would crash.
        if value.isascii() and not value.encode().isascii():
            raise SystemExit(f"a string of ASCII with other bytes: {value.encode()!r}")
        assert value.isascii() == all(ord(character) < 128 for character in value[:50_000])
        value.encode("utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray):
        value.tolist() if not value.dtype.hasobject else repr(value.shape)
    elif isinstance(value, memoryview):
        bytes(value)
    elif depth < 20 and isinstance(value, list | tuple | set | frozenset):
        for item in list(value)[:200]:
            look(item, depth + 1)
    elif depth < 20 and isinstance(value, dict):
        look(list(value.items())[:200], depth + 1)
    elif isinstance(value, Point):
        look(list(vars(value).values()), depth + 1)


def play(seed: int, data: list[bytes]) -> tuple[int, int]:
    """One round: how many values there were, and how many errors."""
    rng = random.Random(seed)
    original = rng.choice(data)
    known = context()
    memory = mmap.mmap(-1, len(original))
    memory[:] = original
    child = os.fork()
    if child == 0:
        flip(memory, original, rng)
        os._exit(0)
    read = failed = 0
    end = time.monotonic() + ROUND_S
    try:
        while time.monotonic() < end:
            try:
                value = known.loads(memory)
                read += 1
            except Exception:
                failed += 1
            else:
                with contextlib.suppress(Exception):
                    look(value)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return read, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    data = originals()
    end = time.monotonic() + options.seconds
    done = read = failed = 0
    while done < options.rounds and time.monotonic() < end:
        # Before the round: a crash leaves nothing to say it.
        print(f"seed {options.seed + done}", flush=True)
        values_, errors = play(options.seed + done, data)
        done, read, failed = done + 1, read + values_, failed + errors
    print(f"{done} rounds, none crashed: {read} values, {failed} errors", flush=True)


if __name__ == "__main__":
    main()
