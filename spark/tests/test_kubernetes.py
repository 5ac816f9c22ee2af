"""The manifests of deploy/kubernetes, read by Spark's own Kubernetes client, and the script that is
the program of a node's container."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from submitting import HERE, ROOT, Spark

DEPLOY = ROOT / "deploy" / "kubernetes"
MANIFESTS = ["etcd.yaml", "plasmon.yaml", "spark-pod.yaml"]


@pytest.fixture(scope="module")
def documents() -> dict[tuple[str, str], Any]:
    """All documents, by kind and name."""
    jars = Spark("3.5", Path()).home / "jars" / "*"
    return read(jars, *(DEPLOY / name for name in MANIFESTS))


def read(jars: Path, *files: Path) -> dict[tuple[str, str], Any]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(jars), str(HERE / "Manifests.java")]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(one["kind"], one.get("metadata", {}).get("name", "")): one for one in found}


def test_an_unknown_field_is_found(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nspec:\n  hostPid: true\n")
    with pytest.raises(AssertionError, match="hostPid"):
        read(Spark("3.5", Path()).home / "jars" / "*", tmp_path / "a.yaml")


def test_nodes_and_executors_meet_at_one_socket_as_one_user(documents):
    node = documents["DaemonSet", "plasmon"]["spec"]["template"]["spec"]
    spark = documents["Pod", ""]["spec"]
    (one,), (other,) = node["containers"], spark["containers"]
    assert _socket(node, one) == _socket(spark, other)
    users = [pod["securityContext"]["runAsUser"] for pod in (node, spark)]
    assert users[0] == users[1] != 0
    assert node["hostPID"] is True
    limits, requests = (one["resources"][key]["memory"] for key in ("limits", "requests"))
    assert limits == requests == "10Gi"
    assert _environment(one)["PLASMON_CAPACITY"] == "8g"
    # The room for a drain is within the grace period.
    assert node["terminationGracePeriodSeconds"] > 900


def _environment(container: Any) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def _socket(pod: Any, container: Any) -> Path:
    """Where on the machine the socket is."""
    socket = Path(_environment(container)["PLASMON_SOCKET"])
    (mount,) = [one for one in container["volumeMounts"] if Path(one["mountPath"]) == socket.parent]
    (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
    return Path(volume["hostPath"]["path"]) / socket.name


def test_selectors_find_their_pods_and_the_pool_its_etcd(documents):
    for kind, name in [("DaemonSet", "plasmon"), ("StatefulSet", "plasmon-etcd")]:
        spec = documents[kind, name]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    service = documents["Service", "plasmon-etcd"]
    etcd = documents["StatefulSet", "plasmon-etcd"]["spec"]
    assert service["spec"]["selector"] == etcd["template"]["metadata"]["labels"]
    (node,) = documents["DaemonSet", "plasmon"]["spec"]["template"]["spec"]["containers"]
    name, space = service["metadata"]["name"], service["metadata"]["namespace"]
    assert _environment(node)["PLASMON_CLUSTER"] == f"etcd://{name}.{space}.svc:2379"
    assert space == documents["Namespace", "plasmon"]["metadata"]["name"]


def run_node(folder: Path, *arguments: str, fails: str = "") -> tuple[int, list[str]]:
    """What the script calls, with a command that notes its arguments and fails as told."""
    program = folder / "plasmon"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\ncase "$*" in {fails or "-"}*) exit 1;; esac\n'
    )
    program.chmod(0o755)
    (folder / "secret").write_text("s")
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "NODE_NAME": "n1",
        "POD_IP": "10.0.0.7",
        "PLASMON_SOCKET": str(folder / "store.sock"),
        "PLASMON_CLUSTER": "etcd://e:2379",
        "PLASMON_CAPACITY": "8g",
        "PLASMON_SPILL_DIR": str(folder / "state" / "spill"),
        "PLASMON_STATE": str(folder / "state"),
        "PLASMON_TOKEN": str(folder / "secret"),
    }
    (folder / "state").mkdir(exist_ok=True)
    done = subprocess.run(
        [DEPLOY / "plasmon-node", *arguments],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_a_container_starts_its_node_and_ends_with_its_store(tmp_path: Path):
    code, calls = run_node(tmp_path, fails="status")
    state = tmp_path / "state"
    assert calls == [
        f"start --capacity 8g --cluster etcd://e:2379 --name n1 --pool-listen 10.0.0.7:7411"
        f" --pool-folder {state}/pool --spill-dir {state}/spill --pool-token-file {state}/token",
        "pool undrain n1",
        "status --json",
    ]
    assert code == 1, "it is started again"
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert (state / "spill").is_dir()
    assert run_node(tmp_path, fails="start")[0] == 1


def test_a_node_that_leaves_is_drained_and_stopped_even_so(tmp_path: Path):
    calls = ["pool drain n1 --timeout 900", "stop"]
    assert run_node(tmp_path, "leave") == (0, calls)
    (tmp_path / "calls").unlink()
    assert run_node(tmp_path, "leave", fails="pool") == (0, calls)
