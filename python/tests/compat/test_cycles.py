"""The places in an object that plasmon.compat looks at are those of the specification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import plasmon
from plasmon.compat import _cycles

SPECIFICATION = Path(__file__).resolve().parents[3] / "spec" / "objects"


def test_the_constants_of_the_stream_form():
    layout = json.loads((SPECIFICATION / "layout.json").read_text())
    found = _cycles._SCHEMA_BYTES, _cycles._BATCH_BYTES, _cycles._BUFFERS_AT
    assert found == (layout["schema_bytes"], layout["batch_bytes"], layout["buffers_at"])


def values():
    part, other = ["p", 1.5], {"k": None}
    yield [part, part, other, {"again": other, "more": part}]
    yield [1, True, 2.5, "x", b"y", None, part, (part, part), {1: 2.0}]
    yield [{"a": [n], "b": part} for n in range(30)]
    yield [([n], part, other) for n in range(30)]


@pytest.mark.parametrize("form", ["small", "stream"])
@pytest.mark.parametrize("number", range(4))
def test_both_forms_say_the_same(form, number):
    value = list(values())[number]
    assert not _cycles.has_cycle(memoryview(plasmon.dumps(value, form=form)))
    value[-1] = [value]
    assert _cycles.has_cycle(memoryview(plasmon.dumps(value, form=form)))


@pytest.mark.parametrize("form", ["small", "stream"])
def test_every_field_of_rows_is_looked_at(form):
    rows = [{"a": [n], "b": [n]} for n in range(30)]
    rows[20]["b"].append(rows)
    assert _cycles.has_cycle(memoryview(plasmon.dumps(rows, form=form)))
