"""Celeborn on the machines of a pool: its master here, a worker on each machine.

Its servers are in no package registry, so a release must be on this machine already, which
``CELEBORN_HOME`` names: an unpacked binary distribution, or a tree that was built from its sources.
Without one, what would be measured with it is missing, with the reason.

Workers of Celeborn listen on all addresses of their machine, which no setting changes. Hence they
run in network namespaces alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from bench.environments import MissingError
from bench.pool_machines import PoolMachines
from scripts.demo_pool.network import free_port
from scripts.demo_pool.node import Node
from scripts.demo_pool.processes import DemoError, log_end, until

NAME = "celeborn"
HOME = "CELEBORN_HOME"
#: After how many seconds without a sign the master gives a worker up, as Spark's does.
WORKER_TIMEOUT_S = 6
_STARTED_WITHIN_S = 120.0
_SERVICES = "org.apache.celeborn.service.deploy"
_CLIENT = "celeborn-client-spark-3-shaded_2.12-*.jar"
#: Where its jars lie, in a distribution and in a tree of sources: for a service, and for Spark.
_DISTRIBUTED = ("{}-jars/*",)
_BUILT = ("{}/target/*", "{}/target/scala-2.12/jars/*")
_CLIENTS = ("spark", "client-spark/spark-3-shaded/target")
#: What Netty and serializers reach into, as the release's own scripts allow them.
_OPENED = (
    *("java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.misc"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Without a configuration of its own, Log4j says only errors.
    "-Dorg.apache.logging.log4j.level=INFO",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
)
#: The master computes little; a worker has as much memory for data as a node's store has.
_MASTER_OPTIONS = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_WORKER_OPTIONS = ("-Xmx1g", "-XX:MaxDirectMemorySize=2g")


@dataclass(frozen=True)
class Release:
    """What of a release is run: the class paths of its services, and the jar of its client."""

    master: str
    worker: str
    client: Path

    @property
    def version(self) -> str:
        """Its version, which is a part of its jars' names."""
        found = re.search(r"_2\.12-(.+)\.jar$", self.client.name)
        return found[1] if found else "unknown"


def release(home: str | None = None) -> Release:
    """The release that is named, or that the environment names; else why there is none."""
    home = home or os.environ.get(HOME)
    if not home:
        raise MissingError(
            f"Celeborn's servers are in no package registry: set {HOME} to a release of it"
        )
    folder = Path(home).resolve()
    return Release(_jars(folder, "master"), _jars(folder, "worker"), _client(folder))


def _jars(folder: Path, service: str) -> str:
    """The class path of a service."""
    for layout in (_DISTRIBUTED, _BUILT):
        paths = [folder / pattern.format(service) for pattern in layout]
        if all(any(path.parent.glob("*.jar")) for path in paths):
            return ":".join(map(str, paths))
    raise MissingError(
        f"{HOME}={folder} has no jars of Celeborn's {service} in {service}-jars: set it to a"
        " binary distribution, or to a tree that Maven has packaged"
    )


def _client(folder: Path) -> Path:
    found = [path for place in _CLIENTS for path in sorted((folder / place).glob(_CLIENT))]
    if not found:
        raise MissingError(f"{HOME}={folder} has no spark/{_CLIENT}: Spark 3.5 needs this client")
    return found[0]


class Celeborn:
    """A master and its workers; they end with their machines."""

    def __init__(self, machines: PoolMachines, released: Release, folder: Path) -> None:
        """The folder is for settings, logs and, of each machine, what is shuffled."""
        self.released = released
        self._machines, self._folder = machines, folder / NAME
        self._folder.mkdir()
        host = machines.host
        #: What clients are told.
        self.endpoints = f"{host}:{free_port(host)}"
        self._web = f"{host}:{free_port(host)}"
        #: Of every service that was started: its process and its log.
        self._services: list[tuple[subprocess.Popen[str], Path]] = []

    def told(self) -> dict[str, str]:
        """What the worker of the harness is told of it."""
        return {
            "endpoints": self.endpoints,
            "jar": str(self.released.client),
            "version": self.released.version,
        }

    def launch(self) -> None:
        """Starts the services, and does not wait for them."""
        machines, (host, port) = self._machines, self.endpoints.split(":")
        own = machines.own
        self._start(own, host, "master", self.released.master, *_MASTER_OPTIONS, port=port)
        for at in range(machines.count):
            node, address = machines.nodes[at], machines.address(at)
            self._start(node, address, "worker", self.released.worker, *_WORKER_OPTIONS)

    def wait_until_ready(self) -> None:
        """Returns once all workers have registered."""
        until("Celeborn starts", _STARTED_WITHIN_S, self._is_ready)

    def _is_ready(self) -> bool:
        for process, log in self._services:
            if process.poll() is not None:
                raise DemoError(f"{log.stem} of Celeborn ended as it started:{log_end(log)}")
        return registered(self._web) == self._machines.count

    def _start(
        self, node: Node, address: str, service: str, jars: str, *options: str, port: str = "0"
    ) -> None:
        stem = self._folder / f"{service}-{node.name}"
        settings, log = stem.with_suffix(".conf"), stem.with_suffix(".log")
        kept = settings_of(self.endpoints, self._web, address, stem)
        settings.write_text("".join(f"{key} {value}\n" for key, value in kept.items()))
        name = f"{_SERVICES}.{service}.{service.capitalize()}"
        arguments = ["--host", address, "--port", port, "--properties-file", str(settings)]
        command = ["java", *_OPTIONS, *options, "-cp", jars, name, *arguments]
        process = node.run(command, log, CELEBORN_LOCAL_HOSTNAME=address)
        self._services.append((process, log))


def settings_of(endpoints: str, web: str, address: str, shuffled: Path) -> dict[str, str]:
    """The settings of a service at an address; what is not here is as it is by default."""
    host, port = web.split(":")
    return {
        "celeborn.master.endpoints": endpoints,
        "celeborn.master.http.host": host,
        "celeborn.master.http.port": port,
        "celeborn.master.heartbeat.worker.timeout": f"{WORKER_TIMEOUT_S}s",
        "celeborn.worker.http.host": address,
        "celeborn.worker.storage.dirs": f"{shuffled}:disktype=SSD",
    }


def registered(web: str) -> int:
    """How many workers the master at this address has; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{web}/api/v1/workers", timeout=5) as answer:
            return len(json.load(answer)["workers"])
    except OSError:
        return 0
