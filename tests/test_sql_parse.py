"""SQL texts and what they become: statements and queries, without Spark."""

from __future__ import annotations

import pytest

import windrow as wr
from windrow.model.execution import Execution
from windrow.model.result_groups import ResultGroups
from windrow.model.units import SECOND
from windrow.sql_frontend.parser import parse_script
from windrow.sql_frontend.scope import StreamInfo
from windrow.sql_frontend.statement import Aggregate, Grouping

GOLDEN = {
    "the Memory paper's first example": (
        """SELECT T.LocationId
FROM Temperature T, Humidity H
WHERE T.Value > Thresholdt and H.Value > Thresholdh
and T.LocationId = H.LocationId
WINDOW 1 min;""",
        """query
  select   T.LocationId
  from     Temperature T [1 minute], Humidity H [1 minute]
  join     T.LocationId = H.LocationId
  filter   T.Value > 30 AND H.Value > 60.5""",
    ),
    "and its second": (
        """SELECT T.LocationId, H.LocationId
FROM Temperature T, Humidity H
WHERE correlated(T.Value, H.Value) and T.LocationId
≠ H.LocationId
WINDOW 30 min;""",
        """query
  select   T.LocationId, H.LocationId
  from     Temperature T [30 minutes], Humidity H [30 minutes]
  join     CORRELATED(T.Value, H.Value) AND T.LocationId <> H.LocationId""",
    ),
    "windows of their own, and a limit": (
        """SELECT T.location, H.value
FROM temperature T [RANGE 1 MINUTE], humidity H [ROWS 1000]
WHERE T.location = H.location AND T.value > 30 AND H.value > 60
WITH (memory = '64 MiB', shed = 'age')""",
        """query
  select   T.location, H.value
  from     temperature T [1 minute], humidity H [1000 rows]
  join     T.location = H.location
  filter   T.value > 30 AND H.value > 60
  memory   64 MiB by age()""",
    ),
    "windows from conditions on times, as Flink has them": (
        """SELECT o.id FROM orders o, shipments s, refunds r WHERE o.id = s.order_id AND o.id = r.order_id
AND s.at BETWEEN o.at AND o.at + INTERVAL '4' HOUR AND r.at >= s.at AND r.at <= s.at + INTERVAL '1 day'
WITH (time = 'at')""",
        """query
  select   o.id
  from     orders o [28 hours], shipments s [1 day], refunds r [1e-06 seconds]
  join     o.id = s.order_id AND o.id = r.order_id AND s.at BETWEEN o.at AND o.at + INTERVAL '4' HOUR AND """
        """r.at >= s.at AND r.at <= s.at + INTERVAL '1' DAY""",
    ),
    "a stream's own window goes before that for all; JOIN ... ON is WHERE": (
        """select a.x + 1 as y from s as a [range 1 minute 30 seconds]
join t b on a.k = b.k inner join u on u.z between a.z and b.z where a.s like 'f%' or b.s is null
window rows 1_000 with (name = ups, deadline = '2 seconds', shed = (age, 'drop'))""",
        """ups
  select   a.x + 1 AS y
  from     s a [90 seconds], t b [1000 rows], u u [1000 rows]
  join     a.k = b.k AND u.z BETWEEN a.z AND b.z AND (a.s LIKE 'f%' OR b.s IS NULL)
  deadline 2 seconds by drop()""",
    ),
    "a deadline that defers": (
        """SELECT a.x FROM a, b WHERE a.k = b.k WINDOW 1 s
WITH (deadline = '2 s', schedule = swf, max_backlog = 9)""",
        """query
  select   a.x
  from     a a [1 second], b b [1 second]
  join     a.k = b.k
  deadline 2 seconds, the rest deferred by swf""",
    ),
    "rows per key": (
        "SELECT * FROM s a [PARTITION BY k ROWS 100], t b [PARTITION BY b.k ROWS 5] WHERE a.k = b.k",
        """query
  select   *
  from     s a [100 rows per key], t b [5 rows per key]
  join     a.k = b.k""",
    ),
    "groups": (
        """EXPLAIN SELECT window_start, a.k, count(*) AS n, sum(b.v) / count(*) FROM s a, t b WHERE a.k = b.k
GROUP BY HOP(b.at, INTERVAL 1 MINUTE, INTERVAL '5' MINUTE), a.k WINDOW 10 SECONDS
WITH (memory = 1000, shed = importance(by = 'b.v'), aggregate_watermark_delay = '3 s',
allow_cross_join = false)""",
        """explain query
  select   window_start, a.k, COUNT(*) AS n, SUM(b.v) / COUNT(*)
  from     s a [10 seconds], t b [10 seconds]
  join     a.k = b.k
  group    windows of 5 minutes every 1 minute of b.at, a.k
  memory   1000 bytes by importance(by='b.v')""",
    ),
}  # fmt: skip


def correlated(t: float, h: float) -> bool:
    return t == h


CORRELATED = wr.Function(correlated)


def read(text: str, **settings):
    given = {
        "time": "at",
        "functions": {"correlated": CORRELATED},
        "parameters": {"Thresholdt": 30, "thresholdH": 60.5},
    }
    return parse_script(text).bind(**(given | settings))


def one(text: str, **settings):
    (statement,) = read(text, **settings).statements
    return statement


@pytest.mark.parametrize("name", GOLDEN)
def test_texts_and_their_statements(name):
    text, want = GOLDEN[name]
    assert str(one(text)) == want


def test_the_query_is_the_one_written_by_hand():
    text = """SELECT a.x FROM s a [RANGE 5 MINUTES], t b [ROWS 7] WHERE a.k = b.k AND b.v > 10
        WITH (late = '10 seconds', idle = '1 minute', ahead = '2 days', memory = '100 rows', shed = fifo,
              evaluate = 'every 5 rows', expire = eager, order = 'low-selectivity', algorithm = 'general',
              replan_factor = 3, seed = 7)"""
    hand = wr.Query(
        {"a": wr.Stream("at", "5 minutes"), "b": wr.Stream("at", "7 rows")},
        "a.k = b.k AND b.v > 10",
        late="10 seconds", idle="1 minute", ahead="2 days", memory="100 rows", shed="fifo",
        evaluate="every 5 rows", expire="eager", order="low-selectivity", algorithm="general",
        replan_factor=3, seed=7,
    )  # fmt: skip
    assert one(text, functions={}).query == hand


def test_a_mapping_may_begin_with_a_word_of_sql():
    skewed = {"values": (1, 2), "splits": 2}
    for text in ("(values = (1, 2), splits = 2)", "(splits = 2, values = (1, 2))"):
        found = one(f"SELECT a.x FROM s a, t b WHERE a.k = b.k WINDOW 1 s WITH (skewed_keys = {text})")
        assert found.execution == Execution(skewed_keys=skewed)


def test_groups_are_columns_and_what_is_selected_is_made_of_them():
    statement = one(GOLDEN["groups"][0])
    assert statement.grouping == Grouping(
        ResultGroups("b.at", 300 * SECOND, 60 * SECOND, ("a.k",), aggregate_watermark_delay=3 * SECOND),
        (Aggregate("count", None), Aggregate("sum", "b.v")),
    )
    assert [o.shaped for o in statement.outputs] == [
        "window_start", "_key0", "_aggregate0", "_aggregate1 / _aggregate0",
    ]  # fmt: skip


def test_having_is_over_the_group():
    text = """SELECT a.k FROM s a, t b WHERE a.k = b.k GROUP BY tumble(b.at, '1 minute'), a.k
        HAVING max(b.v) > 3 AND window_start IS NOT NULL WINDOW 1 s"""
    grouping = one(text).grouping
    assert grouping.aggregates == (Aggregate("max", "b.v"),)
    assert grouping.having == "_aggregate0 > 3 AND NOT window_start IS NULL"


def test_names_are_found_by_the_columns_known():
    known = {"left": StreamInfo(("Id", "k", "at"), "at"), "right": StreamInfo(("k", "v", "when"), "when")}
    statement = one("SELECT id, V FROM Left a, RIGHT b WHERE a.K = b.k AND v > 3 WINDOW 1 s", known=known)
    assert statement.query.on == "a.k = b.k AND b.v > 3"
    assert [o.sql for o in statement.outputs] == ["a.Id", "b.v"]
    assert dict(statement.sources) == {"a": "left", "b": "right"}
    assert [s.time for s in statement.query.streams.values()] == ["at", "when"]


def test_sources():
    parsed = parse_script("""
        CREATE STREAM bids (id BIGINT, at TIMESTAMP, price DECIMAL(10, 2), tags ARRAY<TEXT>,
            "odd name" INT) TIME at
            FROM (format = 'json', path = 'data/bids', maxFilesPerTrigger = 1, multiLine = TRUE);
        CREATE STREAM ticks OPTIONS (format = kafka, kafka.bootstrap.servers = 'host:1', subscribe = 'ticks');
    """)
    bids, ticks = (created.source for created in parsed.created.values())
    assert [created.known.time for created in parsed.created.values()] == ["at", None]
    assert (bids.format, bids.path) == ("json", "data/bids")
    assert bids.schema == (
        "`id` BIGINT, `at` TIMESTAMP, `price` DECIMAL(10, 2), `tags` ARRAY<STRING>, `odd name` INT"
    )
    assert bids.options == {"maxFilesPerTrigger": "1", "multiLine": "true"}
    assert ticks.options == {"kafka.bootstrap.servers": "host:1", "subscribe": "ticks"}
    assert (ticks.path, ticks.schema) == (None, None)
    assert parsed.bind().statements == ()


def test_several_statements_and_comments():
    text = """-- the first
        SELECT a.x FROM s a, t b WHERE a.k = b.k WINDOW 1 s; /* the second */
        SELECT a.y FROM s a, t b WHERE a.k = b.k WINDOW 2 s WITH (name = 'slow');;"""
    assert [s.name for s in read(text).statements] == ["query1", "slow"]
    assert parse_script(text).names == ("s", "t")


def test_a_column_named_like_a_parameter_is_the_streams():
    """With an alias there is no doubt; alone, what the caller passed goes first."""
    statement = one("SELECT a.limit_ FROM s a, t b WHERE a.k = b.k AND a.v > limit_ WINDOW 1 s",
                    parameters={"limit_": "x'y"})  # fmt: skip
    assert statement.filters == ("a.v > 'x''y'",)
