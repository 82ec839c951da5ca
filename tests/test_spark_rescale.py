"""A streaming query is restarted with other partitions, with keys spread, or in another layout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import windrow as wr
from spark_tools import Stream, in_process, rows, run, written
from windrow.cli.state import app
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.spark.shared_join import share

WITHIN, LATE = "8 seconds", "1 second"


class Restarted:
    """A query over two streams of files, started again and again."""

    def __init__(self, path: Path, on: str, **options: Any) -> None:
        self.path, self.on, self.options = path, on, options
        self.streams = {alias: Stream(path / alias) for alias in "ab"}
        self.calls: list[dict[str, pa.Table]] = []

    def go_on(self, batches: int = 1, **laid: Any) -> Any:
        """As many more micro-batches, in this layout."""
        for _ in range(batches):
            number = len(self.calls)
            self.calls.append(
                {a: rows(20 * number + s, 60, start=4 * number, span=5) for s, a in enumerate("ab")}
            )
            for alias, table in self.calls[-1].items():
                self.streams[alias].put(table)
        frames = {alias: stream.read() for alias, stream in self.streams.items()}
        settings = {"late": LATE, "state": str(self.path / "state"), **self.options, **laid}
        return run(join(frames, self.on, "ts", WITHIN, **settings), self.path)

    @property
    def wanted(self) -> Counter[tuple]:
        query = wr.Query({a: wr.Stream("ts", WITHIN) for a in "ab"}, self.on, late=LATE, **self.options)
        return in_process(query, *self.calls, finish=False)


@pytest.mark.parametrize(
    ("on", "layouts"),
    [
        ("a.k = b.k", [{"partitions": 2}, {"partitions": 5}, {"partitions": 1}]),
        (
            "a.k = b.k",
            [
                {"partitions": 3},
                {"partitions": 3, "skewed_keys": {"values": [1, 2], "splits": 3}},
                {"partitions": 4, "partitioning": "grid"},
            ],
        ),
        ("abs(a.x - b.x) <= 0.25", [{"partitions": 4}, {"partitions": 2, "partitioning": "single"}]),
    ],
)
def test_a_restart_in_another_layout_goes_on_exactly(
    tmp_path: Path, on: str, layouts: list[dict[str, Any]]
) -> None:
    query = Restarted(tmp_path, on)
    for number, laid in enumerate(layouts):
        ran = query.go_on(batches=2, **laid)
        changes = [change for m in metrics(ran) for change in m.changes]
        assert any("rows held were redistributed" in change for change in changes) == (number > 0)
    assert written(tmp_path) == query.wanted
    assert len(query.wanted) > 100


def replay_last(directory: Path) -> None:
    """Spark forgets that its last micro-batch is done, and runs it again with the same rows. The sink knows
    it and does not write it twice."""
    commits = directory / "ck" / "commits"
    last = max(int(file.name) for file in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("continued", [True, False])
def test_a_batch_that_is_replayed_starts_from_the_batch_before(tmp_path: Path, continued: bool) -> None:
    """The batch that was rescaled by command is continued, or is itself run again."""
    query = Restarted(tmp_path, "a.k = b.k")
    query.go_on(batches=3, partitions=2)
    told = CliRunner().invoke(app, ["rescale", str(tmp_path / "state"), "--partitions", "3"])
    assert told.exit_code == 0, told.output
    if continued:
        ran = query.go_on(partitions=3)
        assert [m.changes for m in metrics(ran)] == [()], "the command laid rows out as the query does"
    replay_last(tmp_path)
    query.go_on(partitions=4)
    assert written(tmp_path) == query.wanted


def test_unmatched_rows_come_once(tmp_path: Path) -> None:
    """Rows of an outer join that wait for a match move with their windows."""
    query = Restarted(tmp_path, "a.k = b.k", how="left")
    for partitions in (3, 2, 4):
        query.go_on(partitions=partitions)
    assert written(tmp_path) == query.wanted
    assert any(b is None for _, b in query.wanted)


def test_a_shared_join_is_restarted_with_other_partitions(tmp_path: Path) -> None:
    streams = {alias: Stream(tmp_path / alias) for alias in "ab"}
    queries = {
        name: wr.Query({a: wr.Stream("ts", within) for a in "ab"}, "a.k = b.k", late=LATE)
        for name, within in (("short", "2 seconds"), ("long", WITHIN))
    }
    calls = []
    for number, partitions in enumerate((2, 3)):
        calls.append({a: rows(20 * number + s, 60, start=4 * number, span=5) for s, a in enumerate("ab")})
        for alias, stream in streams.items():
            stream.put(calls[-1][alias])
        frames = {alias: stream.read() for alias, stream in streams.items()}
        out = share(queries, frames, state=str(tmp_path / "state"), partitions=partitions)
        run(out, tmp_path, ["query", "a.id as a", "b.id as b"])
    found = written(tmp_path)
    for name, query in queries.items():
        own = Counter({row[1:]: n for row, n in found.items() if row[0] == name})
        assert own == in_process(query, *calls, finish=False)
