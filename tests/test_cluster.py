"""A real standalone cluster on this machine: a master and two workers, some of them killed in mid-run."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

from driver import Driver
from faults import Faults, descendants, kill, wait_until
from object_server import KEYS, ObjectServer
from places import Place, differences
from windrow.spark.java import find_java
from windrow.state.inspect import verify

pytestmark = pytest.mark.faults

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}


@dataclass
class Cluster:
    """Its workers have no local directory in common."""

    url: str
    directory: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        number = len(self.workers) + 1
        # Addresses differ: Spark runs no speculative copy on the machine of the original.
        host, local = f"127.0.0.{number}", str(self.directory / f"local-{number}")
        options = ["--host", host, "--cores", "1", "--memory", "1g"]
        options += ["--work-dir", str(self.directory / f"work-{number}")]
        self.workers.append(_start(self.directory, host, local, "worker.Worker", *options, self.url))

    def kill_worker_of(self, pid: int) -> None:
        """Kills the worker below which a process runs, and all of its processes; its disk goes with it."""
        number, worker = next(
            (number, worker)
            for number, worker in enumerate(self.workers, 1)
            if pid in descendants(worker.pid)
        )
        for each in [worker.pid, *descendants(worker.pid)]:
            kill(each)
        shutil.rmtree(self.directory / f"local-{number}", ignore_errors=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, master = f"spark://127.0.0.1:{port}", ["--host", "127.0.0.1", "--port", str(port)]
    first = _start(tmp_path, "127.0.0.1", str(tmp_path / "local"), "master.Master", *master)
    cluster = Cluster(url, tmp_path)
    try:
        _wait_for_port(port)
        cluster.add_worker()
        cluster.add_worker()
        yield cluster
    finally:
        started = [first, *cluster.workers]
        below = [pid for process in started for pid in descendants(process.pid)]
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in below:
            kill(pid)


def _start(logs: Path, host: str, local: str, what: str, *options: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": local,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", "--webui-port", "0"]
    with (logs / f"{what}-{host}.log").open("wb") as log:
        return subprocess.Popen([*command, *options], stdout=log, stderr=log, env=environment)


def _wait_for_port(port: int) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, "the master does not listen")


def test_speculation_and_a_worker_killed_in_mid_run(cluster: Cluster, tmp_path: Path) -> None:
    at, faults = Place(tmp_path).write().arrive(), Faults(tmp_path / "faults")
    # A task that hangs after its state is published gets a speculative copy, which publishes again.
    faults.plant("results", "pause", batch=1)
    # Later a task hangs, and its machine goes down.
    faults.plant("manifest", "pause", batch=3)
    conf = SPECULATION | {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    driver = Driver(tmp_path, faults, cluster.url, **conf)
    try:
        driver.order("pairs", at)
        struck = faults.wait()[0]
        stalled = next(faults.folder.glob(f"struck.{struck}.*"))
        faults.wait(2)  # so the batch of the stalled task was completed by its copy
        last = next(p for p in faults.struck() if not stalled.name.startswith(f"struck.{p}."))
        cluster.kill_worker_of(last)
        assert driver.reply()["error"] is None
    finally:
        faults.clear()
        driver.stop()
    assert not differences(at.found(), at.expected())
    assert not verify(str(at / "state")).damage


def test_workers_share_nothing_but_an_object_store(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers are lost, one after the other, each with its disk: before it commits, and after. One that
    has never seen the windows goes on."""
    pytest.importorskip("moto.server", reason="the S3 server: pip install 'moto[s3]' flask flask-cors")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    at, faults, server = Place(tmp_path).write().arrive(), Faults(tmp_path / "faults"), ObjectServer(0.01)
    faults.plant("reading", "pause", batch=1)
    faults.plant("mark", "pause", batch=3)
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    driver = Driver(
        tmp_path, faults, cluster.url, **conf, **{f"spark.executorEnv.{k}": v for k, v in KEYS.items()}
    )
    try:
        driver.order("pairs", at, state=server.url("states"))
        (first,) = faults.wait()
        cluster.kill_worker_of(first)
        cluster.add_worker()
        (last,) = set(faults.wait(2)) - {first}
        cluster.kill_worker_of(last)
        assert driver.reply()["error"] is None
        assert not differences(at.found(), at.expected())
        assert not verify(server.url("states")).damage
        copies = [path.parents[1].name for path in tmp_path.rglob("windrow-parts-*/*.arrows")]
        assert copies, "workers map copies in their own directories"
    finally:
        faults.clear()
        driver.stop()
        server.stop()
