"""A file that an emulated NVDIMM has as its memory, prepared for a DAX file system.

The kernel takes an NVDIMM for plain blocks, on which DAX is refused, unless an *info block* in it
says that it is to have page descriptors (`ndctl create-namespace -m fsdax` writes one; see
`struct nd_pfn_sb` in the kernel's drivers/nvdimm/pfn.h). With the block written beforehand, the
kernel finds the namespace at boot, and the machine needs no ndctl.
"""

from __future__ import annotations

import struct
import subprocess
import uuid
from pathlib import Path

from scripts.power.disk import sparse

#: Where the block lies, and where the file system begins after it.
_INFO_AT, DATA_AT = 4096, 2 << 20
_PAGE_BYTES, _PAGE_STRUCT_BYTES = 4096, 64
#: The page descriptors lie in ordinary memory.
_MODE_RAM = 1
_MINOR = 4


def info_block(size: int, identity: uuid.UUID) -> bytes:
    """The info block of a namespace of so many bytes, without labels."""
    pages = (size - DATA_AT) // _PAGE_BYTES
    fields = struct.pack(
        "<16s16s16sIHHQQIIIIIH",
        b"NVDIMM_PFN_INFO",
        identity.bytes,
        bytes(16),
        0,
        1,
        _MINOR,
        DATA_AT,
        pages,
        _MODE_RAM,
        0,
        0,
        DATA_AT,
        _PAGE_BYTES,
        _PAGE_STRUCT_BYTES,
    )
    body = fields + bytes(4096 - 8 - len(fields))
    return body + struct.pack("<Q", fletcher64(body + bytes(8)))


def fletcher64(data: bytes) -> int:
    """The checksum of such blocks."""
    low = high = 0
    for (word,) in struct.iter_unpack("<I", data):
        low = (low + word) & 0xFFFFFFFF
        high = (high + low) & 0xFFFFFFFF
    return high << 32 | low


def make(path: Path, size: int) -> None:
    """A file of a size with a namespace, and an empty ext4 file system in it."""
    sparse(path, size)
    with path.open("r+b") as file:
        file.seek(_INFO_AT)
        file.write(info_block(size, uuid.uuid4()))
    blocks = (size - DATA_AT) // _PAGE_BYTES
    options = ["-q", "-F", "-b", str(_PAGE_BYTES), "-E", f"offset={DATA_AT}"]
    subprocess.run(["mke2fs", "-t", "ext4", *options, str(path), str(blocks)], check=True)
