"""The demo: an auction house. Auctions open, bids follow; which bids are hot?

Generates both streams, feeds them to the operator as they would arrive, one second of event time after the
other, shows what happens, writes the results and checks them against a recomputation from scratch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from windrow.engine.operator import Operator
from windrow.engine.rows import event_times
from windrow.lab.generators import auctions_and_bids
from windrow.model.query import Query, Stream

SECOND = 1_000_000
QUERY = Query(
    streams={
        "a": Stream(time="opened_at", within="2 minutes"),
        "b": Stream(time="bid_at", within="30 seconds"),
    },
    on="a.id = b.auction_id and b.price >= 1.5 * a.reserve",
)


def run_demo(seconds: int, rate: float, seed: int, out: Path) -> None:
    console = Console()
    console.print("[bold]Auctions joined with the bids on them[/bold]")
    console.print(f"  on      {QUERY.on}")
    for alias, name in (("a", "auctions"), ("b", "bids")):
        console.print(f"  {alias}       {name}, each row joinable for {QUERY.streams[alias].window}")
    with console.status("generating streams"):
        streams = auctions_and_bids(seconds, rate, seed)
        console.print(
            f"  data    {streams['auctions'].num_rows:,} auctions and {streams['bids'].num_rows:,} bids "
            f"over {seconds} s of event time (seed {seed})\n"
        )
    operator = Operator(QUERY, {"a": streams["auctions"].schema, "b": streams["bids"].schema})
    with console.status("loading the kernels (the first time, some seconds to compile them)"):
        _warm_up(streams)

    began = time.perf_counter()
    results = _join_live(console, operator, streams, seconds)
    elapsed = time.perf_counter() - began

    with console.status("checking against a recomputation from scratch"):
        expected = _recompute(streams)
        same = expected == _fingerprint(results)
    out.mkdir(parents=True, exist_ok=True)
    flat = _flatten(results)
    pq.write_table(flat, out / "hot_bids.parquet")
    _summary(console, operator, elapsed, flat, same, out)
    if not same:
        raise SystemExit(1)


def _second_by_second(streams: dict[str, pa.Table], seconds: int) -> Iterator[dict[str, pa.Table]]:
    """What arrives in each second, of both streams."""
    start = int(min(event_times(streams["auctions"]["opened_at"].combine_chunks())[0], 2**62)) // SECOND
    edges = (start + np.arange(seconds + 1)) * SECOND
    edges[-1] += 60 * SECOND
    cuts = {
        alias: np.searchsorted(event_times(streams[name][column].combine_chunks()), edges)
        for alias, name, column in (("a", "auctions", "opened_at"), ("b", "bids", "bid_at"))
    }
    for k in range(seconds):
        yield {
            alias: streams[name].slice(cuts[alias][k], cuts[alias][k + 1] - cuts[alias][k])
            for alias, name in (("a", "auctions"), ("b", "bids"))
        }


def _warm_up(streams: dict[str, pa.Table]) -> None:
    """A few rows through another operator, so that compilation is not part of the show."""
    few = {"a": streams["auctions"].slice(0, 200), "b": streams["bids"].slice(0, 200)}
    Operator(QUERY).process(few)


def _join_live(console: Console, operator: Operator, streams: dict[str, pa.Table], seconds: int) -> pa.Table:
    parts = []
    columns = (TextColumn("joining"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("join", total=seconds, told="")
        busy = 0.0
        for k, arrived in enumerate(_second_by_second(streams, seconds)):
            began = time.perf_counter()
            parts.append(operator.process(arrived))
            busy += time.perf_counter() - began
            if k % 20 == 19 or k == seconds - 1:
                m = operator.measure()
                told = (
                    f"{m.rows_in:,} rows in  {m.results:,} results  {m.window_rows:,} rows held  "
                    f"{m.memory_bytes / 2**20:.0f} MiB  {m.rows_in / busy:,.0f} rows/s"
                )
                progress.update(task, completed=k + 1, told=told)
    return pa.concat_tables(parts)


def _recompute(streams: dict[str, pa.Table]) -> tuple[int, int]:
    """The answer from scratch: an ordinary join of everything, then the conditions on price and time."""
    auctions = streams["auctions"].select(["id", "opened_at", "reserve"])
    joined = streams["bids"].join(auctions, "auction_id", "id", "inner")
    after = pc.subtract(joined["bid_at"].cast(pa.int64()), joined["opened_at"].cast(pa.int64()))
    hot = pc.greater_equal(joined["price"], pc.multiply(joined["reserve"], 1.5))
    near = pc.and_(pc.less_equal(after, 120 * SECOND), pc.greater_equal(after, -30 * SECOND))
    kept = joined.filter(pc.and_(hot, near))
    return kept.num_rows, _sum_of(kept["auction_id"], kept["bid_at"])


def _fingerprint(results: pa.Table) -> tuple[int, int]:
    bids = results["b"].combine_chunks()
    return results.num_rows, _sum_of(pc.struct_field(bids, "auction_id"), pc.struct_field(bids, "bid_at"))


def _sum_of(auction: pa.ChunkedArray, at: pa.ChunkedArray) -> int:
    """A number that any missing, doubled or swapped result would change."""
    mixed = np.asarray(auction).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.asarray(at.cast(pa.int64())).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return int(mixed.sum(dtype=np.uint64))


def _flatten(results: pa.Table) -> pa.Table:
    columns = {
        "auction": ("a", "id"),
        "item": ("a", "item"),
        "reserve": ("a", "reserve"),
        "price": ("b", "price"),
        "bidder": ("b", "bidder"),
        "opened_at": ("a", "opened_at"),
        "bid_at": ("b", "bid_at"),
    }
    return pa.table({name: pc.struct_field(results[side], field) for name, (side, field) in columns.items()})


def _summary(
    console: Console, operator: Operator, elapsed: float, flat: pa.Table, same: bool, out: Path
) -> None:
    m = operator.measure()
    console.print()
    table = Table(title="hottest auctions", title_justify="left")
    for name in ("auction", "item", "hot bids", "best price / reserve"):
        table.add_column(name, justify="left" if name == "item" else "right")
    ratio = flat.append_column("ratio", pc.divide(flat["price"], flat["reserve"]))
    top = ratio.group_by(["auction", "item"]).aggregate([("price", "count"), ("ratio", "max")])
    for row in top.sort_by([("price_count", "descending")]).slice(0, 5).to_pylist():
        table.add_row(str(row["auction"]), row["item"], f"{row['price_count']:,}", f"{row['ratio_max']:.1f}")
    console.print(table)
    console.print()
    console.print(f"{operator.plan}\n", highlight=False, soft_wrap=True)
    console.print(str(m), highlight=False)
    console.print(f"{m.rows_in / elapsed:,.0f} rows/s, {elapsed:.1f} s in all", highlight=False)
    if same:
        console.print(f"[green]exact[/green]: all {m.results:,} results equal a recomputation from scratch")
    else:
        console.print("[red]the results differ from a recomputation: please report this[/red]")
    console.print(f"results in {out / 'hot_bids.parquet'}", highlight=False)
