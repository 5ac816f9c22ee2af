"""Reads Python objects in the PLO format with nothing but pyarrow.

One folder to copy into any program; it needs neither Plasmon nor NumPy. ``spec/objects.md`` is the
format. :func:`read` goes through four stages:

    bytes ── buffers ──► tables ── check ──► tables that keep every rule ── build ──► the value
             (pyarrow reads the stream form; the small form is cut up)

What Python has by itself comes back as itself. Everything else is plain data: arrays are
:class:`Tensor`, objects of classes are :class:`Object`, whatever would have to be imported or
unpickled is named and left alone (:class:`Global`, :class:`Pickle`). So reading never runs code
that the bytes choose; bytes that break a rule of the format raise :class:`PloError`.

No function here calls itself for a value inside of a value: depth has no limit.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from .buffers import small, stream
from .build import Build
from .check import Check
from .values import (
    ArrowData,
    Dtype,
    Global,
    Object,
    ObjectArray,
    Pickle,
    PloClass,
    PloError,
    Scalar,
    Tensor,
    Zone,
)

__all__ = [
    "ArrowData",
    "Dtype",
    "Global",
    "Object",
    "ObjectArray",
    "Pickle",
    "PloClass",
    "PloError",
    "Scalar",
    "Tensor",
    "Zone",
    "read",
]


def read(data: Any) -> Any:
    """The value of the object at the front of ``data``, which is bytes or a buffer of any kind.

    Tensors are views of ``data``. Raises :class:`PloError` when a rule of the format is broken.
    """
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    try:
        is_small = buffer[:4].to_pybytes() == b"PLO1"
        tables = small(buffer) if is_small else stream(buffer)
        Check(tables).run()
        return Build(tables).run()
    except PloError:
        raise
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        pa.ArrowException,
        struct.error,
    ) as error:
        raise PloError(f"the object is broken: {error}") from error
