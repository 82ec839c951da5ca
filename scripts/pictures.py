"""The screenshots of the documentation: `make pictures` writes them into docs/pictures.

`python scripts/pictures.py NAME...` writes some of them. Chromium takes the screenshots, driven as in the
tests, so `tests` must be on the PYTHONPATH. Runs are seeded and on a virtual clock.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import windrow as wr
from browser import Browser
from page_runs import LAGS, SHARES, Run, record
from windrow.testing import in_steps
from windrow.testing.auctions import auctions_and_bids
from windrow.ui.assets import asset
from windrow.ui.report import read_run, write_page

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PARTS = (0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)
"""Memory, as parts of what the exact answer takes."""
ROWS = 5000
"""Of a call."""


def page(directory: Path, browser: Browser) -> None:
    """The dashboard of three lagging streams under both limits."""
    record(directory / "metrics.jsonl", 45, Run(150, memory="3200 rows", deadline="1 second"))
    _shoot(browser, write_page(read_run(directory), directory / "page.html"), "page")


def explain(directory: Path, browser: Browser) -> None:
    """The plan of the same join, from a sample of its streams."""
    run = Run(150, memory="900 rows", deadline="8 ms")
    calls = []
    for run.batch in range(12):
        shares = zip(run.query.aliases, LAGS, SHARES, strict=True)
        calls.append({alias: run.rows(lag, int(run.rate * share)) for alias, lag, share in shares})
    data = {alias: pa.concat_tables([call[alias] for call in calls]) for alias in run.query.aliases}
    written = directory / "explain.html"
    written.write_text(
        wr.explain(run.query, sample=data, trigger_interval="1 second").to_html(), encoding="utf-8"
    )
    _shoot(browser, written, "explain")


def readme(directory: Path, browser: Browser) -> None:
    """Recall with its interval as memory shrinks, beside the dashboard."""
    exact, memory, _ = _joined(memory=None)
    runs = [(part, *_joined(int(memory * part))) for part in PARTS]
    for part, results, _, metrics in runs:
        told = f"recall {metrics.recall:.3f} [{metrics.recall_low:.3f}, {metrics.recall_high:.3f}]"
        print(f"{part:5.1%} of the memory: {told}, true {results / exact:.3f}")
    chart = {
        "x": [100 * part for part in PARTS],
        "series": [
            {
                "name": "recall as reported, with its 95 % interval",
                "color": 3,
                "values": [m.recall for *_, m in runs],
                "low": [m.recall_low for *_, m in runs],
                "high": [m.recall_high for *_, m in runs],
            },
            {"name": "true recall", "color": 2, "dash": True, "values": [n / exact for _, n, *_ in runs]},
        ],
    } | {"unit": "%", "top": 1, "bottom": 0, "height": 370}
    shown = base64.b64encode((PICTURES / "page.png").read_bytes()).decode()
    style = (
        "body { display: flex; gap: 20px; padding: 14px; } "
        ".side { flex: 0 0 610px; zoom: 1.35; margin: 0; } h2 { font-size: 16px; margin: 0 0 2px; } "
        ".live { flex: 1; height: 640px; border-radius: 10px; border: 1px solid var(--line); "
        f"background: url(data:image/png;base64,{shown}) top left / 100% no-repeat; }}"
    )
    written = directory / "readme.html"
    written.write_text(
        f"<!doctype html><meta charset=utf-8><style>{asset('style.css')}{style}</style>"
        '<section class="panel side"><h2>Less memory, and what it costs</h2>'
        '<p class="why">memory, in % of what the exact answer takes</p><div id="chart"></div></section>'
        '<div class="live"></div>'
        f"<script>{asset('drawing.js')}{asset('charts.js')}"
        f"Charts.line(document.getElementById('chart')).show({json.dumps(chart)})</script>",
        encoding="utf-8",
    )
    _shoot(browser, written, "readme", 1720, 670)


def _joined(memory: int | None) -> tuple[int, int, wr.types.OperatorMetrics]:
    """Results of auctions joined with bids, the most memory this took, and the metrics."""
    tables = auctions_and_bids(900, 200, seed=1)
    streams = {"a": tables["auctions"], "b": tables["bids"]}
    query = wr.Query(
        {"a": wr.Stream("opened_at", "5 minutes"), "b": wr.Stream("bid_at", "30 seconds")},
        on="a.id = b.auction_id",
    )
    limited = replace(query, memory=memory)
    operator = wr.Operator(limited, {alias: table.schema for alias, table in streams.items()})
    results, most = 0, 0
    for step in in_steps(limited, streams, ROWS):
        results += operator.process(step).num_rows
        most = max(most, operator.metrics().memory_bytes)
    return results, most, operator.metrics()


def _shoot(browser: Browser, written: Path, name: str, width: int = 1280, height: int | None = None) -> None:
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.open(written.as_uri(), width)
    whole = int(browser.wait("document.documentElement.scrollHeight"))
    browser.open(written.as_uri(), width, height or whole)
    browser.wait("document.querySelectorAll('svg').length")
    browser.picture(PICTURES / f"{name}.png", whole=False)
    print(PICTURES / f"{name}.png")


MADE = {"page": page, "explain": explain, "readme": readme}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, Browser(Path(made) / "profile") as opened:
        for wanted in sys.argv[1:] or MADE:
            place = Path(made) / wanted
            place.mkdir()
            MADE[wanted](place, opened)
