"""Celeborn beside us: what of a release is run, and why it is missing when it is not."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.case import FREE
from bench.celeborn import HOME, Celeborn, registered, release, settings_of
from bench.environments import MissingError
from bench.rivals.spark.settings import celeborn_conf, conf
from bench.run import Context, Results, run
from bench.suites import _spark_pool as pool
from bench.suites.spark import SUITE
from scripts.demo_pool.processes import DemoError, kill, marked, new_mark, spawn

CLIENT = "celeborn-client-spark-3-shaded_2.12-0.7.0.jar"
#: The jars of a release, by its layout.
DISTRIBUTION = ("master-jars/m.jar", "worker-jars/w.jar", f"spark/{CLIENT}")
TREE = (
    *(f"{name}/target/{name}.jar" for name in ("master", "worker")),
    *(f"{name}/target/scala-2.12/jars/netty.jar" for name in ("master", "worker")),
    f"client-spark/spark-3-shaded/target/{CLIENT}",
)


def made(folder: Path, files: tuple[str, ...]) -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


@pytest.mark.parametrize(
    ("files", "master", "client"),
    [
        (DISTRIBUTION, ["master-jars/*"], "spark"),
        (TREE, ["master/target/*", "master/target/scala-2.12/jars/*"], TREE[-1].rpartition("/")[0]),
    ],
)
def test_a_release_is_a_distribution_or_a_packaged_tree(tmp_path, files, master, client):
    found = release(str(made(tmp_path, files)))
    assert found.master == ":".join(f"{tmp_path}/{jars}" for jars in master)
    assert found.worker == found.master.replace("master", "worker")
    assert found.client == tmp_path / client / CLIENT
    assert found.version == "0.7.0"


@pytest.mark.parametrize("files", [DISTRIBUTION, TREE])
def test_what_a_release_lacks_is_named(tmp_path, files):
    for lacking in files:
        folder = made(tmp_path / lacking.replace("/", "-"), tuple(set(files) - {lacking}))
        part = "spark/celeborn-client" if CLIENT in lacking else lacking.split("/")[0].split("-")[0]
        with pytest.raises(MissingError, match=f"{HOME}={folder} has no .*{part}"):
            release(str(folder))


def test_without_a_release_its_rows_and_figures_are_missing_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv(HOME, raising=False)
    # What needs no release is not measured here.
    monkeypatch.setattr(pool, "jar", lambda: None)
    case = pool.CASES[0]
    theirs = [entry for entry in case.entries if entry.side == pool.CELEBORN]
    results = Results(missing={(case.name, e.label, FREE.name): "" for e in case.entries
                               if e not in theirs})  # fmt: skip
    run(SUITE, Context(SUITE.sides, tmp_path, True), lambda name: name == case.name, results)
    reasons = {results.missing[case.name, entry.label, FREE.name] for entry in theirs}
    assert len(reasons) == 1
    assert f"set {HOME} to a release" in reasons.pop()
    assert not results.failed
    figure = next(one for one in pool.FIGURES if one.name == "pool_terasort_ratio_celeborn")
    results.rounds[case.name, f"{pool.OURS} {pool.ONE_COPY}", FREE.name] = [[1.0]]
    with pytest.raises(MissingError, match=HOME):
        figure.compute(results)


def test_its_application_differs_in_the_manager_and_what_that_needs():
    vanilla, theirs = conf("sort", "", 1024), celeborn_conf("the.jar", "10.0.0.1:1", 2, 12)
    assert conf("celeborn", "", 1024) == vanilla
    assert not vanilla.keys() & theirs.keys()
    assert {key for key in theirs if not key.startswith("spark.celeborn.")} == {
        "spark.shuffle.manager",
        "spark.shuffle.sort.io.plugin.class",
        "spark.driver.extraClassPath",
        "spark.executor.extraClassPath",
        "spark.serializer",
    }
    once = celeborn_conf("the.jar", "10.0.0.1:1", 1, 12)
    replicated = "spark.celeborn.client.push.replicate.enabled"
    assert (theirs[replicated], once[replicated]) == ("true", "false")


def test_its_services_have_addresses_of_their_machine_alone():
    told = settings_of("10.0.0.1:1", "10.0.0.1:2", "10.0.0.3", Path("/there"))
    hosts = {value for key, value in told.items() if key.endswith(".host")}
    assert hosts == {"10.0.0.1", "10.0.0.3"}
    assert told["celeborn.worker.storage.dirs"].startswith("/there:")


@pytest.fixture
def machines(tmp_path):
    """Machines of which each is this one; what runs on them ends with the test."""
    mark, started = new_mark(), []

    def run_here(command: list[str], log: Path, **environment: str):
        given = [f"{key}={value}" for key, value in environment.items()]
        started.append(spawn(["env", *given, *command], mark, log))
        return started[-1]

    nodes = [SimpleNamespace(name=f"node{at}", run=run_here) for at in (1, 2)]
    yield SimpleNamespace(
        host="127.0.0.1", own=nodes[1], nodes=nodes, count=1, address=lambda at: "127.0.0.1"
    )
    kill(mark)
    for process in started:
        process.wait()
    assert not marked(mark)


def test_a_service_that_ends_as_it_starts_is_an_error_with_its_words(
    tmp_path, machines, monkeypatch
):
    # A stand-in for Java, which does not know the class.
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho could not find or load main class >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = release(str(made(tmp_path / "release", DISTRIBUTION)))
    started = Celeborn(machines, found, tmp_path)
    started.launch()
    with pytest.raises(DemoError, match=r"of Celeborn ended(.|\n)*could not find or load main"):
        started.wait_until_ready()


def test_it_is_ready_when_its_master_has_all_workers():
    class Master(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/api/v1/workers"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"workers": [{}, {}], "lostWorkers": []}).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Master) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        web = f"127.0.0.1:{server.server_address[1]}"
        assert registered(web) == 2
        thread.join()
    assert registered(web) == 0
