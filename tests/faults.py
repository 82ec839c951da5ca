"""Streams in files, a driver in a process of its own that joins them on Spark, and faults to strike it with.

    test process                      driver process (`python -m faults drive`)        its Python workers
    order, kill, look at results -->  streaming queries, one order after another  -->  strike where told to

A planted fault is a file named after where it strikes, what it does and in which batch. The first worker to
come by takes it, by renaming it; so each strikes once, and the test sees that it did. Workers are forked from
this module as Spark's daemon, which has hooked the places where faults may strike.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
ON = "a.k = b.k"
FILES, ROWS, KEYS = 4, 200, 60
"""Files per stream, each ten seconds of event time; rows in each; values of the key."""
START = int(time.time())
REPLY = "@@"
PATIENCE = 120.0
"""Seconds after which something hangs."""
FOLDER = "WINDROW_FAULTS"
"""The variable that tells workers where faults are planted."""

# --- Streams, and the exact answer ---------------------------------------------------------------------


class Place:
    """A directory with everything of one query: its streams, sink, checkpoint and state."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.arrived = 0

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def write(self, streams: str = "ab", files: int = FILES, rows: int = ROWS) -> Place:
        """Writes files that have yet to arrive. Rows are out of order by up to three seconds."""
        rng = np.random.default_rng(len(streams))
        for stream in streams:
            (self / stream).mkdir()
            (self / f"{stream}.later").mkdir()
            for file in range(files):
                times = rng.integers((10 * file - 3) * SECOND, 10 * (file + 1) * SECOND, rows)
                table = pa.table(
                    {
                        "id": file * rows + np.arange(rows),
                        "ts": pa.array(times, pa.timestamp("us", "UTC")),
                        "k": rng.integers(0, KEYS, rows),
                        "note": [f"{stream} {n}".ljust(60, ".") for n in range(rows)],
                    }
                )
                pq.write_table(table, self / f"{stream}.later" / f"{file:03d}.parquet")
        return self

    def arrive(self, files: int | None = None) -> Place:
        """The next files of each stream, or all."""
        for stream in "abc":
            for file in sorted((self / f"{stream}.later").glob("*"))[:files]:
                # Spark takes files in the order of their times of modification, in milliseconds.
                os.utime(file, (START + int(file.stem),) * 2)
                file.rename(self / stream / file.name)
        return self

    def expected(self, within: int = 15) -> Counter[tuple]:
        """What a join of all files that arrived gives."""
        return _answer(
            f"select a.id, b.id from '{self / 'a'}/*.parquet' a join '{self / 'b'}/*.parquet' b on {ON} "
            f"where abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {within * SECOND}"
        )

    def expected_of_three(self) -> Counter[tuple]:
        """a with b, each result as new as the newer of the two, and these with c."""
        return _answer(
            f"with ab as (select a.id as a, b.id as b, a.k, greatest(a.ts, b.ts) as ts "
            f"from '{self / 'a'}/*.parquet' a join '{self / 'b'}/*.parquet' b on {ON} "
            f"where abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {2 * SECOND}) "
            f"select ab.a, ab.b, c.id from ab join '{self / 'c'}/*.parquet' c on ab.k = c.k "
            f"where abs(epoch_us(ab.ts) - epoch_us(c.ts)) <= {4 * SECOND}"
        )

    def found(self, sink: str = "out") -> Counter[tuple]:
        """All rows of a sink. A streaming file sink is read as Spark does: what its log has committed."""
        log = self / sink / "_spark_metadata"
        files = {str(path) for path in (self / sink).rglob("*.parquet")}
        if log.exists():
            entries = [file for file in log.iterdir() if not file.name.startswith(".")]
            lines = {line for file in entries for line in file.read_text().splitlines()[1:]}
            files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
        tables = [pq.read_table(file, partitioning=None) for file in files]
        return Counter(row for t in tables for row in zip(*(c.to_pylist() for c in t.columns), strict=True))

    def state_files(self, pattern: str) -> list[Path]:
        return sorted((self / "state").rglob(pattern))


def _answer(sql: str) -> Counter[tuple]:
    return Counter(duckdb.sql(sql).fetchall())


def last_batch(pair: tuple) -> int:
    """The batch that completes a result, if every batch takes a file of each stream."""
    return max(number // ROWS for number in pair)


def differences(found: Counter[tuple], expected: Counter[tuple]) -> str:
    """Nothing if the results are exact; else what is wrong with them, in a few words."""
    assert expected, "the test's data has no results"
    missing, extra = expected - found, found - expected
    if not missing and not extra:
        return ""
    return f"{missing.total()} missing, {extra.total()} too many of {expected.total()}: {missing or extra}"[
        :300
    ]


# --- Faults ----------------------------------------------------------------------------------------------


class Faults:
    """A folder of planted faults.

    They strike at "reading" (rows are read and joined, nothing is published), "manifest" (the parts are
    there, their manifest is not), "mark" (the manifest is there, its mark is not), or "results" (all is
    published and some of the results are handed on). They "fail" the task, "pause" it until it is killed or
    released, or leave no "room" for more than a few bytes in any file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def plant(self, point: str, action: str, batch: int, times: int = 1) -> None:
        for _ in range(times):
            number = len(list(self.folder.iterdir()))
            (self.folder / f"{point}.{action}.{batch}.{number}").touch()

    def waiting(self) -> list[str]:
        """Faults that no worker has come by."""
        return [f.name for f in self.folder.iterdir() if not f.name.startswith("struck")]

    def struck(self) -> list[int]:
        """Process ids of the workers that were struck."""
        return [int(f.name.split(".")[1]) for f in self.folder.glob("struck.*")]

    def wait(self, count: int = 1) -> list[int]:
        wait_until(lambda: len(self.struck()) >= count, "no worker came by the planted fault")
        return self.struck()

    def clear(self) -> None:
        """Forgets all faults and lets paused workers go on."""
        for file in self.folder.iterdir():
            file.unlink()

    def strike(self, point: str, batch: int) -> str | None:
        """In a worker."""
        for planted in self.folder.glob(f"{point}.*.{batch}.*"):
            taken = self.folder / f"struck.{os.getpid()}.{planted.name}"
            try:
                planted.rename(taken)
            except FileNotFoundError:
                continue  # another worker was first
            action = planted.name.split(".")[1]
            if action == "fail":
                raise RuntimeError(f"struck at {point} of batch {batch}")
            while action == "pause" and taken.exists():
                time.sleep(0.02)
            return action
        return None


def wait_until(true: Callable[[], object], else_: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, else_
        time.sleep(0.02)


def _hook(faults: Faults) -> None:
    """Lets faults strike in the workers that are forked from this process."""
    import resource

    from windrow.spark import task
    from windrow.state.store import StateStore

    publish, batch_of, replace = StateStore.publish, task.Task._batch, Path.replace
    publishing: list[int] = []
    task.ROWS_PER_BATCH = 40  # so that there is something between the first results and the last

    def struck_publish(self: StateStore, batch: int, *rest: Any) -> Any:
        publishing[:] = [batch]
        full = faults.strike("reading", batch) == "room"
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        if full:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, most[1]))
        try:
            return publish(self, batch, *rest)
        finally:
            publishing.clear()
            resource.setrlimit(resource.RLIMIT_FSIZE, most)

    def struck_replace(self: Path, target: Path) -> Path:
        if publishing and Path(target).name.startswith("batch-"):
            faults.strike("manifest", publishing[0])
        if publishing and Path(target).parent.name == "frontier":
            faults.strike("mark", publishing[0])
        return replace(self, target)

    def struck_batch(self: task.Task, root: str, now: Any, *rest: Any) -> Any:
        for number, rows in enumerate(batch_of(self, root, now, *rest)):
            if number == 2:
                faults.strike("results", now.batch)
            yield rows

    StateStore.publish, Path.replace, task.Task._batch = struck_publish, struck_replace, struck_batch


# --- The driver, from outside ----------------------------------------------------------------------------


class Driver:
    """A process with a Spark session that runs one order after another."""

    def __init__(self, logs: Path, faults: Faults, master: str = "local[2,3]", **conf: str) -> None:
        environment = os.environ | {FOLDER: str(faults.folder), "PYTHONPATH": str(Path(__file__).parent)}
        self._stderr = (logs / f"driver-{time.monotonic_ns()}.log").open("w")
        self._orders = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults", "drive", master, json.dumps(conf)],
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


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """All processes below one, in no order."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


# --- The driver, from inside: shapes of queries ----------------------------------------------------------


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

    settings = {
        "on": ON,
        "time": "ts",
        "within": "15 seconds",
        "late": "5 seconds",
        "partitions": 2,
    } | changes
    frames = {alias: _frame(spark, at, alias) for alias in "ab"}
    return wr.join(frames, state=state or str(at / "state"), name="pairs", **settings | changes)


def _run(frame: Any, at: Place, sink: str = "out", checkpoint: str = "checkpoint") -> None:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(at / checkpoint))
    writer.trigger(availableNow=True).start(str(at / sink)).awaitTermination()


def _run_each(frame: Any, at: Place, each: Callable[[Any, int], None]) -> None:
    writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(at / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def pairs(spark: Any, at: Place, sink: str = "out", checkpoint: str = "checkpoint", **changes: Any) -> None:
    """The plain join into files, from one query id to the next with the same checkpoint."""
    _run(_joined(spark, at, **changes).selectExpr("a.id as a", "b.id as b"), at, sink, checkpoint)


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


def twins(spark: Any, at: Place) -> None:
    """Every batch's tasks run twice at the same time; the results of one are kept."""

    from pyspark import InheritableThread

    def each(frame: Any, batch: int) -> None:
        counted: list[int] = []
        # A plain thread's tasks would not be told their query and batch.
        other = InheritableThread(target=lambda: counted.append(frame.count()))
        other.start()
        frame.write.mode("overwrite").parquet(str(at / "out" / str(batch)))
        other.join()
        assert counted, "the twin failed"

    _run_each(_joined(spark, at, partitions=1).selectExpr("a.id as a", "b.id as b"), at, each)


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
        if number != batch:
            frame.write.mode("overwrite").parquet(str(at / "out" / str(number)))
        elif how == "limit":
            frame.limit(1).write.format("noop").mode("overwrite").save()
        elif how == "take":
            frame.take(1)

    _run_each(_joined(spark, at).selectExpr("a.id as a", "b.id as b"), at, each)


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
    for shape in (pairs, side_by_side, twins, abandoned_twin, partly, limited, batch_take, chained)
}

if __name__ == "__main__":
    if sys.argv[1] == "drive":
        _drive(sys.argv[2], json.loads(sys.argv[3]))
    else:
        from pyspark import daemon

        from windrow.spark.worker import warm

        warm()
        _hook(Faults(Path(os.environ[FOLDER])))
        daemon.manager()
