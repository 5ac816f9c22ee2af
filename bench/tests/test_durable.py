"""The suite of durable objects: what it promises, its rivals, and its helpers."""

import shutil
import subprocess
import sys
import time

import pytest

from bench.case import FREE
from bench.environments import ROOT, MissingError
from bench.folders import Folders, file_system
from bench.report import document, insert, pages
from bench.rivals.clients import by_processes, by_threads
from bench.run import Results
from bench.suites import durable
from bench.tests.test_report import FACTS
from bench.worker import Worker

TARGETS = {
    "durable_1mib_vs_fdatasync": "<= 1.2", "durable_4kib_batch_ratio_redis": ">= 2",
    "durable_4kib_clients_ratio_redis": ">= 2",
    "dax_1mib_vs_streaming_copy": "<= 1.3", "dax_ratio_libpmemobj": ">= 2",
    "recover_1e6_s": "<= 2", "write_amplification": "<= 1.3", "space_amplification": "<= 2.1",
}  # fmt: skip
MOUNTS = """\
/dev/vda / ext4 rw 0 0
proc /proc proc rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/disk xfs rw 0 0
"""


def test_entries_and_figures_name_what_exists():
    sides = {side.name for side in durable.SIDES}
    for case in durable.CASES:
        labels = [entry.label for entry in case.entries]
        assert len(labels) == len(set(labels)), f"{case.name} has two entries of one name"
        assert {entry.side for entry in case.entries} <= sides
    for figure in durable.FIGURES:
        with pytest.raises(MissingError):
            figure.compute(Results())


def test_the_issues_figures_and_targets_are_there():
    limits = {figure.name: str(figure.target) for figure in durable.FIGURES if figure.target}
    assert limits == TARGETS


def test_results_become_figures_and_a_page():
    results = Results()
    for case in durable.CASES:
        for entry in case.entries:
            key = (case.name, entry.label, FREE.name)
            results.rounds[key] = [[2e6 if entry.side == durable.OURS else 1e6]] * 3
            results.notes[key] = [{"space_amplification": 1.5}, {"space_amplification": 2}]
    content = document(durable.SUITE, results, FACTS)
    figures = content["figures"]
    assert figures["durable_1mib_vs_fdatasync"] == 2
    assert figures["durable_4kib_batch_ratio_redis"] == 0.5
    assert figures["space_amplification"] == 2
    page = insert((ROOT / durable.SUITE.page).read_text(), pages(content))
    assert "| put_1mib | plasmon | 2.00 ms | 2.00 ms | 2.00 ms | 524 |" in page


def test_a_put_that_was_not_measured_has_the_reason_in_its_row():
    results = Results()
    results.missing["put_4kib", durable.REDIS, FREE.name] = "is not installed"
    assert "| put_4kib | redis | redis: is not installed |" in durable.SUITE.parts(results)["puts"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home", "ext4"), ("/tmp/x", "tmpfs"), ("/tmp/disk/x", "xfs"), ("/tmp/diskette", "tmpfs")],
)
def test_the_file_system_of_a_path_is_that_of_the_longest_mount(tmp_path, path, kind):
    assert file_system(type(tmp_path)(path), MOUNTS) == kind


def test_folders_are_gone_when_they_are_closed(tmp_path):
    folders = Folders(tmp_path)
    made = type(tmp_path)(folders.on_disk())
    (made / "log").write_text("x")
    assert file_system(made) not in {"tmpfs", "ramfs"}
    folders.close()
    assert not made.exists()


@pytest.mark.parametrize("run", [by_processes, by_threads])
def test_clients_put_at_once_and_the_time_is_that_of_all_together(run):
    def connect(_):
        return lambda: time.sleep(0.01)

    answer = run(4, 0.2, connect)
    (sample,) = answer["samples"]
    # Four of them sleep at the same time, so one passes in a quarter of the time at best.
    assert sample >= 0.01e9 / 4
    assert answer["batch"] >= 4


@pytest.mark.parametrize("run", [by_processes, by_threads])
def test_a_client_that_fails_fails_the_measurement(run):
    def connect(number):
        def put():
            if number == 1:
                raise ValueError("no room")

        return put

    with pytest.raises((RuntimeError, ValueError)):
        run(3, 0.05, connect)


SIDES = {side.name: side for side in durable.SIDES}


@pytest.mark.parametrize("name", [durable.FILES, durable.REDIS, "libpmemobj-dax"])
def test_a_rival_puts_where_it_is_installed(tmp_path, name):
    if name == durable.REDIS and shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    known = subprocess.run(["pkg-config", "--exists", "libpmemobj"], check=False).returncode == 0
    if name == "libpmemobj-dax" and not known:
        pytest.skip("libpmemobj is not installed")
    folder = tmp_path / "folder"
    folder.mkdir()
    worker = Worker([sys.executable, *SIDES[name].arguments], tmp_path)
    start = {**SIDES[name].start, "folder": str(folder)}
    try:
        worker.call({"op": "start", "directory": str(tmp_path), "capacity_bytes": 1, **start})
        for case in durable.CASES:
            for entry in case.entries:
                if entry.side != name or entry.request.get("object_bytes", 0) > 1 << 20:
                    continue
                small = {"count": 2, "seconds": 0.05, "clients": 2, "batch": 3}
                request = {key: small.get(key, value) for key, value in entry.request.items()}
                answer = worker.call(request)
                assert answer["samples"]
                assert min(answer["samples"]) > 0, f"{case.name}, {entry.label}"
        assert name == durable.REDIS or not list(folder.iterdir())
    finally:
        worker.end()
