"""Every golden vector is what its description says; damaged ones are refused, or are a value."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest
from matching import Matching

import plo_reader

SPEC = Path(os.environ.get("PLO_VECTORS", Path(__file__).parents[3] / "spec" / "objects"))
VECTORS = sorted(SPEC.glob("*.plo"))
HOSTILE = sorted((SPEC / "hostile").glob("*.plo"))
MUTATIONS = 4000
MUTATED_BYTES_MAX = 50_000


def description(vector):
    name = re.sub(r"(\.small|\.stream)?\.plo$", "", vector.name)
    return json.loads((SPEC / f"{name}.json").read_text("utf-8"))


def test_there_are_vectors():
    assert VECTORS


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.name)
def test_vectors_are_what_they_should_be(vector):
    Matching().match(plo_reader.read(vector.read_bytes()), description(vector))


@pytest.mark.parametrize("vector", HOSTILE, ids=lambda path: path.stem)
def test_hostile_vectors_are_refused(vector):
    wanted = json.loads(vector.with_suffix(".json").read_text("utf-8"))
    if wanted["only_makers"]:
        plo_reader.read(vector.read_bytes())
        return
    with pytest.raises(plo_reader.PloError, match=r"\w{3}") as caught:
        plo_reader.read(vector.read_bytes())
    assert caught.value.code == wanted["error"]


def test_there_are_hostile_vectors():
    assert len(HOSTILE) > 100


def damaged(data, rng):
    if rng.random() < 0.1:
        return data[: rng.randrange(len(data))]
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
    return bytes(data)


def test_damaged_vectors_are_refused_or_are_values():
    seed = int(os.environ.get("SEED", "20261120"))
    rng, refused = random.Random(seed), 0
    vectors = [path.read_bytes() for path in VECTORS]
    vectors = [data for data in vectors if len(data) <= MUTATED_BYTES_MAX]
    for at in range(MUTATIONS):
        data = damaged(rng.choice(vectors), rng)
        try:
            plo_reader.read(data)
        except plo_reader.PloError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"SEED={seed}, mutation {at}") from error
    assert refused > MUTATIONS / 4


def test_messages_are_those_of_the_specification():
    spec = Path(__file__).parents[3] / "spec" / "objects"
    layout = json.loads((spec / "layout.json").read_text("utf-8"))
    buffers = plo_reader.buffers
    assert (spec / "schema.bin").stat().st_size == buffers._SCHEMA_BYTES == layout["schema_bytes"]
    assert (spec / "batch.bin").stat().st_size == buffers._BATCH_BYTES == layout["batch_bytes"]
    buffers._check_messages((spec / "schema.bin").read_bytes() + (spec / "batch.bin").read_bytes())
    assert layout["body_length_at"] == buffers._BODY_LENGTH_AT
    assert (layout["nodes_at"], layout["nodes"]) == (buffers._NODES_AT, buffers._NODE_COUNT)
    assert (layout["buffers_at"], layout["buffers"]) == (
        buffers._BUFFERS_AT,
        buffers._BUFFER_COUNT,
    )


@pytest.mark.parametrize("data", [b"", b"PLO1", b"PLO1" + bytes(12), b"\xff" * 7000, bytes(64)])
def test_other_bytes_are_refused(data):
    with pytest.raises(plo_reader.PloError):
        plo_reader.read(data)
