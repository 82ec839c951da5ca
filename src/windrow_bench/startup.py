"""What first use costs: a process with an empty cache of compiled kernels, then one that finds it full."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from rich.console import Console

_SCRIPT = """
import pyarrow as pa, windrow as wr
rows = pa.table({"ts": pa.array([0, 1], pa.timestamp("us")), "k": [1, 2], "p": ["x", "y"]})
q = wr.Query({"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s")}, on="a.k = b.k")
assert wr.Operator(q).process({"a": rows, "b": rows}).num_rows == 2
"""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first process, compiles", "second process, loads"):
            with console.status(name):
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-c", _SCRIPT],
                    env={**os.environ, "NUMBA_CACHE_DIR": cache},
                    check=True,
                    capture_output=True,
                )
                figures.append({"process": name, "seconds": time.perf_counter() - began})
    figures[0]["first : this"] = 1.0
    figures[1]["first : this"] = figures[0]["seconds"] / figures[1]["seconds"]
    return figures
