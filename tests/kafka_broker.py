"""A Kafka broker of one node, from Maven's artifacts, and topics written and read by Spark."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import to_avro

from windrow.spark.java import find_java

POM = Path(__file__).parent / "kafka" / "pom.xml"
CLUSTER = "windrow-kafka-tests-00"
"""Kafka's ids of clusters have 22 characters."""
PARTITIONS = 3
PATIENCE = 120.0
"""Seconds after which a broker that does not answer has failed."""
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={logs}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def missing() -> str | None:
    """Why there can be no broker here."""
    return None if shutil.which("mvn") else "Kafka's jars come from Maven, and there is no mvn on the PATH"


@cache
def jars(profile: str) -> list[str]:
    """Of the broker or the connector, downloaded if they are not there yet."""
    with NamedTemporaryFile("r") as found:
        command = ["mvn", "-q", "-B", "-f", str(POM), "-P", profile, "dependency:build-classpath"]
        command += ["-DincludeScope=runtime", f"-Dmdep.outputFile={found.name}"]
        told = subprocess.run(command, capture_output=True, text=True)
        assert told.returncode == 0, f"mvn failed: {told.stdout[-2000:]}"
        return Path(found.name).read_text().split(os.pathsep)


class Broker:
    """Listens on ports of the loopback interface that were free a moment ago."""

    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            port, controller = (server.getsockname()[1] for server in (one, other))
        self.address = f"127.0.0.1:{port}"
        given = directory / "server.properties"
        values = {
            "port": port,
            "controller": controller,
            "logs": directory / "logs",
            "partitions": PARTITIONS,
        }
        given.write_text(SETTINGS.format(**values))
        java = str(find_java(os.environ).home / "bin" / "java")
        run = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        run += ["-cp", os.pathsep.join(jars("broker"))]
        subprocess.run(
            [*run, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(given)],
            check=True,
            capture_output=True,
        )
        self._log = (directory / "broker.log").open("w")
        self._process = subprocess.Popen(
            [*run, "kafka.Kafka", str(given)], stdout=self._log, stderr=subprocess.STDOUT
        )
        end = time.monotonic() + PATIENCE
        while not _answers(port):
            assert self._process.poll() is None and time.monotonic() < end, Path(self._log.name).read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def _answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Topics:
    """Topics of a broker, by a session that has the connector."""

    def __init__(self, session: SparkSession, broker: Broker) -> None:
        self.spark = session
        self.address = broker.address

    def put(self, topic: str, rows: pa.Table, format: str = "json", partition: int | None = None) -> None:
        """A record for each row; in Kafka's order within a partition, if one is given."""
        frame = self.spark.createDataFrame(rows).coalesce(1)
        value = sf.struct(*frame.columns)
        encoded = to_avro(value) if format == "avro" else sf.to_json(value)
        self._write(frame.select(encoded.alias("value")), topic, partition)

    def put_values(self, topic: str, values: Sequence[str]) -> None:
        self._write(self.spark.createDataFrame([(v,) for v in values], "value string"), topic, None)

    def _write(self, records: DataFrame, topic: str, partition: int | None) -> None:
        if partition is not None:
            records = records.withColumn("partition", sf.lit(partition))
        records.write.format("kafka").options(**self.options(topic=topic)).save()

    def options(self, **more: Any) -> dict[str, Any]:
        return {"kafka.bootstrap.servers": self.address, **more}

    def source(self, topic: str, **more: Any) -> dict[str, Any]:
        return self.options(subscribe=topic, startingOffsets="earliest", **more)

    def values(self, topic: str, schema: str, *columns: str) -> Counter[tuple]:
        """What the JSON values of a topic hold."""
        records = self.spark.read.format("kafka").options(**self.source(topic)).load()
        value = sf.from_json(sf.col("value").cast("string"), schema)
        return Counter(
            map(tuple, records.select(value.alias("value")).select("value.*").selectExpr(*columns).collect())
        )


def toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """A description as TOML; tables within sections inline."""
    lines = [
        f"[{name}]\n" + "".join(f"{k} = {_value(v)}\n" for k, v in s.items()) for name, s in sections.items()
    ]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f'"{k}" = {_value(v)}' for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f"'''{value}'''" if isinstance(value, str) else str(value).lower()
