"""Moving, copying and removing HDF5 files together with their data.

Nothing here opens a file through the connector: the files are looked at, and their data is moved as
files. What is removed is what the manifest lists, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import h5py

from plasmon.hdf5 import _before, _identity
from plasmon.hdf5._identity import Identity, Manifest
from plasmon.hdf5._objects import ObjectPlace, is_listed
from plasmon.hdf5._plugin import PluginError

_MAGIC = b"\x89HDF\r\n\x1a\n"
_MANIFEST = "manifest"
_LATEST = "latest"
#: How files begin that have no name yet; `gc` removes those of processes that have ended.
_DRAFT = ".plasmon-draft-"
_NEEDS = b" (needs the plasmon connector)"
#: The progress of long work: what is done, how many bytes of how many.
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
    #: Files of data without a number, as the skeleton names them from its folder.
    before: tuple[str, ...] = ()
    #: Objects in stores without one.
    objects_before: tuple[ObjectPlace, ...] = ()

    @property
    def files(self) -> list[Path]:
        """The files of data that are there."""
        if self.home is None or self.manifest is None:
            return []
        return [path for name in self.manifest.files if (path := self.home / name).is_file()]

    @property
    def files_before(self) -> list[Path]:
        """The files without a number. Raises OSError when one is not there."""
        return _before.there(self.skeleton.parent, self.before)

    @property
    def bytes(self) -> int:
        """How much the data takes."""
        return sum(path.stat().st_size for path in [*self.files, *self.files_before])

    def __str__(self) -> str:
        return f"{len(self.files) + len(self.before)} files of data"


def pair(path: Path) -> Pair:
    """A file and its data. Raises OSError if it is not HDF5, or its data belongs to another."""
    skeleton = Path(os.path.realpath(path))
    with h5py.File(skeleton, "r") as file:
        identity = _identity.identity_of(file)
        named = list(_external(file, b""))
        before, objects = _before.files_of(file, named), _before.objects_of(named)
    if identity is None:
        return Pair(skeleton, None, None, None, before, objects)
    home, manifest = _identity.home_of(skeleton, identity)
    if identity.generation not in {manifest.generation, manifest.following}:
        # Says what happened.
        _identity.located(skeleton, identity, f"{identity.folder}/{identity.data}/x.arrow")
    return Pair(skeleton, identity, home, manifest, before, objects)


def _markers(file: h5py.File) -> Iterator[bytes]:
    """The names of the files of data in a file."""
    return (name for name in _external(file, b"") if name.removesuffix(_NEEDS).endswith(b".arrow"))


def _external(file: h5py.File, ending: bytes) -> Iterator[bytes]:
    """The names in a file, without such an ending, of what has the values of datasets."""
    found: list[bytes] = []

    def visit(_name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            creation = item.id.get_create_plist()
            if creation.get_external_count() == 1:
                found.append(creation.get_external(0)[0].removesuffix(ending))

    file.visititems(visit)
    return iter(found)


def _skeletons(folder: Path) -> dict[Path, str | None]:
    """The HDF5 files in a folder, and the data they belong to; "?" for unreadable ones."""
    found: dict[Path, str | None] = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file() or not _is_hdf5(path):
            continue
        if path.name.startswith(_DRAFT):
            # The copy of a file that names no data, or an export.
            continue
        try:
            with h5py.File(path, "r") as file:
                identity = _identity.identity_of(file)
                found[path] = None if identity is None else identity.data
        except OSError:
            found[path] = "?"
    return found


def _is_hdf5(path: Path) -> bool:
    """Whether a file is one of HDF5: it begins as one, or does so after a block of the user's."""
    try:
        with path.open("rb") as file:
            size, at = os.fstat(file.fileno()).st_size, 0
            while at < size:
                file.seek(at)
                if file.read(len(_MAGIC)) == _MAGIC:
                    return True
                at = max(512, 2 * at)
    except OSError:
        pass
    return False


def copy(source: Path, target: Path, *, progress: Progress = _silent) -> list[str]:
    """Writes a copy of a file with its own data; returns what was written.

    Blocks are shared with the original's where the file system can do that.
    """
    target = _fresh(source, target)
    of = pair(source)
    _refuse_objects(source, of)
    new, home = None, target.parent
    if of.identity is not None:
        new = Identity(of.identity.folder, _identity.new_mark(), _identity.new_mark())
        # Everything is in the new data's folder until it is complete: if this process is killed,
        # nothing in the folder of the files looks like one, and `gc` finds data of no file.
        home = target.parent / new.folder / new.data
        home.mkdir(parents=True)
    draft, before = home / draft_name(), dict[str, str]()
    try:
        # The original stays open, so that no program writes into it meanwhile.
        with h5py.File(of.skeleton, "r") as file, _held(draft if new is None else None):
            shutil.copyfile(of.skeleton, draft)
            names = set(_markers(file))
            if of.before:
                before = _before.names_for_copy(of.before, target.parent)
                _copy_before(of, target.parent, before, progress)
            renamed = _renamed_before(names, before)
            if of.identity is not None and new is not None:
                renamed |= _renumbered(names, of.identity, new)
                with _held(_begin(home, of, draft, target.name, new)):
                    _rename_data(draft, renamed, new)
                    _copy_data(of, home, progress)
                    os.link(draft, target)
            else:
                _rename_data(draft, renamed, None)
                os.link(draft, target)
        if new is not None:
            _link(target, home)
    except BaseException:
        if new is not None:
            shutil.rmtree(home, ignore_errors=True)
            _tidy(home.parent)
        for name in before.values():
            (target.parent / name).unlink(missing_ok=True)
        _before.tidy(target.parent, before.values())
        raise
    finally:
        draft.unlink(missing_ok=True)
    return [f"{target}: {of}, {of.bytes} bytes"]


def draft_name() -> str:
    """A name for what is not complete; `gc` removes it when this process has ended."""
    return f"{_DRAFT}{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def _held(path: Path | None) -> Iterator[None]:
    """Says while it lasts that a process is at work: there, or on the data of a manifest."""
    if path is None:
        yield
        return
    with path.open("ab") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _refuse_objects(source: Path, of: Pair) -> None:
    if of.objects_before or (of.manifest is not None and of.manifest.objects is not None):
        raise PluginError(
            f"{source} has values in a store, which are not copied as files; plasmon hdf5 export "
            "writes a file with all values in it"
        )


def _fresh(source: Path, target: Path) -> Path:
    """Where a file goes; a folder takes it under its own name."""
    if target.is_dir():
        target = target / source.name
    if target.exists() or target.is_symlink():
        raise PluginError(f"{target} exists; choose another name or remove it first")
    return Path(os.path.realpath(target.parent)) / target.name


def _renumbered(names: set[bytes], old: Identity, new: Identity) -> dict[bytes, bytes]:
    """The names of the files of data in a copy: the numbers have the same length."""
    numbers = f"/{old.data}/".encode(), f"/{new.data}/".encode()
    return {name: name.replace(*numbers, 1) for name in names if numbers[0] in name}


def _renamed_before(names: set[bytes], before: dict[str, str]) -> dict[bytes, bytes]:
    """The same for files without a number; their folders' names have the same length."""
    known = {os.fsencode(old): os.fsencode(new) for old, new in before.items() if old != new}
    return {
        name: known[plain] + name[len(plain) :]
        for name in names
        if (plain := name.removesuffix(_NEEDS)) in known
    }


def _rename_data(draft: Path, renamed: dict[bytes, bytes], identity: Identity | None) -> None:
    """Makes the copy of a skeleton name other data as its own."""
    content = draft.read_bytes()
    for old, new in renamed.items():
        content = content.replace(b"\0" + old + b"\0", b"\0" + new + b"\0")
    with draft.open("r+b") as file:
        file.write(content)
    if identity is not None:
        with h5py.File(draft, "r+") as file:
            _identity.say(file, identity)
    with h5py.File(draft, "r") as file:
        left = renamed.keys() & set(_markers(file))
        if left or _identity.identity_of(file) != identity:
            raise PluginError(
                "the copy cannot be made by its bytes; plasmon hdf5 import writes the file again"
            )


def _copy_data(of: Pair, home: Path, progress: Progress) -> None:
    assert of.home is not None
    done, total = 0, of.bytes
    for path in of.files:
        target = home / path.relative_to(of.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        done += path.stat().st_size
        progress("copied", done, total)


def _copy_before(of: Pair, folder: Path, names: dict[str, str], progress: Progress) -> None:
    done, total = 0, of.bytes
    for path, name in zip(of.files_before, names.values(), strict=True):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        done += path.stat().st_size
        progress("copied", done, total)


def _begin(home: Path, of: Pair, draft: Path, name: str, new: Identity) -> Path:
    """Writes the manifest of data that is about to be copied: it is complete when it is there."""
    assert of.home is not None
    about = (of.home / _MANIFEST).read_text(errors="replace").split("plasmon-hdf5 ", 1)[0]
    manifest = home / f"{_DRAFT}manifest"
    manifest.touch(exist_ok=False)
    lines = [f"plasmon-hdf5 1 {new.data}", _owner(draft, name), f"home {manifest.stat().st_ino}"]
    lines.append(f"generation {new.generation}")
    lines += [f"made {_identity.escaped(str(path.relative_to(of.home)))}" for path in of.files]
    manifest.write_text(about + "\n".join(lines) + "\n")
    return manifest.rename(home / _MANIFEST)


def _owner(skeleton: Path, name: str) -> str:
    # Python does not expose when an inode was made; the connector adds it with its first write.
    return f"owner {skeleton.stat().st_ino} 0 {_identity.escaped(name)}"


def _link(skeleton: Path, home: Path) -> None:
    """Lets the link for people lead to a file's data."""
    folder = skeleton.with_name(f"{skeleton.name}.arrow")
    folder.mkdir(exist_ok=True)
    draft = folder / f".{_LATEST}.{os.getpid()}"
    draft.symlink_to(os.path.relpath(home, folder))
    draft.replace(folder / _LATEST)


def move(source: Path, target: Path, *, progress: Progress = _silent) -> list[str]:
    """Gives a file another name or folder, together with its data; returns what was moved."""
    target = _fresh(source, target)
    of = pair(source)
    if of.skeleton.is_symlink() or Path(source).is_symlink():
        raise PluginError(f"{source} is a link; move what it leads to, {of.skeleton}")
    # A file names the folder in which its data was made, and data that was moved by name is found
    # there, or under the file's own name: under its new name it goes into the named folder.
    home = None if of.identity is None else target.parent / of.identity.folder / of.identity.data
    elsewhere = of.skeleton.parent != target.parent
    if of.home == home and not (elsewhere and of.before):
        of.skeleton.rename(target)
        return [f"{target}: the data stays where it is" if of.home or of.before else f"{target}"]
    others = _shared_with(of) if elsewhere else []
    if others:
        raise PluginError(f"{source} shares its data with {others[0].name}: copy it instead")
    if target.parent.stat().st_dev != of.skeleton.parent.stat().st_dev:
        told = copy(source, target, progress=progress)
        remove(source)
        return told
    if home is not None and home.exists():
        raise PluginError(f"{home} exists: other data with this number exists")
    what = f"{target}: {of}"
    if elsewhere:
        _before.there(of.skeleton.parent, of.before)
        _before.move(of.skeleton.parent, of.before, target.parent)
    if of.home is None or home is None:
        of.skeleton.rename(target)
        return [what]
    home.parent.mkdir(exist_ok=True)
    _rename_pair(of, of.home, target, home)
    _link(target, home)
    _tidy_home(of.home)
    return [what]


def _rename_pair(of: Pair, old: Path, target: Path, home: Path) -> None:
    """Moves a file and its data.

    In between both folders have a file that the data belongs to. A program that is killed leaves
    two names, and `gc` finds that the data is needed.
    """
    try:
        os.link(of.skeleton, target)
    except PermissionError:
        # The file system has no hard links.
        old.rename(home)
        of.skeleton.rename(target)
        return
    try:
        old.rename(home)
    except BaseException:
        target.unlink()
        raise
    of.skeleton.unlink()


def _shared_with(of: Pair) -> list[Path]:
    """The other files in the folder that belong to the same data, or cannot be read."""
    mine = {"?"} if of.identity is None else {of.identity.data, "?"}
    inode = of.skeleton.stat().st_ino
    skeletons = _skeletons(of.skeleton.parent).items()
    others = [(path, data) for path, data in skeletons if path.stat().st_ino != inode]
    return [path for path, data in others if data in mine or _names_one_of(path, of)]


def _names_one_of(path: Path, of: Pair) -> bool:
    """Whether a file names data without a number that another one names."""
    if not (of.before or of.objects_before):
        return False
    with h5py.File(path, "r") as file:
        names = list(_external(file, b""))
        before, objects = _before.files_of(file, names), _before.objects_of(names)
    return not {*before, *objects}.isdisjoint({*of.before, *of.objects_before})


def remove(path: Path, *, dry_run: bool = False) -> list[str]:
    """Removes a file and its data; returns what was, or would be, removed.

    Data stays that another file belongs to as well, or that is not this file's; of a link or of one
    of several names only that goes.
    """
    told, home, manifest = [str(path)], None, None
    objects: list[ObjectPlace] = []
    before: tuple[str, ...] = ()
    if not path.is_symlink() and path.stat().st_nlink == 1:
        try:
            of = pair(path)
            _before.there(of.skeleton.parent, of.before)
        except OSError as error:
            told.append(f"no data: {error}")
        else:
            if not _shared_with(of):
                home, manifest, before = of.home, of.manifest, of.before
                if home is not None:
                    told.append(f"{home}: {len(of.files)} files of data, {of.bytes} bytes")
                told += [str(path.parent / name) for name in before]
                objects = _objects(of)
                told += map(str, objects)
    if not dry_run:
        path.unlink()
        if home is not None and manifest is not None:
            _remove_data(home, manifest)
            # Under a new name the file had a folder with a link for people.
            _tidy_link(path.with_name(f"{path.name}.arrow"), os.path.relpath(home, path.parent))
        for name in before:
            (path.parent / name).unlink(missing_ok=True)
        _before.tidy(path.parent, before)
        for place in objects:
            place.delete()
    return told


def _objects(of: Pair) -> list[ObjectPlace]:
    """The objects of a file's data in stores that this user names."""
    old = [place for place in of.objects_before if is_listed(place.socket)]
    if of.home is None or of.identity is None or of.manifest is None:
        return old
    if of.manifest.objects != (of.home / _MANIFEST).stat().st_ino:
        return old
    with h5py.File(of.skeleton, "r") as file:
        named = (ObjectPlace.of_text(os.fsdecode(name)) for name in _external(file, _NEEDS))
        found = {place for place in named if place is not None}
    number = f"-{of.identity.data}/"
    own = [place for place in found if number in place.name and is_listed(place.socket)]
    return [*old, *sorted(own, key=lambda place: place.name)]


def _remove_data(home: Path, manifest: Manifest) -> None:
    """Removes what the manifest lists, the manifest, and folders that are empty then."""
    for name in manifest.files:
        _remove_file(home, name)
    (home / _MANIFEST).unlink()
    _tidy(home)
    _tidy_home(home)


def _remove_file(home: Path, name: str) -> None:
    """Removes a file that a manifest lists, and folders that are empty then."""
    path = home / name
    if ".." in Path(name).parts or path.is_symlink():
        return
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == home or not _tidy(folder):
            break


def _tidy_link(folder: Path, within: str) -> None:
    """Removes a link that led to data that is gone, and its folder if that is empty."""
    latest = folder / _LATEST
    if latest.is_symlink() and os.path.normpath(os.readlink(latest)) == os.path.join("..", within):
        latest.unlink()
        _tidy(folder)


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
