"""The joins of `windrow bench peers`: as DuckDB reads them and as Windrow does, on a few of their rows. The
command itself compares the other engines."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import windrow as wr
from windrow_bench.peers import cases as peer_cases
from windrow_bench.peers.cases import PeerCase, cases, write
from windrow_bench.peers.nexmark import nexmark
from windrow_bench.peers.run import markdown

CASES = cases(rows=10_000)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.join}-{case.seconds}")
def test_windrow_answers_what_duckdb_does(case: PeerCase):
    join, batches = case.described, [case.batch(number) for number in range(4)]
    streams = {a: wr.Stream("ts", f"{join.span} seconds") for a in join.aliases}
    operator = wr.Operator(wr.Query(streams, on=join.predicate))
    found = pa.concat_tables([operator.process(batch) for batch in batches])
    with duckdb.connect() as database:
        for alias in join.aliases:
            database.register(alias, pa.concat_tables([batch[alias] for batch in batches]))
        asked = f"select count(*), sum({join.fingerprint})"
        database.register("found", found)
        expected = database.sql(f"{asked} from {join.chain}").fetchall()
        assert database.sql(f"{asked} from found").fetchall() == expected
    assert expected[0][0] > 0


def test_files_hold_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peer_cases, "BATCHES", 3)
    monkeypatch.setattr(peer_cases, "WARM_UP", 2)
    case = CASES[0]
    assert write(case, tmp_path) == case.rows
    for alias in "ab":
        parts = pq.read_table(tmp_path / alias)
        assert pq.read_table(tmp_path / "whole" / alias).sort_by("us").equals(parts.sort_by("us"))
        assert 2 * parts.num_rows == 3 * pq.read_table(tmp_path / "warm-up" / alias).num_rows


def test_nexmark_has_the_proportions_of_its_description():
    made = nexmark(first=50_000, count=100_000, seconds=20, seed=0)
    assert [table.num_rows for table in made.values()] == [2_000, 6_000, 92_000]
    bids, auctions = made["bids"]["k"].to_numpy(), made["auctions"]["seller"].to_numpy()
    # Of those that chose any recent one, a hundredth chose the hot one as well.
    assert np.mean(bids % 100 == 0) == pytest.approx(0.5 + 0.5 / 100, abs=0.01)
    assert np.mean(auctions % 100 == 0) == pytest.approx(0.75 + 0.25 / 100, abs=0.02)
    again = nexmark(first=50_000, count=100_000, seconds=20, seed=0)
    assert all(made[name].equals(again[name]) for name in made)
    times = made["bids"]["us"].to_numpy()
    assert times.min() >= 10_000_000 and times.max() < 30_000_000 and np.all(times % 1000 == 0)


def test_figures_become_a_table():
    figure = {
        "join": "x",
        "by": "y",
        "rows/s": 1234.5,
        ": Spark": None,
        "peak MiB": 1.25,
        "state on disk, MiB": 0,
        "results": 7,
        "answer": "same",
    }
    wrong = figure | {"by": "z", "results": 6, "answer": "another"}
    assert markdown([figure, wrong]).splitlines()[-2:] == [
        "| x | y | 1,234 | too short to tell | 1.2 | 0 |",
        "| x | z (**another answer**: 6 results, not 7) | 1,234 | too short to tell | 1.2 | 0 |",
    ]
