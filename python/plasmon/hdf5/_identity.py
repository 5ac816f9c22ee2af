"""Whether the data that a skeleton names is still what it was written for.

The skeleton says in the comment of its root group which data is its, and in which generation; the
data says so in its manifest. See docs/formats/hdf5.md.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plasmon.hdf5 import _plugin

_COMMENT = re.compile(r"(?:^|\n)plasmon data (\S+)/([0-9a-f]{16}) generation ([0-9a-f]{16})$")
_MARK = re.compile(r"[0-9a-f]{16}")
#: Names of objects that have the number of their data.
_OBJECT = re.compile(r"[^/]*-([0-9a-f]{16})/.")
_MANIFEST = "manifest"
_COMMENT_BYTES = 65_536
#: Letters that stay as they are in a line.
_PLAIN = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True)
class Identity:
    """Which data a skeleton belongs to."""

    #: The name of the folder that has the data's folder, when the data was made.
    folder: str
    #: The number of the data, 16 digits, and the name of its folder.
    data: str
    #: Its value when the skeleton was written last.
    generation: str


@dataclass(frozen=True)
class Manifest:
    """The manifest of some data."""

    data: str
    generation: str
    #: The generation that the skeleton may have already.
    following: str | None
    #: The name that the skeleton had when it was last written.
    owner: str
    #: The inode of that skeleton; 0 when the data has no owner.
    inode: int = 0
    #: The files that were written, from the manifest's folder.
    files: tuple[str, ...] = ()
    #: The inode of the manifest that objects in stores belong to; None when there are none.
    objects: int | None = None
    #: The inode of the manifest when it was written: in a copy it is another one.
    home: int = 0
    #: The sockets of the stores that may have objects.
    stores: frozenset[str] = frozenset()


def identity_of(file: Any) -> Identity | None:
    """The identity in an open h5py.File; None for files without Arrow data, and for older ones."""
    import h5py

    # h5py's own function gives what lies in memory that it has freed.
    with h5py._objects.phil:
        comment = _comment(ctypes.CDLL(_plugin._libhdf5()), file)
    found = _COMMENT.search(comment)
    if found is None:
        return None
    folder, data, generation = found.groups()
    return Identity(urllib.parse.unquote(folder, errors="surrogateescape"), data, generation)


def _comment(library: ctypes.CDLL, file: Any) -> str:
    ask = library.H5Oget_comment
    ask.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
    ask.restype = ctypes.c_ssize_t
    comment = ctypes.create_string_buffer(_COMMENT_BYTES)
    return os.fsdecode(comment.value) if ask(file.id.id, comment, _COMMENT_BYTES) > 0 else ""


def say(file: Any, identity: Identity) -> None:
    """Puts an identity on an open h5py.File, whose comment is the previous identity, or empty."""
    import h5py

    folder = urllib.parse.quote(identity.folder, safe=_PLAIN)
    line = f"plasmon data {folder}/{identity.data} generation {identity.generation}"
    with h5py._objects.phil:
        library = ctypes.CDLL(_plugin._libhdf5())
        known = _COMMENT.sub("", _comment(library, file))
        put = library.H5Oset_comment
        put.argtypes = [ctypes.c_int64, ctypes.c_char_p]
        if put(file.id.id, os.fsencode(f"{known}\n{line}" if known else line)) < 0:
            raise OSError(f"{file.filename} does not say which data belongs to it")


def located(skeleton: Path, identity: Identity | None, within: str) -> Path:
    """Where a file of data is that a skeleton names by a path from its folder.

    Raises OSError when that is not what the skeleton was written for.
    """
    parts = within.split("/")
    named = parts[1] if len(parts) > 2 and _MARK.fullmatch(parts[1]) else None
    if identity is None:
        if named is not None:
            raise OSError(f"{skeleton} names {within}, which was written for another file")
        return skeleton.parent / within
    if named is not None and named != identity.data:
        raise OSError(f"{skeleton} names {within}, which was written for another file")
    home, manifest = home_of(skeleton, identity)
    if identity.generation not in {manifest.generation, manifest.following}:
        raise OSError(
            f"the data that {skeleton.name} names was changed after {skeleton.name} was copied (by "
            f"{manifest.owner}), and its own values are gone; plasmon hdf5 cp makes copies that "
            "keep theirs"
        )
    return skeleton.parent / within if named is None else home.joinpath(*parts[2:])


def check_object(skeleton: Path, identity: Identity | None, name: str) -> None:
    """Raises OSError when an object is not a skeleton's, or was changed since it was written."""
    found = _OBJECT.match(name)
    if identity is None and found is None:
        return
    if identity is None or (found is not None and found[1] != identity.data):
        raise OSError(
            f"{skeleton.name} names the object {name}, which was written for another file"
        )
    # Raises when the folder of data is not there, or the generation is another.
    located(skeleton, identity, f"{identity.folder}/{identity.data}/manifest")
    home, manifest = home_of(skeleton, identity)
    if found is not None and manifest.objects != (home / _MANIFEST).stat().st_ino:
        raise OSError(
            f"{skeleton.name} is a copy, made together with its folder of data, and the values in "
            "the store are the original's; plasmon hdf5 export or import makes copies with values "
            "of their own"
        )


def home_of(skeleton: Path, identity: Identity) -> tuple[Path, Manifest]:
    """The folder of a skeleton's data: where it was made, or under the skeleton's name of now.

    Raises FileNotFoundError when it is in neither.
    """
    places = [skeleton.parent / identity.folder, skeleton.with_name(f"{skeleton.name}.arrow")]
    for place in places:
        home = place / identity.data
        if (home / _MANIFEST).is_file():
            manifest = read(home)
            if manifest.data == identity.data:
                return home, manifest
    raise FileNotFoundError(
        f"the data of {skeleton} should be in {places[0] / identity.data}, which is not there; "
        "copy or move the folder of data together with the HDF5 file (plasmon hdf5 cp, mv)"
    )


def read(home: Path) -> Manifest:
    """The manifest in a folder of data. Raises OSError when the file is not a manifest."""
    lines = (home / _MANIFEST).read_bytes().decode("ascii", "replace").split("\n")[:-1]
    data = generation = owner = ""
    following = None
    inode, home_inode, files, objects = 0, 0, dict[str, None](), None
    stores = set[str]()
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "plasmon-hdf5":
            version, _, data = rest.partition(" ")
            if version != "1":
                raise OSError(f"{home / _MANIFEST} is of version {version}, and only 1 is known")
        elif kind == "generation":
            generation, following = rest, None
        elif kind == "next":
            following = rest
        elif kind == "owner":
            number, _, name = rest.split(" ", 2)
            owner = urllib.parse.unquote(name, errors="surrogateescape")
            inode = int(number)
        elif kind == "made":
            files[urllib.parse.unquote(rest, errors="surrogateescape")] = None
        elif kind == "gone":
            files.pop(urllib.parse.unquote(rest, errors="surrogateescape"), None)
        elif kind == "objects":
            objects = int(rest)
        elif kind == "home":
            home_inode = int(rest)
        elif kind == "store":
            stores.add(urllib.parse.unquote(rest, errors="surrogateescape"))
    if not (_MARK.fullmatch(data) and _MARK.fullmatch(generation)):
        raise OSError(f"{home / _MANIFEST} is damaged: it does not say whose data this is")
    files_of, stores_of = tuple(files), frozenset(stores)
    return Manifest(
        data, generation, following, owner, inode, files_of, objects, home_inode, stores_of
    )


def add(home: Path, lines: Iterable[str]) -> None:
    """Adds lines to the manifest in a folder of data."""
    with (home / _MANIFEST).open("r+b") as file:
        # A process that was killed may have begun a line: it counts for nothing.
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write("".join(f"{line}\n" for line in lines).encode("ascii"))


def new_mark() -> str:
    """A number for data, or for a generation of it."""
    return secrets.token_hex(8)


def escaped(name: str) -> str:
    """A path in a line of a manifest."""
    plain = set(range(33, 127)) - {ord("%")}
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(name))
