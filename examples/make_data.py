"""Data for the examples: `python examples/make_data.py NAME [DIR]`, with NAME auctions, sensors or clicks.

Streams come as files, cut by the time of arrival, in the order they would have arrived. By default DIR is
where the example looks: examples/data/NAME. The same seed always gives the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from windrow.testing.auctions import START, auctions_and_bids

FILES = 8
SECOND = 1_000_000
Stream = tuple[str, pa.Table, np.ndarray]
"""The kind of file, the rows, and when each arrives, in microseconds after the start."""


def auctions(seconds: int, rate: float, seed: int) -> Mapping[str, Stream]:
    """Auctions (parquet) and the bids that follow them (JSON), as the lab's auction house draws them."""
    tables = auctions_and_bids(seconds, rate, seed)
    opened, came = tables["auctions"]["opened_at"], tables["bids"]["bid_at"]
    return {
        "auctions": ("parquet", _with_zone(tables["auctions"], "opened_at"), _since_start(opened)),
        "bids": ("json", _with_zone(tables["bids"], "bid_at"), _since_start(came)),
    }


def sensors(seconds: int, rate: float, seed: int) -> Mapping[str, Stream]:
    """Two halls of ten sensors (CSV): temperatures drift around 20 degrees, by hall and by sensor."""
    random = np.random.default_rng(seed)
    streams = {}
    for hall, phase in (("north", 0.0), ("south", 1.5)):
        count = int(seconds * rate / 2)
        at = np.sort(random.integers(0, seconds * SECOND, size=count))
        sensor = random.integers(1, 10, size=count, endpoint=True)
        drift = 4 * np.sin(2 * np.pi * at / (120 * SECOND) + phase)
        temperature = np.round(20 + 0.3 * sensor + drift + random.normal(0, 0.5, size=count), 2)
        table = pa.table({"sensor": sensor, "at": _instants(at), "temperature": temperature})
        streams[hall] = ("csv", table, at)
    return streams


def clicks(seconds: int, rate: float, seed: int) -> Mapping[str, Stream]:
    """Impressions, clicks on a third of them and conversions of a third of those (JSON).

    A click comes an exponential time (mean 20 s) after its impression, a conversion (mean 60 s) after its
    click. Rows arrive some seconds after they happened; one click in ten comes from a telephone without a
    network and arrives up to three minutes later.
    """
    random = np.random.default_rng(seed)
    count = int(seconds * rate)
    seen = np.sort(random.integers(0, seconds * SECOND, size=count))
    clicked = np.flatnonzero(random.random(count) < 1 / 3)
    click_at = seen[clicked] + (random.exponential(20, clicked.size) * SECOND).astype(np.int64)
    bought = np.flatnonzero(random.random(clicked.size) < 1 / 3)
    bought_at = click_at[bought] + (random.exponential(60, bought.size) * SECOND).astype(np.int64)

    def arrival(at: np.ndarray) -> np.ndarray:
        return at + (random.exponential(2, at.size) * SECOND).astype(np.int64)

    offline = (random.random(clicked.size) < 0.1) * random.integers(0, 180 * SECOND, size=clicked.size)
    impressions = {"id": np.arange(count), "ad": random.integers(1, 50, size=count), "at": _instants(seen)}
    made = {"id": np.arange(clicked.size), "impression_id": clicked, "at": _instants(click_at)}
    value = np.round(random.lognormal(3, 1, bought.size), 2)
    conversions = {"click_id": bought, "at": _instants(bought_at), "value": value}
    return {
        "impressions": ("json", pa.table(impressions), arrival(seen)),
        "clicks": ("json", pa.table(made), arrival(click_at) + offline),
        "conversions": ("json", pa.table(conversions), arrival(bought_at)),
    }


EXAMPLES: Mapping[str, Callable[[int, float, int], Mapping[str, Stream]]] = {
    "auctions": auctions,
    "sensors": sensors,
    "clicks": clicks,
}


def cut_streams(streams: Mapping[str, Stream], files: int) -> dict[str, list[pa.Table]]:
    """Each stream's rows in order of arrival, all cut at the same times."""
    end = max(int(arrived.max()) for _, _, arrived in streams.values()) + 1
    cuts = np.linspace(0, end, files + 1).astype(np.int64)[1:]
    found = {}
    for name, (_, table, arrived) in streams.items():
        order = np.argsort(arrived, kind="stable")
        table, part = table.take(pa.array(order)), np.searchsorted(cuts, arrived[order], side="right")
        found[name] = [table.filter(pa.array(part == n)) for n in range(files)]
    return found


def write_streams(streams: Mapping[str, Stream], directory: Path, files: int) -> None:
    """A directory per stream with files 000, 001, ..."""
    for name, parts in cut_streams(streams, files).items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        for n, part in enumerate(parts):
            kind = streams[name][0]
            path = directory / name / f"{n:03}.{kind}"
            _write(kind, part, path)
            # Spark reads the oldest file first, so each must be older than the next.
            made = time.time() - files + n
            os.utime(path, (made, made))


def _write(kind: str, table: pa.Table, path: Path) -> None:
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        lines = [json.dumps(row, default=lambda at: at.isoformat()) for row in table.to_pylist()]
        path.write_text("".join(line + "\n" for line in lines))


def _instants(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds + int(START.timestamp()) * SECOND, pa.timestamp("us", "UTC"))


def _since_start(times: pa.ChunkedArray) -> np.ndarray:
    return times.cast(pa.int64()).to_numpy() - int(START.timestamp()) * SECOND


def _with_zone(table: pa.Table, column: str) -> pa.Table:
    """Spark takes a time without a zone for another type than a timestamp."""
    place = table.column_names.index(column)
    return table.set_column(place, column, table[column].cast(pa.timestamp("us", "UTC")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(EXAMPLES))
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--seconds", type=int, default=600, help="event time covered (default 600)")
    parser.add_argument("--rate", type=float, default=100, help="rows drawn per second (default 100)")
    parser.add_argument("--files", type=int, default=FILES, help=f"files per stream (default {FILES})")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    directory = asked.directory or Path(__file__).parent / "data" / asked.name
    streams = EXAMPLES[asked.name](asked.seconds, asked.rate, asked.seed)
    write_streams(streams, directory, asked.files)
    for name, (kind, table, _) in streams.items():
        print(f"{directory / name}: {table.num_rows:,} rows in {asked.files} {kind} files")


if __name__ == "__main__":
    main()
