"""GrubJoin Fig. 15: rows dropped at the input buffers while the throttle finds its place, by buffer size.

The machine is ample while the windows fill, so the throttle is open; then it has just the time for 100 rows/s
of each stream, and over 20 s it is counted what part of the rows finds its buffer full. The throttle is
adapted every 5 s, as in the paper.

A variant (G9') is 200 rows/s on a machine 1.65 times as fast, on which without a buffer about 15 % of the
rows are dropped: of these a buffer of 1 s holds a third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from windrow.engine.operator import Operator
from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.claims import at_least_about
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, LAGGING, PAPERS, SCALE, Process, epsilon_join, run_in_ticks
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

FILLED, SECONDS, TICK, INTERVAL = 20.0, 40.0, 0.5, 5.0
AMPLE = 100 * CAPACITY
JUDGED, FASTER = 1.0, 1.65
"""Machines: of the claim, and of the variant."""
RATE, PAPER = 200.0, {1.0: 0.3, 2.0: 0.5}


def measure(faster: float, rate: float, buffer: float, seed: int) -> Row:
    query = epsilon_join(3, TICK, shed=replace(PAPERS, buffer_rows=round(buffer * rate / SCALE)), seed=seed)
    tables = Process.steady(rate, LAGGING, seconds=SECONDS).tables(seed)
    dropped: list[int] = []
    """Up to the end of each tick."""

    def count(tick: int, operator: Operator, output: pa.Table) -> None:
        dropped.append(operator.metrics().rows_dropped)

    speed = faster * CAPACITY
    run_in_ticks(query, tables, SECONDS, TICK, lambda k: AMPLE if k * TICK < FILLED else speed, count)
    came, adapted = rate / SCALE * 3, round((FILLED + INTERVAL) / TICK)
    return {
        "series": f"{rate:g} rows/s" + ("" if faster == JUDGED else f", {faster:g} times as fast"),
        "dropped": dropped[-1] / came / (SECONDS - FILLED),
        "dropped before it adapts": dropped[adapted - 1] / came / INTERVAL,
        "dropped after": (dropped[-1] - dropped[adapted - 1]) / came / (SECONDS - FILLED - INTERVAL),
    }


def assess(rows: Sequence[Row]) -> list[Claim]:
    by_machine = pivot(rows, "faster", "rate", "buffer", of="dropped")
    lost = by_machine[JUDGED]
    return [
        Claim(
            "G9",
            "drops at the input buffers fall with buffer size",
            {f"{r:g} rows/s, {b:g} s": f"{part:.1%}" for r, by in lost.items() for b, part in by.items()},
            all(by[b] < by[a] for by in lost.values() for a, b in pairwise(sorted(by)) if by[a] > 0),
        ),
        _fewer("G9", f"at {RATE:g} rows/s", lost[RATE]),
        _fewer("G9'", f"at {RATE:g} rows/s on a machine {FASTER:g} times as fast", by_machine[FASTER][RATE]),
    ]


def _fewer(claim: str, where: str, lost: Mapping[float, float]) -> Claim:
    """By how much fewer rows are dropped than with the smallest buffer."""
    fewer = {buffer: 1 - lost[buffer] / lost[min(lost)] for buffer in PAPER}
    return Claim(
        claim,
        f"{where} about 30 % fewer with buffers of 1 s, 50 % fewer with 2 s",
        {f"{buffer:g} s": f"{part:.0%} fewer" for buffer, part in fewer.items()},
        all(at_least_about(fewer[buffer], stated, 0.1) for buffer, stated in PAPER.items()),
    )


EXPERIMENT = swept(
    "grubjoin-fig15",
    "Drops while the throttle adapts",
    ("G9", "G9'"),
    measure,
    full={
        "faster": (JUDGED, FASTER),
        "rate": (125.0, 150.0, RATE),
        "buffer": (0.1, 0.5, 1.0, 1.5, 2.0),
        "seed": range(4),
    },
    quick={"rate": RATE, "buffer": (0.1, 1.0, 2.0), "seed": range(2)},
    where=lambda point: point["faster"] == JUDGED or point["rate"] == RATE,
    assess=assess,
    plot=Lines("buffer", "dropped", "series", xlabel="buffer, seconds of input", ylabel="part dropped"),
    fixed=grubjoin.described()
    | {"comparisons per second": CAPACITY, "adaptation interval": INTERVAL, "measured": (FILLED, SECONDS)},
)
