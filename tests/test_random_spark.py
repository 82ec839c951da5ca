"""Random joins of DataFrames and files on real Spark against the oracle: every predicate, layout, batch cut
and restart.

`pytest --soak` runs thousands, with new seeds. A failing case prints its seed and all of it; `pytest
tests/test_random_spark.py --spark-seed N` runs that one alone.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import strategies as st

from spark_cases import SparkCase, drawn, outer_spark_cases, spark_cases
from spark_runs import failures

TOGETHER = 8, 12
"""Joins in one streaming query, in make test and in a soak."""
POOLS = 3, 15
"""Queries whose joins are drawn at once, in make test and in a soak, to put those of as many batches
together: every join of a query has as many as the longest."""

ANY, HELD_BACK, OUTER = spark_cases(), spark_cases(counted=True, held_back=True), outer_spark_cases()


def cases(
    strategy: st.SearchStrategy[SparkCase], config: pytest.Config, block: int, first: int
) -> list[SparkCase]:
    """Those of the block, from the seed `first` on; or the one that the command line names."""
    chosen = config.getoption("--spark-seed")
    if chosen is not None:
        return [drawn(chosen, strategy)] if block == 0 else []
    soak = config.getoption("--soak")
    size, together = POOLS[soak], TOGETHER[soak]
    pool = drawn_at_once(strategy, first + block // size * size * together, size * together)
    return pool[block % size * together :][:together]


@lru_cache(1)
def drawn_at_once(strategy: st.SearchStrategy[SparkCase], first: int, count: int) -> list[SparkCase]:
    pool = [drawn(seed, strategy) for seed in range(first, first + count)]
    return sorted(pool, key=lambda case: (case.restart, len(case.case.calls)))


def check(chosen: list[SparkCase], directory: Path) -> None:
    wrong = failures(chosen, directory)
    assert not wrong, "\n\n".join([*wrong, f"{len(wrong)} of {len(chosen)} failed"])


@pytest.mark.blocks(2, soak=180)
def test_random_joins(pytestconfig, tmp_path, block, first_seed):
    check(cases(ANY, pytestconfig, block, first_seed), tmp_path)


@pytest.mark.blocks(1, soak=30)
def test_counted_rows_that_may_come_late(pytestconfig, tmp_path, block, first_seed):
    """Rows wait until their order is certain, in every partition; the last batches only move time on."""
    check(cases(HELD_BACK, pytestconfig, block, first_seed)[:6], tmp_path)


@pytest.mark.blocks(1, soak=75)
def test_outer_joins(pytestconfig, tmp_path, block, first_seed):
    check(cases(OUTER, pytestconfig, block, first_seed), tmp_path)
