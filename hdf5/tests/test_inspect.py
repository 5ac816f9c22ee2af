"""What `plasmon hdf5 inspect` prints: names of any bytes, types that NumPy lacks, right reasons."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from conftest import Program, plain_environment, run_command

ODD = """
    double, three = h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((3,))
    with h5py.File("odd.h5", "w") as file:
        group = file.create_group(b"gr\\xffp")
        group.create_dataset(b"x\\xfe", data=np.arange(3.0))
        group.create_dataset("line\\nend \u00fc", data=np.arange(3.0))
        member = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        member.insert(b"m\\xff", 0, double)
        h5py.h5d.create(file.id, b"compound", member, three)
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, three)
        file.create_dataset("second", (3, 3), "f4", maxshape=(3, None), chunks=(1, 1))"""


def test_names_of_any_bytes_are_printed(run: Program, tool: Program, tmp_path: Path) -> None:
    """`inspect` ended with a UnicodeDecodeError, and with names as Python's bytes."""
    run(ODD)
    found = {one["dataset"]: one for one in json.loads(tool("inspect", "odd.h5", "--json").out)}
    assert found["/gr\\xffp/x\\xfe"]["storage"] == "arrow"
    assert found["/gr\\xffp/line\\nend \u00fc"]["storage"] == "arrow"
    assert found["/compound"]["type"] == found["/time"]["type"] == "(not a NumPy type)"
    assert found["/second"]["reason"].startswith("of a size that may change in another dimension")
    environment = plain_environment() | {"PYTHONIOENCODING": "ascii"}
    command: list[str | Path] = [sys.executable, "-m", "plasmon.hdf5", "inspect", "odd.h5"]
    lines = run_command(command, tmp_path, environment).out.splitlines()
    assert len(lines) == len(found) + 1
    assert any(line.startswith("/gr\\xffp/line\\nend \\xfc ") for line in lines)


def test_the_reason_of_rows_that_grow_is_theirs(plain: Program, tool: Program) -> None:
    """Such a dataset of a store was said to have another file driver."""
    plain("""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("grows", (3,), "f4", maxshape=(None,), chunks=(2,))
        file["x"] = np.arange(3.0)""")
    found = {one["dataset"]: one for one in json.loads(tool("inspect", "x.h5", "--json").out)}
    assert "backend=store" in found["/grows"]["reason"]
    assert "another file driver" in found["/x"]["reason"]
    assert "backend=store" not in found["/x"]["reason"]
