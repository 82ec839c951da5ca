"""The demo: an auction house on Spark. Auctions open, bids follow; which bids are hot?

Writes both streams as files that arrive over time, joins them in a streaming query on a local Spark, shows
what happens, leaves the results as parquet, and checks them against a recomputation from scratch.
"""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.live import Live
from rich.table import Table

from windrow.demo.limits import compare_limits, show_limits
from windrow.draw.terminal import table
from windrow.engine.compile_notice import announce_first_batch
from windrow.engine.rows import event_times
from windrow.errors import WindrowError
from windrow.model.query import Stream
from windrow.testing.auctions import auctions_and_bids

SECOND = 1_000_000
ON = "a.id = b.auction_id and b.price >= 1.5 * a.reserve"
TIME = {"a": "opened_at", "b": "bid_at"}
WITHIN = {"a": "2 minutes", "b": "30 seconds"}
NAMES = {"a": "auctions", "b": "bids"}
FILES = 15
"""Number of files of each stream."""
PAGE = "dashboard.html"
PAUSE = 0.3
"""Seconds between two files."""
PATIENCE = 300
"""Seconds without progress after which something is wrong."""
NEXT = """
next:
  .venv/bin/python examples/make_data.py auctions
  .venv/bin/windrow explain examples/auctions.toml   # plan, memory and cost
  .venv/bin/windrow run examples/auctions.toml       # --ui 4040: a dashboard
"""


def run_demo(
    seconds: int, rate: float, seed: int, out: Path, cores: int, console: Console | None = None
) -> dict[str, Any]:
    """Run the demo and report on the console. Returns a summary."""
    console = console or Console()
    console.print("[bold]Auctions joined with the bids on them, as a streaming query on local Spark[/bold]")
    console.print(f"  on      {ON}")
    for alias, name in NAMES.items():
        console.print(f"  {alias}       {name}, each row joinable for {WITHIN[alias]}")
    with console.status("generating streams"):
        streams = auctions_and_bids(seconds, rate, seed)
    console.print(
        f"  data    {streams['auctions'].num_rows:,} auctions and {streams['bids'].num_rows:,} bids "
        f"over {seconds} s of event time\n",
        highlight=False,
    )
    if out.exists():
        shutil.rmtree(out)
    for name in NAMES.values():
        (out / "arriving" / name).mkdir(parents=True)
    with ExitStack() as ended:
        with console.status("starting Spark"):
            from windrow.spark.session import open_session

            spark = ended.enter_context(open_session(f"local[{cores}]", "windrow demo", {}))
        announce_first_batch(partial(console.print, style="dim", highlight=False))
        began = time.perf_counter()
        _join_live(console, spark, streams, out, cores)
        elapsed = time.perf_counter() - began
        results = spark.read.parquet(str(out / "hot_bids")).toArrow()
    with console.status("checking against a recomputation from scratch"):
        same = _recompute(streams) == (results.num_rows, _sum_of(results["auction"], results["bid_at"]))
    rows = sum(t.num_rows for t in streams.values())
    _summary(console, results, same, elapsed, rows, out)
    with console.status("the same join with less memory and with less time than it needs"):
        windows = {alias: Stream(TIME[alias], WITHIN[alias]) for alias in NAMES}
        limited = compare_limits(_calls(streams), {"streams": windows, "on": ON, "seed": seed})
    console.print()
    show_limits(console, limited)
    console.print(NEXT, highlight=False)
    return {
        "exact": same,
        "rows_in": rows,
        "results": results.num_rows,
        "seconds": elapsed,
        "seed": seed,
        "results_in": str(out / "hot_bids"),
        "state_in": str(out / "state"),
        "limited": [asdict(run) for run in limited],
    }


def _join_live(console: Console, spark: Any, streams: dict[str, pa.Table], out: Path, cores: int) -> None:
    """Run the query until every row has arrived and been joined."""
    import windrow as wr

    frames = {
        alias: spark.readStream.option("maxFilesPerTrigger", 1)
        .schema(_schema(spark, streams[name], out))
        .parquet(str(out / "arriving" / name))
        for alias, name in NAMES.items()
    }
    joined = wr.join(
        frames, on=ON, time=TIME, within=WITHIN, partitions=cores, state=str(out / "state"), name="hot_bids"
    )
    hot = joined.selectExpr(
        "a.id as auction", "a.item", "a.reserve", "b.price", "b.bidder", "a.opened_at", "b.bid_at"
    )
    query = (
        hot.writeStream.format("parquet")
        .queryName("hot bids")
        .option("checkpointLocation", str(out / "checkpoint"))
        .start(str(out / "hot_bids"))
    )
    page = wr.dashboard(query)
    console.print(f"dashboard at {page.url} until the join has ended", highlight=False)
    writer = threading.Thread(target=_arrive, args=(streams, out), daemon=True)
    writer.start()
    total = sum(t.num_rows for t in streams.values())
    seen: dict[int, Any] = {}
    moved = time.monotonic()
    with page, Live(console=console, refresh_per_second=4) as live:
        while sum(b.rows_in for b in seen.values()) < total:
            time.sleep(0.2)
            if query.exception() is not None:
                raise WindrowError(f"the streaming query failed: {wr.reason(query)}")
            before = len(seen)
            seen |= {b.batch: b for b in wr.metrics(query)}
            moved = time.monotonic() if len(seen) > before else moved
            if time.monotonic() - moved > PATIENCE:
                raise WindrowError(f"no batch has ended for {PATIENCE} seconds")
            live.update(_view(list(seen.values()), total))
        query.processAllAvailable()
        query.stop()
        writer.join()
        page.save(out / PAGE)


def _schema(spark: Any, rows: pa.Table, out: Path) -> Any:
    """Spark's view of a table's schema, from an empty file."""
    path = out / "schema.parquet"
    pq.write_table(rows.slice(0, 0), path)
    found = spark.read.parquet(str(path)).schema
    path.unlink()
    return found


def _arrive(streams: dict[str, pa.Table], out: Path) -> None:
    """Files of both streams appear in step, whole: written aside, then moved into place."""
    for k, call in enumerate(_calls(streams)):
        for alias, rows in call.items():
            aside = out / "arriving" / f"{NAMES[alias]}.tmp"
            pq.write_table(rows, aside)
            aside.rename(out / "arriving" / NAMES[alias] / f"{k:03d}.parquet")
        time.sleep(PAUSE)


def _calls(streams: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    """Both streams cut at the same event times, by alias."""
    times = {a: event_times(streams[name][TIME[a]].combine_chunks()) for a, name in NAMES.items()}
    first = min(int(t[0]) for t in times.values())
    last = max(int(t[-1]) for t in times.values())
    edges = np.linspace(first, last + 1, FILES + 1)
    cuts = {a: np.searchsorted(t, edges) for a, t in times.items()}
    return [
        {a: streams[name].slice(cuts[a][k], cuts[a][k + 1] - cuts[a][k]) for a, name in NAMES.items()}
        for k in range(FILES)
    ]


def _view(batches: list[Any], total: int) -> Table:
    columns = ("batch", "rows in", "results", "window rows", "memory", "in the join", "batch time", "rows/s")
    rows = []
    for b in batches[-8:]:
        busy = max((p.seconds - p.seconds_read_input for p in b.partitions), default=0)
        counts = (f"{b.batch}", f"{b.rows_in:,}", f"{b.results:,}", f"{b.window_rows:,}")
        times = (f"{busy:.2f} s", f"{b.seconds:.2f} s", f"{b.rows_in / b.seconds:,.0f}" if b.seconds else "")
        rows.append((*counts, f"{b.memory_bytes / 2**20:.0f} MiB", *times))
    done, results = (sum(getattr(b, name) for b in batches) for name in ("rows_in", "results"))
    caption = (
        f"{done:,} of {total:,} rows in, {results:,} results; "
        "join: seconds of the slowest task, batch: of the whole batch"
    )
    return table(columns, rows, "streaming query", right=columns, caption=caption)


def _recompute(streams: dict[str, pa.Table]) -> tuple[int, int]:
    """The answer from scratch: an ordinary join of everything, then the conditions on price and time."""
    auctions = streams["auctions"].select(["id", "opened_at", "reserve"])
    joined = streams["bids"].join(auctions, "auction_id", "id", "inner")
    after = pc.subtract(joined["bid_at"].cast(pa.int64()), joined["opened_at"].cast(pa.int64()))
    hot = pc.greater_equal(joined["price"], pc.multiply(joined["reserve"], 1.5))
    near = pc.and_(pc.less_equal(after, 120 * SECOND), pc.greater_equal(after, -30 * SECOND))
    kept = joined.filter(pc.and_(hot, near))
    return kept.num_rows, _sum_of(kept["auction_id"], kept["bid_at"])


def _sum_of(auction: pa.ChunkedArray, at: pa.ChunkedArray) -> int:
    """A number that any missing, doubled or swapped result would change."""
    mixed = np.asarray(auction).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.asarray(at.cast(pa.timestamp("us")).cast(pa.int64())).astype(np.uint64) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    return int(mixed.sum(dtype=np.uint64))


def _summary(console: Console, results: pa.Table, same: bool, elapsed: float, rows: int, out: Path) -> None:
    console.print()
    columns = ("auction", "item", "hot bids", "best price / reserve")
    ratio = results.append_column("ratio", pc.divide(results["price"], results["reserve"]))
    top = ratio.group_by(["auction", "item"]).aggregate([("price", "count"), ("ratio", "max")])
    shown = [
        (row["auction"], row["item"], f"{row['price_count']:,}", f"{row['ratio_max']:.1f}")
        for row in top.sort_by([("price_count", "descending")]).slice(0, 5).to_pylist()
    ]
    console.print(table(columns, shown, "hottest auctions", right={*columns} - {"item"}))
    console.print(f"{rows:,} rows in, {results.num_rows:,} results, {elapsed:.1f} s in all", highlight=False)
    if same:
        console.print(
            f"[green]exact[/green]: all {results.num_rows:,} results equal a recomputation from scratch"
        )
    else:
        console.print("[red]the results differ from a recomputation: please report this[/red]")
    console.print(f"results in {out / 'hot_bids'}, dashboard in {out / PAGE}", highlight=False)
