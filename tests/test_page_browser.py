"""The page as a reader meets it, in a real Chromium: what it shows, what it does with hostile names, and how
it lives on while the query is started again. Without Chromium these are skipped, saying how to install it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from browser import Browser, find_chromium
from page_runs import Run, limited, record
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.ui.address import Address
from windrow.ui.history import History
from windrow.ui.report import page, read_run, write_page
from windrow.ui.server import Server

SHOWN = "[...document.querySelectorAll('.panel:not([hidden]) h2')].map((h) => h.firstChild.textContent)"
PILL = "document.querySelector('.pill').textContent"
CURVE = "document.querySelector('.panel polyline.curve')"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
EVIL = '<img src=x onerror="window.hurt=1"></script><script>window.hurt=1</script>\''


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    find_chromium()
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_complaints(browser):
    browser.complaints.clear()
    yield
    assert browser.complaints == []


def shown(browser: Browser) -> list[str]:
    return browser.wait(f"({SHOWN}).length ? {SHOWN} : null")


def test_a_report_shows_every_panel_there_is_data_for(browser, tmp_path):
    record(tmp_path / "metrics.jsonl", 12)
    written = write_page(read_run(tmp_path), tmp_path / "page.html")
    browser.open(written.as_uri())
    assert shown(browser) == [
        "Rows in", "Results", "Recall", "Memory", "Batch time", "Throttle fraction", "Rows lost", "Skew",
        "Age curves", "Lags", "Harvest", "Partitions", "Streams", "Plan",
    ]  # fmt: skip
    text = browser.text()
    assert "when a arrives" in text and "Not shown" in text and "Queries: the join is not shared" in text
    assert browser.value("document.querySelectorAll('.strip:not(.scale)').length") == 6
    assert browser.value("document.querySelectorAll('.piece').length") >= 3

    # A pointer over a chart tells the figures there; the arrow keys do as well.
    chart = "document.querySelectorAll('.panel:not([hidden]) .chart')[2]"
    browser.value(f"{chart}.querySelector('svg').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowLeft")
    assert "batch 11" in browser.wait(f"{chart}.querySelector('.tip:not([hidden])').innerText")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone_and_follows_the_colours_preferred(browser, tmp_path, dark):
    record(tmp_path / "metrics.jsonl", 3)
    written = write_page(read_run(tmp_path), tmp_path / "page.html")
    browser.open(written.as_uri(), width=390, height=800, dark=dark)
    shown(browser)
    assert browser.value(WIDER) <= 0
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 26)") is dark
    hidden = "(e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'hidden'"
    cut = f"[...document.querySelectorAll('.panel *, .tile *')].filter({hidden}).map((e) => e.textContent)"
    assert browser.value(cut) == []


def test_the_interval_of_recall_is_drawn_with_the_estimate_in_it(browser, tmp_path):
    batches = record(tmp_path / "metrics.jsonl", 8)
    estimate, low, high = batches[-1]["joins"]["sensors"]["recall"]
    assert low < estimate < high
    browser.open(write_page(read_run(tmp_path), tmp_path / "page.html").as_uri())
    bar = "document.querySelector('.meter.interval').firstChild.style"
    mark = "document.querySelector('.meter.interval b').style.left"
    drawn = browser.wait(f"[{bar}.left, {bar}.width, {mark}].map(parseFloat)")
    assert drawn == pytest.approx([100 * low, 100 * (high - low), 100 * estimate], abs=0.1)


@pytest.mark.parametrize(
    ("top", "unit", "texts", "factor"),
    [
        (600, "s", ["0 min", "5 min", "10 min"], ""),
        (7000, "s", ["0 min", "60 min"], ""),
        (40_000, "s", ["0 h", "4 h", "8 h"], ""),
        (0.0002, "", ["0", "1", "2"], "×10⁻⁴"),
        (0.0000966, "", ["0", "5"], "×10⁻⁵"),
        (2500, "", ["0", "1k", "2k"], ""),
    ],
)
def test_ticks_are_round_numbers_in_the_unit_they_are_shown_in(browser, tmp_path, top, unit, texts, factor):
    record(tmp_path / "metrics.jsonl", 1)
    browser.open(write_page(read_run(tmp_path), tmp_path / "page.html").as_uri())
    shown = browser.value(f"Drawing.labels(Drawing.ticks(0, {top}, 3, '{unit}'), '{unit}')")
    assert shown == {"texts": texts, "factor": factor}


def test_names_and_values_with_markup_stay_text(browser, tmp_path):
    run = limited(deadline="30 ms")
    told = BatchQueryMetrics(results=3, response_mean=0.1, response_p99=0.2, response_max=0.3, backlog_rows=4)
    for _ in range(4):
        batch = run.next(queries={EVIL: told, "__proto__": told})
    for part in batch["joins"]["sensors"]["partitions"]:
        part["hot_key"], part["control_errors"] = EVIL, [EVIL]
        part["learned_models"]["plan"] = EVIL
    batch["joins"][EVIL] = batch["joins"].pop("sensors")
    batch = json.loads(json.dumps(batch).replace('"b"', json.dumps(EVIL)))
    history = History(EVIL)
    history.add(batch)
    history.end("failed", EVIL)
    with_server = Server(history, Address(0))
    try:
        for url in (write_page(history, tmp_path / "page.html").as_uri(), with_server.url):
            browser.open(url)
            assert {"Queries", "Partitions", "Plan", "Harvest"} <= set(shown(browser))
            assert browser.text().count("onerror") >= 6
            assert browser.value("window.hurt === undefined && document.images.length") == 0
            assert browser.value("document.title") == f"{EVIL} · windrow"
    finally:
        with_server.close()


def test_a_page_left_open_follows_a_restart_and_says_so(browser):
    run = limited()
    first = History("sensors")
    server = Server(first, Address(0))
    port = server.port
    browser.open(server.url)
    browser.wait("document.body.innerText.includes('waiting for the first batch')")
    first.add(run.next(began=datetime.now(UTC)))
    browser.wait(f"{PILL} === 'live'")
    assert "batch 0 ended" in browser.text()
    server.close()
    browser.wait("document.body.innerText.includes('No answer since')")
    assert "batch 0 ended" in browser.text() and browser.value(PILL) == "no connection"

    second = History("sensors")
    server = Server(second, Address(port))
    browser.wait("document.body.innerText.includes('Reconnected: the query was started again')")
    assert "batch 0 ended" in browser.text() and browser.value(PILL) == "waiting for the first batch"
    second.add(run.next(began=datetime.now(UTC)))
    browser.wait("document.body.innerText.includes('batch 1 ended')")
    assert browser.value("document.querySelectorAll('.mark').length") >= 3
    assert browser.value(f"{CURVE}.getAttribute('points').split(' ').length") == 2

    second.end("done")
    server.close()
    browser.wait(f"{PILL} === 'done'")
    browser.wait("document.body.innerText.includes('The run has ended')")


def test_an_exact_join_says_why_panels_are_missing(browser, tmp_path):
    history = History("exact")
    history.add(Run(partitions=1).next())
    (tmp_path / "page.html").write_text(page(history), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    assert not {"Recall", "Throttle fraction", "Harvest", "Age curves", "Skew"} & set(shown(browser))
    told = browser.text()
    for why in ("so the answer is exact", "there is no deadline", "none so far", "there is one partition"):
        assert why in told, why
