"""What the page keeps of a run: bounded, whole, and the same whether batches were taken together or not."""

from __future__ import annotations

import copy
import json
from datetime import timedelta

import pytest

from page_runs import START, Run, limited
from windrow.errors import DataError
from windrow.page.history import MOST_LEARNED, MOST_POINTS, History
from windrow.page.point import Point
from windrow.shed.recall import batch_recall
from windrow.spark.metrics import QueryMetrics


@pytest.fixture(scope="module")
def told():
    run = limited()
    return [run.next() for _ in range(8)]


def later(batch: dict, number: int, seconds: float) -> dict:
    """The same batch under another number and time."""
    moved = copy.deepcopy(batch) | {
        "batch": number,
        "began": (START + timedelta(seconds=seconds)).isoformat(),
    }
    return moved


def test_rates_are_over_the_time_since_the_batch_before(told):
    history = History("sensors")
    for batch in told:
        history.add(batch)
    points = history.joins["sensors"].points
    assert [p.span for p in points] == pytest.approx([4.0] * len(told))
    rows = sum(told[3]["joins"]["sensors"]["partitions"][k]["streams"]["a"]["rows_in"] for k in (0, 1))
    assert points[3].plain["in"]["a"] == pytest.approx(rows / 4, rel=1e-3)
    assert points[3].plain["out"] == pytest.approx(told[3]["joins"]["sensors"]["results"] / 4, rel=1e-3)


def test_a_point_tells_what_the_metrics_of_its_batch_tell(told):
    history = History("sensors")
    for batch in told:
        history.add(batch)
        join = batch["joins"]["sensors"]
        point = history.joins["sensors"].latest
        assert point.recall == (None if join["recall"][0] is None else pytest.approx(join["recall"]))
        assert (point.results, point.shed, point.throttle) == (
            join["results"],
            join["rows_shed"],
            join["throttle"],
        )
        assert point.memory == join["window_rows"] and point.room == 1400


def test_rows_left_out_are_no_more_than_came_where_rows_are_copied(told):
    """Each row in four partitions, each of which shed three of its four copies and dropped the last."""
    batch = copy.deepcopy(told[3])
    join = batch["joins"]["sensors"]
    rows = sum(part["rows_in"] for part in join["partitions"])
    for part in join["partitions"]:
        part["rows_copied"] = 3 * part["rows_in"]
    join |= {"rows_shed": 3 * rows, "rows_dropped": rows, "rows_late": 0, "rows_null_time": 0}
    history = History("sensors")
    for number in (0, 1):
        history.add(later(batch, number, 4.0 * number))
    shown = history.look()["joins"]["sensors"]
    assert shown["latest"]["left_out"] == rows and shown["total"]["left_out"] == 2 * rows
    join |= {"rows_shed": 0, "rows_dropped": rows, "rows_late": 7}
    history.add(later(batch, 2, 8.0))
    assert history.joins["sensors"].latest.left_out == 7 + round(rows / 4)


def test_a_long_run_is_kept_whole_in_bounded_room(told):
    history, count = History("sensors"), 5 * MOST_POINTS + 3
    for number in range(count):
        history.add(later(told[number % 8], number, 4.0 * number))
    shown = history.look()["joins"]["sensors"]["points"]
    assert MOST_POINTS <= len(shown) < 2 * MOST_POINTS
    assert sum(p["batches"] for p in shown) == count and shown[-1]["batch"] == count - 1
    results = sum(told[n % 8]["joins"]["sensors"]["results"] for n in range(count))
    assert sum(p["results"] for p in shown) == results == history.joins["sensors"].total.results
    assert len(json.dumps(history.look())) < 600_000


def test_batches_taken_together_have_the_recall_of_their_sums(told):
    history = History("sensors")
    for batch in told:
        history.add(batch)
    points = history.joins["sensors"].points
    both = points[4].and_then(points[5])
    sums = [getattr(points[4], n) + getattr(points[5], n) for n in ("found", "true", "variance")]
    assert both.unit == max(points[4].unit, points[5].unit)
    assert both.recall == batch_recall(*sums, both.results, True, both.unit)
    assert min(p.throttle for p in points[4:6]) <= both.throttle <= max(p.throttle for p in points[4:6])
    assert isinstance(both, Point) and both.busy == max(points[4].busy, points[5].busy)


def test_queries_are_told_over_partitions_and_batches():
    run, history = Run(), History("shared")
    history.add(run.next({"hot": QueryMetrics(10, 0.1, 0.2, 0.3, 5, None)}))
    history.add(run.next({"hot": QueryMetrics(30, 0.3, 0.6, 0.7, 1, None)}))
    history.add(run.next({"cold": QueryMetrics(0, None, None, None, 0, None)}))
    hot, cold = (history.joins["sensors"].total.queries[name] for name in ("hot", "cold"))
    assert (hot.results, hot.mean, hot.p99, hot.backlog) == (80, pytest.approx(0.25), 0.6, 2)
    assert (cold.results, cold.mean, cold.p99) == (0, None, None)


def test_what_was_learned_is_kept_of_few_partitions(told):
    history = History("sensors")
    for number in range(3 * MOST_LEARNED):
        batch = later(told[7], number, number)
        part = batch["joins"]["sensors"]["partitions"][0]
        part["partition"] = number
        batch["joins"]["sensors"]["partitions"] = [part]
        history.add(batch)
    now = history.look()["joins"]["sensors"]
    assert len(now["learned"]) == MOST_LEARNED and now["partitions_known"] == 3 * MOST_LEARNED


def test_metrics_of_before_there_was_a_page_are_read_too(told):
    old = copy.deepcopy(told[2])
    del old["behind"]
    for part in old["joins"]["sensors"]["partitions"]:
        for name in ("rows_waiting", "memory_room", "seconds_allowed", "learned"):
            del part[name]
    history = History("sensors")
    history.add(old)
    assert history.look()["joins"]["sensors"]["learned"] == {}
    assert history.joins["sensors"].latest.room is None


@pytest.mark.parametrize("wrong", [{}, [], 7, {"batch": 1}, {"began": "soon", "joins": {}}], ids=str)
def test_what_is_no_batch_is_refused(wrong):
    with pytest.raises(DataError, match="not the metrics of a batch"):
        History("sensors").add(wrong)


def test_started_again_it_is_another_run(told):
    history = History("sensors")
    history.add(told[0])
    before = history.look()
    history.end("stopped")
    history.restart()
    after = history.look(before["mark"])
    assert after["run"]["id"] != before["run"]["id"] and after["run"]["state"] == "waiting"
    assert len(after["joins"]["sensors"]["points"]) == 1
