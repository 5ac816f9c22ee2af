"""The place of Plasma's TensorFlow operation, which Plasmon does not have.

Plasma compiled `plasma_op.cc` against its C++ client on the user's machine. Arrays read through
:meth:`PlasmaClient.get` lie on the object's memory already, and TensorFlow takes them as they are.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

#: Where Plasma kept the compiled operation. Nothing is there.
TF_PLASMA_OP_PATH = os.path.join(os.path.dirname(__file__), "tensorflow", "plasma_op.so")

#: The operation, once it is loaded: never.
tf_plasma_op: Any = None


def _need_tensorflow() -> None:
    try:
        importlib.import_module("tensorflow")
    except ImportError as error:
        raise ImportError(
            "The Plasma operation for TensorFlow needs TensorFlow, which is not installed"
        ) from error


def load_plasma_tensorflow_op() -> None:
    """Raises: there is no operation to load."""
    _need_tensorflow()
    raise NotImplementedError(
        "plasmon.plasma has no TensorFlow operation: read arrays with PlasmaClient.get() and give "
        "them to tf.convert_to_tensor(), or use plasmon's DLPack buffers"
    )


def build_plasma_tensorflow_op() -> None:
    """Raises: there is no operation to build."""
    load_plasma_tensorflow_op()
