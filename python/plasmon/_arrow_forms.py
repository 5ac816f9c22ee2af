"""Arrow data for other libraries, where their own conversion would change a value.

NumPy has no integers with nulls: pyarrow makes floats of them, which hold 53 bits. polars 2.1 reads
decimals of 32 and 64 bits as if they had 128 when they lie in a list or a struct or come through
the Arrow C interface, which gives other numbers, and panics at decimals of 256 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Integers up to this size are floats, too.
_EXACT_MAX = 1 << 53


def numpy_of(values: Any, what: str) -> Any:
    """An Arrow array as a NumPy array; TypeError if a digit of it would be lost."""
    if is_rounded(values):
        raise TypeError(f'{what} {_ROUNDED}: use as_="arrow" and fill_null(), or as_="polars"')
    return values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False)


def pandas_of(values: Any, what: str) -> Any:
    """An Arrow array as a pandas series: one of Int64 or UInt64, where floats would be rounded."""
    if not is_rounded(values):
        return values.to_pandas()
    import pandas as pd
    import pyarrow as pa

    if not pa.types.is_integer(values.type):
        raise TypeError(f'{what} {_ROUNDED}: use as_="arrow" or as_="polars"')
    unsigned = pa.types.is_unsigned_integer(values.type)
    dtype: Any = pd.UInt64Dtype() if unsigned else pd.Int64Dtype()
    return pd.Series(dtype.__from_arrow__(values))


_ROUNDED = "has nulls, and integers beyond 2**53, which floats would round"


def is_rounded(values: Any) -> bool:
    """Whether some integers become floats, because others are null, and lose digits by that."""
    chunks = getattr(values, "chunks", None)
    return any(map(_is_rounded, [values] if chunks is None else chunks))


def _is_rounded(array: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    kind = array.type
    children: list[Any] = []
    if kinds.is_integer(kind) and kind.bit_width == 64 and array.null_count:
        found = pc.min_max(array).as_py().values()
        return any(one is not None and abs(one) > _EXACT_MAX for one in found)
    if isinstance(array, pa.ExtensionArray):
        children = [array.storage]
    elif kinds.is_dictionary(kind) and kinds.is_integer(kind.value_type) and array.null_count:
        children = [array.dictionary_decode()]
    elif kinds.is_struct(kind):
        children = array.flatten()
    elif kinds.is_map(kind):
        children = [array.keys, array.items]
    elif kinds.is_nested(kind) and hasattr(array, "flatten") and hasattr(kind, "value_type"):
        children = [array.flatten()]
    return any(map(_is_rounded, children))


def for_polars(source: Any) -> Any:
    """Arrow data without decimals that polars misreads, if there is pyarrow to look at them."""
    try:
        import pyarrow as pa
    except ImportError:
        return source
    schema = pa.RecordBatchReader.from_stream(source).schema
    wide = []
    for field in schema:
        try:
            wide.append(_widened(field.type))
        except TypeError as error:
            raise TypeError(f"the column {field.name!r} does not fit polars: {error}") from error
    if wide == schema.types:
        return source
    fields = [field.with_type(kind) for field, kind in zip(schema, wide, strict=True)]
    return pa.table(source).cast(pa.schema(fields, schema.metadata))


def _widened(kind: Any) -> Any:
    """A type with decimals of 128 bits in place of narrower ones."""
    import pyarrow as pa

    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_decimal256(kind):
        raise TypeError(f'it has {kind}, and polars has 128 bits only: read it as_="arrow"')
    return rebuilt(kind, _widened)


def rebuilt(kind: Any, of_part: Callable[[Any], Any]) -> Any:
    """A type with its parts rebuilt; the type itself if it has no parts, or if all stay the same.

    Types that no builder has, such as unions, stay as they are.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        values = of_part(kind.value_type)
        return kind if values == kind.value_type else _dictionary(kind, values)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    parts = [field.with_type(of_part(field.type)) for field in fields]
    make = next((make for is_one, make in _NESTED if getattr(pa.types, is_one)(kind)), None)
    if make is None or [part.type for part in parts] == [field.type for field in fields]:
        return kind
    return make(pa, kind, parts)


def _dictionary(kind: Any, values: Any) -> Any:
    import pyarrow as pa

    return pa.dictionary(kind.index_type, values, kind.ordered)


def _map(pa: Any, kind: Any, parts: list[Any]) -> Any:
    entries = parts[0].type
    return pa.map_(entries.field(0), entries.field(1), keys_sorted=kind.keys_sorted)


#: How types with parts are made of them, by the test for each.
_NESTED: tuple[tuple[str, Callable[[Any, Any, list[Any]], Any]], ...] = (
    ("is_struct", lambda pa, _, parts: pa.struct(parts)),
    ("is_map", _map),
    ("is_fixed_size_list", lambda pa, kind, parts: pa.list_(parts[0], kind.list_size)),
    ("is_large_list", lambda pa, _, parts: pa.large_list(parts[0])),
    ("is_list", lambda pa, _, parts: pa.list_(parts[0])),
    ("is_list_view", lambda pa, _, parts: pa.list_view(parts[0])),
    ("is_large_list_view", lambda pa, _, parts: pa.large_list_view(parts[0])),
)
