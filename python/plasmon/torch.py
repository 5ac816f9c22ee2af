"""PyTorch's tensors as objects: in the processor's memory, dense or sparse (COO), of any type.

A write copies a tensor's elements once, directly into the object. A read copies them out again by
default, because a tensor cannot be read-only: a program that changed one on the store's memory
would be ended by the kernel. Programs that only read can avoid that copy::

    with plasmon.torch.in_place():
        weights = store.get("weights")      # on the object's memory: never change it

In the format a tensor is an object of the class ``torch:tensor`` made of NumPy arrays, so that
other languages read it, too. Importing this module does not import PyTorch.
"""

from __future__ import annotations

import contextlib
import contextvars
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from plasmon.objects._errors import BrokenObject, broken

__all__ = ["in_place", "make_tensor", "take_tensor"]

_is_in_place = contextvars.ContextVar("plasmon.torch.in_place", default=False)

#: The attributes of a tensor besides its elements.
_REQUIRES_GRAD, _PARAMETER = 1, 2

#: Types that NumPy has not, and the integers that their elements are kept as, by their size.
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}

_LAYOUTS = ("strided", "sparse_coo")


@contextlib.contextmanager
def in_place() -> Iterator[None]:
    """Within it tensors are read without a copy, on memory that must not be changed.

    Writing to such a tensor, also by an operation in place such as ``add_`` or by an optimizer,
    ends the process with SIGSEGV. It holds for this thread (or asyncio task).
    """
    token = _is_in_place.set(True)
    try:
        yield
    finally:
        _is_in_place.reset(token)


def _torch() -> Any:
    try:
        import torch
    except ImportError as missing:
        raise LookupError("the value has a tensor, and reading it needs PyTorch") from missing
    return torch


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _array_of(tensor: Any) -> Any:
    """The elements of a dense tensor as an array on its memory; its strides stay."""
    import numpy as np

    tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if not hasattr(np, _name(tensor.dtype)):
        tensor = tensor.view(getattr(_torch(), _INTEGERS[tensor.element_size()]))
    return tensor.numpy()


def _copied(array: Any) -> Any:
    """A tensor with the elements and strides of an array, on memory of its own.

    What is copied is the memory from the first to the last element, however often the strides say
    that it is used: a few bytes cannot become a large tensor.
    """
    import numpy as np

    torch = _torch()
    if array.flags.c_contiguous or not array.size:
        return torch.from_numpy(np.array(array, order="C"))
    steps = [divmod(stride, array.itemsize) for stride in array.strides]
    if any(step < 0 or rest for step, rest in steps):
        raise _broken()
    strides = [step for step, _ in steps]
    count = 1 + sum((extent - 1) * step for extent, step in zip(array.shape, strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,), writeable=False)
    return torch.from_numpy(flat.copy()).as_strided(array.shape, strides)


def _tensor_of(array: Any, dtype: str) -> Any:
    """A dense tensor of an array that :func:`_array_of` gave, in the type that it had."""
    torch = _torch()
    if not _is_in_place.get():
        tensor = _copied(array)
    else:
        with warnings.catch_warnings():
            # That the array is read-only, and that the tensor cannot express this.
            warnings.simplefilter("ignore")
            tensor = torch.from_numpy(array)
    wanted = getattr(torch, dtype)
    return tensor if tensor.dtype == wanted else tensor.view(wanted)


def _broken() -> BrokenObject:
    return broken("a tensor made of the wrong contents")


def take_tensor(tensor: Any) -> tuple[Any, ...]:
    """A tensor in the form of ``__reduce_ex__``'s result: what makes it, and arrays.

    Raises TypeError for one that is not in the processor's memory.
    """
    if tensor.device.type != "cpu":
        raise TypeError(f"cannot serialize a tensor on {tensor.device}: move it with .cpu()")
    layout = _name(tensor.layout)
    is_plain = layout in _LAYOUTS and not tensor.is_quantized and not tensor.is_nested
    if not is_plain or getattr(tensor, "__dict__", None):
        reduced: tuple[Any, ...] = tensor.__reduce_ex__(5)
        return reduced
    return make_tensor, _parts(tensor, layout)


def _parts(tensor: Any, layout: str) -> tuple[Any, ...]:
    is_parameter = type(tensor).__name__ == "Parameter"
    flags = _REQUIRES_GRAD * bool(tensor.requires_grad) | _PARAMETER * is_parameter
    if layout == "strided":
        return layout, _name(tensor.dtype), flags, _array_of(tensor)
    tensor = tensor.detach().coalesce()
    arrays = _array_of(tensor.values()), _array_of(tensor.indices())
    return layout, _name(tensor.dtype), flags, *arrays, tuple(tensor.shape)


def make_tensor(layout: str, dtype: str, flags: int, *parts: Any) -> Any:
    """The tensor of what :func:`take_tensor` gave. Runs no code of its writer.

    ``dtype`` is the name of the type, ``flags`` is 1 for a tensor that requires gradients, plus 2
    for a parameter. The parts of a dense tensor are one array of any shape; those of a sparse one
    its values (n), its indices (dimensions, n) and its shape.

    Raises BrokenObject for anything else, also for indices outside of the shape.
    """
    import numpy as np

    torch = _torch()
    are_strings = type(layout) is str and type(dtype) is str and type(flags) is int
    is_type = are_strings and isinstance(getattr(torch, dtype, None), torch.dtype)
    count = {"strided": 1, "sparse_coo": 3}.get(layout) if are_strings else None
    if not is_type or len(parts) != count or type(parts[0]) is not np.ndarray:
        raise _broken()
    try:
        return _made(layout, dtype, flags, parts)
    except RuntimeError as refused:
        # PyTorch's word for arrays and shapes that don't fit together.
        raise _broken() from refused


def _made(layout: str, dtype: str, flags: int, parts: tuple[Any, ...]) -> Any:
    torch = _torch()
    if layout == "strided":
        tensor = _tensor_of(parts[0], dtype)
    else:
        values, indices, shape = parts
        where = _tensor_of(indices, "int64")
        # Unchecked, indices outside of the shape would be places outside of the memory.
        values = _tensor_of(values, dtype)
        tensor = torch.sparse_coo_tensor(where, values, shape, check_invariants=True).coalesce()
    if flags & _PARAMETER:
        return torch.nn.Parameter(tensor, requires_grad=bool(flags & _REQUIRES_GRAD))
    return tensor.requires_grad_() if flags & _REQUIRES_GRAD else tensor


#: For :mod:`plasmon.objects._format_types`: by module and name of the type, and by name in the
#: format.
TAKERS: dict[tuple[str, str], Callable[[Any], tuple[Any, ...]]] = {
    ("torch", "Tensor"): take_tensor,
    ("torch.nn.parameter", "Parameter"): take_tensor,
}
CALLABLES: dict[str, Callable[..., Any]] = {"torch:tensor": make_tensor}
