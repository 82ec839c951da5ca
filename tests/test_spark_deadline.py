"""Deadlines on Spark: parts of the windows are looked at, the recall is known, restarts change no window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from results import ids
from spark_tools import START, Stream, failing, found, frame, run, written
from windrow.estimation.recall import recall_interval
from windrow.spark.join import join
from windrow.spark.metrics import metrics

ON = "abs(a.x - b.x) <= 1 and abs(a.x - c.x) <= 1 and abs(b.x - c.x) <= 1"
FILES, ROWS, SECONDS = 5, 1500, 2


def lagging(alias: str, number: int) -> pa.Table:
    """Values that rise with time; b's come one second before a's, c's three seconds."""
    seed = 10 * number + "abc".index(alias)
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(number * SECONDS, (number + 1) * SECONDS, ROWS))
    ahead, noise = {"a": (0, 2), "b": (1, 2), "c": (3, 20)}[alias]
    x = (200 * (times + ahead) + noise * rng.standard_normal(ROWS)) % 8000
    return pa.table(
        {
            "id": np.arange(seed * ROWS, (seed + 1) * ROWS),
            "ts": pa.array(START + (times * 1e6).astype(np.int64), pa.timestamp("us", "UTC")),
            "k": np.zeros(ROWS, np.int64),
            "x": x,
            "s": pa.nulls(ROWS, pa.string()),
        }
    )


def joined(streams: dict[str, Any], path: Path | None, **options: Any):
    where = {} if path is None else {"state": str(path / "state")}
    settings = {"access": "scan", "partitioning": "single", **where, **options}
    return join(streams, ON, "ts", "4 seconds", **settings)


@pytest.fixture(scope="module")
def exact():
    op = wr.Operator(wr.Query({alias: wr.Stream("ts", "4 seconds") for alias in "abc"}, ON))
    calls = [{alias: lagging(alias, n) for alias in "abc"} for n in range(FILES)]
    return [ids(op.process(call)) for call in calls]


def test_a_deadline_sheds_work_and_tells_what_that_costs(tmp_path, exact):
    streams = {alias: Stream(tmp_path / alias) for alias in "abc"}
    told = []
    for part in (range(3), range(3, FILES)):
        for alias, stream in streams.items():
            stream.put(*(lagging(alias, n) for n in part))
        frames = {alias: stream.read() for alias, stream in streams.items()}
        told += metrics(run(joined(frames, tmp_path, deadline="150 ms"), tmp_path))
    found, true = written(tmp_path), sum(exact[1:], exact[0])
    # How much is found depends on the machine; that it is known how much, does not.
    assert found <= true
    assert sum(m.results for m in told) == found.total()
    # Rows are dropped only where there is no time to store them; else the windows are whole after a restart.
    assert all(m.rows_evicted == 0 for m in told)
    assert told[-1].window_rows + sum(m.rows_dropped for m in told) >= 3 * ROWS * 2
    assert "throttle " in str(told[-1])
    assert found == true or any(m.throttle_fraction < 1 for m in told)
    sums = [sum(getattr(m, f"results_{n}") for m in told) for n in ("found", "estimated", "variance")]
    # On a machine with other work there may be no time for anything; then nothing is known.
    unit = max(m.results_max_weight for m in told)
    _, low, high = recall_interval(*sums, level=0.9999, max_weight=unit)
    assert low <= found.total() / true.total() <= high


def test_a_batch_frame_under_a_deadline(exact):
    frames = {alias: frame(pa.concat_tables(lagging(alias, n) for n in range(FILES))) for alias in "abc"}
    ample = joined(frames, None, deadline="10 minutes")
    assert ample.count() == sum(e.total() for e in exact)
    assert joined(frames, None, deadline="100 ms").count() <= sum(e.total() for e in exact)


def test_a_deadline_that_makes_no_sense_is_told_before_anything_runs(tmp_path):
    frames = {alias: frame(lagging(alias, 0)) for alias in "abc"}
    assert "must be positive" in failing(lambda: joined(frames, None, deadline="0 seconds"))
    assert "Did you mean 'harvest'" in failing(lambda: joined(frames, None, deadline="1 s", shed="harvset"))
    waiting = wr.policies.Harvesting(buffer_rows=5)
    assert "leave buffer_rows= out" in failing(lambda: joined(frames, None, deadline="1 s", shed=waiting))


@pytest.mark.parametrize("on", ["a.k = b.k", "abs(a.x - b.x) <= 0.5"])
def test_a_second_read_of_a_micro_batch_returns_what_the_first_did(tmp_path, on):
    """Each read runs the join again, faster or slower, and commits a state that later ones may start from."""
    streams, keys = (
        {alias: Stream(tmp_path / alias) for alias in "ab"},
        pa.array(np.arange(ROWS) * 7919 % 300),
    )
    tables = {a: [lagging(a, n).set_column(2, "k", keys) for n in range(8)] for a in streams}
    whole = {alias: frame(pa.concat_tables(parts)) for alias, parts in tables.items()}
    for alias, stream in streams.items():
        stream.put(*tables[alias])
    frames = {alias: stream.read() for alias, stream in streams.items()}
    out = join(frames, on, "ts", "4 seconds", partitions=2, deadline="4 ms", state=str(tmp_path / "state"))
    reads: list[tuple[Any, Any]] = []

    def twice(batch: Any, number: int) -> None:
        reads.append((found(batch), found(batch)))

    query = out.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert len(reads) == 8
    assert all(first == second for first, second in reads)
    assert (
        sum(first.total() for first, _ in reads) < found(join(whole, on, "ts", "4 s", partitions=2)).total()
    )
