"""Random joins on real Spark against the oracle: every predicate, layout, batch cut and restart.

`pytest --soak` runs a hundred times as many, with new seeds. A failing case prints its seed and all of it;
`pytest tests/test_random_spark.py --spark-seed N` runs that one alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from spark_cases import SparkCase, drawn, failures, spark_cases
from spark_tools import spark

TOGETHER = 12
"""Joins in one streaming query."""
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling a plan takes longer than running it over a few rows."""


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    before = {name: spark().conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark().conf.set(name, value)
    yield
    for name, value in before.items():
        spark().conf.unset(name) if value is None else spark().conf.set(name, value)


def check(
    strategy: st.SearchStrategy[SparkCase], count: int, config: pytest.Config, directory: Path, first: int = 0
) -> None:
    """`count` cases of the strategy from the seed `first` on, and a hundred times as many in a soak."""
    chosen = config.getoption("--spark-seed")
    soak = not settings().derandomize
    first = SystemRandom().randrange(10**9) if soak else first
    seeds = [chosen] if chosen is not None else range(first, first + count * settings().max_examples // 100)
    for start in range(0, len(seeds), TOGETHER):
        cases = [drawn(number, strategy) for number in seeds[start : start + TOGETHER]]
        wrong = failures(cases, directory / str(start))
        assert not wrong, "\n\n".join([*wrong, f"{len(wrong)} of {len(cases)} failed"])
        shutil.rmtree(directory / str(start))


@pytest.mark.parametrize("group", range(3))
def test_random_joins(pytestconfig, tmp_path, group):
    check(spark_cases(), TOGETHER, pytestconfig, tmp_path, group * TOGETHER)


def test_counted_rows_that_may_come_late(pytestconfig, tmp_path):
    """Rows wait until their order is certain, in every partition; the last batches only move time on."""
    check(spark_cases(counted=True, held_back=True), 6, pytestconfig, tmp_path)
