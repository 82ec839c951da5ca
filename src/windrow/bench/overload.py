"""The same overload as in `deadline`, on Spark: a second of each stream a batch, and a second for each batch.

Two partitions share work that grows with the square of the rate, so the machine is taken to handle the root
of two times what one process does; reading and storing rows, which that leaves out, makes the overload
greater.

The join's time in a batch is that of its slowest partition, from reading its rows to storing its windows;
Spark's own share of a batch comes on top of it and is nobody's to shed.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from windrow.bench.deadline import FACTORS, ROWS_FOR_FULL_SIZE, SPAN, calls, predicate, sustainable
from windrow.errors import WindrowError

DEADLINE = 1.0
SECONDS, SHORT = 20, 10
"""Of the streams, and so batches."""
WARM_UP = 5
"""Batches until windows are full and the throttle has settled."""
PARTITIONS = 2
NEAR = 0.02
"""So that a row matches a few rows of each other stream, as in the paper's streams, up to a few dozen at
eight times the rate; with the threshold of `deadline` it would be thousands at these rates, and time would go
into building results."""
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())])


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    with console.status("finding the rate that one process can handle"):
        base = math.sqrt(PARTITIONS) * sustainable(NEAR)
    figures = []
    seconds = SECONDS if rows >= ROWS_FOR_FULL_SIZE else SHORT
    for factor in FACTORS:
        with tempfile.TemporaryDirectory() as directory:
            _write(Path(directory), factor * base, seconds)
            with console.status(f"{factor} times {base:,.0f} rows/s a stream"):
                told = {policy: batches[WARM_UP:] for policy, batches in _play(directory).items()}
        spent = [batch["seconds"] for batch in told["harvest"]]
        found = {policy: sum(batch["results"] for batch in told[policy]) for policy in told}
        figures.append(
            {
                "case": f"{factor}x",
                "rows/s a stream": factor * base,
                "median batch : deadline": float(np.median(spent)) / DEADLINE,
                "slowest batch : deadline": max(spent) / DEADLINE,
                "batches past 1.2 x deadline": sum(s > 1.2 * DEADLINE for s in spent),
                "throttle": told["harvest"][-1]["throttle"],
                "recall": told["harvest"][-1]["recall"],
                "harvested : dropped": found["harvest"] / max(found["drop"], 1),
                "slowest when dropping : deadline": max(b["seconds"] for b in told["drop"]) / DEADLINE,
            }
        )
        console.print(f"{factor}x: slowest batch {max(spent):.2f} s, results {found}")
    return figures


def _write(directory: Path, rate: float, seconds: int) -> None:
    for number, part in enumerate(calls(rate, seconds, tick=DEADLINE)):
        for alias, table in part.items():
            path = directory / alias / f"{number:04}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table.cast(SCHEMA), path)
            # Spark takes files by age, and tells ages by the millisecond.
            os.utime(path, (1_700_000_000 + number,) * 2)


def _play(directory: str) -> dict[str, list[dict[str, float]]]:
    """Harvesting, then dropping, in a process of their own, so that every rate begins alike."""
    limits = (f"{SPAN} seconds", f"{DEADLINE} seconds")
    arguments = (directory, *limits, predicate(NEAR), str(PARTITIONS), "harvest", "drop")
    done = subprocess.run(
        [sys.executable, "-m", "windrow.spark.overload", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise WindrowError(f"the run on Spark failed: {done.stderr.strip()[-2000:]}")
    found: dict[str, list[dict[str, float]]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
