"""Files as earlier versions wrote them, without a number: docs/formats/hdf5.md has the layout.

The data of `x.h5` lay in `x.h5.arrow` itself, no manifest listed it, and the comment of the root
group said nothing; objects in a store were called after a hash of the file's path.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def make_before(skeleton: Path) -> None:
    """Turns a file that was just written, and its data, into one of that layout."""
    folder = skeleton.with_name(f"{skeleton.name}.arrow")
    number = os.readlink(folder / "latest")
    content = skeleton.read_bytes()
    for file in sorted((folder / number).rglob("*.arrow")):
        within = file.relative_to(folder / number)
        (folder / within).parent.mkdir(parents=True, exist_ok=True)
        file.rename(folder / within)
        long, short = f"{folder.name}/{number}/{within}", f"{folder.name}/{within}"
        for needs in (b"", b" (needs the plasmon connector)"):
            old, new = long.encode() + needs + b"\0", short.encode() + needs + b"\0"
            content = content.replace(old, new.ljust(len(old), b"\0"))
    skeleton.write_bytes(content.replace(b"plasmon data", b"plasmon dada"))
    shutil.rmtree(folder / number)
    (folder / "latest").unlink()
