"""Random joins on Spark with some streams, or all, read as files: against the oracle, through restarts.

`pytest tests/test_files_random.py --spark-seed N` runs one seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

import spark_cases as generated
import spark_runs
import windrow as wr
from spark_cases import SparkCase, drawn, outer_spark_cases
from spark_runs import failures
from spark_tools import Stream, spark
from windrow.spark.files.file_stream import FileStream

TOGETHER = 8
pytestmark = pytest.mark.usefixtures("uncompiled")


class MixedStream(Stream):
    """Three of four streams are read by `wr.files`; which ones depends on the seed and the alias."""

    def read(self) -> DataFrame | FileStream:
        if Random(self.directory.name).random() < 0.25:
            return super().read()
        split = Random(self.directory.name[::-1]).choice([None, None, 1000])
        return wr.files(spark(), str(self.directory), schema=self.schema, files_per_batch=1, split=split)


class MixedSource(spark_runs.Source):
    """A directory for each stream of each case."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._streams: dict[str, MixedStream] = {}

    def read(self, case: SparkCase, alias: str) -> DataFrame | FileStream:
        return self._stream(case, alias).read()

    def put(self, calls: Sequence[tuple[SparkCase, Mapping[str, pa.Table]]]) -> None:
        for case, call in calls:
            for alias, table in call.items():
                self._stream(case, alias).put(table)

    def _stream(self, case: SparkCase, alias: str) -> MixedStream:
        name = case.stream(alias)
        if name not in self._streams:
            schema = from_arrow_schema(case.columns(alias))
            self._streams[name] = MixedStream(self._directory / name, schema)
        return self._streams[name]


@pytest.fixture(autouse=True)
def mixed(monkeypatch):
    monkeypatch.setattr(spark_runs, "Source", MixedSource)


def check(cases: list[SparkCase], directory: Path) -> None:
    wrong = failures(cases, directory)
    assert not wrong, "\n\n".join([*wrong, f"{len(wrong)} of {len(cases)} failed"])


def chosen(strategy, config: pytest.Config, block: int, first: int) -> list[SparkCase]:
    only = config.getoption("--spark-seed")
    seeds = (
        range(first + block * TOGETHER, first + (block + 1) * TOGETHER)
        if only is None
        else [only] * (block == 0)
    )
    return [drawn(seed, strategy) for seed in seeds]


@pytest.mark.blocks(1, soak=60)
def test_random_joins_of_files_and_frames(pytestconfig, tmp_path, block, first_seed):
    check(chosen(generated.spark_cases(), pytestconfig, block, first_seed + 50_000), tmp_path)


@pytest.mark.blocks(1, soak=20)
def test_counted_rows_that_may_come_late(pytestconfig, tmp_path, block, first_seed):
    strategy = generated.spark_cases(counted=True, held_back=True)
    check(chosen(strategy, pytestconfig, block, first_seed + 50_000)[:5], tmp_path)


@pytest.mark.blocks(1, soak=30)
def test_outer_joins_of_files_and_frames(pytestconfig, tmp_path, block, first_seed):
    check(chosen(outer_spark_cases(), pytestconfig, block, first_seed + 50_000), tmp_path)
