"""Libraries that parts of the package need, imported where they are needed."""

from __future__ import annotations

from typing import Any


def pyarrow(why: str) -> Any:
    """pyarrow; ImportError with the one command that installs it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise ImportError(f"{why}: pip install pyarrow") from missing
    return pyarrow
