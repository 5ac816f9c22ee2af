"""The words that options take."""

from typing import Literal

Policy = Literal["keep", "cache"]
As = Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"]
Ack = Literal["copies", "local"]
Placement = Literal["local", "spread"]
Storage = Literal["memory", "cache", "durable"]
