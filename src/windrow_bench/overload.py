"""Deadlines of micro-batches on Spark: equality joins under parts and multiples of their exact time, and
streams that are faster than the machine.

Equality joins are those of `deadline`, with more rows. They run without a deadline first, twice, the second
time counts; then the same files come under deadlines of a quarter to one and a half times the median batch.
`overload` plays GrubJoin's three lagging streams as in its paper: a second of each stream a batch, and a
second for each batch. Two partitions share work that grows with the square of the rate, so the machine is
taken to handle the root of two times what one process does; reading and storing rows, which that leaves out,
makes the overload greater.

The join's time in a batch is that of its slowest partition: reading its rows, loading its windows, joining,
and storing them. Spark's own share of a batch comes on top of it and is nobody's to shed.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from windrow_bench import deadline_cases
from windrow_bench.deadline import (
    FACTORS,
    PARTS_ALLOWED,
    ROWS_FOR_FULL_SIZE,
    SPAN,
    calls,
    predicate,
    sustainable,
)
from windrow_bench.measure import printed

DEADLINE = 1.0
"""Of a batch of the lagging streams."""
SECONDS, SHORT = 20, 10
"""Of the lagging streams, and so batches."""
WARM_UP = 5
"""Batches until windows are full and the throttle has settled."""
PARTITIONS = 2
NEAR = 0.02
"""So that a row matches a few rows of each other stream, as in the paper's streams, up to a few dozen at
eight times the rate; with the threshold of `deadline` it would be thousands at these rates, and time would go
into building results."""
BATCHES, BATCHES_SHORT = 40, 25
BATCHES_WARM = 15
"""Of the equality joins."""
ROWS = {"equality, few matches": 100_000, "equality, many matches": 30_000, "Zipf keys": 1_500}
"""Rows of a batch, so that joining is a good part of what it takes."""
FIRST, EXACT = "first", "exact"
STEPS = ("reading", "loading", "joining", "storing")
Batches = list[dict[str, float]]


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    full = rows >= ROWS_FOR_FULL_SIZE
    figures = []
    for case in deadline_cases.CASES:
        if case.name in ROWS:
            figures += _equality(case, ROWS[case.name], BATCHES if full else BATCHES_SHORT, console)
    return figures + _lagging(SECONDS if full else SHORT, console)


def _equality(
    case: deadline_cases.DeadlineCase, rows: int, batches: int, console: Console
) -> list[dict[str, Any]]:
    """Figures for each deadline, and for none."""
    names = {f"{case.name}, {part:g}x": part for part in PARTS_ALLOWED}
    plan = {
        "aliases": case.aliases,
        "on": case.on,
        "window": f"{deadline_cases.SPAN} seconds",
        "runs": {FIRST: {}, EXACT: {}} | {name: {"part": part} for name, part in names.items()},
        "warm_up": BATCHES_WARM,
        "partitioning": None,
        "access": None,
    }
    with tempfile.TemporaryDirectory() as directory, console.status(f"{case.name}, {rows:,} rows a batch"):
        columns = _write(Path(directory), case.calls(rows, batches, seed=1))
        played = _play(plan | {"directory": directory, "columns": columns})
    exact = played[EXACT][BATCHES_WARM:]
    figures = [_figures(f"{case.name}, {rows:,} rows, exact", exact) | {"recall": 1.0}]
    for name in names:
        mine = played[name][BATCHES_WARM:]
        true = [batch["results"] / max(whole["results"], 1) for batch, whole in zip(mine, exact, strict=True)]
        inside = [
            batch["low"] - 1e-9 <= each <= batch["high"] + 1e-9
            for batch, each in zip(mine, true, strict=True)
        ]
        recall = sum(batch["results"] for batch in mine) / max(sum(batch["results"] for batch in exact), 1)
        figures.append(_figures(name, mine) | {"recall": recall, "batches inside": sum(inside)})
        console.print(f"{name}: recall {recall:.3f}, reported {figures[-1]['reported']}")
    return figures


def _lagging(seconds: int, console: Console) -> list[dict[str, Any]]:
    with console.status("finding the rate that one process can handle"):
        base = math.sqrt(PARTITIONS) * sustainable(NEAR)
    figures = []
    runs = {shed: {"shed": shed, "deadline": DEADLINE} for shed in ("harvest", "drop")}
    plan = {
        "aliases": "abc",
        "on": predicate(NEAR),
        "window": f"{SPAN} seconds",
        "runs": runs,
        "warm_up": WARM_UP,
        "partitioning": "grid",
        "access": "scan",
    }
    for factor in FACTORS:
        with tempfile.TemporaryDirectory() as directory:
            columns = _write(Path(directory), calls(factor * base, seconds, tick=DEADLINE))
            with console.status(f"{factor} times {base:,.0f} rows/s a stream"):
                played = _play(plan | {"directory": directory, "columns": columns})
        mine = {shed: batches[WARM_UP:] for shed, batches in played.items()}
        found = {shed: sum(batch["results"] for batch in mine[shed]) for shed in mine}
        name = f"lagging, {factor} x {base:,.0f} rows/s"
        gain = found["harvest"] / max(found["drop"], 1)
        figures.append(_figures(name, mine["harvest"]) | {"harvested : dropped": gain})
        console.print(f"{name}: results {found}, reported {figures[-1]['reported']}")
    return figures


def _figures(name: str, batches: Batches) -> dict[str, Any]:
    """What all have in common; where the true recall is not known it is None."""
    spent = [batch["seconds"] for batch in batches]
    limited = batches[0]["deadline"] > 0
    recall = [_median(batches, name) for name in ("recall", "low", "high")]
    past = sum(batch["seconds"] > 1.2 * batch["deadline"] for batch in batches)
    return {
        "case": name,
        "deadline, ms": 1e3 * batches[0]["deadline"] if limited else None,
        "recall": None,
        "reported": "{:.3f} [{:.3f}, {:.3f}]".format(*recall),
        "batches inside": None,
        "past 1.2 x deadline": past if limited else None,
        "of": len(batches),
        "the join's, ms": 1e3 * float(np.median(spent)),
        **{f"{step}, ms": 1e3 * _median(batches, step) for step in STEPS},
        "slowest, ms": 1e3 * max(spent),
        "whole batch, ms": 1e3 * _median(batches, "batch"),
        "harvested : dropped": None,
    }


def _median(batches: Batches, name: str) -> float:
    return float(np.median([batch[name] for batch in batches]))


def _write(directory: Path, made: Sequence[dict[str, pa.Table]]) -> str:
    """A file for each batch and stream; returns their columns as Spark writes them."""
    for number, part in enumerate(made):
        for alias, table in part.items():
            path = directory / alias / f"{number:04}.parquet"
            path.parent.mkdir(exist_ok=True)
            times = table["ts"].cast(pa.timestamp("us", "UTC"))
            pq.write_table(table.set_column(table.schema.get_field_index("ts"), "ts", times), path)
            # Spark takes files by age, and compares ages by the millisecond.
            os.utime(path, (1_700_000_000 + number,) * 2)
    kinds = {"timestamp[us]": "timestamp", "int64": "bigint", "double": "double"}
    schema = next(iter(made[0].values())).schema
    return ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in schema)


def _play(plan: dict[str, Any]) -> dict[str, Batches]:
    """The runs of a plan (`on_spark/overload.py`), in a process of their own, so that every case begins
    alike."""
    command = [sys.executable, "-m", "windrow_bench.on_spark.overload"]
    found: dict[str, Batches] = printed([*command, json.dumps(plan | {"partitions": PARTITIONS})], "overload")
    return found
