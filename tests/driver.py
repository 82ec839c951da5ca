"""A driver in a process of its own that joins streams on Spark, to be killed at will.

test process                      driver process (`python -m driver`)              its Python workers
order, kill, look at results -->  streaming queries, one order after another  -->  strike where told to
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults import FOLDER, Faults, descendants, kill, wait_until
from places import ON, Place

REPLY = "@@"

# --- From outside ----------------------------------------------------------------------------------------


class Driver:
    """A process with a Spark session that runs one order after another."""

    def __init__(self, logs: Path, faults: Faults, master: str = "local[2,3]", **conf: str) -> None:
        modules = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {FOLDER: str(faults.folder), "PYTHONPATH": modules.rstrip(os.pathsep)}
        environment.pop("SPARK_CONF_DIR", None)  # what is killed writes its files as anyone's Spark does
        self._stderr = (logs / f"driver-{time.monotonic_ns()}.log").open("w")
        self._orders = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "driver", master, json.dumps(conf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=environment,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def order(self, shape: str, at: Place, **options: Any) -> None:
        """Begins a query of a shape (see below); `reply` tells how it went."""
        assert self._process.stdin
        self._orders += 1
        order = {"number": self._orders, "shape": shape, "at": str(at.directory), **options}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(REPLY):
                answer: dict[str, Any] = json.loads(line.removeprefix(REPLY))
                if answer["number"] == self._orders:  # else of a test that failed halfway
                    return answer
        raise AssertionError(f"the driver died: {Path(self._stderr.name).read_text()[-3000:]}")

    def run(self, shape: str, at: Place, **options: Any) -> Any:
        """Runs a query over all that has arrived; a failure is raised."""
        self.order(shape, at, **options)
        answer = self.reply()
        if answer["error"] is not None:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def kill(self) -> None:
        """kill -9 of driver and JVM at once. Workers find out by themselves, and then must be gone."""
        tree = descendants(self._process.pid)
        python = [pid for pid in tree if "python" in _command(pid)]
        for pid in [self._process.pid, *(pid for pid in tree if pid not in python)]:
            kill(pid)
        self._process.wait()
        end = time.monotonic() + 5
        while any(Path(f"/proc/{pid}").exists() for pid in python) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in python:
            kill(pid)
        self._close()

    def stop(self) -> None:
        if not self.alive:
            return
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            assert pipe
            with suppress(BrokenPipeError):
                pipe.close()


class Drivers:
    """The driver of these tests, started again if a test has killed it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.faults = Faults(directory / "faults")
        self._started: list[Driver] = []

    @property
    def driver(self) -> Driver:
        self._started = [driver for driver in self._started if driver.alive]
        if not self._started:
            self.prepare()
        return self._started[0]

    def prepare(self) -> None:
        """Starts one more, so that it is ready when the driver is killed."""
        self._started.append(Driver(self._directory, self.faults))

    def die_at(self, point: str, batch: int, shape: str, at: Place, **options: Any) -> None:
        """Runs a query until a worker comes by, and kills the driver there with all of its workers."""
        self.faults.plant(point, "pause", batch)
        self.driver.order(shape, at, **options)
        self.prepare()
        self.faults.wait()
        self.driver.kill()
        self.faults.clear()

    def stop(self) -> None:
        for driver in self._started:
            driver.stop()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


# --- From inside: shapes of queries ----------------------------------------------------------------------


def _drive(master: str, conf: Mapping[str, str]) -> None:
    spark = _session(master, conf)
    for line in sys.stdin:
        order = json.loads(line)
        number, shape, at = order.pop("number"), SHAPES[order.pop("shape")], Place(Path(order.pop("at")))
        try:
            answer = {"error": None, "result": shape(spark, at, **order)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(REPLY + json.dumps(answer | {"number": number}), flush=True)
    spark.stop()


def _session(master: str, conf: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    from windrow.spark.java import cache_directory, find_java
    from windrow.spark.session import SETTINGS, _logging

    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    logging = f"-Dlog4j2.configurationFile={_logging(cache_directory(os.environ)).as_uri()}"
    quick = f"{logging} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    builder = SparkSession.builder.master(master).appName("windrow faults")
    settings = SETTINGS | {
        "spark.driver.extraJavaOptions": quick,
        "spark.driver.memory": "700m",
        "spark.executor.extraJavaOptions": quick,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        f"spark.executorEnv.{FOLDER}": os.environ[FOLDER],
        "spark.python.daemon.module": "faults",
        "spark.sql.shuffle.partitions": "2",
        # Compiling a plan takes longer than running it over a few rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for key, value in (settings | dict(conf)).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _frame(spark: Any, at: Place, stream: str) -> Any:
    schema = "id long, ts timestamp, k long, note string"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(at / stream))


def _joined(spark: Any, at: Place, state: str | None = None, **changes: Any) -> Any:
    import windrow as wr

    settings = {"on": ON, "time": "ts", "within": "15 seconds", "late": "5 seconds", "partitions": 2}
    frames = {alias: _frame(spark, at, alias) for alias in "ab"}
    return wr.join(frames, state=state or str(at / "state"), name="pairs", **settings | changes)


def _shared(
    spark: Any, at: Place, windows: Mapping[str, str], control: bool = False, partitions: int = 2, **more: Any
) -> Any:
    """Queries that differ in their windows, in one join; with control documents from files, one a batch."""
    import windrow as wr

    queries = {
        name: wr.Query({a: wr.Stream("ts", window) for a in "ab"}, ON, late="5 seconds")
        for name, window in windows.items()
    }
    frames = {alias: _frame(spark, at, alias) for alias in "ab"}
    if control:
        reader = spark.readStream.option("maxFilesPerTrigger", 1)
        more["control"] = reader.text(str(at / "control"))
    return wr.share(queries, frames, partitions=partitions, state=str(at / "state"), **more)


def _run(frame: Any, at: Place, sink: str = "out", checkpoint: str = "checkpoint") -> None:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(at / checkpoint))
    writer.trigger(availableNow=True).start(str(at / sink)).awaitTermination()


def _run_each(frame: Any, at: Place, each: Callable[[Any, int], None]) -> None:
    writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(at / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def pairs(spark: Any, at: Place, sink: str = "out", checkpoint: str = "checkpoint", **changes: Any) -> None:
    """The plain join into files, from one query id to the next with the same checkpoint."""
    _run(_joined(spark, at, **changes).selectExpr("a.id as a", "b.id as b"), at, sink, checkpoint)


def shared(spark: Any, at: Place, **settings: Any) -> dict[str, list[str]]:
    """Many queries in one join into files; returns what control documents were refused for."""
    import windrow as wr

    frame = _shared(spark, at, **settings).selectExpr("query", "a.id as a", "b.id as b")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(at / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(at / "out"))
    query.awaitTermination()
    told = wr.metrics(query)
    return {"control_errors": sorted({reason for m in told for reason in m.control_errors})}


def side_by_side(spark: Any, at: Place) -> None:
    """Two queries at once with one state path."""
    frame = _joined(spark, at).selectExpr("a.id as a", "b.id as b")
    other = _joined(spark, at, within="2 seconds").selectExpr("a.id as a", "b.id as b")
    queries = [
        f.writeStream.format("parquet")
        .option("checkpointLocation", str(at / f"checkpoint-{sink}"))
        .trigger(availableNow=True)
        .start(str(at / sink))
        for f, sink in ((frame, "out"), (other, "near"))
    ]
    for query in queries:
        query.awaitTermination()


def twins(spark: Any, at: Place, **settings: Any) -> None:
    """Every batch's tasks run twice at the same time; the results of one are kept. With settings, of a
    shared join."""

    from pyspark import InheritableThread

    def each(frame: Any, batch: int) -> None:
        counted: list[int] = []
        # A plain thread's tasks would not be told their query and batch.
        other = InheritableThread(target=lambda: counted.append(frame.count()))
        other.start()
        frame.write.mode("overwrite").parquet(str(at / "out" / str(batch)))
        other.join()
        assert counted, "the twin failed"

    if settings:
        frame = _shared(spark, at, partitions=1, **settings).selectExpr("query", "a.id as a", "b.id as b")
    else:
        frame = _joined(spark, at, partitions=1).selectExpr("a.id as a", "b.id as b")
    _run_each(frame, at, each)


def abandoned_twin(spark: Any, at: Place, batch: int) -> None:
    """The tasks of one batch run in addition, and nobody waits for them."""

    from pyspark import InheritableThread

    def each(frame: Any, number: int) -> None:
        if number == batch:
            InheritableThread(target=frame.count).start()
            wait_until(Faults(Path(os.environ[FOLDER])).struck, "the twin never ran")
        frame.write.mode("overwrite").parquet(str(at / "out" / str(number)))

    _run_each(_joined(spark, at, partitions=1).selectExpr("a.id as a", "b.id as b"), at, each)


def partly(spark: Any, at: Place, how: str, batch: int) -> None:
    """Of one batch only a few rows are read; the results of all others are kept."""

    def each(frame: Any, number: int) -> None:
        for step in how.split(" and ") if number == batch else ["write"]:
            if step == "write":
                frame.write.mode("overwrite").parquet(str(at / "out" / str(number)))
            else:
                READINGS[step](frame)

    _run_each(_joined(spark, at).selectExpr("a.id as a", "b.id as b"), at, each)


READINGS: dict[str, Callable[[Any], object]] = {
    "nothing": lambda frame: None,
    "limit": lambda frame: frame.limit(1).write.format("noop").mode("overwrite").save(),
    "take": lambda frame: frame.take(1),
    "isEmpty": lambda frame: frame.isEmpty(),
}


def threaded(spark: Any, at: Place) -> None:
    """Every batch is counted in a plain thread."""
    from threading import Thread

    def each(frame: Any, _: int) -> None:
        failed: list[Exception] = []

        def count() -> None:
            try:
                frame.count()
            except Exception as error:
                failed.append(error)

        thread = Thread(target=count)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    _run_each(_joined(spark, at), at, each)


def limited(spark: Any, at: Place, limit: int) -> None:
    """Only so many results are wanted, over all batches."""
    _run(_joined(spark, at).selectExpr("a.id as a", "b.id as b").limit(limit), at)


def batch_take(spark: Any, at: Place, rows: int) -> tuple[int, int]:
    """The join of all files as a batch: rows that were taken, and rows there are."""
    import windrow as wr

    frames = {alias: spark.read.parquet(str(at / alias)) for alias in "ab"}
    joined = wr.join(frames, on=ON, time="ts", within="15 seconds", partitions=2)
    return len(joined.take(rows)), joined.count()


def chained(spark: Any, at: Place, second: str = "triples") -> None:
    """One join feeds another."""
    import windrow as wr

    ab = _joined(spark, at, within="2 seconds").selectExpr(
        "a.id as a", "b.id as b", "a.k as k", "greatest(a.ts, b.ts) as ts"
    )
    joined = wr.join(
        {"ab": ab, "c": _frame(spark, at, "c")},
        on="ab.k = c.k",
        time="ts",
        within="4 seconds",
        late="8 seconds",
        partitions=2,
        state=str(at / "state"),
        name=second,
    )
    _run(joined.selectExpr("ab.a as a", "ab.b as b", "c.id as c"), at)


SHAPES: dict[str, Callable[..., Any]] = {
    shape.__name__: shape
    for shape in (
        *(pairs, shared, side_by_side, chained, threaded, limited, batch_take),
        *(twins, abandoned_twin, partly),
    )
}

if __name__ == "__main__":
    _drive(sys.argv[1], json.loads(sys.argv[2]))
