"""An operator goes on from its snapshot under other limits and policies; what is said of a change; shared
joins."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from queries import examples, tiny
from queries import rows_of as timed
from results import ids
from shared_cases import ticking
from windrow.engine.operator import runner_of

# --- Limits -----------------------------------------------------------------------------------------------

POLICIES = ("auto", "age", "fifo", "frequency", "random", "importance", "greedy", "uniform", "cluster")


def limited(draw: Any) -> dict[str, Any]:
    """No limit, or one on memory, on time, or on both."""
    found: dict[str, Any] = {"memory": None, "deadline": None, "shed": "auto"}
    kind = draw(st.sampled_from(["none", "memory", "memory", "deadline", "both"]))
    if kind in ("memory", "both"):
        found["memory"] = draw(st.sampled_from(["12 rows", "40 rows", "20 KiB"]))
        found["shed"] = draw(st.sampled_from(POLICIES))
    if kind in ("deadline", "both"):
        found["deadline"] = "2 seconds"
        time = draw(st.sampled_from(["harvest", "drop"]))
        if kind == "both":
            samples = found["shed"] in ("uniform", "cluster")
            found["shed"] = ("age" if samples else found["shed"], time)
        else:
            found["shed"] = time
    return found


@examples(60)
@given(st.data())
def test_limits_may_change(data: st.DataObject) -> None:
    """Under limits results are some of the exact ones; once a limit is gone and the windows are full again,
    they are all."""
    first, then = limited(data.draw), limited(data.draw)
    late = data.draw(st.sampled_from([0, 2]))
    streams = {alias: wr.Stream("ts", "20 seconds") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k", late=f"{late} seconds")
    seed = data.draw(st.integers(0, 1000))
    tables = {a: _ramp(seed + n) for n, a in enumerate("ab")}
    calls = [{a: t.slice(20 * n, 20) for a, t in tables.items()} for n in range(10)]
    cut = data.draw(st.integers(1, 6))
    op = wr.Operator(replace(query, **first), clock=ticking(0.01))
    for call in calls[:cut]:
        op.process(call)
    shed = op.metrics()
    op = wr.Operator.restore(replace(query, **then), op.snapshot(), ticking(0.01))
    again = op.metrics()
    for name in ("rows_in", "rows_evicted", "rows_dropped", "rows_expired", "window_rows", "results"):
        assert getattr(again, name) == getattr(shed, name), name
    found = sum((_ids(op.process(call)) for call in calls[cut:]), Counter())
    exact = wr.Operator(query)
    for call in calls[:cut]:
        exact.process(call)
    want = sum((_ids(exact.process(call)) for call in calls[cut:]), Counter())
    assert not found - want
    now = op.metrics()
    if then["memory"] == "12 rows":
        assert now.window_rows <= 12 + 2 * 20
    if then["memory"] is then["deadline"] is None:
        whole = now.complete_from
        times = {a: {row["id"]: row["ts"] for row in timed(t)} for a, t in tables.items()}
        newest = {r: max(times[a][n] for a, n in zip("ab", r, strict=True)) for r in want}
        missing = [r for r in want - found if whole is None or newest[r] >= whole]
        assert not missing
        assert whole is not None or not (shed.rows_evicted or shed.rows_dropped)


def _ids(table: pa.Table) -> Counter[tuple]:
    return ids(table.select(["a", "b"]))


def _ramp(seed: int) -> pa.Table:
    return tiny([n * 0.7 for n in range(200)], k=[(n * 7 + seed) % 5 for n in range(200)])


# --- What is said -----------------------------------------------------------------------------------------


def test_a_change_is_named_with_what_becomes_of_rows_held() -> None:
    streams = {alias: wr.Stream("ts", "5 seconds") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k", late="1 second", memory="1000 rows")
    op = wr.Operator(query)
    op.process({alias: tiny(range(20), k=[1] * 20, note=["x"] * 20) for alias in "ab"})
    other = {"a": wr.Stream("ts", "2 seconds"), "b": wr.Stream("ts", "9 seconds")}
    changed = replace(query, streams=other, late="3 seconds", idle="1 minute", memory=None)
    schema = tiny([0], k=[1], price=[2.0]).schema
    op = wr.Operator.restore(changed, op.snapshot(), schemas={"a": schema})
    assert runner_of(op).changes == (
        "stream 'a': within was 5 seconds, now 2 seconds: rows past it expire with the next batch",
        "stream 'b': within was 5 seconds, now 9 seconds: rows that have left the window stay gone; "
        "see complete_from",
        "stream 'a': late was 1 second, now 3 seconds: rows that were late already stay late",
        "stream 'b': late was 1 second, now 3 seconds: rows that were late already stay late",
        "idle was none, now 1 minute: rows held stay, and rows that were late already stay late",
        "memory has no limit any more: rows that were shed stay gone; see complete_from",
        "stream 'a': column 'price' is new: null in rows held",
        "stream 'a': column 'note' is gone, also from rows held",
    )


def test_the_type_of_a_column_is_fixed() -> None:
    query = wr.Query({alias: wr.Stream("ts", "5 seconds") for alias in "ab"}, "a.k = b.k")
    op = wr.Operator(query)
    op.process({alias: tiny([0], k=[1], note=["x"]) for alias in "ab"})
    schema = tiny([0], k=[1], note=[1.5]).schema
    with pytest.raises(
        wr.StateError, match=r"stream 'b': column 'note' was string, now double.*another name"
    ):
        wr.Operator.restore(query, op.snapshot(), schemas={"b": schema})


# --- Shared joins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline", [None, "1 ms"])
def test_columns_and_lateness_of_shared_queries_may_change(deadline: str | None) -> None:
    """Also while results wait in the backlog."""

    def queries(late: str) -> dict[str, Any]:
        large, small = (
            wr.Query({alias: wr.Stream("ts", within) for alias in "ab"}, "a.k = b.k", late=late)
            for within in ("5 seconds", "1 second")
        )
        return {"large": large, "small": wr.Subscription(small, select=["a.id as x", "b.id as y"])}

    options: dict[str, Any] = {"deadline": deadline, "max_backlog": 10**6, "schedule": "swf"}
    op = wr.SharedOperator(queries("1 s"), clock=ticking(), **options)
    old = [
        {
            a: tiny([10 * call + n / 10 for n in range(100)], k=[n % 3 for n in range(100)], note=["x"] * 100)
            for a in "ab"
        }
        for call in range(3)
    ]
    new = {alias: tiny(range(27, 50), k=[n % 3 for n in range(23)], extra=[7] * 23) for alias in "ab"}
    got = [op.process(call) for call in old]
    assert deadline is None or op.metrics().queries["large"].backlog_rows > 0
    schemas = {alias: table.schema for alias, table in new.items()}
    op = wr.SharedOperator.restore(queries("4 s"), op.snapshot(), clock=ticking(), schemas=schemas, **options)
    got += [op.process(new), op.finish()]
    alone = wr.Operator(queries("1 s")["large"])
    want = sum((ids(alone.process(call)) for call in old), Counter())
    alone = wr.Operator.restore(queries("4 s")["large"], alone.snapshot(), schemas=schemas)
    want += ids(alone.process(new)) + ids(alone.finish())
    assert sum((ids(out["large"]) for out in got), Counter()) == want
    assert alone.metrics().rows_late == op.metrics().joins[0].rows_late > 0
    for row in pa.concat_tables(out["large"] for out in got[3:]).to_pylist():
        assert all("note" not in row[alias] and row[alias]["extra"] in (None, 7) for alias in "ab")


def test_windows_of_shared_queries_change_by_control_messages() -> None:
    streams = {alias: wr.Stream("ts", "5 rows") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k")
    blob = wr.SharedOperator({"q": query}).snapshot()
    other = replace(query, streams={alias: wr.Stream("ts", "5 seconds") for alias in "ab"})
    with pytest.raises(wr.StateError, match=r"windows was \['rows', 'rows'\], now .*control messages"):
        wr.SharedOperator.restore({"q": other}, blob)


OPTIONS = {
    "deadline": [
        wr.policies.Harvesting(),
        wr.policies.Harvesting(whole_calls=False),
        wr.policies.Harvesting(buffer_rows=20),
        wr.policies.Harvesting(conserve_memory=True),
        wr.policies.Harvesting(adaptation_interval="1 second"),
        wr.policies.Dropping(),
    ],
    "memory": [
        wr.policies.Auto(), wr.policies.Auto(monitor_fraction=0),
        wr.policies.Fifo(monitor_fraction=0), wr.policies.Greedy(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("limit", OPTIONS)
def test_any_option_of_a_policy_may_change(limit: str) -> None:
    size = {"deadline": "1 hour", "memory": "1 GiB"}[limit]
    rows = [
        pa.table(
            {"ts": pa.array([n * 10**6 + k for k in range(50)], pa.timestamp("us")), "k": [*range(5)] * 10}
        )
        for n in range(2)
    ]
    streams = {alias: wr.Stream("ts", "10 s") for alias in "ab"}
    exact = wr.Operator(wr.Query(streams, "a.k = b.k"))
    wanted = sum(exact.process({"a": r, "b": r}).num_rows for r in rows)
    for before in OPTIONS[limit]:
        operator = wr.Operator(wr.Query(streams, "a.k = b.k", shed=before, **{limit: size}))
        found = operator.process({"a": rows[0], "b": rows[0]}).num_rows
        for after in OPTIONS[limit]:
            query = wr.Query(streams, "a.k = b.k", shed=after, **{limit: size})
            restored = wr.Operator.restore(query, operator.snapshot())
            assert found + restored.process({"a": rows[1], "b": rows[1]}).num_rows == wanted
