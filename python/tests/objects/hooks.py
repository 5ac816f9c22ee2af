"""Values that change themselves while they are serialized.

A value's own code runs while it is taken apart: ``__reduce_ex__``, ``__getattr__``, a metaclass's
``__hash__``, descriptors, finalizers, trace functions. Here such code, and a second thread, empties
and fills the containers, and reshapes the arrays, of the very value that is being serialized. Any
outcome is fine, an error too; a crash is not. Each round has its own seed::

    python hooks.py --rounds 1000 --seed 1        # seeds 1 to 1000
    python hooks.py --rounds 1 --seed 317         # one of them again

Run it with PYTHONMALLOC=debug: what is read after it was freed is then no pointer.
"""

from __future__ import annotations

import argparse
import contextlib
import copyreg
import dataclasses
import decimal
import faulthandler
import functools
import gc
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from plasmon import SerializationContext

#: How many items the larger containers have, and new contents.
ITEMS = 40
#: About how many items a value has in all.
VALUE_ITEMS = 600


class Scene:
    """The containers of the value of this round, and what is done to them."""

    armed = False
    busy = False
    #: Whether no other thread is at work.
    alone = True
    #: How many items the value may still get.
    left = 0
    rng = random.Random(0)
    containers: ClassVar[list[Any]] = []
    #: What is in the memory that was freed a moment ago.
    churn: ClassVar[list[Any]] = []

    @classmethod
    def keep(cls, container: Any) -> Any:
        cls.containers.append(container)
        return container

    @classmethod
    def disturb(cls) -> None:
        """Changes some of the containers, if this is the moment to."""
        if not cls.armed or cls.busy or not cls.containers or cls.rng.random() < 0.5:
            return
        cls.busy = True
        try:
            for _ in range(cls.rng.randrange(1, 4)):
                with contextlib.suppress(Exception):
                    change(cls.rng.choice(cls.containers), cls.rng)
            cls.churn.append([object() for _ in range(ITEMS)])
            del cls.churn[: -cls.rng.randrange(1, 4)]
            if cls.rng.random() < 0.1:
                gc.enable()
                gc.collect(0)
        finally:
            cls.busy = False


def change(container: Any, rng: random.Random) -> None:
    """Takes items out of a container, puts others in, or gives an array another form."""
    kinds = (kind for kind in CHANGES if isinstance(container, kind))
    rng.choice(CHANGES[next(kinds, object)])(container, rng)


def reshape(array: Any, rng: random.Random) -> None:
    if array.dtype.hasobject:
        array.fill(None)
    elif Scene.alone:
        # With two threads at it, this is a crash in NumPy.
        array.resize(rng.randrange(1, 2000), refcheck=False)


def compute(kind: Any, rng: random.Random) -> None:
    if "x" in vars(kind):
        del kind.x
    else:
        kind.x = property(lambda self: (Scene.disturb(), rng.random())[1])


def rename(one: Any, rng: random.Random) -> None:
    one.__dict__ = {Key("x"): 1, "x": [rng.random()], "y": "new"}


def refill(container: Any, rng: random.Random) -> None:
    container.clear()
    container.update(f"item {rng.random()}" for _ in range(ITEMS))


#: What is done to a container of a type.
CHANGES: dict[type, list[Callable[[Any, random.Random], Any]]] = {
    list: [
        lambda it, _: it.clear(),
        lambda it, rng: it.extend([rng.random(), "new"] * ITEMS),
        lambda it, _: it.__delitem__(slice(len(it) // 2, None)),
        lambda it, rng: it.__setitem__(slice(None), [Reduced(n) for n in range(rng.randrange(9))]),
        lambda it, _: it.reverse(),
    ],
    dict: [
        lambda it, _: it.clear(),
        lambda it, rng: it.update((f"key {n} {rng.random()}", [n]) for n in range(ITEMS)),
    ],
    set: [refill],
    np.ndarray: [
        reshape,
        lambda it, _: setattr(it, "shape", (-1,)),
        lambda it, rng: setattr(it, "dtype", rng.choice(["u1", "i8", "f4"])),
        lambda it, _: it.fill(1),
    ],
    bytearray: [lambda it, _: it.extend(b"x" * ITEMS)],
    type: [compute, lambda it, rng: setattr(it, "version", rng.random())],
    object: [
        rename,
        lambda it, _: vars(it).clear(),
        lambda it, rng: vars(it).update(x=[rng.random()], y=None, z="more"),
    ],
}


class Meta(type):
    """A class that is a key in some dict says something each time."""

    def __hash__(cls) -> int:
        Scene.disturb()
        return 1

    def __eq__(cls, other: object) -> bool:
        Scene.disturb()
        return cls is other


class Key(str):
    """A name that is looked at when a plain one of the same hash is looked for."""

    __slots__ = ()

    def __hash__(self) -> int:
        Scene.disturb()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Scene.disturb()
        return str.__eq__(self, other)


class Hashed(metaclass=Meta):
    def __init__(self, x: Any) -> None:
        self.x = x


class Reduced:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __reduce_ex__(self, protocol: Any) -> Any:
        Scene.disturb()
        if repr(self.x).endswith("7"):
            return Reduced, (self.x,), {"more": [self.x]}
        return Reduced, (self.x,)


class Stateful:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __getstate__(self) -> Any:
        Scene.disturb()
        return {"x": self.x}

    def __setstate__(self, state: Any) -> None:
        Scene.disturb()
        self.__dict__.update(state)


@dataclasses.dataclass
class Missing:
    """One of them may lack an attribute."""

    x: Any
    y: Any

    def __getattr__(self, name: str) -> Any:
        Scene.disturb()
        if name.startswith("__"):
            raise AttributeError(name)
        return Scene.churn


@dataclasses.dataclass
class Plain:
    x: Any
    y: Any


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x", "y")
    x: Any
    y: Any


class Computed:
    def __init__(self, x: Any) -> None:
        self.a = x

    @functools.cached_property
    def x(self) -> Any:
        Scene.disturb()
        return [self.a]

    @property
    def y(self) -> Any:
        Scene.disturb()
        return self.a


class Served:
    def __init__(self, x: Any) -> None:
        self.x = x


class Garbage:
    """Part of a cycle: the collector finds it when it wants to."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Scene.disturb()


def serve(one: Served) -> Any:
    Scene.disturb()
    return [one.x]


def context() -> SerializationContext:
    made = SerializationContext("std")
    made.register(Missing)
    made.register(Plain)
    made.register(Slotted)
    made.register(Served, serializer=serve, deserializer=lambda state: Served(state[0]))
    return made


def leaf(rng: random.Random) -> Any:
    return rng.choice(
        [
            lambda: rng.randrange(1000),
            lambda: rng.randrange(2**200) - 2**199,
            rng.random,
            lambda: f"text {rng.randrange(10)}",
            lambda: "größer" * rng.randrange(4),
            lambda: "\ud800 alone",
            lambda: "long " * 2000,
            lambda: b"bytes",
            lambda: None,
            lambda: True,
            lambda: decimal.Decimal(rng.randrange(100)),
            lambda: np.float32(1.5),
            lambda: complex(1, 2),
            lambda: Scene.keep(bytearray(b"lent")),
        ]
    )()


def array(rng: random.Random) -> Any:
    kind = rng.randrange(5)
    size = rng.randrange(1, 100)
    if kind == 0:
        return Scene.keep(np.arange(float(size)))
    if kind == 1:
        return Scene.keep(np.zeros(size, [(f"f{rng.randrange(10**6)}", "i4"), ("b", "f8")]))
    if kind == 2:
        return Scene.keep(np.array([Reduced(n) for n in range(size)], "O"))
    if kind == 3:
        return Scene.keep(np.arange(4 * size)).reshape(size, 4)[::2, 1:3]
    return Scene.keep(np.array([f"{n}" for n in range(size)]))


def one_of(rng: random.Random, depth: int) -> Callable[[], Any]:
    """Makes objects of one class or kind."""
    inner = (lambda: build(rng, depth - 1)) if depth > 0 else (lambda: leaf(rng))
    if depth > 0 and rng.random() < 0.3:
        return inner
    simple = lambda: leaf(rng) if rng.random() < 0.9 else inner()  # noqa: E731
    classes: list[Callable[[], Any]] = [
        lambda: Hashed(simple()),
        lambda: Reduced(simple()),
        lambda: Stateful(simple()),
        lambda: Missing(rng.randrange(9), simple()),
        lambda: Plain(rng.randrange(9), simple()),
        lambda: Slotted(rng.randrange(9), simple()),
        lambda: Computed(simple()),
        lambda: Served(simple()),
        lambda: array(rng),
        lambda: memoryview(bytes(8)),
        lambda: {"a": rng.randrange(9), "b": simple()},
        lambda: (rng.random(), simple()),
        lambda: leaf(rng),
        lambda: rng.randrange(2**70),
    ]
    return rng.choice(classes)


def build(rng: random.Random, depth: int) -> Any:
    """A container of a kind of things, or of several."""
    makers = [one_of(rng, depth) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
    count = rng.choice([1, 3, 9, 20, ITEMS]) if Scene.left > 0 else 2
    Scene.left -= count
    items = [rng.choice(makers)() for _ in range(count)]
    for item in items:
        if hasattr(item, "__dict__") and rng.random() < 0.2:
            Scene.keep(item)
    if len(items) > 2 and rng.random() < 0.5:
        # Something is missing in the middle, or there twice, or has a name that compares itself.
        odd = items[len(items) // 2]
        if isinstance(odd, Missing | Slotted | Plain) and hasattr(odd, "x"):
            del odd.x
        elif hasattr(odd, "__dict__") and isinstance(odd, Plain | Hashed):
            odd.__dict__ = {Key("x"): 1, "y": 2}
        items.append(items[0])
    kind = rng.randrange(6)
    if kind < 3:
        return Scene.keep(items)
    if kind == 3:
        return Scene.keep({f"key {n}": item for n, item in enumerate(items)})
    if kind == 4:
        with contextlib.suppress(TypeError):
            return Scene.keep(dict.fromkeys(items, 1))
        return tuple(items)
    return tuple(items)


def plain(value: Any) -> Any:
    """A value with its objects' attributes, to be compared."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, plain(value.tolist())]
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Missing):
        # Its fields are written as it gives them, also those that it lacks.
        return [plain(value.x), plain(value.y)]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return type(value).__name__, sorted((str(k), plain(v)) for k, v in vars(value).items())
    if isinstance(value, Slotted):
        return [plain(getattr(value, name, None)) for name in ("x", "y")]
    return repr(value)


def compare(value: Any) -> None:
    """While nothing is disturbed, what comes back is what pickle gives back."""
    known = context()
    try:
        wanted = plain(pickle.loads(pickle.dumps(value, 5)))
    except (TypeError, AttributeError, pickle.PicklingError):
        return
    try:
        found = plain(known.loads(known.dumps(value)))
    except (TypeError, ValueError, AttributeError, RecursionError):
        # Such as an attribute that a registered class should have.
        return
    assert found == wanted, difference(found, wanted)


def difference(found: Any, wanted: Any) -> str:
    """The innermost parts that differ."""
    nested = isinstance(found, list | tuple) and isinstance(wanted, list | tuple)
    if nested and len(found) == len(wanted):
        pairs = zip(found, wanted, strict=True)
        return next(difference(one, other) for one, other in pairs if one != other)
    return f"{found!r:.500} is not {wanted!r:.500}"


@contextlib.contextmanager
def disturbing(rng: random.Random, value: Any) -> Iterator[None]:
    """Everything that runs while a value is serialized disturbs it."""
    ending = threading.Event()

    def shake() -> None:
        mine = random.Random(rng.random())
        while not ending.is_set():
            with contextlib.suppress(Exception):
                change(mine.choice(Scene.containers), mine)

    def trace(frame: Any, event: str, argument: Any) -> Any:
        Scene.disturb()
        return trace

    thread = threading.Thread(target=shake) if rng.random() < 0.3 else None
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    callback = lambda phase, info: Scene.disturb()  # noqa: E731
    gc.callbacks.append(callback)
    gc.set_threshold(rng.choice([1, 10, 700]), 2, 2)
    for _ in range(rng.randrange(20)):
        Garbage()
    Scene.alone = thread is None
    Scene.armed = True
    if thread is not None:
        sys.setswitchinterval(1e-6)
        thread.start()
    if rng.random() < 0.3:
        sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        Scene.armed = False
        ending.set()
        if thread is not None:
            thread.join()
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)


def play(seed: int) -> None:
    """One round."""
    rng = Scene.rng = random.Random(seed)
    Scene.containers.clear()
    Scene.churn.clear()
    Scene.left = VALUE_ITEMS
    value = build(rng, rng.randrange(1, 4))
    if rng.random() < 0.3:
        compare(value)
    known = context()
    if rng.random() < 0.5:
        # The classes are known then, and may change afterwards.
        with contextlib.suppress(Exception):
            known.dumps(value)
    if rng.random() < 0.3:
        Scene.containers.extend([Plain, Hashed, Missing])
    if not Scene.containers:
        Scene.keep([])
    data = None
    with disturbing(rng, value), contextlib.suppress(Exception):
        if rng.random() < 0.3:
            ready = known.serialize(value)
            Scene.disturb()
            data = bytes(ready.to_buffer())
        else:
            data = known.dumps(value)
    if data is not None:
        with disturbing(rng, value), contextlib.suppress(Exception):
            known.loads(data)
    for kind in (Plain, Hashed, Missing):
        if "x" in vars(kind):
            del kind.x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    faulthandler.enable()
    # A finalizer or a trace function that raises is told of, and is no fault here.
    sys.unraisablehook = lambda _: None
    copyreg.pickle(Garbage, lambda one: (Garbage, ()))
    end = time.monotonic() + options.seconds
    done = 0
    while done < options.rounds and time.monotonic() < end:
        # Before the round: a crash leaves nothing to say it.
        print(f"seed {options.seed + done}", flush=True)
        play(options.seed + done)
        done += 1
    print(f"{done} rounds, none crashed", flush=True)


if __name__ == "__main__":
    main()
