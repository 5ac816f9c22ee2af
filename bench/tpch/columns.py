"""Columns of many values at once: texts, numbered names, prices, dates, words of a list."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.tpch import words

Numbers = npt.NDArray[np.int64]
#: What comments are cut out of; dbgen has 300 MB of the same sentences.
POOL_BYTES = 4 << 20
POOL_SEED = 19_920_101
ADDRESS = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,", np.uint8
)
PRICE = pa.decimal128(12, 2)


@cache
def text_pool() -> npt.NDArray[np.uint8]:
    """Sentences of the specification's grammar, one after the other."""
    chance = random.Random(POOL_SEED)
    phrases = {"N": words.NOUN_PHRASES, "V": words.VERB_PHRASES}
    lists = {
        "n": words.NOUNS,
        "v": words.VERBS,
        "j": words.ADJECTIVES,
        "d": words.ADVERBS,
        "x": words.AUXILIARIES,
    }

    def one(weighted: tuple[list[str], list[int]]) -> str:
        return chance.choices(*weighted)[0]

    def phrase(kind: str) -> str:
        return " ".join(one(lists[part]) for part in one(phrases[kind]).split())

    def part(kind: str) -> str:
        if kind == "T":
            return one(words.TERMINATORS)
        if kind == "P":
            return f"{one(words.PREPOSITIONS)} the {phrase('N')}"
        return phrase(kind)

    sentences: list[str] = []
    size = 0
    while size < POOL_BYTES:
        parts = [part(kind) for kind in one(words.SENTENCES).split()]
        sentences.append(" ".join(parts[:-1]) + parts[-1])
        size += len(sentences[-1]) + 1
    return np.frombuffer(" ".join(sentences).encode(), np.uint8)


def _strings(content: npt.NDArray[np.uint8], lengths: Numbers) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def comments(rng: np.random.Generator, rows: int, shortest: int, longest: int) -> pa.Array:
    """Pieces of the pool of sentences."""
    pool = text_pool()
    lengths = rng.integers(shortest, longest, rows, endpoint=True)
    starts = rng.integers(0, len(pool) - longest, rows)
    ends = np.cumsum(lengths)
    at = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
    return _strings(pool[at], lengths)


def addresses(rng: np.random.Generator, rows: int) -> pa.Array:
    """Random characters, from 10 to 40."""
    lengths = rng.integers(10, 40, rows, endpoint=True)
    return _strings(ADDRESS[rng.integers(0, len(ADDRESS), int(lengths.sum()))], lengths)


def _digits(numbers: Numbers, count: int) -> npt.NDArray[np.uint8]:
    powers = 10 ** np.arange(count - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _fixed(parts: Sequence[npt.NDArray[np.uint8] | bytes], rows: int) -> pa.Array:
    """Strings of one length, from parts that are the same in all rows or digits."""
    columns = [
        np.broadcast_to(np.frombuffer(part, np.uint8), (rows, len(part)))
        if isinstance(part, bytes)
        else part
        for part in parts
    ]
    joined = np.ascontiguousarray(np.concatenate(columns, axis=1))
    return _strings(joined.reshape(-1), np.full(rows, joined.shape[1]))


def numbered(prefix: bytes, numbers: Numbers) -> pa.Array:
    """Names such as ``Customer#000000042``."""
    return _fixed([prefix, _digits(numbers, 9)], len(numbers))


def phones(rng: np.random.Generator, nations: Numbers) -> pa.Array:
    """Numbers that begin with the country: 10 more than the nation's."""
    rows = len(nations)
    parts: list[npt.NDArray[np.uint8] | bytes] = [_digits(nations + 10, 2)]
    for first, last, digits in ((100, 999, 3), (100, 999, 3), (1000, 9999, 4)):
        parts += [b"-", _digits(rng.integers(first, last, rows, endpoint=True), digits)]
    return _fixed(parts, rows)


def chosen(rng: np.random.Generator, rows: int, values: Sequence[str]) -> pa.Array:
    """Words of a list, each as often as the others."""
    return taken(rng.integers(0, len(values), rows), values)


def taken(indices: Numbers, values: Sequence[str]) -> pa.Array:
    """Words of a list by their numbers."""
    dictionary = pa.array(list(values), pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionary)


def prices(cents: Numbers) -> pa.Array:
    """Decimals with two digits."""
    both = np.empty((len(cents), 2), np.int64)
    both[:, 0] = cents
    both[:, 1] = cents >> 63
    return pa.Array.from_buffers(PRICE, len(cents), [None, pa.py_buffer(both)])


def dates(days: Numbers) -> pa.Array:
    """Dates by the days since 1970."""
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def numbers(values: Numbers, kind: pa.DataType | None = None) -> pa.Array:
    """Whole numbers, of 64 bits unless another type is given."""
    return pa.array(values).cast(kind or pa.int64())
