"""PyTorch's tensors.

PyTorch is not among what the tests need: its package for Linux is some gigabytes. Where it is
installed these tests use it: `python3 scripts/test.py torch` makes an environment with it and runs
them there. Elsewhere they run over a stand-in, which has of PyTorch only what plasmon.torch calls,
made of NumPy arrays; so what is tested then is our half of the contract.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import plasmon
import plasmon.torch
from plasmon.objects import trusting_context

from ..pages.blocks import blocks
from .standin import make_torch

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "python-objects.md"


@pytest.fixture
def torch(monkeypatch):
    if importlib.util.find_spec("torch") is not None:
        yield importlib.import_module("torch")
        return
    monkeypatch.setitem(sys.modules, "torch", make_torch())
    yield sys.modules["torch"]
    # What contexts remember about types that are gone.
    plasmon.objects.default_context._forget()
    trusting_context._forget()


def through(value):
    return plasmon.loads(plasmon.dumps(value))


def same(torch, value, back):
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert tuple(back.shape) == tuple(value.shape)
    assert back.requires_grad == value.requires_grad
    return bool(torch.equal(back.detach(), value.detach()))


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int64", "bool", "complex64"]
)
def test_types(torch, dtype):
    value = torch.from_numpy(np.arange(24).reshape(4, 6)).to(getattr(torch, dtype))
    assert same(torch, value, through({"t": [value]})["t"][0])


def test_a_type_that_numpy_has_not(torch):
    value = torch.from_numpy(np.arange(12, dtype="i2")).view(torch.bfloat16)
    back = through(value)
    assert back.dtype == torch.bfloat16
    assert torch.equal(back.view(torch.int16), value.view(torch.int16))


@pytest.mark.filterwarnings("ignore:.*experimental:UserWarning")
def test_every_type_that_pytorch_has(torch):
    """Types come with new versions: whatever can be made must come back."""
    made = 0
    for name, dtype in sorted(vars(torch).items()):
        if not isinstance(dtype, torch.dtype) or not hasattr(torch, "zeros"):
            continue
        try:
            value = torch.zeros(3, 4, dtype=dtype)
        except (RuntimeError, NotImplementedError):
            continue
        back = through(value)
        assert (back.dtype, back.shape) == (dtype, value.shape), name
        made += 1
    assert made > 30 or not hasattr(torch, "zeros")


def test_tensors_of_tensors_are_left_to_pytorch(torch):
    if not hasattr(torch, "nested"):
        pytest.skip("the stand-in has none")
    value = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(plasmon.NotSerializable):
        plasmon.dumps(value)


def test_what_only_fits_together_is_made(torch):
    if not hasattr(torch, "zeros"):
        pytest.skip("the stand-in knows no views of another size")
    with pytest.raises(plasmon.objects.BrokenObject):
        plasmon.torch.make_tensor("strided", "float64", 0, np.ones(3, "u1"))


def test_shapes_and_strides(torch):
    base = torch.from_numpy(np.arange(60.0).reshape(3, 4, 5))
    tensors = (base, base.transpose(0, 2), base[1:, ::2], base[0, 0, 0], base[:0], base[:, :, 1])
    for value in tensors:
        assert same(torch, value, through(value))
    assert through(base.transpose(0, 2)).stride() == base.transpose(0, 2).stride()


def test_what_is_repeated_stays_small(torch):
    value = torch.from_numpy(np.arange(3.0)).expand(100_000, 3)
    data = plasmon.dumps(value)
    assert len(data) < 1000
    back = plasmon.loads(data)
    assert back.stride() == (0, 1)
    assert torch.equal(back, value)


def test_gradients_and_parameters(torch):
    value = torch.from_numpy(np.ones(3)).requires_grad_()
    assert same(torch, value, through(value))
    for requires_grad in (True, False):
        parameter = torch.nn.Parameter(torch.from_numpy(np.ones(3)), requires_grad=requires_grad)
        assert same(torch, parameter, through(parameter))


def test_one_tensor_twice_is_one_tensor(torch):
    value = torch.from_numpy(np.ones(3))
    first, second = through([value, value])
    assert first is second


def test_sparse(torch):
    dense = np.array([[0, 1.5, 0], [2, 0, 0]])
    where = torch.from_numpy(np.array(dense.nonzero()))
    values = torch.from_numpy(dense[dense != 0])
    value = torch.sparse_coo_tensor(where, values, dense.shape, check_invariants=True)
    back = through(value)
    assert back.layout == torch.sparse_coo
    assert torch.equal(back.to_dense(), torch.from_numpy(dense))


def test_a_tensor_of_ones_own_by_default(torch):
    data = plasmon.dumps(torch.from_numpy(np.zeros(1000)))
    first, second = plasmon.loads(data), plasmon.loads(data)
    first += 1
    assert first.numpy().sum() == 1000
    assert second.numpy().sum() == 0


def test_in_place(torch, store):
    array = np.random.default_rng(1).random(10_000)
    id = store.put({"weights": torch.from_numpy(array)})
    with store.get_buffer(id) as buffer:
        start, stop = buffer.address, buffer.address + buffer.nbytes
    with plasmon.torch.in_place():
        back = store.get(id)["weights"]
    assert start <= back.data_ptr() < stop
    assert back.data_ptr() % 64 == 0
    assert torch.equal(back, torch.from_numpy(array))
    # The object stays for as long as the tensor does.
    store.delete(id)
    assert torch.equal(back, torch.from_numpy(array))
    copy = store.get(store.put(torch.from_numpy(array)))
    assert not start <= copy.data_ptr() < stop


def test_written_in_one_copy(torch):
    array = np.arange(10_000.0)
    pieces = plasmon.serialize(torch.from_numpy(array)).to_components()["data"]
    assert np.shares_memory(np.frombuffer(pieces[1]), array)


def test_no_pickle_is_needed(torch):
    value = through([torch.from_numpy(np.ones(2))])
    assert plasmon.SerializationContext(pickle="never").loads(plasmon.dumps(value))


def test_tensors_of_other_devices(torch):
    on_meta = types.SimpleNamespace(type="cuda", __str__=lambda: "cuda:0")
    tensor = torch.from_numpy(np.ones(2))
    elsewhere = types.SimpleNamespace(device=on_meta, layout=tensor.layout)
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        plasmon.torch.take_tensor(elsewhere)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("strided",),
        ("strided", "float64", 0),
        ("strided", "float64", 0, [1.0]),
        ("strided", "float64", "0", np.ones(2)),
        ("strided", "nn", 0, np.ones(2)),
        ("strided", "from_numpy", 0, np.ones(2)),
        ("sparse_coo", "float64", 0, np.ones(2)),
        ("other", "float64", 0, np.ones(2)),
        (["strided"], "float64", 0, np.ones(2)),
        ("strided", "float64", 0, np.ones(6)[::-2]),
        ("sparse_coo", "float64", 0, np.ones(1), np.array([[0], [2]]), (2, 2)),
        ("sparse_coo", "float64", 0, np.ones(1), np.array([[-1], [0]]), (2, 2)),
    ],
)
def test_hostile_arguments(torch, arguments):
    with pytest.raises((ValueError, TypeError)):
        plasmon.torch.make_tensor(*arguments)


def test_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", make_torch())
    data = plasmon.dumps(sys.modules["torch"].from_numpy(np.ones(2)))
    monkeypatch.setitem(sys.modules, "torch", None)
    plasmon.objects.default_context._forget()
    with pytest.raises(LookupError, match="PyTorch"):
        plasmon.loads(data)


def test_the_guides_example(torch, store):
    if not hasattr(torch, "ones"):
        torch.ones = lambda *shape: torch.from_numpy(np.ones(shape))
    (example,) = [block.text for block in blocks(GUIDE) if "import torch" in block.text]
    exec(example, {"store": store, "plasmon": plasmon})


def test_importing_does_not_import_pytorch():
    assert "torch" not in vars(plasmon.torch)


@pytest.mark.filterwarnings("ignore:'pyarrow:FutureWarning")
def test_the_old_interface(torch):
    from plasmon.compat import pyarrow_serialization as ours

    context = ours.default_serialization_context()
    ours.register_torch_serialization_handlers(context)
    where = torch.from_numpy(np.array([[0], [1]]))
    values = [
        torch.from_numpy(np.arange(5.0)).requires_grad_(),
        torch.sparse_coo_tensor(where, torch.from_numpy(np.ones(1)), (2, 2), check_invariants=True),
    ]
    dense, sparse = ours.deserialize(ours.serialize(values, context).to_buffer(), context)
    assert same(torch, values[0], dense)
    assert torch.equal(sparse.to_dense(), values[1].to_dense())
