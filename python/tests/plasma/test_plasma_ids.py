"""Object ids, and the names that the module offers."""

from __future__ import annotations

import pickle
import warnings
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from .conftest import IS_REFERENCE

BYTES = bytes(range(20))


@pytest.mark.parametrize("wrong", [b"", BYTES[:19], BYTES + b"x", "x" * 20, 20, None])
def test_an_id_has_twenty_bytes(plasma: ModuleType, wrong: Any) -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        plasma.ObjectID(wrong)


def test_an_id_gives_its_bytes_back(plasma: ModuleType) -> None:
    assert plasma.ObjectID(BYTES).binary() == BYTES


def test_ids_are_compared_by_their_bytes(plasma: ModuleType) -> None:
    first, same, different = (plasma.ObjectID(b) for b in (BYTES, BYTES, BYTES[::-1]))
    assert first == same
    assert (first != same) is False
    assert hash(first) == hash(same)
    assert first != different
    assert first != BYTES
    assert first != "id"
    assert {first: 1}[same] == 1


def test_an_id_is_shown_in_hexadecimal(plasma: ModuleType) -> None:
    assert repr(plasma.ObjectID(BYTES)) == f"ObjectID({BYTES.hex()})"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_id_is_pickled(plasma: ModuleType, protocol: int) -> None:
    original = plasma.ObjectID.from_random()
    assert pickle.loads(pickle.dumps(original, protocol)) == original


def test_random_ids_differ(plasma: ModuleType) -> None:
    ids = {plasma.ObjectID.from_random() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(object_id.binary()) for object_id in ids} == {20}


def test_exceptions_are_arrow_exceptions(plasma: ModuleType) -> None:
    for name in ("PlasmaObjectExists", "PlasmaObjectNotFound", "PlasmaStoreFull"):
        kind = getattr(plasma, name)
        assert issubclass(kind, pa.lib.ArrowException)
        assert kind.__name__ == name


def test_buffers_are_not_made_by_hand(plasma: ModuleType) -> None:
    assert issubclass(plasma.PlasmaBuffer, pa.Buffer)


@pytest.mark.improved
def test_making_a_buffer_by_hand_says_what_to_call(plasma: ModuleType) -> None:
    # The reference raises too, after it complained about its own half-made buffer.
    with pytest.raises(TypeError, match=r"PlasmaClient\.create"):
        plasma.PlasmaBuffer()


def test_the_module_offers_every_name(plasma: ModuleType) -> None:
    for name in (
        "ObjectID",
        "ObjectNotAvailable",
        "PlasmaBuffer",
        "PlasmaClient",
        "build_plasma_tensorflow_op",
        "connect",
        "load_plasma_tensorflow_op",
        "start_plasma_store",
        "TF_PLASMA_OP_PATH",
    ):
        assert hasattr(plasma, name), name
    assert plasma.tf_plasma_op is None


def test_ids_are_deprecated(plasma: ModuleType) -> None:
    with pytest.warns(DeprecationWarning, match="Plasma is deprecated") as caught:
        plasma.ObjectID(BYTES)
    # The reference blames a frame too far out.
    assert IS_REFERENCE or caught[0].filename == __file__


def test_clients_and_stores_are_deprecated(plasma: ModuleType) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with plasma.start_plasma_store(1_000_000) as (name, _):
            plasma.connect(name).disconnect()
    categories = [warning.category for warning in caught]
    assert categories.count(DeprecationWarning) == 2


def test_tensorflow_is_asked_for_when_the_operation_is_loaded(plasma: ModuleType) -> None:
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match=r"(?i)tensorflow"):
            plasma.load_plasma_tensorflow_op()
    else:
        pytest.skip("TensorFlow is here")
