"""Figures for Prometheus: the text format to the letter, and the same numbers as the metrics have."""

from __future__ import annotations

import math
import re

import pytest

from page_runs import Run, limited
from windrow.model.metric_fields import metrics_of
from windrow.model.metrics import JoinCounts, StreamCounts
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.ui.history import History
from windrow.ui.prometheus import CONTENT_TYPE, exposition, family_name

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? (NaN|[-+0-9.e]+)")


def samples(text: str) -> dict[tuple[str, str], float]:
    """Reads the format as strictly as it is defined."""
    assert text.endswith("\n")
    found: dict[tuple[str, str], float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            kind = re.fullmatch(rf"# (HELP {NAME} .+|TYPE ({NAME}) (?:gauge|counter))", line)
            assert kind, line
            if kind[2]:
                assert kind[2] not in typed, "a metric's samples stand together"
                typed.add(kind[2])
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] in typed and (sample[1], sample[2] or "") not in found
        found[sample[1], sample[2] or ""] = float(sample[3])
    return found


@pytest.fixture(scope="module")
def run():
    history, made = History("sensors"), limited()
    told = [made.next() for _ in range(8)]
    for batch in told:
        history.add(batch)
    return history, told


def test_counters_and_gauges_are_those_of_the_metrics(run):
    history, told = run
    found = samples(exposition(history))
    joins = [batch["joins"]["sensors"] for batch in told]
    own = 'join="sensors"'
    assert found["windrow_results_total", own] == sum(j["results"] for j in joins)
    for name in ("rows_in", "rows_evicted"):
        rows = [found[f"windrow_{name}_total", f'{own},stream="{a}"'] for a in "abc"]
        assert sum(rows) == sum(j[name] for j in joins)
    assert found["windrow_recall", own] == pytest.approx(joins[-1]["recall"][0])
    assert found["windrow_throttle_fraction", own] == pytest.approx(joins[-1]["throttle_fraction"])
    assert found["windrow_memory_limit_rows", own] == 1400
    assert found["windrow_deadline_seconds", own] == pytest.approx(0.1)
    assert found["windrow_up", 'query="sensors"'] == 1
    assert "version=0.0.4" in CONTENT_TYPE
    for name, _ in found:
        assert name.startswith("windrow_")


def test_every_declared_metric_is_counted_told_and_exported(run):
    history, told = run
    found = samples(exposition(history))
    by_stream = metrics_of(StreamCounts)
    for metric in metrics_of(JoinCounts):
        labels = (
            ['join="sensors"'] if metric not in by_stream else [f'join="sensors",stream="{a}"' for a in "abc"]
        )
        exported = sum(found[f"windrow_{family_name(metric)}", each] for each in labels)
        joins = [batch["joins"]["sensors"] for batch in told]
        assert exported == pytest.approx(
            sum(join[metric.name] for join in joins) if metric.counter else joins[-1][metric.name]
        ), metric.name
        assert metric.help.endswith(".") and metric.unit


def test_labels_are_escaped():
    evil = 'a"b\\c\nd{e}<script>'
    history = History(evil)
    history.add(Run().next({evil: BatchQueryMetrics(results=1, response_mean=0.1, response_p99=0.2)}))
    found = samples(exposition(history))
    named = [labels for name, labels in found if name == "windrow_query_results_total"]
    assert named == ['join="sensors",query="a\\"b\\\\c\\nd{e}<script>"']


def test_before_the_first_batch_and_where_nothing_tells_the_recall(run):
    found = samples(exposition(History("early")))
    assert found["windrow_up", 'query="early"'] == 0 and found["windrow_batches_total", 'query="early"'] == 0
    history, told = History("blind"), limited().next()
    told["joins"]["sensors"].update(
        results=10, results_found=0.0, results_estimated=0.0, results_variance=0.0
    )
    history.add(told)
    assert math.isnan(samples(exposition(history))["windrow_recall", 'join="sensors"'])
