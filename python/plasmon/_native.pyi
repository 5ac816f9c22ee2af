"""The compiled half of the package; what the methods do is in their docstrings at run time."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, final, overload

import numpy
from typing_extensions import Buffer as Bytes
from typing_extensions import CapsuleType

__version__: str
CODES: list[tuple[int, str, str]]
SETTINGS: list[tuple[str, str, str]]
LIMITS: dict[str, int]

TAG_RAW: int
TAG_ARROW_STREAM: int
TAG_NDARRAY: int
TAG_PYTHON: int
TAG_COMPOSITE: int
ARRAY_NUMPY: int
ARRAY_MEMORYVIEW: int
ARRAY_ARROW_BUFFER: int
ARRAY_ARROW_TENSOR: int
TABLE_TABLE: int
TABLE_RECORD_BATCH: int
TABLE_ARRAY: int
TABLE_CHUNKED_ARRAY: int
TABLE_PANDAS_FRAME: int
TABLE_PANDAS_SERIES: int
TABLE_POLARS_FRAME: int
TABLE_POLARS_SERIES: int

# Not there at run time: what sort_tables takes.
class SortWanted(TypedDict):
    partitions: int | None
    only: tuple[int, int] | None
    threads: int | None
    kind: int
    options: list[dict[str, Any]]
    progress: Callable[[int, int], object] | None

# Not there at run time: what sort_spilling takes.
class SpillWanted(TypedDict):
    partitions: int | None
    threads: int | None
    kind: int
    planned: Callable[[int], list[dict[str, Any]]]
    progress: Callable[[int, int], object] | None
    rows: int | None
    folder: str
    memory_bytes: int

def default_socket() -> Path: ...
def start_daemon(
    settings: list[tuple[str, str]],
    *,
    daemon: str | PathLike[str] | None = None,
    timeout: float = 10.0,
) -> tuple[int, Path]: ...
def serialize(
    value: object,
    *,
    context: _Context | None = None,
    form: Literal["auto", "stream", "small"] | None = None,
) -> Serialized: ...
def dumps(
    value: object,
    *,
    context: _Context | None = None,
    form: Literal["auto", "stream", "small"] | None = None,
) -> bytes: ...
def loads(data: Bytes, *, context: _Context | None = None) -> Any: ...
def object_nbytes(data: Bytes) -> int: ...
def read_arrow(memory: Bytes) -> Any: ...

@final
class Serialized:
    @property
    def nbytes(self) -> int: ...
    @property
    def form(self) -> Literal["stream", "small"]: ...
    def write_into(self, buffer: Bytes) -> int: ...
    def to_buffer(self) -> Block: ...
    def to_components(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...

@final
class Block:
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _Context:
    def __new__(cls, *arguments: object, **options: object) -> Self: ...
    pickle: Literal["never", "std", "cloudpickle"]
    canonical: bool
    gc: Literal["defer", "run"]
    def _forget(self) -> None: ...

@final
class _Strategy:
    def __new__(
        cls,
        how: int,
        encode: Callable[[Any], Any] | None = None,
        *,
        source: int = 0,
        name: str = "",
        version: int = 0,
        fields: list[str] | None = None,
    ) -> Self: ...

@final
class _ArrowStream:
    def __new__(cls, source: object, *, column: bool = False) -> Self: ...
    @property
    def nbytes(self) -> int: ...

@final
class _Piece:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def sort_tables(
    store: Store,
    tables: list[Any],
    by: list[tuple[str, bool, bool]],
    wanted: SortWanted,
) -> list[tuple[ObjectId, int]]: ...
def sort_spilling(
    store: Store,
    tables: Iterable[Any],
    by: list[tuple[str, bool, bool]],
    wanted: SpillWanted,
) -> list[tuple[ObjectId, int]]: ...

@final
class ObjectId:
    def __new__(cls, binary: bytes, /) -> Self: ...
    @classmethod
    def from_hex(cls, text: str, /) -> ObjectId: ...
    @classmethod
    def random(cls) -> ObjectId: ...
    @classmethod
    def from_name(cls, name: str, namespace: str = "") -> ObjectId: ...
    @property
    def binary(self) -> bytes: ...
    def hex(self) -> str: ...
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: ObjectId, /) -> bool: ...
    def __le__(self, other: ObjectId, /) -> bool: ...
    def __gt__(self, other: ObjectId, /) -> bool: ...
    def __ge__(self, other: ObjectId, /) -> bool: ...
    def __reduce__(self) -> tuple[type[ObjectId], tuple[bytes]]: ...

# Not there at run time: an object by its id or its name, several of them, what may become of one.
_Id = ObjectId | str
_Ids = _Id | Iterable[_Id]
_Policy = Literal["keep", "cache"]

@final
class Buffer:
    @property
    def id(self) -> ObjectId: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def policy(self) -> _Policy: ...
    @property
    def serial(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def released(self) -> bool: ...
    @property
    def data(self) -> memoryview: ...
    @property
    def metadata(self) -> memoryview: ...
    @property
    def stored_metadata(self) -> memoryview: ...
    @property
    def header(self) -> tuple[int, Literal["C", "F"], list[int], str] | None: ...
    def release(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    # One of the two, as fits what the object holds.
    def __arrow_c_array__(
        self, requested_schema: object = None
    ) -> tuple[CapsuleType, CapsuleType]: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType: ...
    def _arrow_c_array(
        self, requested_schema: object = None
    ) -> tuple[CapsuleType, CapsuleType]: ...
    def _arrow_c_stream(self, requested_schema: object = None) -> CapsuleType: ...

@final
class Writer:
    @property
    def id(self) -> ObjectId: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def state(self) -> Literal["open", "sealed", "aborted"]: ...
    @property
    def data(self) -> memoryview: ...
    def write(self, data: Bytes, offset: int = 0) -> int: ...
    def seal(self, *, force: bool = False) -> ObjectId: ...
    def abort(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

_Key = TypeVar("_Key")

@final
class Lending(Generic[_Key]):
    def __new__(cls, owner: Bytes, ended: Callable[[_Key], object], key: _Key) -> Self: ...
    @property
    def owner(self) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class PendingWait:
    def fileno(self) -> int: ...
    def poll(self) -> list[str] | None: ...
    def close(self) -> None: ...

class Subscription:
    def __new__(
        cls, store: Store, namespace: str | None = None, prefix: str | None = None
    ) -> Self: ...
    def read(self, timeout: float | None = None) -> tuple[ObjectId, str, int, int] | int | None: ...
    def read_queued(self) -> tuple[ObjectId, str, int, int] | int | None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...

@final
class _Put:
    def raw(self, data: Bytes) -> ObjectId: ...
    def python(self, value: object) -> ObjectId: ...
    def array(
        self, data: Bytes, kind: int, order: str, shape: list[int], text: str
    ) -> ObjectId: ...
    def array_writer(self, nbytes: int, kind: int, shape: list[int], text: str) -> Writer: ...
    def arrow(
        self, source: object, kind: int, *, column: bool = False, text: str = ""
    ) -> ObjectId: ...

@final
class _Part:
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class _Columns:
    def __new__(
        cls,
        store: Store,
        described: Any,
        *,
        table: bool = False,
        bytes_hint: int = 0,
        patience: float = 0.0,
    ) -> Self: ...
    def extend_arrow(self, source: Any, at: int | None = None) -> None: ...
    def extend_raw(self, data: Bytes, at: int) -> None: ...
    def append_nulls(self, count: int, at: int) -> None: ...
    def counts(self, at: int) -> tuple[int, int]: ...
    def snapshot(self) -> CapsuleType: ...
    def seal(
        self,
        *,
        id: _Id | None = None,
        name: str | None = None,
        namespace: str = "",
        metadata: Bytes = b"",
        policy: _Policy = "keep",
        ttl: float | None = None,
        owned: bool = False,
    ) -> ObjectId: ...
    def abort(self) -> None: ...
    @property
    def aborted(self) -> bool: ...

@final
class _Pool:
    def __new__(cls, store: Store) -> Self: ...
    def api(self) -> CapsuleType: ...
    def stats(self) -> dict[str, int]: ...
    def holds(self, address: int) -> bool: ...

class Store:
    def __new__(cls, **options: Any) -> Self: ...
    def _mapped(self, ids: Sequence[ObjectId]) -> list[Buffer | None]: ...
    def _in_memory(self, ids: Sequence[ObjectId]) -> list[Buffer | None]: ...
    def _check_refused(self, ids: Sequence[ObjectId]) -> None: ...
    def _value_of(
        self,
        buffer: Buffer,
        as_: Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"] | None = None,
    ) -> Any: ...
    def _ids_of(self, ids: _Ids, *, namespace: str = "") -> list[ObjectId]: ...
    def _reason(
        self, id: ObjectId, state: str, late: bool, name: str | None = None
    ) -> Exception: ...
    @property
    def request_timeout(self) -> float: ...
    @property
    def socket(self) -> Path: ...
    @property
    def capacity(self) -> int: ...
    @property
    def level(self) -> Literal["shared", "leased", "strict"]: ...
    @property
    def writable(self) -> bool: ...
    @property
    def context(self) -> _Context: ...
    @context.setter
    def context(self, context: _Context | None) -> None: ...
    def new_id(self) -> ObjectId: ...
    def put(
        self,
        value: object,
        *,
        id: _Id | None = None,
        name: str | None = None,
        namespace: str = "",
        metadata: Bytes = b"",
        policy: _Policy = "keep",
        ttl: float | None = None,
        members: Iterable[_Id] | None = None,
        owned: bool = False,
        strict: bool = False,
        tag: int = 0,
    ) -> ObjectId: ...
    def create(
        self,
        nbytes: int,
        *,
        id: _Id | None = None,
        name: str | None = None,
        namespace: str = "",
        metadata: Bytes = b"",
        policy: _Policy = "keep",
        ttl: float | None = None,
        members: Iterable[_Id] | None = None,
        owned: bool = False,
        strict: bool = False,
        tag: int = 0,
    ) -> Writer: ...
    @overload
    def get(  # type: ignore[overload-overlap] # a str is an Iterable of str
        self,
        ids: _Id,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["bytes"],
    ) -> bytes: ...
    @overload
    def get(  # type: ignore[overload-overlap] # a str is an Iterable of str
        self,
        ids: _Id,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["memoryview"],
    ) -> memoryview: ...
    @overload
    def get(  # type: ignore[overload-overlap] # a str is an Iterable of str
        self,
        ids: _Id,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["numpy"],
    ) -> numpy.ndarray[Any, Any]: ...
    @overload
    def get(
        self,
        ids: _Id,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["arrow", "pandas", "polars"] | None = None,
    ) -> Any: ...
    @overload
    def get(
        self,
        ids: _Id,
        default: object,
        /,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"] | None = None,
    ) -> Any: ...
    @overload
    def get(
        self,
        ids: Iterable[_Id],
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"] | None = None,
    ) -> list[Any]: ...
    @overload
    def get(
        self,
        ids: Iterable[_Id],
        default: object,
        /,
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"] | None = None,
    ) -> list[Any]: ...
    def get_buffer(
        self, id: _Id, *, namespace: str = "", timeout: float | None = None, wait: bool = False
    ) -> Buffer: ...
    @overload
    def get_buffers(
        self,
        ids: Iterable[_Id],
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        errors: Literal["raise"] = "raise",
    ) -> list[Buffer]: ...
    @overload
    def get_buffers(
        self,
        ids: Iterable[_Id],
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        errors: Literal["return"],
    ) -> list[Any]: ...
    def contains(self, id: _Id, *, namespace: str = "") -> bool: ...
    def states(self, ids: _Ids, *, namespace: str = "") -> list[str]: ...
    def wait(
        self,
        ids: _Ids,
        count: int | None = None,
        timeout: float | None = None,
        *,
        namespace: str = "",
        beyond_end: bool = False,
    ) -> list[str]: ...
    def _start_wait(
        self,
        ids: _Ids,
        count: int | None = None,
        timeout: float | None = None,
        *,
        namespace: str = "",
    ) -> PendingWait: ...
    def _delete_many(self, ids: _Ids, *, namespace: str = "") -> list[Any]: ...
    def _delete_unused(self, ids: _Ids, *, namespace: str = "") -> int: ...
    def evict(self, nbytes: int) -> tuple[int, int]: ...
    def touch(self, ids: _Ids, *, namespace: str = "") -> None: ...
    def _stat_fields(self, id: _Id, *, namespace: str = "") -> tuple[Any, ...] | None: ...
    def _list_fields(
        self, namespace: str | None = None, prefix: str | None = None
    ) -> list[tuple[Any, ...]]: ...
    def _status_fields(self) -> dict[str, Any]: ...
    def _clients_fields(self) -> list[dict[str, Any]]: ...
    def digest(self, id: _Id, *, namespace: str = "") -> bytes: ...
    def set_quota(self, nbytes: int) -> None: ...
    def _set_share(self, nbytes: int) -> None: ...
    def flush(self) -> None: ...
    def shutdown(self) -> None: ...
    def disconnect(self) -> None: ...
