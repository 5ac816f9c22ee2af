"""A stand-in for PyTorch: what plasmon.torch calls of it, made of NumPy arrays.

It is as strict as PyTorch where that matters: a tensor that requires gradients gives no array, one
of a type that NumPy has not gives none either, and arrays with negative strides become no tensor.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np


class Dtype:
    """An element type, named like PyTorch's."""

    def __init__(self, name: str, stored: str) -> None:
        self.name, self.stored = name, np.dtype(stored)

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Layout(str):
    """How a tensor is laid out."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"torch.{str.__str__(self)}"


_TYPES = {
    name: Dtype(name, name)
    for name in "float16 float32 float64 int8 uint8 int16 int32 int64 bool complex64".split()
}
_TYPES["bfloat16"] = Dtype("bfloat16", "int16")
_BY_NUMPY = {kind.stored: kind for name, kind in _TYPES.items() if name != "bfloat16"}
_STRIDED, _COO = Layout("strided"), Layout("sparse_coo")


class Tensor:
    """A dense tensor on an array, or a sparse one of two."""

    layout = _STRIDED
    is_quantized = False
    is_nested = False
    device = types.SimpleNamespace(type="cpu")
    __slots__ = ("_array", "_indices", "dtype", "requires_grad", "shape")

    def __init__(self, array: Any, dtype: Dtype, requires_grad: bool = False) -> None:
        self._array, self.dtype, self.requires_grad = array, dtype, requires_grad
        self._indices: Any = None
        self.shape = array.shape

    def _like(self, array: Any) -> Tensor:
        return Tensor(array, self.dtype, self.requires_grad)

    def detach(self) -> Tensor:
        if self._indices is not None:
            return _sparse(self._indices, self._array, self.shape, self.dtype)
        return Tensor(self._array, self.dtype)

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def element_size(self) -> int:
        return int(self._array.itemsize)

    def view(self, dtype: Dtype) -> Tensor:
        return Tensor(self._array.view(dtype.stored), dtype, self.requires_grad)

    def to(self, dtype: Dtype) -> Tensor:
        return Tensor(self._array.astype(dtype.stored), dtype)

    def numpy(self) -> Any:
        if self.requires_grad or self.dtype.name == "bfloat16":
            raise TypeError("no array of such a tensor")
        return self._array

    def as_strided(self, shape: Any, strides: Any) -> Tensor:
        steps = tuple(step * self._array.itemsize for step in strides)
        return self._like(np.lib.stride_tricks.as_strided(self._array, tuple(shape), steps))

    def expand(self, *shape: int) -> Tensor:
        return self._like(np.broadcast_to(self._array, shape))

    def transpose(self, one: int, other: int) -> Tensor:
        return self._like(self._array.swapaxes(one, other))

    def __getitem__(self, index: Any) -> Tensor:
        return self._like(np.asarray(self._array[index]))

    def __iadd__(self, other: float) -> Tensor:
        self._array += other
        return self

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self._array.itemsize for stride in self._array.strides)

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def requires_grad_(self) -> Tensor:
        self.requires_grad = True
        return self

    def coalesce(self) -> Tensor:
        return self

    def values(self) -> Tensor:
        return Tensor(self._array, self.dtype)

    def indices(self) -> Tensor:
        return Tensor(self._indices, _TYPES["int64"])

    def to_dense(self) -> Tensor:
        dense = np.zeros(self.shape, self._array.dtype)
        dense[tuple(self._indices)] = self._array
        return Tensor(dense, self.dtype)


class SparseTensor(Tensor):
    """PyTorch has one class for both; the stand-in makes objects of it say that they are that."""

    layout = _COO
    __slots__ = ()


class Parameter(Tensor):
    """A tensor that is learnt."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, requires_grad: bool = True) -> None:
        super().__init__(tensor._array, tensor.dtype, requires_grad)

    def detach(self) -> Tensor:
        return Tensor(self._array, self.dtype)


def _sparse(indices: Any, values: Any, shape: Any, dtype: Dtype) -> Tensor:
    made = SparseTensor(values, dtype)
    made._indices, made.shape = indices, tuple(shape)
    return made


def from_numpy(array: Any) -> Tensor:
    """A tensor on an array's memory."""
    if any(stride < 0 for stride in array.strides):
        raise ValueError("no tensor has negative strides")
    return Tensor(array, _BY_NUMPY[array.dtype])


def _sparse_coo_tensor(
    indices: Tensor, values: Tensor, shape: Any, *, check_invariants: bool
) -> Tensor:
    places = indices.numpy()
    outside = (places < 0) | (places >= np.array(shape)[:, None])
    if check_invariants and outside.any():
        raise RuntimeError("an index outside of the shape")
    return _sparse(indices.numpy(), values.numpy(), shape, values.dtype)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype is other.dtype and np.array_equal(one._array, other._array)


for _kind, _name, _module in (
    (Tensor, "Tensor", "torch"),
    (SparseTensor, "Tensor", "torch"),
    (Parameter, "Parameter", "torch.nn.parameter"),
):
    _kind.__name__ = _kind.__qualname__ = _name
    _kind.__module__ = _module


def make_torch() -> types.ModuleType:
    """The module that stands for PyTorch."""
    module: Any = types.ModuleType("torch")
    vars(module).update(_TYPES)
    module.dtype, module.Tensor, module.strided, module.sparse_coo = Dtype, Tensor, _STRIDED, _COO
    module.from_numpy, module.equal = from_numpy, _equal
    module.sparse_coo_tensor = _sparse_coo_tensor
    module.nn = types.SimpleNamespace(Parameter=Parameter)
    return module
