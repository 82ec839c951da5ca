"""Flink: where its Python is, and its joins.

PyFlink wants a Python and packages of its own, so it gets an environment in Windrow's cache, made at the
first use. Flink's parquet format is fetched by Maven; the Hadoop classes that it needs come with PySpark.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from windrow.errors import WindrowError
from windrow.spark.java import cache_directory, find_java
from windrow_bench.peers.joins import PeerJoin

VERSION = "2.3.0"
PYTHONS = ("python3.12", "python3.11", "python3.10")
"""Those that PyFlink has wheels for."""
HEAP = "8g"
TUNED = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "5000",
}
"""Object reuse and mini-batches, which Flink leaves off by default."""
SCRIPT = Path(__file__).with_name("on_flink.py")


class NoFlinkError(WindrowError):
    """Flink cannot be run here; the message says why."""


@dataclass(frozen=True)
class Flink:
    """An installed Flink."""

    python: Path
    jars: tuple[Path, ...]

    def command(self, side: str, join: PeerJoin, files: Path, state: Path, cores: int) -> list[str]:
        """Joins the files of a folder; see `on_flink`."""
        multi = side == "flink-multi"
        settings = TUNED | {
            "parallelism.default": str(cores),
            "pipeline.jars": ";".join(jar.as_uri() for jar in self.jars),
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.dir": state.as_uri(),
            "table.optimizer.multi-join.enabled": str(multi).lower(),
        }
        query = f"select count(*), sum({join.fingerprint}) from {join.chain if multi else _intervals(join)}"
        tables = [_table(alias, join.columns[alias], files) for alias in join.aliases]
        document = {"settings": settings, "statements": tables, "query": query}
        return [str(self.python), str(SCRIPT), json.dumps(document)]

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return kept | {"JAVA_HOME": str(find_java(os.environ).home), "JAVA_TOOL_OPTIONS": f"-Xmx{HEAP}"}


def install() -> Flink:
    """Flink in Windrow's cache, installed if it is not there yet."""
    home = cache_directory(os.environ) / f"flink-{VERSION}"
    python, parquet = home / "bin" / "python", home / f"flink-sql-parquet-{VERSION}.jar"
    if not (home / "ready").exists():
        found = next(filter(_runs, PYTHONS), None)
        if found is None:
            raise NoFlinkError(f"PyFlink {VERSION} needs one of {', '.join(PYTHONS)} on the PATH")
        if shutil.which("mvn") is None:
            raise NoFlinkError("Flink's parquet format comes from Maven, and there is no mvn on the PATH")
        shutil.rmtree(home, ignore_errors=True)
        _run([found, "-m", "venv", str(home)])
        _run([str(python), "-m", "pip", "install", "-q", f"apache-flink=={VERSION}"])
        artifact = f"org.apache.flink:flink-sql-parquet:{VERSION}"
        get = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
        _run(["mvn", "-q", "-B", f"{get}:get", f"-Dartifact={artifact}", "-Dtransitive=false"])
        copy = [f"{get}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={home}"]
        _run(["mvn", "-q", "-B", *copy])
        (home / "ready").touch()
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    hadoop = sorted(Path(spark.origin).parent.glob("jars/hadoop-client-*.jar"))
    return Flink(python, (parquet, *hadoop))


def _runs(python: str) -> bool:
    """Whether there is such a Python. A version manager's file of that name may lead nowhere."""
    found = shutil.which(python)
    return found is not None and not subprocess.run([found, "--version"], capture_output=True).returncode


def _run(command: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    if done.returncode:
        output = (done.stderr or done.stdout).strip()[-500:]
        raise NoFlinkError(f"{' '.join(command[:4])} ... failed: {output}")


def _table(alias: str, columns: tuple[str, ...], files: Path) -> str:
    own = "".join(f"{column} bigint, " for column in columns)
    return (
        f"create table {alias} (us bigint, {own}p string, rt as to_timestamp_ltz(us / 1000, 3), "
        f"watermark for rt as rt) with ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{(files / alias).as_uri()}')"
    )


def _intervals(join: PeerJoin) -> str:
    """A chain of interval joins, each over the event time of the stream before."""
    text, span = "a", f"interval '{join.span}' second"
    for before, alias in zip(join.aliases, join.aliases[1:], strict=False):
        on = f"{join.on(alias)} and {alias}.rt between {before}.rt - {span} and {before}.rt + {span}"
        others = [join.near(x, alias) for x in join.aliases[: join.aliases.index(alias)] if x != before]
        text += f" join {alias} on {' and '.join([on, *others])}"
    return text
