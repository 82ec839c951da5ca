"""Runs random cases on Spark: several as one streaming query, each as a join of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

import windrow as wr
from flows import SCHEMA
from spark_cases import STREAM, SparkCase
from spark_tools import Stream, spark
from windrow.spark.files.file_stream import FileStream

OF_FILES = 0.3
"""The share of streams that `wr.files` reads."""


def failures(cases: Sequence[SparkCase], directory: Path) -> list[str]:
    """What is wrong with each case that fails, told with its seed and all of it."""
    wrong: dict[int, str] = {}
    try:
        got = _run(cases, directory / "together", wrong)
    except Exception as error:
        if len(cases) == 1:
            return [f"{cases[0]!r}\n{_told(error)}"]
        # One failed and took the others with it.
        return [text for case in cases for text in failures([case], directory / str(case.seed))]
    for case in cases:
        for name, want in case.answers().items():
            answer = case.without_flush(got.get((case.seed, name), Counter()))
            if answer != want:
                told = f"missing: {dict(want - answer)}, too many: {dict(answer - want)}"
                wrong.setdefault(case.seed, f"{name} of {want.total()} results, {told}")
    return [f"{case!r}\n{wrong[case.seed]}" for case in cases if case.seed in wrong]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:2000]}"


class Source:
    """Where the rows of all cases come from: one stream for all DataFrames, since Spark spends more on a
    source than on its rows, and a directory for each stream that `wr.files` reads."""

    def __init__(self, directory: Path) -> None:
        columns = SCHEMA.append(pa.field(STREAM, pa.string()))
        self._directory = directory
        self._rows = Stream(directory / "rows", from_arrow_schema(columns))
        self._frame = self._rows.read()
        self._files: dict[str, Stream] = {}

    def read(self, case: SparkCase, alias: str) -> DataFrame | FileStream:
        name, columns = case.stream(alias), case.columns(alias)
        random = Random(name)
        if random.random() > OF_FILES:
            return self._frame.where(sf.col(STREAM) == name).select(*columns.names)
        if name not in self._files:
            self._files[name] = Stream(self._directory / name, from_arrow_schema(columns))
        own, split = self._files[name], random.choice([None, None, 1000])
        return wr.files(spark(), str(own.directory), schema=own.schema, files_per_batch=1, split=split)

    def put(self, calls: Sequence[tuple[SparkCase, Mapping[str, pa.Table]]]) -> None:
        """The rows of a micro-batch: one call of each case."""
        shared = [SCHEMA.append(pa.field(STREAM, pa.string())).empty_table()]
        for case, call in calls:
            for alias, table in call.items():
                if own := self._files.get(case.stream(alias)):
                    own.put(table)
                else:
                    shared.append(case.named(alias, table))
        self._rows.put(pa.concat_tables(shared))


def _run(
    cases: Sequence[SparkCase], directory: Path, wrong: dict[int, str]
) -> dict[tuple[int, str], Counter[tuple]]:
    """The results of one streaming query over all the cases, stopped once. What cannot be planned is left out
    and put into `wrong`."""
    source = Source(directory)
    found: dict[tuple[int, str], Counter[tuple]] = {}

    def keep(results: DataFrame, batch: int) -> None:
        for row in results.collect():
            found.setdefault((row["seed"], row["query"]), Counter())[tuple(row["row"])] += 1

    frames: dict[int, DataFrame] = {}
    for again in (False, True):
        batches = []
        for case in cases:
            try:
                streams = {alias: source.read(case, alias) for alias in case.case.windows}
                if not again or case.planned_again:
                    frames[case.seed] = case.frame(streams, str(directory / "state"))
            except Exception as error:
                wrong[case.seed] = _told(error)
                continue
            inputs = case.case.inputs()
            calls = inputs[case.restart :] if again else inputs[: case.restart]
            batches.append([(case, call) for call in calls])
        for batch in zip_longest(*batches):
            source.put([each for each in batch if each is not None])
        if frames:
            writer = reduce(DataFrame.union, frames.values()).coalesce(4).writeStream.foreachBatch(keep)
            writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
    return found
