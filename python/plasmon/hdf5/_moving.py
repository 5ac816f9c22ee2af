"""Moving, copying, removing and packing HDF5 files together with their data.

Nothing here opens a file through the connector: the files are looked at, and their data is moved as
files. What is removed is what the manifest lists, and nothing else.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from plasmon.hdf5 import _identity
from plasmon.hdf5._identity import Identity, Manifest
from plasmon.hdf5._plugin import PluginError

_MAGIC = b"\x89HDF\r\n\x1a\n"
_MANIFEST = "manifest"
_LATEST = "latest"
_NEEDS = b" (needs the plasmon connector)"
#: What is told of long work: what is done, how many bytes of how many.
Progress = Callable[[str, int, int], None]


def _silent(what: str, done: int, total: int) -> None:
    del what, done, total


@dataclass(frozen=True)
class Pair:
    """A file and its data."""

    skeleton: Path
    identity: Identity | None
    home: Path | None
    manifest: Manifest | None

    @property
    def files(self) -> list[Path]:
        """The files of data that are there."""
        if self.home is None or self.manifest is None:
            return []
        return [path for name in self.manifest.files if (path := self.home / name).is_file()]

    @property
    def bytes(self) -> int:
        """How much the data takes."""
        return sum(path.stat().st_size for path in self.files)


def pair(path: Path) -> Pair:
    """A file and its data. Raises OSError when it is no HDF5 file, or its data is not its own."""
    skeleton = Path(os.path.realpath(path))
    with h5py.File(skeleton, "r") as file:
        identity = _identity.identity_of(file)
        if identity is None:
            _refuse_before(path, file)
            return Pair(skeleton, None, None, None)
    home, manifest = _identity.home_of(skeleton, identity)
    if identity.generation not in {manifest.generation, manifest.following}:
        # Says what happened.
        _identity.located(skeleton, identity, f"{identity.folder}/{identity.data}/x.arrow")
    return Pair(skeleton, identity, home, manifest)


def _refuse_before(path: Path, file: h5py.File) -> None:
    if any(_markers(file)):
        raise PluginError(
            f"the data of {path} has no number yet: it was written by an earlier version. Move "
            f"{path.name} and {path.name}.arrow together, or write into the file once"
        )


def _markers(file: h5py.File) -> Iterator[bytes]:
    """The names of the files of data that a file says."""
    found: list[bytes] = []

    def visit(_name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            creation = item.id.get_create_plist()
            if creation.get_external_count() == 1:
                name = creation.get_external(0)[0]
                if name.removesuffix(_NEEDS).endswith(b".arrow"):
                    found.append(name)

    file.visititems(visit)
    return iter(found)


def _skeletons(folder: Path) -> dict[Path, str | None]:
    """The HDF5 files in a folder, and which data they belong to; "?" for those that cannot say."""
    found: dict[Path, str | None] = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file() or not _is_hdf5(path):
            continue
        try:
            with h5py.File(path, "r") as file:
                identity = _identity.identity_of(file)
                found[path] = None if identity is None else identity.data
        except OSError:
            found[path] = "?"
    return found


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def copy(source: Path, target: Path, *, progress: Progress = _silent) -> list[str]:
    """Writes a copy of a file that has data of its own; says what was written.

    Blocks are shared with the original's where the file system can do that.
    """
    target = _fresh(source, target)
    of = pair(source)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    made: list[Path] = []
    try:
        # The original stays open, so that no program writes into it meanwhile.
        with h5py.File(of.skeleton, "r") as file:
            shutil.copyfile(of.skeleton, draft)
            if of.identity is not None:
                new = Identity(of.identity.folder, secrets.token_hex(8), secrets.token_hex(8))
                _rename_data(draft, set(_markers(file)), of.identity, new)
                made.append(_copy_data(of, target.parent, new, progress))
                _begin(made[0], of, draft, target.name, new)
        os.link(draft, target)
        if made:
            _link(target, made[0])
    except BaseException:
        for home in made:
            shutil.rmtree(home, ignore_errors=True)
        raise
    finally:
        draft.unlink(missing_ok=True)
    return [f"{target}: {len(of.files)} files of data, {of.bytes} bytes"]


def _fresh(source: Path, target: Path) -> Path:
    """Where a file goes; a folder takes it under its own name."""
    if target.is_dir():
        target = target / source.name
    if target.exists() or target.is_symlink():
        raise PluginError(f"{target} exists; choose another name or remove it first")
    return Path(os.path.realpath(target.parent)) / target.name


def _rename_data(draft: Path, names: set[bytes], old: Identity, new: Identity) -> None:
    """Has the copy of a skeleton name other data: the numbers have the same length."""
    content = draft.read_bytes()
    for name in names:
        renamed = name.replace(f"/{old.data}/".encode(), f"/{new.data}/".encode(), 1)
        if name != renamed:
            content = content.replace(name + b"\0", renamed + b"\0")
    with draft.open("r+b") as file:
        file.write(content)
    with h5py.File(draft, "r+") as file:
        _identity.say(file, new)
    with h5py.File(draft, "r") as file:
        left = [name for name in _markers(file) if f"/{old.data}/".encode() in name]
        if left or _identity.identity_of(file) != new:
            raise PluginError(
                "the copy cannot be made by its bytes; plasmon hdf5 import writes the file anew"
            )


def _copy_data(of: Pair, folder: Path, new: Identity, progress: Progress) -> Path:
    assert of.home is not None
    home = folder / new.folder / new.data
    home.mkdir(parents=True)
    done, total = 0, of.bytes
    for path in of.files:
        target = home / path.relative_to(of.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        done += path.stat().st_size
        progress("copied", done, total)
    return home


def _begin(home: Path, of: Pair, draft: Path, name: str, new: Identity) -> None:
    """Writes the manifest of copied data."""
    assert of.home is not None
    about = (of.home / _MANIFEST).read_text(errors="replace").split("plasmon-hdf5 ", 1)[0]
    manifest = home / _MANIFEST
    manifest.touch(exist_ok=False)
    lines = [f"plasmon-hdf5 1 {new.data}", _owner(draft, name), f"home {manifest.stat().st_ino}"]
    lines.append(f"generation {new.generation}")
    lines += [f"made {_escaped(str(path.relative_to(of.home)))}" for path in of.files]
    manifest.write_text(about + "\n".join(lines) + "\n")


def _owner(skeleton: Path, name: str) -> str:
    # Python does not tell when an inode was made; the connector adds it with its first write.
    return f"owner {skeleton.stat().st_ino} 0 {_escaped(name)}"


def _escaped(name: str) -> str:
    plain = set(range(33, 127)) - {ord("%")}
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(name))


def _link(skeleton: Path, home: Path) -> None:
    """Lets the link for people lead to a file's data."""
    folder = skeleton.with_name(f"{skeleton.name}.arrow")
    folder.mkdir(exist_ok=True)
    draft = folder / f".{_LATEST}.{os.getpid()}"
    draft.symlink_to(os.path.relpath(home, folder))
    draft.replace(folder / _LATEST)


def move(source: Path, target: Path, *, progress: Progress = _silent) -> list[str]:
    """Gives a file another name or folder, together with its data; says what was moved."""
    target = _fresh(source, target)
    of = pair(source)
    if of.skeleton.is_symlink() or Path(source).is_symlink():
        raise PluginError(f"{source} is a link; move what it leads to, {of.skeleton}")
    if of.home is None or of.skeleton.parent == target.parent:
        of.skeleton.rename(target)
        return [f"{target}: the data stays where it is" if of.home else f"{target}"]
    assert of.identity is not None
    others = _shared_with(of)
    if others:
        raise PluginError(f"{source} has its data in common with {others[0].name}: copy it instead")
    home = target.parent / of.identity.folder / of.identity.data
    if target.parent.stat().st_dev != of.skeleton.parent.stat().st_dev:
        told = copy(source, target, progress=progress)
        remove(source)
        return told
    if home.exists():
        raise PluginError(f"{home} exists: other data of that number is there")
    files = of.files
    home.parent.mkdir(exist_ok=True)
    of.home.rename(home)
    of.skeleton.rename(target)
    _link(target, home)
    _tidy_home(of.home)
    return [f"{target}: {len(files)} files of data"]


def _shared_with(of: Pair) -> list[Path]:
    """The other files in the folder that belong to the same data, or cannot say."""
    assert of.identity is not None
    mine = {of.identity.data, "?"}
    inode = of.skeleton.stat().st_ino
    others = _skeletons(of.skeleton.parent).items()
    return [path for path, data in others if data in mine and path.stat().st_ino != inode]


def remove(path: Path, *, dry_run: bool = False) -> list[str]:
    """Removes a file and its data; says what was, or would be, removed.

    Data stays that another file belongs to as well, or that is not this file's; of a link or of one
    of several names only that goes.
    """
    told, home, manifest = [str(path)], None, None
    if not path.is_symlink() and path.stat().st_nlink == 1:
        try:
            of = pair(path)
        except OSError as error:
            told.append(f"no data: {error}")
        else:
            if of.home is not None and not _shared_with(of):
                home, manifest = of.home, of.manifest
                told.append(f"{home}: {len(of.files)} files of data, {of.bytes} bytes")
    if not dry_run:
        path.unlink()
        if home is not None and manifest is not None:
            _remove_data(home, manifest)
    return told


def _remove_data(home: Path, manifest: Manifest) -> None:
    """Removes what the manifest lists, the manifest, and folders that are empty then."""
    for name in manifest.files:
        path = home / name
        if ".." in Path(name).parts or path.is_symlink():
            continue
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == home or not _tidy(folder):
                break
    (home / _MANIFEST).unlink()
    _tidy(home)
    _tidy_home(home)


def _tidy_home(home: Path) -> None:
    """Removes what led to data that is gone, and the folder that it was in if that is empty."""
    latest = home.parent / _LATEST
    if latest.is_symlink() and os.readlink(latest) == home.name:
        latest.unlink()
    _tidy(home.parent)


def _tidy(folder: Path) -> bool:
    """Removes a folder that is empty."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Leftover:
    """Data that no file in its folder belongs to."""

    home: Path
    manifest: Manifest
    bytes: int

    def __str__(self) -> str:
        owner = self.manifest.owner or "a file that was replaced"
        return f"{self.home}: {self.bytes} bytes, written for {owner}"


def leftovers(folder: Path) -> list[Leftover]:
    """The data in a folder that none of its HDF5 files belongs to.

    Raises PluginError when one of them cannot say what it belongs to: it may be open for writing.
    """
    known = _skeletons(folder)
    silent = [path.name for path, data in known.items() if data == "?"]
    homes = [path.parent for path in sorted(folder.glob(f"*.arrow/*/{_MANIFEST}"))]
    if homes and silent:
        raise PluginError(
            f"{silent[0]} cannot be opened, so it is not known whose data is needed; try again "
            "when no program writes into it"
        )
    found = []
    for home in homes:
        if home.is_symlink() or home.parent.is_symlink():
            continue
        manifest = _identity.read(home)
        if manifest.data not in known.values():
            paths = [home / name for name in manifest.files]
            size = sum(path.stat().st_size for path in paths if path.is_file())
            found.append(Leftover(home, manifest, size))
    return found


def collect(found: list[Leftover]) -> None:
    """Removes data that no file belongs to."""
    for leftover in found:
        _remove_data(leftover.home, leftover.manifest)


def pack(source: Path, target: Path, *, progress: Progress = _silent) -> list[str]:
    """Writes a file and its data as one archive that travels; says what is in it."""
    target = _fresh(source, target)
    of = pair(source)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    done, total = 0, of.bytes
    try:
        with h5py.File(of.skeleton, "r"), tarfile.open(draft, "x") as archive:
            archive.add(of.skeleton, of.skeleton.name)
            if of.home is not None and of.identity is not None:
                within = f"{of.identity.folder}/{of.identity.data}"
                archive.add(of.home / _MANIFEST, f"{within}/{_MANIFEST}")
                for path in of.files:
                    archive.add(path, f"{within}/{path.relative_to(of.home).as_posix()}")
                    done += path.stat().st_size
                    progress("packed", done, total)
        os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return [f"{target}: {of.skeleton.name} and {len(of.files)} files of data"]


def unpack(source: Path, folder: Path, *, progress: Progress = _silent) -> list[str]:
    """Writes what `pack` put into an archive into a folder; says what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(source) as archive:
        members = archive.getmembers()
        for member in members:
            _check_member(source, member)
            if (folder / member.name).exists():
                raise PluginError(f"{folder / member.name} exists; unpack into another folder")
        skeletons = [member for member in members if "/" not in member.name]
        if len(skeletons) != 1:
            raise PluginError(f"{source} is no archive that plasmon hdf5 pack wrote")
        done, total = 0, sum(member.size for member in members)
        # The file comes last: until then nothing names the data.
        for member in [*(one for one in members if one not in skeletons), *skeletons]:
            archive.extract(member, folder, filter="data")
            done += member.size
            progress("unpacked", done, total)
    skeleton = folder / skeletons[0].name
    of = pair(skeleton)
    if of.home is not None:
        _link(skeleton, of.home)
    return [f"{skeleton}: {len(of.files)} files of data"]


def _check_member(source: Path, member: Any) -> None:
    parts = member.name.split("/")
    is_data = len(parts) > 2 and parts[0].endswith(".arrow") and ".." not in parts
    if not member.isfile() or not (len(parts) == 1 or is_data):
        raise PluginError(f"{source} has {member.name!r}, which plasmon hdf5 pack does not write")
