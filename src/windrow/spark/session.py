"""Spark sessions: one for pipelines, and a small local one for the demo, the lab and tests."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkRuntimeError
from pyspark.sql import SparkSession

from windrow.errors import WindrowError
from windrow.redaction import redacted
from windrow.spark.java import cache_directory, find_java, without_incubator

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Forks workers from a process in which the engine is loaded and its kernels are compiled.
    "spark.python.daemon.module": "windrow.spark.worker",
}

LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
CONNECT, CONNECT_PORT = "sc://", 15002
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
SECONDS = 10
"""Time limit for reaching a Spark Connect server."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set if spark-submit started this process, which then decides the master."""
SPARK_PARTITIONS = "200"
"""Spark's default number of shuffle partitions."""

# Without a configuration Spark prints at startup which default it uses. It sets the root logger to the level
# of its gateway's logger, so that logger needs a level too.
LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def local_session(cores: int, name: str, heap: str | None = None) -> SparkSession:
    """The local session of this process, started if there is none.

    Parameters
    ----------
    cores
        Number of parallel tasks, and of shuffle partitions.
    name
        The application's name.
    heap
        Heap of Spark's Java process, such as "4g"; None for Spark's default.
    """
    options = _options(f"local[{cores}]", {} if heap is None else {"spark.driver.memory": heap})
    return SparkSession.builder.appName(name).config(map=options).getOrCreate()


@contextmanager
def open_session(
    master: str | None, name: str, settings: Mapping[str, str], check: bool = False
) -> Iterator[SparkSession]:
    """The session of this process, or a new one that ends with the block.

    Parameters
    ----------
    master
        Spark's URL of a cluster, "local[n]", or "sc://host:port" for Spark Connect. None for the master of
        spark-submit, or all local cores.
    check
        Start a local session regardless of the master, because only schemas are needed.
    """
    # PySpark logs every refused expression with its Java stack; `spark_errors` reports it in a sentence.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    running = _running_session()
    if running is not None:
        yield running
        return
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    builder = SparkSession.builder.appName(name)
    if master is not None and master.startswith(CONNECT) and not check:
        _check_server(master)
        # The server has its own Java, Python and logging.
        builder = builder.remote(master).config(map=dict(settings))
    else:
        builder = builder.config(map=_options(master, settings, check))
    session = builder.getOrCreate()
    if (context := context_of(session)) is not None:
        context.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def _check_server(url: str) -> None:
    """Raise if nothing listens at the URL of a Spark Connect server. PySpark would try for ten minutes."""
    server = urlsplit(url)
    if server.hostname is None or any(os.environ.get(name) for name in PROXIES):
        return
    try:
        socket.create_connection((server.hostname, server.port or CONNECT_PORT), SECONDS).close()
    except OSError as error:
        raise WindrowError(f"no Spark Connect server answers at {redacted(url)}: {error}") from None


def context_of(session: SparkSession) -> SparkContext | None:
    """The context of a session; None over Spark Connect, whose client is not the driver."""
    try:
        return session.sparkContext
    except PySparkAttributeError:
        return None


def java_text(session: SparkSession, owner: str, method: str) -> str:
    """What a static method of Java without arguments returns, as text. Also works over Spark Connect."""
    (row,) = session.sql(f"SELECT reflect('{owner}', '{method}')").collect()
    return str(row[0])


def _options(master: str | None, settings: Mapping[str, str], check: bool = False) -> dict[str, str]:
    """The configuration of a session. Also sets the Java and the Python that Spark uses; it reads both when
    its Java process starts."""
    cache = cache_directory(os.environ)
    os.environ["JAVA_HOME"] = str(without_incubator(find_java(os.environ), cache))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    options = {**_defaults(master, check), **settings}
    java, log = "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_logging(cache).as_uri()}"
    return options | {java: f"{options.get(java, '')} {log}".strip()}


def _running_session() -> SparkSession | None:
    """The session of this process: that of this thread, or else one that another thread started."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _defaults(master: str | None, check: bool) -> dict[str, str]:
    local = LOCAL.fullmatch(master) if master is not None else None
    found = {key: value for key, value in SETTINGS.items() if local or check or "driver" not in key}
    if local is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        found["spark.sql.shuffle.partitions"] = str(cores)
    elif check:
        found["spark.sql.shuffle.partitions"] = SPARK_PARTITIONS
    if check:
        master = "local[1]"
    return found if master is None else found | {"spark.master": master}


def _logging(cache: Path) -> Path:
    """The configuration file that makes Spark log only errors."""
    path = cache / "log4j2.properties"
    if not path.exists() or path.read_text() != LOGGING:
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(LOGGING)
        aside.replace(path)
    return path
