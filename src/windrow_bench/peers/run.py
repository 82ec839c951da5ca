"""Every case by every side, one after the other. A side whose answer differs from that of DuckDB is named."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from windrow.errors import WindrowError
from windrow_bench.measure import chosen
from windrow_bench.peers import flink
from windrow_bench.peers.cases import BATCHES, WARM_UP, PeerCase, cases, write
from windrow_bench.process_tree import Watched, watched

CORES, PARTITIONS = 2, 4
TITLES = {
    "duckdb": "DuckDB, all at once",
    "spark": "Spark",
    "spark-rocksdb": "Spark, RocksDB, state format 4",
    "flink": "Flink, interval joins",
    "flink-multi": "Flink, multi-join (keeps all rows)",
    "windrow": "Windrow, DataFrames",
    "windrow-files": "Windrow, `wr.files`",
}
MIB = 2**20
HEAD = ("| join | by | rows/s | : Spark | peak MiB | state on disk, MiB |", "|---|---|---|---|---|---|")


def run(rows: int, console: Console, case: str | None = None) -> list[dict[str, Any]]:
    """Every case, or those whose names hold the words of `case`."""
    wanted = chosen(cases(rows), case)
    installed: flink.Flink | None = None
    with console.status("Flink"):
        try:
            installed = flink.install()
        except flink.NoFlinkError as error:
            console.print(f"Flink is left out: {error}", highlight=False)
    figures = []
    for text in ("", machine(installed), "", *HEAD):
        console.print(text, highlight=False, soft_wrap=True)
    for each in wanted:
        found = _compare(each, installed, console)
        for line in lines(found):
            console.print(line, highlight=False, soft_wrap=True)
        figures += found
    return figures


def _compare(case: PeerCase, installed: flink.Flink | None, console: Console) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="windrow-peers-"))
    figures: list[dict[str, Any]] = []
    answers = {}
    try:
        with console.status(f"{case.name}: writing files"):
            counted = write(case, folder)
        for side in case.sides:
            if side.startswith("flink") and installed is None:
                continue
            with console.status(f"{case.name}: {side}"):
                try:
                    found, rows = _measure(side, case, folder, installed, counted)
                except WindrowError as error:
                    if side == "duckdb":  # the others' answers are compared with its answer
                        raise
                    console.print(f"{case.name}: left out: {error}", highlight=False)
                    continue
            answers[side] = tuple(found.printed["answer"])
            rate = rows / found.printed["seconds"] if found.printed["seconds"] > 0 else None
            figures.append(
                {
                    "join": case.name,
                    "by": TITLES[side],
                    "rows/s": rate,
                    "peak MiB": found.memory / MIB,
                    "state on disk, MiB": found.disk / MIB,
                    "results": answers[side][0],
                }
            )
        if not answers["duckdb"][0]:
            raise WindrowError(f"{case.name}: expected results, got none")
        for figure, answer in zip(figures, answers.values(), strict=True):
            figure["answer"] = "same" if answer == answers["duckdb"] else "another"
        own = next((f["rows/s"] for f in figures if f["by"] == TITLES["spark"]), None)
        return [f | {": Spark": f["rows/s"] / own if f["rows/s"] and own else None} for f in figures]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(
    side: str, case: PeerCase, folder: Path, installed: flink.Flink | None, counted: int
) -> tuple[Watched, int]:
    """What a side printed and held, and the rows that its seconds are for."""
    at = folder / f"at-{side}"
    kept = (at / "state", at / "checkpoint" / "state")
    module = [sys.executable, "-m"]
    if side == "duckdb":
        command = [*module, "windrow_bench.peers.on_duckdb", case.join, str(folder), str(CORES)]
        whole = [folder / "whole" / alias / "all.parquet" for alias in case.described.aliases]
        rows = sum(int(pq.read_metadata(file).num_rows) for file in whole)
        return watched(command, side), rows
    if side.startswith("flink"):
        assert installed is not None
        return _measure_flink(side, case, folder, installed), counted
    numbers = map(str, (CORES, PARTITIONS, WARM_UP))
    command = [*module, "windrow_bench.peers.on_spark", side, case.join, str(folder), str(at), *numbers]
    return watched(command, side, directories=kept), counted


def _measure_flink(side: str, case: PeerCase, folder: Path, installed: flink.Flink) -> Watched:
    """Flink has no batches: the time is that of all of them less that of a run of the first ones alone."""
    found = []
    for part in ("warm-up", "whole"):
        state = folder / f"at-{side}-{part}" / "state"
        command = installed.command(side, case.described, folder / part, state, CORES)
        found.append(watched(command, f"{side} ({part})", installed.environment, [state]))
    wanted = "MultiJoin" if side == "flink-multi" else "IntervalJoin"
    whole = found[1]
    if whole.printed["operators"] != [wanted]:
        raise WindrowError(
            f"{case.name}: expected Flink to plan a {wanted}, got {whole.printed['operators']}"
        )
    whole.printed["seconds"] -= found[0].printed["seconds"]
    return whole


def machine(installed: flink.Flink | None) -> str:
    """When, where and what was measured, in a sentence."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    engines = [f"Spark {version('pyspark')}", f"DuckDB {version('duckdb')}"]
    engines += [f"Flink {flink.VERSION}"] if installed else []
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {processor}, {os.cpu_count()} cores ({CORES} for each side), "
        f"{memory:.0f} GiB, Python {platform.python_version()}, {', '.join(engines)}; "
        f"{BATCHES - WARM_UP} batches after {WARM_UP} that do not count."
    )


def markdown(figures: list[dict[str, Any]]) -> str:
    """The figures as the comparison page has them."""
    return "\n".join([*HEAD, *lines(figures)])


def lines(figures: list[dict[str, Any]]) -> list[str]:
    """A line of the table per side."""
    found = []
    for f in figures:
        numbers = (f["rows/s"], f[": Spark"], f["peak MiB"], f["state on disk, MiB"])
        by = f["by"]
        if f["answer"] != "same":
            right = next(g["results"] for g in figures if g["join"] == f["join"])
            by += f" (**another answer**: {f['results']:,} results, not {right:,})"
        found.append(f"| {f['join']} | {by} | {' | '.join(_shown(n) for n in numbers)} |")
    return found


def _shown(number: float | None) -> str:
    if number is None:
        return "too short to tell"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
