"""A small, quiet Spark on this machine, for the demo, the lab and the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from windrow.spark.java import cache_directory, find_java

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Workers are forked from a process that has the engine loaded and its kernels compiled.
    "spark.python.daemon.module": "windrow.spark.worker",
}

# Without a configuration of ours Spark announces at startup which one it falls back to, and sets the
# root logger to the level of the gateway it starts from, which is why that one is named too.
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
        Tasks that run at the same time; shuffles get as many partitions.
    name
        The application's name.
    heap
        How much memory Spark's Java may take, such as "4g"; None: Spark's default.
    """
    # Spark reads these when its Java starts: which Java, which Python, and which address to listen on.
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging = _logging(cache_directory(os.environ))
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config(
        "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging.as_uri()}"
    )
    if heap is not None:
        builder = builder.config("spark.driver.memory", heap)
    return builder.config("spark.sql.shuffle.partitions", str(cores)).getOrCreate()


def _logging(cache: Path) -> Path:
    """The file that makes Spark log errors only."""
    path = cache / "log4j2.properties"
    if not path.exists() or path.read_text() != LOGGING:
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(LOGGING)
        aside.replace(path)
    return path
