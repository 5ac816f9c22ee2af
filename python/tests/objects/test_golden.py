"""The golden vectors are what this version writes, and it reads them.

With ``PLASMON_WRITE_SPEC=1`` they are written again. Vectors that were released must not change:
then the format needs another version.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import plasmon

from .golden import VECTORS, Describer, Vector, context

FOLDER = Path(__file__).parents[3] / "spec" / "objects"
WRITES = bool(os.environ.get("PLASMON_WRITE_SPEC"))


def _ids(vector: Vector) -> str:
    return vector.name


@pytest.mark.parametrize("form", ["small", "stream"])
@pytest.mark.parametrize("vector", VECTORS, ids=_ids)
def test_vectors_are_what_is_written(vector: Vector, form: str):
    value = vector.make()
    data = context(vector).dumps(value, form=form)
    path = FOLDER / f"{vector.name}.{form}.plo"
    if WRITES:
        path.write_bytes(data)
    assert path.read_bytes() == data


@pytest.mark.parametrize("vector", VECTORS, ids=_ids)
def test_vectors_are_read_as_they_are_described(vector: Vector):
    path = FOLDER / f"{vector.name}.json"
    value = vector.make()
    text = json.dumps(Describer(value).describe(value), ensure_ascii=False) + "\n"
    if WRITES:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    for form in ("small", "stream"):
        back = context(vector).loads((FOLDER / f"{vector.name}.{form}.plo").read_bytes())
        assert json.dumps(Describer(back).describe(back), ensure_ascii=False) + "\n" == text


def test_every_file_is_a_vector():
    names = {vector.name for vector in VECTORS}
    assert {path.name.split(".")[0] for path in FOLDER.glob("*.plo")} == names
    assert {path.stem for path in FOLDER.glob("*.json")} == {*names, "layout"}


def test_both_forms_are_recognized_by_their_length():
    for path in FOLDER.glob("*.plo"):
        data = path.read_bytes()
        assert plasmon.objects.object_nbytes(data + b"more") == len(data)
