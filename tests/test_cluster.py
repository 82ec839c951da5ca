"""A real standalone cluster on this machine: a master and two workers, one of them killed in mid-run."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from driver import Driver
from faults import Faults, descendants, kill, wait_until
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


@dataclass(frozen=True)
class Cluster:
    url: str
    workers: tuple[subprocess.Popen[bytes], ...]

    def worker_of(self, pid: int) -> subprocess.Popen[bytes]:
        """The worker below which a process runs."""
        return next(worker for worker in self.workers if pid in descendants(worker.pid))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, master = f"spark://127.0.0.1:{port}", ["--host", "127.0.0.1", "--port", str(port)]
    started = [_start(tmp_path, "127.0.0.1", "master.Master", *master)]
    try:
        _wait_for_port(port)
        for number in (1, 2):
            # Two addresses: Spark runs no speculative copy on the machine of the original.
            host = f"127.0.0.{number}"
            options = ["--host", host, "--cores", "1", "--memory", "1g"]
            options += ["--work-dir", str(tmp_path / f"work-{number}")]
            started.append(_start(tmp_path, host, "worker.Worker", *options, url))
        yield Cluster(url, tuple(started[1:]))
    finally:
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


def _start(logs: Path, host: str, what: str, *options: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
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
        worker = cluster.worker_of(last)
        for pid in [worker.pid, *descendants(worker.pid)]:
            kill(pid)
        assert driver.reply()["error"] is None
    finally:
        faults.clear()
        driver.stop()
    assert not differences(at.found(), at.expected())
    assert not verify(str(at / "state")).damage
