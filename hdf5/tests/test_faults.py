"""Faults around the connector are reported, and damage nothing that was safe before."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from conftest import PREAMBLE, Program, connector_environment, data

WRITE = """
with h5py.File("x.h5", "w") as file:
    file["x"] = np.arange(1000.0)
    file.create_dataset("rows", (5000,), [("a", "i4"), ("b", "f8")], maxshape=(None,))
    file.create_dataset("line", data=np.arange(5000), maxshape=(None,))"""
READ = """
with h5py.File("x.h5", "r") as file:
    for name in file:
        try:
            print(name, file[name][:][-1])
        except OSError as error:
            print("refused", name, error)"""

#: How many processes are killed, each with its own seed.
SEEDS = 12


def test_names_with_a_zero_byte_are_refused(run: Program, tmp_path: Path) -> None:
    run(r"""
    with h5py.File("x.h5", "w") as file:
        for name in ("a\0b", b"a\0b", "\0"):
            try:
                file.create_dataset(name, data=[1.0])
            except ValueError:
                continue
            assert list(file) != [], "HDF5 cuts names off at a zero byte"
            del file[list(file)[0]]""")
    assert not list(tmp_path.rglob("*b.arrow"))


@pytest.mark.parametrize("name", ["x", "rows", "line"])
def test_data_that_is_cut_off_or_not_its_own_is_refused(
    run: Program, tmp_path: Path, name: str
) -> None:
    run(WRITE)
    file = tmp_path / "x.h5.arrow" / "latest" / f"{name}.arrow"
    whole = file.read_bytes()
    others = {
        other: (tmp_path / "x.h5.arrow" / "latest" / f"{other}.arrow").read_bytes()
        for other in ("x", "rows", "line")
        if other != name
    }
    for wrong in (whole[:1500], whole[:300], b"", b"\0" * len(whole), *others.values()):
        file.write_bytes(wrong.ljust(len(wrong), b"\0"))
        out = run(READ).out
        assert f"refused {name}" in out, out
        assert f"{file.resolve()}" in out, out
        assert out.count("refused") == 1, "the others are as they were"
    file.unlink()
    assert "which is not there" in run(READ).out
    file.write_bytes(whole)
    assert "refused" not in run(READ).out


def test_a_folder_that_cannot_be_written(run: Program) -> None:
    """New data is refused, what is there is read, and nothing is half made."""
    folder = Path(tempfile.mkdtemp())
    try:
        run(WRITE, folder=str(folder))
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o666)
        run(
            """
    if os.geteuid() == 0:
        os.setuid(65534)
    with h5py.File("x.h5", "r+") as file:
        file["x"][0] = 7
        try:
            file.create_dataset("y", data=np.arange(3.0))
        except Exception as error:
            assert "x.h5.arrow" in str(error), error
        else:
            sys.exit("no error")
        assert "y" not in file
        file.create_dataset("text", data=["stays", "native"])
    with h5py.File("x.h5", "r") as file:
        assert file["x"][0] == 7 and file["line"][4999] == 4999""",
            folder=str(folder),
        )
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB; only root can have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_full(run: Program, small_disk: Path) -> None:
    run(
        """
    kind = [("a", "i4"), ("b", "f8")]
    with h5py.File("x.h5", "w") as file:
        file["old"] = np.arange(100_000.0)
        rows = file.create_dataset("rows", (1000,), kind, maxshape=(None,))
        rows[:] = np.ones(1000, kind)
        line = file.create_dataset("line", data=np.arange(1000), maxshape=(None,))
    for name, size in (("big", 1 << 20), ("r", 1 << 19)):
        with h5py.File("x.h5", "r+") as file:
            data = file.create_dataset(name, (size,), "f8" if name == "big" else kind)
            try:
                data[:] = np.ones(size, data.dtype)
            except OSError as error:
                assert "No space left" in str(error) and f"{name}.arrow" in str(error), error
            else:
                sys.exit("no error")
            del file[name], data
    with h5py.File("x.h5", "r+") as file:
        for grows in (file["rows"], file["line"]):
            try:
                grows.resize((1 << 20,))
                grows[:] = np.ones(1 << 20, grows.dtype)
            except OSError as error:
                assert "No space left" in str(error), error
            else:
                sys.exit("no error")
            grows.resize((1000,))
    with h5py.File("x.h5", "r") as file:
        assert sorted(file) == ["line", "old", "rows"]
        assert np.array_equal(file["old"][:], np.arange(100_000.0))
        assert file["rows"].shape == (1000,) and (file["rows"]["b"] == 1).all()""",
        folder="disk",
    )
    # The room of what could not be written is free again.
    assert shutil.disk_usage(small_disk).free > 2 << 20


def test_a_copy_without_room_leaves_the_original_alone(run: Program, small_disk: Path) -> None:
    run(
        """
    size = 3 << 17
    with h5py.File("x.h5", "w") as file:
        for name in ("a", "g/b"):
            file[name] = np.arange(float(size if name == "a" else 10))
    with h5py.File("x.h5", "r+") as file:
        for name, source in (("copy", "a"), ("group", "/")):
            try:
                file.copy(source, name)
            except RuntimeError as error:
                assert "No space left" in str(error), error
            else:
                sys.exit("no error")
            assert name not in file
        assert file["g/b"][3] == 3
        file["a"][:10] = 1
    with h5py.File("x.h5", "r") as file:
        assert sorted(file) == ["a", "g"]
        assert (file["a"][:10] == 1).all() and file["a"][10] == 10 and file["a"][-1] == size - 1""",
        folder="disk",
    )


#: What a program opens after the close of a dataset has failed: HDF5 gives it the place of the
#: dataset, whose identifier it keeps.
NEXT = {
    "nothing": "",
    "dataset": 'keep = other["g/d"]',
    "group": 'keep = other["g"]',
    "attribute": 'keep = h5py.h5a.open(other.id, b"a")',
    "type": 'keep = other["t"]',
    "file": 'keep = h5py.File("third.h5", "w"); keep["z"] = np.arange(5.0)',
    "full": "limit(0)",
    "close": 'keep = other["g/d"]; file.close(); assert not file',
    "use": """
    for call in (lambda: d[0], lambda: d.attrs["a"], lambda: other.copy(d, "copy")):
        try:
            call()
        except (KeyError, OSError, RuntimeError, ValueError) as error:
            assert "closed before" in str(error), error
        else:
            sys.exit("no error")""",
}


@pytest.mark.parametrize("kind", ["contiguous", "growing", "native"])
@pytest.mark.parametrize("after", NEXT)
def test_a_dataset_whose_close_fails_is_not_closed_again(
    run: Program, after: str, kind: str
) -> None:
    """A program on a full disk went on for ever at its end: HDF5 keeps the identifier of a dataset
    whose close failed, without what it leads to, and closed the dataset again. The connector took
    memory that was another object's for the dataset. HDF5 alone ends with a memory fault."""
    run(
        f"""
    import resource
    def limit(bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, resource.RLIM_INFINITY))
    other = h5py.File("other.h5", "w")
    other["g/d"], other["t"], other.attrs["a"] = np.arange(10.0), np.dtype("i4"), 1
    other.flush()
    file = h5py.File("x.h5", "w")
    options = dict(
        contiguous=dict(), growing=dict(maxshape=(None,)),
        native=dict(chunks=(100,), compression="gzip"))["{kind}"]
    d = file.create_dataset("x", data=np.arange(1000.0), **options)
    d.attrs["a"] = 1
    limit(0)
    try:
        h5py.h5i.dec_ref(d.id)
    except (OSError, RuntimeError) as error:
        assert "File too large" in str(error), error
    else:
        sys.exit("no error")
    limit(resource.RLIM_INFINITY)
{textwrap.indent(textwrap.dedent(NEXT[after]), "    ")}""",
    )
    if after in {"file", "nothing"}:
        read = """
    with h5py.File("{name}.h5", "r") as file:
        assert (file["{dataset}"][:] == np.arange({count}.0)).all()"""
        name, dataset, count = ("third", "z", 5) if after == "file" else ("other", "g/d", 10)
        run(read.format(name=name, dataset=dataset, count=count))


@pytest.mark.parametrize("kind", ["file", "group", "type", "attribute", "contiguous", "native"])
def test_the_last_object_of_a_file_whose_close_fails_is_not_closed_again(
    run: Program, kind: str
) -> None:
    """The last object closes the file, for which the disk has no room. A second close went to the
    native connector's object, which was gone; so it is with HDF5 alone. A file is closed again,
    for HDF5 keeps it so long."""
    run(
        f"""
    import gc, resource
    from h5py import h5f, h5i, h5p
    def limit(bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, resource.RLIM_INFINITY))
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_WEAK)
    id = h5f.create(b"x.h5", h5f.ACC_TRUNC, fapl=access)
    file = h5py.File(id)
    file["contiguous"], file["native"] = np.arange(1000.0), ["a", "b"]
    file["type"], file.attrs["a"] = np.dtype("i4"), 1
    file.create_group("group")
    kind = "{kind}"
    last = h5py.h5a.open(id, b"a") if kind == "attribute" else id if kind == "file" else file[kind]
    last = getattr(last, "id", last) if kind in file else last
    gc.collect()
    while h5i.get_ref(id) > 1:
        h5i.dec_ref(id)
    if kind != "file":
        h5i.dec_ref(id)
    limit(0)
    try:
        h5i.dec_ref(last)
    except (OSError, RuntimeError) as error:
        assert "File too large" in str(error), error
    else:
        sys.exit("no error")
    assert last.valid, "HDF5 keeps the identifier"
    h5i.dec_ref(last)
    assert not last.valid
    limit(resource.RLIM_INFINITY)
    with h5py.File("other.h5", "w") as other:
        other["z"] = np.arange(10.0)
    with h5py.File("other.h5", "r") as other:
        assert other["z"][9] == 9"""
    )


def test_two_writers_exclude_each_other(run: Program) -> None:
    run("""
    import subprocess
    code = "import h5py; h5py.File('x.h5', 'r+')"
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.arange(10.0)
        file.flush()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1 and "lock" in done.stderr, done
        file["x"][0] = 5
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert h5py.File("x.h5")["x"][0] == 5""")


def test_hdf5_alone_changes_a_file_in_between(run: Program, plain: Program, tmp_path: Path) -> None:
    run(WRITE)
    plain("""
    with h5py.File("x.h5", "r+") as file:
        file["x"][1] = -1
        file["native"] = np.arange(4)
        file.move("line", "moved")
        file.create_group("g")["again"] = file["x"]
        del file["rows"]""")
    run("""
    with h5py.File("x.h5", "r+") as file:
        assert file["x"][1] == -1 and file["native"][3] == 3 and file["moved"][4999] == 4999
        assert file["g/again"] == file["x"] and "rows" not in file
        file["rows"] = np.arange(2.0)
        del file["native"]""")
    # Data whose dataset HDF5 alone deleted goes when the connector deletes something.
    assert data(tmp_path) == {"x.arrow", "line.arrow", "rows~1.arrow"}


#: Makes, grows and writes over datasets until it is killed, and says what is safe.
VICTIM = """
kind = [("a", "i8"), ("b", "f4")]
file = h5py.File("x.h5", "w")
rows = file.create_dataset("rows", (0,), kind, maxshape=(None,))
line = file.create_dataset("line", (0,), "i8", maxshape=(None,))
random = np.random.default_rng(SEED)
for step in range(100_000):
    name = f"g{step % 3}/d{step}"
    if step % 4 == 3:
        more = int(random.integers(1, 3000))
        first = len(rows)
        rows.resize((first + more,)), line.resize((first + more,))
        rows["a", first:] = np.arange(first, first + more)
        line[first:] = np.arange(first, first + more)
        file.flush()
        print("rows", first + more, flush=True)
        continue
    values = np.arange(int(random.integers(1, 20_000))) + step
    if step % 4 == 2:
        records = np.zeros(len(values), kind)
        records["a"] = values
        values = records
    file.create_dataset(name, data=values)
    print(name, len(values), flush=True)"""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """What was said to be safe is whole: in HDF5, or where HDF5's own file was damaged in the
    middle of being written, as it is with HDF5 alone, in Arrow."""
    code = PREAMBLE + textwrap.dedent(VICTIM.replace("SEED", str(seed)))
    victim = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=connector_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    safe = dict([victim.stdout.readline().split()])
    killer = threading.Timer(random.Random(seed).uniform(0, 0.6), victim.kill)
    killer.start()
    safe.update(line.split() for line in victim.stdout if line.endswith("\n"))
    assert victim.wait() == -signal.SIGKILL, victim.communicate()
    _check_arrow(tmp_path, safe)
    env = connector_environment()
    check = PREAMBLE + textwrap.dedent(f"""
    safe = {safe!r}
    try:
        file = h5py.File("x.h5", "r")
    except OSError as error:
        print("damaged", error)
        sys.exit()
    for name, length in safe.items():
        data = file[name]
        assert len(data) == int(length) or name == "rows" and len(data) >= int(length), name
        values = data["a"] if data.dtype.names else data[:]
        step = 0 if name == "rows" else int(name.split("/d")[1])
        assert np.array_equal(values[:int(length)], np.arange(int(length)) + step), name
    if "rows" in safe:
        assert np.array_equal(file["line"][:int(safe["rows"])], np.arange(int(safe["rows"])))
    """)
    done = subprocess.run(
        [sys.executable, "-c", check],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"


def _check_arrow(folder: Path, safe: dict[str, str]) -> None:
    for name, length in safe.items():
        path = folder / "x.h5.arrow" / "latest" / f"{name}.arrow"
        found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        found.validate(full=True)
        assert len(found) >= int(length), name
        first = 0 if name == "rows" else int(name.split("/d")[1])
        wanted = np.arange(int(length)) + first
        assert np.array_equal(found.column(0).slice(0, int(length)), wanted), name


def test_a_file_that_was_made_in_between_is_not_taken_over(run: Program, tmp_path: Path) -> None:
    """Data that is there already under the name of a new dataset stays as it is."""
    run(WRITE)
    stray = tmp_path / "x.h5.arrow" / "latest" / "new.arrow"
    stray.write_bytes(b"foreign")
    run("""
    with h5py.File("x.h5", "r+") as file:
        file["new"] = np.arange(3.0)
        assert file["new"][2] == 2""")
    assert stray.read_bytes() == b"foreign"
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["new"].id.get_create_plist().get_external(0)[0].endswith(b"new~1.arrow")
    assert os.path.exists(tmp_path / "x.h5.arrow" / "latest" / "new~1.arrow")
