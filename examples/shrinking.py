"""A join of streams run exactly, then in less and less memory: the true recall beside the reported one.

Each stream comes as files cut by the time its rows were reported, one file of each a micro-batch. The exact
run is compared with DuckDB row by row; a run under a limit must return a part of the same answer.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession

import windrow as wr
from flights_data import oddities, read
from windrow.spark.metrics import BatchMetrics
from windrow.spark.session import open_session

PARTS = (1.0, 0.5, 0.25, 0.1)
"""Of the rows that whole windows hold, the parts there is memory for."""
POLICIES = ("auto", "fifo")


@dataclass(frozen=True)
class Example:
    """
    Parameters
    ----------
    tables
        The rows of each stream.
    reported
        The column of each stream that says when a row arrives.
    join
        The query: frames and settings (`memory`, `shed`, `state`) in, a frame of ids out.
    answer
        The same in DuckDB's SQL over `tables`, without windows: the oracle.
    whole
        How many rows whole windows hold at most, in DuckDB's SQL.
    story
        What the answer (`found`) tells, in DuckDB's SQL.
    """

    name: str
    title: str
    tables: Mapping[str, pa.Table]
    reported: Mapping[str, str]
    join: Callable[..., DataFrame]
    answer: str
    whole: str
    story: str


@dataclass(frozen=True)
class Run:
    """One run of the stream. `reported` is the recall with its interval, as the metrics told it."""

    shed: str
    part: float | None
    memory: str | None
    results: int
    wrong: int
    """Results that are not in the answer, or there too often."""
    recall: float
    reported: tuple[float, float, float]
    rows_evicted: int
    rows_late: int
    rows_null_time: int
    seconds: float

    def __str__(self) -> str:
        limit = f"{self.part:4.0%} = {self.memory}, {self.shed}" if self.memory else "no limit"
        told = "recall {:.3f}, reported {:.3f} [{:.3f}, {:.3f}]".format(self.recall, *self.reported)
        return f"{limit:26} {self.results:>9,} results, {self.wrong} wrong; {told}"


def run_example(
    spark: SparkSession,
    example: Example,
    directory: Path,
    every: timedelta,
    parts: Sequence[float] = PARTS,
    policies: Sequence[str] = POLICIES,
) -> list[Run]:
    """The exact run, then each policy with memory for each part of the windows; printed as they come."""
    write_reports(example, directory / "reports", every)
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for alias, table in example.tables.items():
            database.register(alias, table)
        whole = database.execute(example.whole).fetchall()[0][0]
        print(f"whole windows hold up to {whole:,} rows")
        database.execute(f"create table answer as {example.answer}")
        runs = [run_stream(spark, example, directory, database)]
        print(runs[0])
        story = database.sql(example.story)
        print(story)
        for policy in policies:
            for part in parts:
                memory = f"{max(1, round(whole * part))} rows"
                ran = run_stream(spark, example, directory, database, memory, policy)
                runs.append(replace(ran, part=part))
                print(runs[-1])
    return runs


def write_reports(example: Example, directory: Path, every: timedelta) -> None:
    """A directory for each stream, with a file for the reports of each span of time."""
    ends = [example.tables[alias][column] for alias, column in example.reported.items()]
    begin, end = min(pc.min(e).as_py() for e in ends), max(pc.max(e).as_py() for e in ends)
    for alias, column in example.reported.items():
        (directory / alias).mkdir(parents=True)
        table, at, number = example.tables[alias], begin, 0
        while at <= end:
            inside = (pc.field(column) >= pa.scalar(at)) & (pc.field(column) < pa.scalar(at + every))
            path = directory / alias / f"{number:04}.parquet"
            pq.write_table(table.filter(inside), path)
            # Spark reads the oldest file first.
            os.utime(path, (at.timestamp(),) * 2)
            at, number = at + every, number + 1


def run_stream(
    spark: SparkSession,
    example: Example,
    directory: Path,
    database: duckdb.DuckDBPyConnection,
    memory: str | None = None,
    shed: str = "auto",
) -> Run:
    """The query over all files, as a stream, and how its results compare with the table `answer`."""
    place = directory / (f"{shed} {memory}" if memory else "exact").replace(" ", "-")
    frames = {alias: _reports(spark, directory / "reports" / alias) for alias in example.tables}
    began = time.perf_counter()
    out = example.join(frames, memory=memory, shed=shed, state=str(place / "state"))
    query = (
        out.writeStream.option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "results"))
    )
    query.awaitTermination()
    batches = wr.metrics(query)
    # The counts of all batches and partitions together, as if they had been one batch.
    last, parts = batches[-1], [p for batch in batches for p in batch.partitions]
    whole = BatchMetrics.of(last.join, last.batch, last.seconds, parts)

    database.execute(f"create or replace view found as from read_parquet('{place / 'results'}/*.parquet')")
    results, true = (
        database.execute(f"select count(*) from {name}").fetchall()[0][0] for name in ("found", "answer")
    )
    wrong = database.execute("select count(*) from (from found except all from answer)").fetchall()[0][0]
    return Run(
        shed=shed,
        part=None,
        memory=memory,
        results=results,
        wrong=wrong,
        recall=(results - wrong) / true,
        reported=whole.recall,
        rows_evicted=whole.rows_evicted,
        rows_late=whole.rows_late,
        rows_null_time=whole.rows_null_time,
        seconds=time.perf_counter() - began,
    )


def draw(example: Example, runs: Sequence[Run], path: Path) -> None:
    """True recall as dots, the reported one as a line with its interval."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for number, shed in enumerate(dict.fromkeys(run.shed for run in runs if run.memory)):
        limited = [run for run in runs if run.memory and run.shed == shed]
        x = [100 * (run.part or 0) for run in limited]
        estimate, low, high = zip(*(run.reported for run in limited), strict=True)
        below = [e - bottom for e, bottom in zip(estimate, low, strict=True)]
        above = [top - e for e, top in zip(estimate, high, strict=True)]
        colour = f"C{number}"
        axes.errorbar(x, estimate, (below, above), color=colour, capsize=3, label=f"{shed}, as reported")
        axes.plot(
            x, [run.recall for run in limited], "o", mfc="none", color=colour, label=f"{shed}, in truth"
        )
    axes.set(xlabel="memory, % of whole windows", ylabel="recall", ylim=(0, 1.05), title=example.title)
    axes.legend()
    figure.savefig(path, dpi=120)


def main(
    about: str, make: Callable[[Mapping[str, pa.Table]], Example], start: str, days: int, every: int
) -> None:
    """The command line that the examples share."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--start", default=start, help=f"first day (default {start})")
    parser.add_argument("--days", type=int, default=days, help=f"days of data (default {days})")
    parser.add_argument("--every", type=int, default=every, help=f"days in a micro-batch (default {every})")
    parser.add_argument("--picture", type=Path, help="where the picture goes (default NAME.png)")
    asked = parser.parse_args()
    tables = read(asked.start, asked.days)
    for what, count in oddities(tables).items():
        print(f"{count:>9,} {what}")
    example = make(tables)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_session(
            "local[2]", example.name, {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
        ) as spark,
    ):
        runs = run_example(spark, example, Path(directory), timedelta(days=asked.every))
    lost = f"{runs[0].rows_late} rows came too late, {runs[0].rows_null_time} had no time"
    print(f"without a limit {lost}; all runs took {sum(run.seconds for run in runs):.0f} s")
    draw(example, runs, asked.picture or Path(f"{example.name}.png"))


def _reports(spark: SparkSession, directory: Path) -> DataFrame:
    schema = spark.read.parquet(str(directory / "0000.parquet")).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
