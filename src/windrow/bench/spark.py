"""On Spark: the same files joined by Windrow and by Spark's own join, each in its own process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from windrow.bench.data import batches, streams, with_numbers
from windrow.errors import WindrowError

CORES = 2
PARTITIONS = 4
BATCHES = 14
ALONE = ("source", "hand-over")
"""What Spark does before any join: reading; and reading, shuffling and handing rows to Python."""
BATCH_SECONDS = 20
"""Event time in a batch: windows of 60 seconds hold three batches."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    per_stream = max(2_000, rows // 36)
    cases = [
        (
            "2-way, few matches",
            2,
            per_stream,
            50 * per_stream,
            ("source", "hand-over", "spark", "spark-rocksdb", "windrow"),
        ),
        ("2-way, dense", 2, per_stream, max(1, 3 * per_stream // 4), ("spark", "windrow")),
        ("3-way", 3, per_stream // 4, max(1, per_stream // 2), ("spark", "windrow")),
        ("2-way band", 2, per_stream // 4, 50 * per_stream, ("windrow-band",)),
        ("3-way theta", 3, 2_000, 50 * per_stream, ("windrow-theta",)),
        ("almost empty batches", 2, 10, 100, ("spark", "windrow")),
    ]
    return [_case(*case, console) for case in cases]


def _case(
    name: str, count: int, per_stream: int, keys: int, sides: tuple[str, ...], console: Console
) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="windrow-bench-"))
    try:
        _write(folder, count, per_stream, keys)
        measured = {}
        for side in sides:
            with console.status(f"{name}: {side}"):
                measured[side] = _measure(side, folder, count)
        compared = {s: m for s, m in measured.items() if s not in ALONE}
        answers = {(m["results"], m["hashes"]) for m in compared.values()}
        if len(answers) > 1:
            raise WindrowError(f"{name}: the sides differ: {compared}")
        return _figures(name, measured)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(name: str, measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    ours = next(m for side, m in measured.items() if side.startswith("windrow"))
    rate = {side: m["rows"] / m["seconds"] for side, m in measured.items()}
    own = rate.get("spark")
    found: dict[str, Any] = {"join": name, "results": ours["results"]}
    found["windrow rows/s"] = ours["rows"] / ours["seconds"]
    for side, title in (
        ("spark", "Spark"),
        ("spark-rocksdb", "Spark RocksDB"),
        ("source", "source alone"),
        ("hand-over", "hand-over alone"),
    ):
        found[f"{title} rows/s"] = rate.get(side, "")
    found["windrow : Spark"] = found["windrow rows/s"] / own if own else "Spark refuses"
    rocks = rate.get("spark-rocksdb")
    found["windrow : Spark RocksDB"] = found["windrow rows/s"] / rocks if rocks else ""
    found["windrow seconds a batch"] = ours["seconds"] / ours["batches"]
    own_side = measured.get("spark")
    found["Spark seconds a batch"] = own_side["seconds"] / own_side["batches"] if own_side else ""
    found["windrow peak MiB"] = ours["peak"] / 2**20
    found["Spark peak MiB"] = own_side["peak"] / 2**20 if own_side else ""
    return found


def _write(folder: Path, count: int, per_stream: int, keys: int, files: int = BATCHES) -> None:
    seconds = files * BATCH_SECONDS
    tables = with_numbers(streams(per_stream * count * files, keys, count, seconds), 50.0 * per_stream)
    for alias in tables:
        (folder / alias).mkdir()
    for k, part in enumerate(batches(tables, per_stream * count, seconds)):
        for alias, table in part.items():
            pq.write_table(_utc(table), folder / alias / f"{k:04d}.parquet")
            time.sleep(0.01)  # files are taken in the order of their times


def _utc(table: pa.Table) -> pa.Table:
    return table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))


def _measure(side: str, folder: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "windrow.spark.benchmark", side, str(folder), str(count)]
    process = subprocess.Popen(
        [*command, str(CORES), str(PARTITIONS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak = [0]
    watcher = threading.Thread(target=_watch, args=(process, peak), daemon=True)
    watcher.start()
    out, err = process.communicate()
    if process.returncode:
        raise WindrowError(f"{side} failed: {err[-2000:]}")
    return {**json.loads(out.strip().splitlines()[-1]), "peak": peak[0]}


def _watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    """The most memory the process and all below it held at once."""
    while process.poll() is None:
        peak[0] = max(peak[0], sum(_resident(pid) for pid in _tree(process.pid)))
        time.sleep(1.0)


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(") ", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
        except (OSError, IndexError, ValueError):
            continue
    found: list[int] = []
    left = [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    """Proportional set size: memory shared by forked workers counts once."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
