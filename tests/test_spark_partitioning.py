"""How rows are laid out over partitions; no Spark needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import windrow as wr
from windrow.model.execution import SkewedKeys
from windrow.planning.bound_query import BoundQuery
from windrow.spark.partitioning import PartitionLayout, choose_layout

COLUMNS = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "j": pa.int64(), "x": pa.float64()})


def layout(
    on: str,
    streams: int = 2,
    partitions: int = 8,
    within: str = "1 s",
    wanted: str | None = None,
    skewed: SkewedKeys | None = None,
) -> PartitionLayout:
    aliases = "abcd"[:streams]
    query = wr.Query({a: wr.Stream("ts", within) for a in aliases}, on, allow_cross_join=True)
    join = BoundQuery.of(query, [COLUMNS] * streams)
    return choose_layout(join, partitions, wanted, skewed)


@pytest.mark.parametrize(
    ("on", "streams", "text"),
    [
        ("a.k = b.k", 2, "8 by key a.k = b.k"),
        ("a.k = b.k and b.k = c.k", 3, "8 by key a.k = b.k = c.k"),
        ("a.k = b.k and abs(a.x - b.x) < 2", 2, "8 by key a.k = b.k"),
        ("abs(a.x - b.x) <= 2", 2, "8 by range of a.x"),
        ("abs(a.x - b.x) <= 2 and b.x between c.x - 1 and c.x + 1", 3, "8 by range of b.x"),
        ("a.x < b.x", 2, "2 by rows of a x 4 by rows of b"),
        ("a.k = b.k and b.x < c.x", 3, "4 by key a.k = b.k x 2 by rows of c"),
    ],
)
def test_the_planner_cuts_by_what_costs_the_fewest_copies(on, streams, text):
    assert str(layout(on, streams)).splitlines()[0] == f"8 partitions, {text}"


def test_the_reach_adds_up_along_the_bands():
    chain = layout("abs(a.x - b.x) <= 2 and abs(b.x - c.x) <= 1 and abs(c.x - d.x) <= 4", 4, wanted="range")
    (cut,) = chain.dimensions
    assert (cut.by, [p.reach for p in cut.placements], cut.width) == (
        "range of c.x",
        [3.0, 1.0, 0.0, 4.0],
        16.0,
    )


def test_a_width_can_be_given():
    (cut,) = layout("abs(a.x - b.x) <= 2", wanted="range(2.5)").dimensions
    assert cut.width == 2.5


def test_windows_counted_over_a_whole_stream_take_one_partition():
    assert str(layout("a.k = b.k", within="10 rows")) == (
        "1 partition (the window of 'a' counts rows of the whole stream)"
    )
    with pytest.raises(wr.QueryError, match="takes one partition"):
        layout("a.k = b.k", within="10 rows", wanted="key")


def test_rows_counted_per_key_stay_together():
    assert "by key" in str(layout("a.k = b.k and abs(a.x - b.x) < 1", within="3 rows per key"))
    with pytest.raises(wr.QueryError, match="nothing to partition by grid"):
        layout("a.k = b.k", within="3 rows per key", wanted="grid")
    with pytest.raises(wr.QueryError, match="must stay together"):
        layout("a.k = b.k", within="3 rows per key", skewed=SkewedKeys((1,), 2))


def test_bad_wishes_are_refused():
    with pytest.raises(wr.QueryError, match="Did you mean 'range'"):
        layout("a.k = b.k", wanted="rnge")
    with pytest.raises(wr.QueryError, match="nothing to partition by range"):
        layout("a.k = b.k", wanted="range")
    with pytest.raises(wr.QueryError, match="9 splits are more than the 8"):
        layout("a.k = b.k", skewed=SkewedKeys((1,), 9))
    with pytest.raises(wr.QueryError, match="splits must be"):
        SkewedKeys.parse({"values": [1], "splits": 1})
