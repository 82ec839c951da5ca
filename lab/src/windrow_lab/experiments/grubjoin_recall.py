"""Known quality under a deadline (B4): how often the true recall lies inside the interval that is reported.

Small streams, lagging, two and three of them, on machines that are too slow by different factors; harvested,
and with rows dropped at random. The true recall is that against the exact answer of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow_lab import grubjoin
from windrow_lab.coverage import covered
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import DROP, LAGGING, OURS, Policy, Process, epsilon_run
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

POLICIES: dict[str, Policy] = {"harvest": OURS, "drop": DROP}
SLOWER = (2.0, 3.0, 5.0)
"""By how much the machine is slower than exact answers need; seeds take turns."""


def measure(m: int, seed: int, rate: float, seconds: float, tick: float) -> list[Row]:
    process = Process.steady(rate, LAGGING, m, seconds)
    exact = epsilon_run(process, None, seed=seed, tick=tick)
    slower = SLOWER[seed % len(SLOWER)]
    rows: list[Row] = []
    for name, policy in POLICIES.items():
        ran = epsilon_run(process, policy, exact.work.sum() / seconds / slower, seed, tick)
        found = ran.measured
        low, high = float(found.recall_low), float(found.recall_high)
        true = float(ran.results.sum() / exact.results.sum())
        rows.append({"case": f"{m} streams", "kind": name, "true": true, "recall": float(found.recall)})
        rows[-1] |= {"low": low, "high": high, "width": high - low, "inside": low <= true <= high}
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    return covered("B4", rows)


EXPERIMENT = swept(
    "grubjoin-recall",
    "The recall reported under a deadline, and the true one",
    ("B4",),
    measure,
    full={"m": (2, 3), "seed": range(100), "rate": 60.0, "seconds": 40.0, "tick": 2.0},
    quick={"seed": range(6)},
    assess=assess,
    plot=Bars("kind", "inside", "case", ylabel="part of the runs whose interval holds the true recall"),
    fixed=grubjoin.described() | {"slower than needed": SLOWER},
)
