"""Files of data come, move and go with their datasets, and nothing is lost or wrong in between."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Program, data

WRITE = """
with h5py.File("x.h5", "w") as file:
    file["g/x"] = np.arange(1000.0)
    file["r"] = np.zeros(4, dtype=[("a", "i4"), ("b", "f8")])"""
READ = """
with h5py.File("x.h5", "r") as file:
    for name in ("g/x", "r"):
        try:
            print(name, file[name][:2])
        except OSError as error:
            print("refused", name, error)"""


def test_missing_data_is_an_error_and_never_a_fill_value(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    run(WRITE)
    (tmp_path / "x.h5.arrow").rename(tmp_path / "elsewhere")
    for program in (run, plain):
        out = program(READ).out
        assert out.count("refused") == 2, out
    assert re.search(r"x\.h5\.arrow/\w{16}, which is not there", run(READ).out)


def test_cut_off_and_foreign_data_is_refused(run: Program, tmp_path: Path) -> None:
    run(WRITE)
    file = tmp_path / "x.h5.arrow" / "latest" / "g" / "x.arrow"
    whole = file.read_bytes()
    file.write_bytes(whole[:2000])
    assert "should have above" in run(READ).out
    file.write_bytes(b"not Arrow" + whole[9:])
    assert "does not start with the magic bytes of an Arrow file" in run(READ).out
    file.write_bytes(
        (tmp_path / "x.h5.arrow" / "latest" / "r.arrow").read_bytes().ljust(20_000, b"\0")
    )
    assert "its rows or columns are others" in run(READ).out
    file.write_bytes(whole)
    assert "refused" not in run(READ).out


def test_a_pair_can_be_moved_and_read_from_anywhere(run: Program, tmp_path: Path) -> None:
    run(WRITE)
    moved = tmp_path / "deep" / "er"
    moved.mkdir(parents=True)
    (tmp_path / "x.h5").rename(moved / "x.h5")
    (tmp_path / "x.h5.arrow").rename(moved / "x.h5.arrow")
    run("""
    file = h5py.File("deep/er/x.h5", "r")
    os.chdir("/")
    assert file["g/x"][3] == 3 and file["r"][1]["a"] == 0""")


def test_odd_names(run: Program, tmp_path: Path) -> None:
    odd = [
        "../up",
        "../../up",
        "läuft",
        "a b",
        "g.arrow/y",
        "z.arrow",
        "~",
        "%41",
        ".x",
        "n" * 4096,
    ]
    code = f"""
    with h5py.File("x.h5", "a") as file:
        for at, name in enumerate({odd!r}):
            if name in file:
                assert file[name][0] == at, name
            else:
                file.create_dataset(name, data=[at, 2.0])"""
    run(code)
    run(code)
    inside = tmp_path / "x.h5.arrow"
    assert not (tmp_path / "up.arrow").exists()
    assert len(data(tmp_path)) == len(odd)
    assert all(file.resolve().is_relative_to(inside) for file in inside.rglob("*"))


def test_deleted_datasets_lose_their_data_when_the_file_is_closed(
    run: Program, tmp_path: Path
) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        for name in ("a", "b", "g/c", "g/d"):
            file[name] = np.arange(5.0)
        file["link"] = file["b"]""")
    assert data(tmp_path) == {"a.arrow", "b.arrow", "g/c.arrow", "g/d.arrow"}
    (tmp_path / "x.h5.arrow" / "latest" / "notes.txt").write_text("not ours")
    run("""
    with h5py.File("x.h5", "r+") as file:
        del file["a"], file["b"], file["g"]
        assert np.array_equal(file["link"][:], np.arange(5.0))
        file["a"] = np.ones(3)
    with h5py.File("x.h5", "r") as file:
        assert set(file) == {"a", "link"} and file["a"][0] == 1 and file["link"][2] == 2""")
    assert data(tmp_path) == {"a~1.arrow", "b.arrow", "notes.txt"}


def test_a_new_file_takes_the_old_data_away(run: Program, tmp_path: Path) -> None:
    run(WRITE)
    run("""
    with h5py.File("x.h5", "w") as file:
        file["other"] = np.arange(3)""")
    assert data(tmp_path) == {"other.arrow"}


def test_copies_have_data_of_their_own(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file, h5py.File("sub.h5", "w") as other:
        file["g/x"] = np.arange(5.0)
        file["g/x"].attrs["unit"], file["g/x"].attrs["names"] = "m", ["a", "bc"]
        file["g/r"] = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        file["g/again"] = file["g/x"]
        file.copy("g/x", "x2")
        file.copy("g", "h")
        file.copy("g", other, name="h")
        with h5py.File("memory", "w", driver="core", backing_store=False) as memory:
            file.copy("g", memory, name="h")
            file["g/x"][0] = 9
            assert memory["h/x"][0] == 0 and memory["h/r"][2]["a"] == 0
        file["x2"][0], file["h/x"][0], other["h/x"][0] = 1, 2, 3
        assert [f[0] for f in (file["g/x"], file["x2"], file["h/x"], other["h/x"])] == [9, 1, 2, 3]
        assert file["h/again"] == file["h/x"] and file["g/again"] == file["g/x"]
        assert file["x2"].attrs["unit"] == "m"
        assert list(file["h/x"].attrs["names"]) == ["a", "bc"]""")
    assert len(data(tmp_path)) == 5
    assert len(data(tmp_path, "sub.h5")) == 2


def test_renamed_datasets_keep_their_data(run: Program) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        file["a"] = np.arange(3)
        file.move("a", "b")
        file["a"] = np.arange(3) + 10
    with h5py.File("x.h5", "r") as file:
        assert file["b"][1] == 1 and file["a"][1] == 11""")


def test_killed_after_close_nothing_is_lost(run: Program) -> None:
    """A dataset that was closed is whole, though its file never was."""
    ended = run(
        """
    import signal
    file = h5py.File("x.h5", "w")
    x = file.create_dataset("g/x", data=np.arange(1000.0))
    r = file.create_dataset("r", data=np.ones(9, dtype=[("a", "i4"), ("b", "f8")]))
    del x, r
    file.create_dataset("open", (10_000,), "f8")
    os.kill(os.getpid(), signal.SIGKILL)""",
        good=False,
    )
    assert ended.code == -9
    run("""
    with h5py.File("x.h5", "r") as file:
        assert np.array_equal(file["g/x"][:], np.arange(1000.0)) and file["r"][8]["b"] == 1""")


def test_a_full_disk_is_an_error_and_old_data_stays(run: Program) -> None:
    run("""
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with h5py.File("x.h5", "w") as file:
        file["old"] = np.arange(100.0)
        data = file.create_dataset("x", (1 << 20,), "f8")
        data[:10] = 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        try:
            data[:] = 2
        except OSError as error:
            assert os.path.realpath("x.h5.arrow/latest/x.arrow") in str(error), error
        else:
            sys.exit("no error")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    with h5py.File("x.h5", "r") as file:
        assert np.array_equal(file["old"][:], np.arange(100.0))""")


def test_a_file_in_the_place_of_the_folder_is_named(run: Program, tmp_path: Path) -> None:
    (tmp_path / "x.h5.arrow").write_text("in the way")
    ended = run(WRITE, good=False)
    assert ended.code == 1
    assert "x.h5.arrow" in ended.err


def test_reading_only(run: Program) -> None:
    run(WRITE)
    run("""
    with h5py.File("x.h5", "r") as file:
        try:
            file["g/x"][0] = 1
        except OSError as error:
            assert "no write intent on file" in str(error), error
        else:
            sys.exit("no error")""")


@pytest.mark.parametrize("setting", ["backend=tape", "sync=perhaps", "nonsense"])
def test_wrong_settings_are_reported_where_a_file_is_opened(run: Program, setting: str) -> None:
    ended = run(WRITE, settings=setting, good=False)
    assert ended.code == 1
    assert setting in ended.err
    assert "there are" in ended.err
    # The import itself went well: a failure there would end the process silently.
    assert "Traceback" in ended.err


def test_settings_that_are_known(run: Program, tmp_path: Path) -> None:
    run(WRITE + READ.replace("    ", "    "), settings="backend=files sync=yes")
    assert data(tmp_path) == {"g/x.arrow", "r.arrow"}


def test_files_in_memory_stay_there(run: Program, tmp_path: Path) -> None:
    run("""
    import io
    with h5py.File("m.h5", "w", driver="core", backing_store=False) as file:
        file["x"] = np.arange(5)
        assert file["x"][3] == 3
    with h5py.File(io.BytesIO(), "w") as file:
        file["x"] = np.arange(5)
        assert file["x"][3] == 3""")
    assert list(tmp_path.iterdir()) == []


def test_links_into_other_files(run: Program, plain: Program, tmp_path: Path) -> None:
    """What is made through a link into another file must not have its data beside the wrong one."""
    (tmp_path / "there").mkdir()
    run("""
    with h5py.File("there/b.h5", "w") as file:
        file["g/x"] = np.arange(5.0)
    with h5py.File("a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("there/b.h5", "/g")
        file["own"] = np.arange(3.0)
        assert file["link/x"][3] == 3
        file["link/x"][0] = 7
        file["link"].create_dataset("made", data=np.arange(4.0))
        name = b"link/low"
        space = h5py.h5s.create_simple((4,))
        low = h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F64LE, space)
        h5py.Dataset(low)[:] = 2
        file.copy("own", file["link"], name="copy")""")
    run("""
    os.chdir("there")
    with h5py.File("b.h5", "r") as file:
        group = file["g"]
        assert group["x"][0] == 7 and group["made"][3] == 3
        assert group["low"][1] == 2 and group["copy"][2] == 2""")
    assert data(tmp_path, "a.h5") == {"own.arrow"}
    assert data(tmp_path / "there", "b.h5") == {"g/x.arrow"}


def test_a_file_that_is_asked_while_it_is_open_is_closed_again(run: Program) -> None:
    """Copying out of an open file, and making a file beside one, left it open forever; a filter
    that was unregistered afterwards ended the program with a segmentation fault."""
    run("""
    from h5py import h5f
    def count():
        return len(h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE))
    for _ in range(2):
        with h5py.File("y.h5", "w") as other, h5py.File("x.h5", "w") as file:
            assert count() == 2, count()
            file["x"] = np.arange(10.0)
            file["x"].attrs["x"] = file["x"].ref
            file["outside"] = h5py.ExternalLink("y.h5", "/copy")
            file.copy("x", other, "copy")
            file.copy("x", other, "expanded", expand_refs=True)
            assert file["outside"][3] == 3 and other["copy"][3] == 3
            assert count() == 2, count()
        assert count() == 0, count()""")
