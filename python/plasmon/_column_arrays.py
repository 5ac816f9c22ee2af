"""Arrow data of another type than the column's: converted where nothing is lost by that.

pyarrow's safe casts refuse most of what loses, but not all: a number becomes True, a large one
infinity, a decimal the nearest float, a time of day is dropped, a zone appears. What such a cast
made is therefore cast back and compared. Between integers, between types of text and bytes, and to
wider floats a cast is exact or refused, and is not looked at again.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from plasmon._arrow_forms import rebuilt
from plasmon._column_values import Misfit


def plain_type(type: Any) -> Any:
    """A type as values arrive in it: an extension type is its storage, no dictionary is ordered."""
    import pyarrow as pa

    if isinstance(type, pa.BaseExtensionType):
        return plain_type(type.storage_type)
    if pa.types.is_dictionary(type):
        return pa.dictionary(type.index_type, plain_type(type.value_type))
    return rebuilt(type, plain_type)


def converted(values: Any, type: Any) -> Any:
    """An array or a chunked array as one of ``type``, or of what it is stored as.

    Raises :class:`Misfit`, or what pyarrow raises, for what a cast would lose.
    """
    import pyarrow as pa

    if values.type == type:
        return values
    if isinstance(values.type, pa.BaseExtensionType):
        if isinstance(type, pa.BaseExtensionType):
            raise Misfit(f"{values.type} is another type than {type}; append its storage")
        return converted(_each(values, lambda chunk: chunk.storage), type)
    if pa.types.is_run_end_encoded(values.type):
        return converted(_each(values, _decoded), type)
    target = plain_type(type)
    if _is_ordered(values.type) and _is_ordered(type):
        # The order of the values has a meaning, which the builder keeps, or refuses.
        target = pa.dictionary(target.index_type, target.value_type, ordered=True)
    if values.type == target:
        return values
    _check_zones(values.type, target)
    try:
        made = values.cast(target)
    except pa.ArrowNotImplementedError:
        if not pa.types.is_dictionary(values.type):
            raise
        return converted(_each(values, _without_keys), type)
    if _may_lose(values.type, target) and not _returns(values, made):
        raise Misfit(f"values of {values.type} would come back as others")
    return made


def _is_ordered(type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(type) and type.ordered)


def _each(values: Any, make: Any) -> Any:
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        return make(values)
    if not values.num_chunks:
        return make(pa.array([], values.type))
    return pa.chunked_array([make(chunk) for chunk in values.chunks])


def _without_keys(chunk: Any) -> Any:
    """A dictionary's values: views, too, of which pyarrow picks none by their places."""
    import pyarrow as pa

    values = chunk.dictionary
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    elif pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return values.take(chunk.indices)


def _decoded(chunk: Any) -> Any:
    import pyarrow.compute as pc

    return pc.run_end_decode(chunk)


def _pairs(source: Any, target: Any) -> list[tuple[Any, Any]] | None:
    """The types within two types that are nested alike; None when they are not."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_struct(source) and kinds.is_struct(target):
        names = {field.name for field in target}
        extra = [field.name for field in source if field.name not in names]
        if extra:
            raise Misfit(f"{target} has no field {extra!r}, which the values have")
        fields = {field.name: field.type for field in source}
        return [(fields[field.name], field.type) for field in target if field.name in fields]
    if kinds.is_map(source) and kinds.is_map(target):
        return [(source.key_type, target.key_type), (source.item_type, target.item_type)]
    if _is_list(source) and _is_list(target):
        return [(source.value_type, target.value_type)]
    return None


def _is_list(type: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_nested(type) and hasattr(type, "value_type") and not pa.types.is_map(type)


def _value_type(type: Any) -> Any:
    import pyarrow as pa

    return type.value_type if pa.types.is_dictionary(type) else type


def _check_zones(source: Any, target: Any) -> None:
    """Times with a zone are points in time, and others are not: neither becomes the other."""
    import pyarrow as pa

    source, target = _value_type(source), _value_type(target)
    for one, other in _pairs(source, target) or ():
        _check_zones(one, other)
    both = pa.types.is_timestamp(source) and pa.types.is_timestamp(target)
    if both and (source.tz is None) is not (target.tz is None):
        which = "have no zone" if source.tz is None else f"have the zone {source.tz}"
        raise Misfit(f"the times {which}, which {target} does not keep: cast them yourself")


def _may_lose(source: Any, target: Any) -> bool:
    """Whether a safe cast can change values without an error."""
    import pyarrow as pa

    kinds = pa.types
    source, target = _value_type(source), _value_type(target)
    if source == target or kinds.is_null(source):
        return False
    pairs = _pairs(source, target)
    if pairs is not None:
        return any(_may_lose(one, other) for one, other in pairs)
    if kinds.is_integer(source):
        return not (kinds.is_integer(target) or kinds.is_floating(target))
    if kinds.is_floating(source) and kinds.is_floating(target):
        return bool(source.bit_width > target.bit_width)
    return not (_is_bytes(source) and _is_bytes(target))


def _is_bytes(type: Any) -> bool:
    import pyarrow as pa

    kinds = pa.types
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary)
    more = (kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)
    return any(is_one(type) for is_one in (*tests, *more))


def _returns(values: Any, made: Any) -> bool:
    """Whether what was made is equal to the values; narrower floats may be rounded."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_floating(values.type) and kinds.is_floating(made.type):
        return _infinities(values) == _infinities(made)
    try:
        if made.cast(values.type).equals(values):
            return True
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        pass
    return _is_same(made.to_pylist(), values.to_pylist())


def _infinities(values: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.is_inf(values), min_count=0).as_py() or 0


def _is_same(made: Any, value: Any) -> bool:
    """Whether two values from arrays are one value, up to the rounding of floats."""
    if isinstance(made, list) and isinstance(value, list):
        return len(made) == len(value) and all(map(_is_same, made, value))
    if isinstance(made, tuple) and isinstance(value, tuple):
        return len(made) == len(value) and all(map(_is_same, made, value))
    if isinstance(made, dict) and isinstance(value, dict):
        return all(_is_same(made[name], value.get(name)) for name in made)
    if type(made) is float and type(value) is float:
        both_nan = math.isnan(made) and math.isnan(value)
        return made == value or both_nan or _is_rounded(made, value)
    return (type(made) is not bool and bool(made == value)) or made is value


def _is_rounded(made: float, value: float) -> bool:
    """Whether a float of fewer bits is the nearest of another one."""
    for form in "fe":
        try:
            if struct.unpack(form, struct.pack(form, value))[0] == made:
                return True
        except OverflowError:
            continue
    return False
