"""Where the connector is, and its reports on datasets that were opened through it."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plasmon.hdf5._objects import ObjectPlace

#: The connector's name, as in HDF5_VOL_CONNECTOR.
CONNECTOR = "plasmon"
#: Names another folder with the connector, for a connector built from source.
FOLDER_VARIABLE = "PLASMON_HDF5_PLUGIN"
_LIBRARY = "libplasmon_hdf5*.so"
_ANSWER_BYTES = 16384
#: The folder in which HDF5 in this process looks for the connector.
_prepended: list[str] = []


class PluginError(RuntimeError):
    """The connector is missing or does not answer; the text has the remedy."""


@dataclass(frozen=True)
class Storage:
    """Where the values of a dataset are.

    `file` is the Arrow file and `object` the object of a store; a dataset that HDF5 keeps has
    neither, and `reason` says why it does. `plain` tells whether HDF5 without the connector reads
    the values.
    """

    file: Path | None
    reason: str
    plain: bool
    object: ObjectPlace | None = None
    #: For a column that others wrote: which one.
    view: str = ""
    #: Why the file is not what the dataset was written with, if that is known.
    wrong: str = ""

    @property
    def is_arrow(self) -> bool:
        """Whether the values are Arrow."""
        return self.file is not None or self.object is not None

    @property
    def where(self) -> str:
        """The file or the object, for a person."""
        return str(self.file or self.object or "HDF5")


def _library() -> Path:
    folder = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).parent / "_connector")
    found = sorted(folder.glob(_LIBRARY))
    if not found:
        raise PluginError(
            f"there is no {_LIBRARY} in {folder}; install the package again, or set "
            f"{FOLDER_VARIABLE} to the folder of one that you built"
        )
    return found[0].resolve()


def folder() -> str:
    """The folder with the connector."""
    return str(_library().parent)


def is_folder(path: Path) -> bool:
    """Whether HDF5 finds a connector of this name in a folder."""
    return any(path.glob(_LIBRARY))


def is_active() -> bool:
    """Whether HDF5 in this process opens files through the connector."""
    return os.environ.get("HDF5_VOL_CONNECTOR", "").split(" ")[0] == CONNECTOR


def access_list() -> Any:
    """An h5py property list that opens files through the connector, in any environment."""
    import h5py

    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    if is_active():
        return access
    with h5py._objects.phil:
        hdf5 = ctypes.CDLL(_libhdf5())
        for function, arguments, result in (
            ("H5PLprepend", [ctypes.c_char_p], ctypes.c_int),
            ("H5VLregister_connector_by_name", [ctypes.c_char_p, ctypes.c_int64], ctypes.c_int64),
            ("H5Pset_vol", [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p], ctypes.c_int),
            ("H5VLclose", [ctypes.c_int64], ctypes.c_int),
        ):
            getattr(hdf5, function).argtypes = arguments
            getattr(hdf5, function).restype = result
        if not _prepended:
            hdf5.H5PLprepend(os.fsencode(folder()))
            _prepended.append(folder())
        connector = hdf5.H5VLregister_connector_by_name(CONNECTOR.encode(), 0)
        if connector < 0 or hdf5.H5Pset_vol(access.id, connector, None) < 0:
            raise PluginError(f"HDF5 {h5py.version.hdf5_version} cannot load {_library()}")
        # The property list keeps the connector.
        hdf5.H5VLclose(connector)
    return access


def _libhdf5() -> str:
    """The libhdf5 that h5py uses: the one in its wheel, or the only one in this process."""
    part = _hdf5_of_h5py()
    found = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        name = path.rsplit("/", 1)[-1]
        if name.startswith("libhdf5") and not name.startswith("libhdf5_"):
            found.add(f"/{path}")
    ours = [path for path in found if part is None or os.fsdecode(part) in path]
    if len(ours) != 1:
        raise PluginError(
            "cannot determine which libhdf5 h5py uses; set HDF5_VOL_CONNECTOR=plasmon and "
            "HDF5_PLUGIN_PATH before the program starts"
        )
    return ours[0]


def explain(dataset: Any) -> Storage:
    """The connector's report on an h5py.Dataset that was opened through it."""
    connector = ctypes.CDLL(str(_library()))
    ask = connector.plasmon_hdf5_explain
    ask.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    ask.restype = ctypes.c_int
    answer = ctypes.create_string_buffer(_ANSWER_BYTES)
    outcome = ask(dataset.id.id, _hdf5_of_h5py(), answer, _ANSWER_BYTES)
    if outcome < 0:
        raise PluginError(
            f"the connector does not know {dataset.name} ({outcome}): was the file opened with "
            "HDF5_VOL_CONNECTOR=plasmon, set before h5py was imported?"
        )
    kind, text, reader, wrong = os.fsdecode(answer.value).split("\n", 3)
    if kind == "arrow":
        return Storage(Path(text), "", reader == "plain", wrong=wrong)
    if kind == "store":
        place = ObjectPlace.of_text(text)
        return Storage(None, "", plain=False, object=place, wrong=wrong)
    if kind == "view":
        return Storage(None, "data of others", plain=False, view=text)
    return Storage(None, text, plain=True)


def _hdf5_of_h5py() -> bytes | None:
    """A part of the path of h5py's own libhdf5, where it has one: a process may hold several."""
    import h5py

    wheel = Path(h5py.__file__).parent.with_name("h5py.libs")
    return os.fsencode(wheel.name) if wheel.is_dir() else None
