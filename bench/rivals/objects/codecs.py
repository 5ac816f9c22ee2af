"""The rivals: how each turns a value into bytes and back.

Each codec is used as its documentation says and at its best: contexts and encoders are made once,
classes are registered where that is possible, msgspec is told the type that it decodes.
"""

from __future__ import annotations

import io
import marshal
import mmap
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.rivals.objects import values
from bench.rivals.protocol import UnsupportedError

warnings.simplefilter("ignore")
ALIGNMENT = 64


class Way(NamedTuple):
    """One way in which a codec can be used."""

    dumps: Callable[[Any], Any]
    loads: Callable[[Any], Any]
    nbytes: Callable[[Any], int] = len
    #: Frees what `dumps` made, for codecs that keep it somewhere.
    drop: Callable[[list[Any]], None] = list.clear


class Codec:
    """A library that turns values into bytes and back."""

    def start(self, directory: str, capacity_bytes: int) -> None:
        """Prepares what lives as long as the worker."""

    def stop(self) -> None:
        """Ends what was started."""

    def versions(self) -> dict[str, str]:
        """The versions of what is measured."""
        return {}

    def way(self, name: str, case: str) -> Way:
        """A way to treat the object of a case; `""` is the usual one."""
        raise NotImplementedError

    def trial(self, mode: str) -> Way:
        """The way to treat values of any kind, for the table of correctness."""
        return self.way(mode, "")

    def lend(self, way: str, blob: Any, path: Path) -> dict[str, Any]:
        """Lays bytes out for another process; returns what it needs to take them."""
        path.write_bytes(blob)
        return {"path": str(path)}

    def take(self, way: str, lent: Mapping[str, Any]) -> Any:
        """The bytes that another process lent."""
        return Path(lent["path"]).read_bytes()


def _only(name: str, ways: Mapping[str, Way]) -> Way:
    if name not in ways:
        raise UnsupportedError(f"has no way {name!r}")
    return ways[name]


class OutOfBand(NamedTuple):
    """A pickle and its buffers, one after the other in one piece of memory."""

    memory: memoryview
    #: Where each part begins and how long it is; the pickle is the first.
    parts: list[tuple[int, int]]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _room(nbytes: int) -> memoryview:
    """Memory that begins at a multiple of 64, from where NumPy takes huge pages."""
    array: Any = np.empty(nbytes + ALIGNMENT, np.uint8)
    skipped = -array.ctypes.data % ALIGNMENT
    return memoryview(array)[skipped : skipped + nbytes]


class Pickle(Codec):
    """The standard library's, protocol 5, in-band and with its buffers beside it."""

    def __init__(self) -> None:
        self._warm = memoryview(b"")

    def versions(self) -> dict[str, str]:
        return {"Python": sys.version.split()[0], "numpy": np.__version__}

    def way(self, name: str, case: str) -> Way:
        protocol = pickle.HIGHEST_PROTOCOL
        ways = {
            "": Way(lambda value: pickle.dumps(value, protocol), pickle.loads),
            "out-of-band": Way(lambda value: self._apart(value, _room), *self._back()),
            "out-of-band, warm": Way(lambda value: self._apart(value, self._reused), *self._back()),
        }
        return _only(name, ways)

    def _back(self) -> tuple[Callable[[Any], Any], Callable[[Any], int]]:
        return self._together, lambda blob: blob.memory.nbytes

    def _reused(self, nbytes: int) -> memoryview:
        """The same memory each time, written before."""
        if len(self._warm) < nbytes:
            self._warm = memoryview(mmap.mmap(-1, _aligned(nbytes), flags=mmap.MAP_SHARED))
        return self._warm[:nbytes]

    @staticmethod
    def _apart(value: Any, room: Callable[[int], memoryview]) -> OutOfBand:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        pieces = [memoryview(head), *[buffer.raw() for buffer in buffers]]
        parts, end = [], 0
        for piece in pieces:
            parts.append((end, piece.nbytes))
            end += _aligned(piece.nbytes)
        memory = room(end)
        for (start, nbytes), piece in zip(parts, pieces, strict=True):
            memory[start : start + nbytes] = piece
        return OutOfBand(memory.toreadonly(), parts)

    @staticmethod
    def _together(blob: OutOfBand) -> Any:
        head, *rest = [blob.memory[start : start + nbytes] for start, nbytes in blob.parts]
        return pickle.loads(head, buffers=rest)

    def lend(self, way: str, blob: Any, path: Path) -> dict[str, Any]:
        if not way:
            return super().lend(way, blob, path)
        path.write_bytes(blob.memory)
        return {"path": str(path), "parts": blob.parts}

    def take(self, way: str, lent: Mapping[str, Any]) -> Any:
        if not way:
            return super().take(way, lent)
        memory = _room(Path(lent["path"]).stat().st_size)
        with Path(lent["path"]).open("rb") as file:
            file.readinto(memory)
        return OutOfBand(memory.toreadonly(), [(start, nbytes) for start, nbytes in lent["parts"]])


class Cloudpickle(Codec):
    """Writes what pickle cannot name, by value."""

    def versions(self) -> dict[str, str]:
        import cloudpickle  # type: ignore[import-not-found,unused-ignore]

        return {"cloudpickle": cloudpickle.__version__}

    def way(self, name: str, case: str) -> Way:
        import cloudpickle

        return _only(name, {"": Way(cloudpickle.dumps, cloudpickle.loads)})


class Marshal(Codec):
    """What the interpreter writes `.pyc` files with: few types, no checks, so nearly a floor."""

    def way(self, name: str, case: str) -> Way:
        return _only(name, {"": Way(marshal.dumps, marshal.loads)})


class Msgspec(Codec):
    """MessagePack; given the type of the objects whose type can be given."""

    TYPES: Mapping[str, Any] = {
        "dict_of_sets": dict[int, set[str]],
        "strings": list[str],
        "floats": list[float],
        "ints": list[int],
        "dict_str_float": dict[str, float],
        "dataclasses": list[values.Sample],
        "tuples": list[tuple[int, str, float]],
        "task_args": tuple[tuple[int, str, float], dict[str, list[int] | bool]],
    }

    def versions(self) -> dict[str, str]:
        import msgspec  # type: ignore[import-not-found,unused-ignore]

        return {"msgspec": msgspec.__version__}

    def way(self, name: str, case: str) -> Way:
        import msgspec

        decoder = msgspec.msgpack.Decoder(self.TYPES.get(case, Any))
        return _only(name, {"": Way(msgspec.msgpack.Encoder().encode, decoder.decode)})


class Pyfory(Codec):
    """Apache Fory, in its mode for Python alone."""

    def versions(self) -> dict[str, str]:
        import pyfory  # type: ignore[import-not-found,unused-ignore]

        return {"pyfory": pyfory.__version__}

    def way(self, name: str, case: str) -> Way:
        import pyfory

        fory = pyfory.Fory(xlang=False, ref=True, strict=False)
        if case == "dataclasses":
            fory.register_type(values.Sample)
        return _only(name, {"": Way(fory.serialize, fory.deserialize)})


class Pyarrow11(Codec):
    """The last serialization of pyarrow, which was removed after version 11."""

    def versions(self) -> dict[str, str]:
        import pyarrow

        return {"pyarrow.serialize": pyarrow.__version__}

    def way(self, name: str, case: str) -> Way:
        if name == "pickle":
            # Of this environment's older libraries, whose frames are not those of the others.
            return Way(lambda value: pickle.dumps(value, pickle.HIGHEST_PROTOCOL), pickle.loads)
        context: Any = self._context(everything=name == "pickling")
        if name == "":
            context.register_type(values.Sample, "Sample")
            context.register_type(values.Reduced, "Reduced", pickle=True)
        elif name not in {"default", "pickling"}:
            raise UnsupportedError(f"has no way {name!r}")
        return Way(
            lambda value: context.serialize(value).to_buffer(),
            context.deserialize,
            lambda blob: int(blob.size),
        )

    @staticmethod
    def _context(everything: bool) -> Any:
        import pyarrow

        old: Any = pyarrow
        context = old.default_serialization_context()
        if everything:
            context.set_pickle(pickle.dumps, pickle.loads)
            context.register_type(object, "object", pickle=True)
        return context


def named(name: str) -> Codec:
    """The codec of a side."""
    if name == "plasmon":
        from bench.ours.objects import Plasmon

        return Plasmon()
    if name == "floor":
        from bench.rivals.objects.floor import Floor

        return Floor()
    return _RIVALS[name]()


class Parquet(Codec):
    """Parquet files of pandas frames, in memory."""

    def versions(self) -> dict[str, str]:
        return _of_frames()

    def way(self, name: str, case: str) -> Way:
        import pandas as pd

        return _only(name, {"": Way(_file_of("to_parquet"), _frame_of(pd.read_parquet))})


class Feather(Codec):
    """Feather files of pandas frames, in memory."""

    def versions(self) -> dict[str, str]:
        return _of_frames()

    def way(self, name: str, case: str) -> Way:
        import pandas as pd

        return _only(name, {"": Way(_file_of("to_feather"), _frame_of(pd.read_feather))})


def _of_frames() -> dict[str, str]:
    import pandas as pd
    import pyarrow as pa

    return {"pandas": pd.__version__, "pyarrow": pa.__version__}


def _file_of(method: str) -> Callable[[Any], bytes]:
    def dumps(value: Any) -> bytes:
        if type(value).__name__ != "DataFrame":
            raise UnsupportedError("takes frames alone")
        file = io.BytesIO()
        getattr(value, method)(file)
        return file.getvalue()

    return dumps


def _frame_of(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    return lambda blob: read(io.BytesIO(blob))


_RIVALS: dict[str, type[Codec]] = {
    "feather": Feather,
    "parquet": Parquet,
    "pickle": Pickle,
    "cloudpickle": Cloudpickle,
    "marshal": Marshal,
    "msgspec": Msgspec,
    "pyfory": Pyfory,
    "pyarrow-11": Pyarrow11,
}
