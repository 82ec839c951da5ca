"""What the page keeps of a run: bounded, whole, and the same whether batches were taken together or not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import windrow as wr
from page_runs import START, Run, limited
from windrow.engine.operator import runner_of
from windrow.errors import DataError
from windrow.estimation.recall import batch_recall
from windrow.model.metric_fields import metrics_of
from windrow.model.metrics import ResultCounts, StreamCounts
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.spark.first_copies import first_copy_counts
from windrow.spark.metrics import PartitionMetrics
from windrow.spark.task_input import TaskInput
from windrow.ui.batch_point import BatchPoint
from windrow.ui.history import MOST_LEARNED, MOST_POINTS, History
from windrow.ui.prometheus import exposition


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
    assert points[3].plain["input_rates"]["a"] == pytest.approx(rows / 4, rel=1e-3)
    assert points[3].plain["output_rate"] == pytest.approx(
        told[3]["joins"]["sensors"]["results"] / 4, rel=1e-3
    )


def test_a_point_tells_what_the_metrics_of_its_batch_tell(told):
    history = History("sensors")
    for batch in told:
        history.add(batch)
        join = batch["joins"]["sensors"]
        point = history.joins["sensors"].latest
        assert point.recall == (None if join["recall"][0] is None else pytest.approx(join["recall"]))
        assert (point.results, point.rows_evicted, point.throttle_fraction) == (
            join["results"],
            join["rows_evicted"],
            join["throttle_fraction"],
        )
        assert point.memory_size == join["window_rows"] and point.memory_limit_size == 1400


def test_rows_lost_are_no_more_than_came_where_rows_are_copied(told):
    """Each row in four partitions, each of which shed three of its four copies and dropped the last."""
    batch = copy.deepcopy(told[3])
    join = batch["joins"]["sensors"]
    rows = sum(part["rows_in"] for part in join["partitions"])
    join |= {
        "rows_copied": 3 * rows,
        "rows_evicted": 3 * rows,
        "rows_dropped": rows,
        "rows_late": 0,
        "rows_null_time": 0,
    }
    history = History("sensors")
    for number in (0, 1):
        history.add(later(batch, number, 4.0 * number))
    shown = history.page_data()["joins"]["sensors"]
    assert sum(shown["latest"]["lost"].values()) == rows and sum(shown["total"]["lost"].values()) == 2 * rows
    join |= {"rows_evicted": 0, "rows_dropped": rows, "rows_late": 7}
    history.add(later(batch, 2, 8.0))
    assert sum(history.joins["sensors"].latest.lost.values()) == 7 + round(rows / 4)


def test_a_long_run_is_kept_whole_in_bounded_room(told):
    history, count = History("sensors"), 5 * MOST_POINTS + 3
    for number in range(count):
        history.add(later(told[number % 8], number, 4.0 * number))
    shown = history.page_data()["joins"]["sensors"]["points"]
    assert MOST_POINTS <= len(shown) < 2 * MOST_POINTS
    assert sum(p["batches"] for p in shown) == count and shown[-1]["batch"] == count - 1
    results = sum(told[n % 8]["joins"]["sensors"]["results"] for n in range(count))
    assert sum(p["results"] for p in shown) == results == history.joins["sensors"].total.results
    assert len(json.dumps(history.page_data())) < 600_000


def test_batches_taken_together_have_the_recall_of_their_sums(told):
    history = History("sensors")
    for batch in told:
        history.add(batch)
    points = history.joins["sensors"].points
    both = points[4].and_then(points[5])
    names = ("results_found", "results_estimated", "results_variance")
    sums = {name: getattr(points[4], name) + getattr(points[5], name) for name in names}
    largest = max(points[4].results_max_weight, points[5].results_max_weight)
    assert both.results_max_weight == largest
    assert both.recall == batch_recall(ResultCounts(**sums, results_max_weight=largest), both.results, True)
    assert (
        min(p.throttle_fraction for p in points[4:6])
        <= both.throttle_fraction
        <= max(p.throttle_fraction for p in points[4:6])
    )
    assert isinstance(both, BatchPoint) and both.slowest_partition_seconds == max(
        points[4].slowest_partition_seconds, points[5].slowest_partition_seconds
    )


def test_a_metric_counts_copies_unless_partitions_report_first_copies_of_it():
    query = wr.Query({alias: wr.Stream("at", "5 s") for alias in "ab"}, "a.k = b.k")
    rows = wr.testing.table("at k; 0 1; 1 2").combine_chunks().to_batches()[0]
    operator = wr.Operator(query, dict.fromkeys("ab", rows.schema))
    arrived = TaskInput(0, {0: rows}, firsts={0: np.array([True, False])}, files_skipped={0: 3})
    found = first_copy_counts(query, (rows.schema, rows.schema), runner_of(operator), arrived)["a"]
    assert (found["rows_in"], found["files_skipped"]) == (1, 3)
    assert {*found, "rows_copied"} == {m.name for m in metrics_of(StreamCounts) if not m.copies}


def test_a_partition_shows_itself_in_a_notebook():
    part = Run().next()["joins"]["sensors"]["partitions"][1]
    part.pop("seconds")
    metrics = PartitionMetrics.from_json(json.dumps(part))
    assert repr(metrics).startswith(f"<PartitionMetrics: partition 1: {metrics.rows_in} rows in, ")
    for value in (metrics, metrics.streams["a"]):
        assert len(repr(value)) < 120 and "<td" in value._repr_html_()


def test_queries_are_told_over_partitions_and_batches():
    run, history = Run(), History("shared")
    first = BatchQueryMetrics(
        results=10, response_mean=0.1, response_p99=0.2, response_max=0.3, backlog_rows=5
    )
    second = replace(first, results=30, response_mean=0.3, response_p99=0.6, response_max=0.7, backlog_rows=1)
    for queries in ({"hot": first}, {"hot": second}, {"cold": BatchQueryMetrics()}):
        history.add(run.next(queries))
    hot, cold = (history.joins["sensors"].total.queries[name] for name in ("hot", "cold"))
    assert hot == replace(second, results=80, response_mean=pytest.approx(0.25), backlog_rows=2)
    assert cold == BatchQueryMetrics()


def test_what_was_learned_is_kept_of_few_partitions(told):
    history = History("sensors")
    for number in range(3 * MOST_LEARNED):
        batch = later(told[7], number, number)
        part = batch["joins"]["sensors"]["partitions"][0]
        part["partition"] = number
        batch["joins"]["sensors"]["partitions"] = [part]
        history.add(batch)
    now = history.page_data()["joins"]["sensors"]
    assert len(now["learned_models"]) == MOST_LEARNED and now["partitions_known"] == 3 * MOST_LEARNED


@pytest.mark.parametrize("wrong", [{}, [], 7, {"batch": 1}, {"began": "soon", "joins": {}}], ids=str)
def test_what_is_no_batch_is_refused(wrong):
    with pytest.raises(DataError, match="not the metrics of a batch"):
        History("sensors").add(wrong)


def fields_of(document: Any, at: tuple = ()) -> Iterator[tuple]:
    """The paths to all fields of a document, except those inside of learned models."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield (*at, name)
            if name != "learned_models":
                yield from fields_of(value, (*at, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from fields_of(value, (*at, number))


def test_a_batch_that_lacks_a_field_is_refused_or_shown(told):
    refused = 0
    for *path, name in fields_of(told[1]):
        damaged = copy.deepcopy(told[1])
        holder = damaged
        for step in path:
            holder = holder[step]
        del holder[name]
        history = History("sensors")
        history.add(told[0])
        try:
            history.add(damaged)
        except DataError:
            refused += 1
            continue
        assert json.dumps(history.page_data()) and exposition(history)
    assert refused > 100
    with pytest.raises(DataError, match="results_late"):
        History("sensors").add({"began": told[0]["began"], "seconds": 1, "joins": {}})


def test_started_again_it_is_another_run(told):
    history = History("sensors")
    history.add(told[0])
    before = history.page_data()
    history.end("stopped")
    history.restart()
    after = history.page_data(before["revision"])
    assert after["run"]["id"] != before["run"]["id"] and after["run"]["state"] == "waiting"
    assert len(after["joins"]["sensors"]["points"]) == 1
