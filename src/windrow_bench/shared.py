"""Many queries in one join: against the largest of them alone, and against each in a join of its own.

Seven windows of Shared's Uniform mix, and a hundred windows evenly between nothing and the largest; the same
rows, in the operator and on Spark. Handing a result to many queries costs by the result, however it is found:
so the operator is measured with few results (one in over a hundred rows) and with many (one in two or three),
and a hundred queries with and without making each query's table.

On Spark a batch has 400,000 rows (by default): with a tenth of that, what Spark does once per batch is most
of the time on every side, and the sides hardly differ.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from windrow.engine.shared.operator import SharedOperator
from windrow.errors import WindrowError
from windrow_bench.data import batches, streams
from windrow_bench.measure import Calls, printed, timed, window_query
from windrow_bench.spark import CORES, PARTITIONS, SparkCase, _write

SECONDS = 180
UNIFORM = tuple(w / 10 for w in (1, 100, 200, 300, 400, 500, 600))
"""Windows of Table 1, a tenth as long."""
HUNDRED = tuple(0.6 * k for k in range(1, 101))
CALLS = 12
REPEATS = 5
"""The best of so many runs counts: a run takes a fraction of a second."""
ON = "a.k = b.k"
SPARK_SIDES = ("largest", "seven", "apart", "hundred")


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    rows = min(rows // 3, 2_400_000)
    found = []
    for name, keys in (("few results", 20 * rows), ("many results", rows // 3)):
        with console.status(f"operator, {name}"):
            found.append(_figures(f"operator, {name}", _in_process(rows, keys)))
    with console.status("on Spark"):
        found.append(_figures("on Spark, few results", _on_spark(max(20_000, rows // 12))))
    return found


def _figures(name: str, seconds: Mapping[str, float]) -> dict[str, Any]:
    largest = seconds["largest"]
    return {
        "join": name,
        "results of the largest": seconds["results"],
        "largest alone, s": largest,
        "7 shared : largest alone": seconds["seven"] / largest,
        "7 apart : largest alone": seconds["apart"] / largest,
        "7 apart : 7 shared": seconds["apart"] / seconds["seven"],
        "100 shared : largest alone": seconds["hundred"] / largest,
        "100 routed only : largest alone": seconds.get("routed", float("nan")) / largest,
    }


# -- in this process --------------------------------------------------------------------------------------


def _in_process(rows: int, keys: int) -> dict[str, float]:
    parts = batches(streams(rows, keys, 2, SECONDS), rows // CALLS, SECONDS)
    alone = {w: _alone(parts, w)[1] for w in UNIFORM}
    together = _together(parts, UNIFORM)[1]
    if list(together.values()) != list(alone.values()):
        raise WindrowError(f"shared and alone differ: {together} and {alone}")
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        taken = {f"{w:g}": _alone(parts, w)[0] for w in UNIFORM} | {
            "seven": _together(parts, UNIFORM)[0],
            "hundred": _together(parts, HUNDRED)[0],
            "routed": _together(parts, HUNDRED, look=False)[0],
        }
        best |= {name: min(seconds, best.get(name, seconds)) for name, seconds in taken.items()}
    each = [best.pop(f"{w:g}") for w in UNIFORM]
    return best | {"largest": each[-1], "apart": sum(each), "results": float(alone[UNIFORM[-1]])}


def _alone(parts: Calls, window: float) -> tuple[float, int]:
    run = timed(window_query(ON, window), parts, warm_up=False)
    return run.seconds, run.results


def _together(parts: Calls, windows: tuple[float, ...], look: bool = True) -> tuple[float, dict[str, int]]:
    operator = SharedOperator({f"{w:g} s": window_query(ON, w) for w in windows})
    began = time.perf_counter()
    counts: dict[str, int] = {}
    for part in parts:
        out = operator.process(part)
        for name in out if look else ():
            counts[name] = counts.get(name, 0) + out[name].num_rows
    return time.perf_counter() - began, counts


# -- on Spark ---------------------------------------------------------------------------------------------


def _on_spark(rows: int) -> dict[str, float]:
    """Each side in a process of its own, over the same files."""
    folder = Path(tempfile.mkdtemp(prefix="windrow-bench-"))
    try:
        _write(folder, SparkCase("shared", "key", 2, rows, 100 * rows))
        measured = {side: _measure(side, folder) for side in SPARK_SIDES}
        if measured["seven"]["answer"] != measured["apart"]["answer"]:
            raise WindrowError(f"shared and apart differ: {measured['seven']} and {measured['apart']}")
        return {side: measured[side]["seconds"] for side in SPARK_SIDES} | {
            "results": measured["largest"]["answer"][0]
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(side: str, folder: Path) -> dict[str, Any]:
    windows = ",".join(f"{w:g}" for w in (HUNDRED if side == "hundred" else UNIFORM))
    command = [sys.executable, "-m", "windrow_bench.on_spark.shared", side, str(folder)]
    found: dict[str, Any] = printed([*command, str(CORES), str(PARTITIONS), windows], side)
    return found
