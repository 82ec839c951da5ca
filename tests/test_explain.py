"""What a query will do, told before it runs: from stated rates or a sample, as text, JSON and a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windrow as wr
from windrow.draw.chart import Annotation, Axis, chart
from windrow.explanation.explain import explain_sample
from windrow.harvest.time_curve import TimeCurve

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "v": pa.string()})
SECOND = 1_000_000


def rows(seed: int, count: int, seconds: float, lag: float = 0.0, keys: int = 40) -> pa.Table:
    """Rows whose key is that of their moment, so that matches are `lag` seconds apart between streams."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, int(seconds * SECOND), count))
    k = (ts // (SECOND // 4)) % keys
    return pa.table({"ts": pa.array(ts + int(lag * SECOND), pa.timestamp("us")), "k": k, "v": ["x"] * count})


def query(**limits: object) -> wr.Query:
    streams = {"a": wr.Stream("ts", "8 s"), "b": wr.Stream("ts", "4 s"), "c": wr.Stream("ts", "2 s")}
    return wr.Query(streams, on="a.k = b.k and b.k = c.k", **limits)


def sample(count: int = 3000, seconds: float = 40.0) -> dict[str, pa.Table]:
    return {
        "a": rows(1, count, seconds),
        "b": rows(2, count, seconds - 3, 3.0),
        "c": rows(3, count, seconds - 4, 4.0),
    }


class Page(HTMLParser):
    """Fails on tags that do not close; knows which there are, and their classes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs).get("class") or ""))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def test_stated_rates_give_plan_memory_time_and_curves():
    found = wr.explain(
        query(memory="100 KiB"),
        dict.fromkeys("abc", SCHEMA),
        rates={"a": 100, "b": 200, "c": 50},
        distinct={"a.k": 100, "b.k": 100, "c.k": 100},
        age_curves={"a": (0, 0, 1), "b": (1, 1), "c": (1, 1)},
    )
    assert found.time is not None and found.time.seconds is None
    assert found.time.at(1.0) == 1.0 and 0 < found.time.at(0.3) < 1
    # Everything a finds lies in the oldest third of its window: a third of the work there finds all of it.
    assert found.time.at(0.5) > 0.55
    assert found.throttle is None and found.expected_recall_in_time is None
    assert found.memory_split is not None and sum(found.memory_split) <= 100 * 1024 * 1.001
    assert found.bytes_per_second == pytest.approx(350 * found.row_bytes[0])
    text = str(found)
    assert "Recall against time:" in text and "% of the work" in text and "divided: a" in text
    plain = json.loads(found.to_json())
    assert plain["streams"]["b"]["rows_per_second"] == 200
    assert plain["streams"]["b"]["window_rows"] == 800
    assert [d["arriving"] for d in plain["directions"]] == ["a", "b", "c"]
    assert plain["dry_run"] is None and plain["memory"]["recall"] == found.expected_recall
    page = Page(found.to_html())
    assert sum(tag == "svg" for tag, _ in page.seen) == 4
    assert "From stated rates" in page.text and "comparisons per second" in page.text
    assert "srcdoc" in found._repr_html_()


def test_a_sample_tells_what_a_run_would_find():
    def two(**limits: object) -> wr.Query:
        return wr.Query({"a": wr.Stream("ts", "8 s"), "b": wr.Stream("ts", "4 s")}, on="a.k = b.k", **limits)

    given = {alias: sample()[alias] for alias in "ab"}
    found = wr.explain(two(memory="140 rows"), sample=given)
    assert found.dry_run is not None
    data = {a: t.slice(0, found.dry_run.rows[a]) for a, t in given.items()}
    true = wr.Operator(two()).process(data).num_rows
    assert found.dry_run.results == true
    assert found.plan.rates == pytest.approx((3000 / 40,) * 2, rel=0.1)
    operator, results = wr.Operator(two(memory="140 rows")), 0
    for second in range(40):
        low, high = (pa.scalar((second + k) * SECOND, pa.timestamp("us")) for k in (0, 1))
        cut = {a: t.filter((pc.field("ts") >= low) & (pc.field("ts") < high)) for a, t in data.items()}
        results += operator.process(cut).num_rows
    assert found.plan.results == pytest.approx(true / found.dry_run.span, rel=0.2)
    assert 0.2 < results / true < 0.9
    assert found.expected_recall == pytest.approx(results / true, abs=0.15)
    assert "Learned from" in str(found) and "140 rows give about" in str(found)


def test_stated_rates_replace_those_of_the_sample(untried):
    slow = wr.explain(query(), sample=sample())
    fast = wr.explain(query(), sample=sample(), rates=dict.fromkeys("abc", 10_000))
    assert fast.plan.rates == (10_000,) * 3
    assert fast.exact_memory.size > 50 * slow.exact_memory.size
    assert fast.plan.results > 1000 * slow.plan.results
    assert fast.time is not None and slow.time is not None
    assert fast.time.seconds > 100 * slow.time.seconds


def test_a_deadline_is_drawn_as_a_harvest(untried):
    wanted = query(deadline="1 second", memory="1 MiB")
    rates = dict.fromkeys("abc", 20_000)
    found = wr.explain(wanted, sample=sample(), rates=rates, trigger_interval="30 s")
    assert found.throttle is not None and 0 < found.throttle < 1
    assert found.plan.harvest is not None
    shared = wr.explain(wanted, sample=sample(), rates=rates, trigger_interval="30 s", partitions=1000)
    assert shared.throttle > found.throttle
    # Rows of b come 3 s after those of a they match: most is found in a part of the windows.
    assert found.expected_recall_in_time > found.throttle
    page = Page(found.to_html())
    assert any(kind == "piece" for _, kind in page.seen)
    assert "of the work" in page.text and "1 second" in page.text
    by_rate = wr.explain(query(deadline="1000000 rows/s"), sample=sample(1000))
    assert by_rate.throttle is not None
    exact = wr.explain(query(deadline="1 hour"), sample=sample(1000))
    assert exact.throttle == 1.0 and exact.plan.harvest is None


def test_a_sample_is_cut_where_the_first_stream_ends_and_time_runs_out():
    data = sample() | {"c": rows(3, 500, 12.0)}
    found = wr.explain(query(), sample=data)
    assert found.dry_run.rows["c"] == 500 and found.dry_run.rows["a"] < 1100
    assert "later rows were left out, since one of the samples ends there" in str(found)
    assert found.dry_run.short == ()
    told: list[tuple[int, int]] = []
    hurried = explain_sample(query(), sample(), progress=lambda *at: told.append(at), max_seconds=0.0)
    assert not hurried.dry_run.complete and "no more than" in str(hurried)
    assert told[-1][0] == sum(hurried.dry_run.rows.values()) < told[-1][1]
    short = wr.explain(query(), sample={a: rows(k, 300, 3.0) for k, a in enumerate("abc")})
    assert short.dry_run.short == ("a", "b")
    assert "longer than the sample" in str(short)


def test_windows_in_rows_similarity_and_naive_orders_are_explained_too():
    streams = {"a": wr.Stream("ts", "100 rows"), "b": wr.Stream("ts", "50 rows per key")}
    counted = wr.Query(streams, on="a.k = b.k and a.v = b.v", memory="60 rows", shed="fifo")
    data = {"a": rows(1, 500, 10.0), "b": rows(2, 500, 10.0)}
    found = wr.explain(counted, sample=data)
    assert found.recall is not None and found.recall.unit == "rows"
    Page(found.to_html())
    naive = wr.explain(query(algorithm="naive", order=("a", "b", "c")), sample=sample(600))
    assert naive.time is None and "starts from all of a" in Page(naive.to_html()).text
    band = wr.Query(
        {a: wr.Stream("ts", "2 s") for a in "ab"}, on="abs(a.k - b.k) <= 1", deadline="1 s", shed="drop"
    )
    dropped = wr.explain(band, sample={a: rows(k, 400, 10.0) for k, a in enumerate("ab")})
    assert dropped.time is not None and dropped.plan.harvest is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample": {"a": rows(1, 9, 3.0)}}, "rows of stream 'b' are missing"),
        ({"sample": sample(10) | {"x": rows(1, 9, 3.0)}}, "unknown stream 'x'"),
        ({"sample": sample(10) | {"b": rows(1, 9, 3.0).slice(0, 0)}}, "no rows of stream 'b'"),
        (
            {"sample": sample(10) | {"b": rows(1, 9, 3.0, 500.0), "c": rows(1, 9, 3.0)}},
            "do not overlap in time",
        ),
        ({"sample": sample(10), "distinct": {"a.k": 3}}, "learned from the sample"),
        ({"sample": sample(10), "rates": {"b": 0}}, "rows per second above 0"),
        ({"sample": sample(10), "trigger_interval": "0 s"}, "trigger_interval: must be positive"),
        ({"sample": sample(10), "partitions": 0}, "partitions: must be at least 1"),
        (
            {"schemas": dict.fromkeys("abc", SCHEMA), "distinct": {"a.x": 3}},
            "unknown column of an equality 'a.x'",
        ),
        (
            {"schemas": dict.fromkeys("abc", SCHEMA), "distinct": {"a.k": 0}},
            "distinct: a column has at least one value",
        ),
        (
            {"schemas": dict.fromkeys("abc", SCHEMA), "age_curves": {"b": ()}},
            "stream 'b': age_curves: expected numbers from 0",
        ),
    ],
)
def test_what_cannot_be_explained(given, words):
    with pytest.raises(wr.QueryError, match=words):
        wr.explain(query(), **given)


def test_several_queries_on_one_page():
    queries = {"wide": query(), "narrow": wr.Subscription(query(), where="a.v = 'x'")}
    found = wr.explain(queries, dict.fromkeys("abc", SCHEMA))
    page = Page(found.to_html())
    assert "wide" in page.text and "narrow" in page.text
    assert json.loads(found.to_json())["groups"][0]["queries"] == ["wide", "narrow"]
    assert "wide" in Page(wr.explain(queries).to_html()).text


def test_pages_show_text_from_queries_safely_and_need_nothing_from_elsewhere():
    evil = "</pre><script>alert(1)</script>"
    schema = pa.schema({'t"><img src=x>': pa.timestamp("us"), "k": pa.string()})
    streams = {a: wr.Stream('t"><img src=x>', "2 s") for a in "ab"}
    found = wr.explain(wr.Query(streams, on=f"a.k = b.k and a.k <> '{evil}'"), {"a": schema, "b": schema})
    text = found.to_html()
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in Page(text).seen}
    assert evil in Page(text).text
    assert not re.search(r"(?:src|href)\s*=|@import|url\(", text.replace("&quot;&gt;&lt;img src=x&gt;", ""))


def test_a_limit_past_the_axis_is_an_arrow_at_its_end():
    points, x, y = [(0.0, 0.0), (50.0, 1.0)], Axis("memory", 50.0), Axis("recall", 1.0)
    inside = chart(points, x, y, [Annotation(25.0, 0.5, "limit")])
    beyond = chart(points, x, y, [Annotation(500.0, 1.0, "limit")])
    assert "<circle" in inside and 'class="drop"' in inside and "beyond" not in inside
    assert "limit, beyond this axis" in beyond and "<circle" not in beyond and 'class="drop"' not in beyond


def test_ticks_are_round_and_curves_refuse_nonsense():
    assert Axis("", 310.0).ticks() == [0, 50, 100, 150, 200, 250, 300]
    assert Axis("", 0.0).ticks() == [0.0]
    assert [Axis("", 1.0, 0.01).text(t) for t in Axis("", 1.0, 0.01).ticks()] == [
        "0",
        "20",
        "40",
        "60",
        "80",
        "100",
    ]
    curve = TimeCurve(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.8, 0.9]), 10.0, 2.0)
    assert curve.work_for(0.4) == pytest.approx(0.25) and curve.work_for(1.0) == float("inf")
    assert "more than is known" in str(curve) and "625 ms a second" in str(curve)
    for work, recall in (([0, 1], [0]), ([0, 0], [0, 1]), ([0, 1], [1, 0]), ([0, 2], [0, 1])):
        with pytest.raises(wr.QueryError):
            TimeCurve(np.array(work, float), np.array(recall, float), 1.0)
