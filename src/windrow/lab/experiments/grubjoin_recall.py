"""Known quality under a deadline (B4): how often the true recall lies inside the interval that is reported.

Small streams, lagging, two and three of them, on machines that are too slow by different factors; harvested,
and with rows dropped at random. The true recall is that against the exact answer of the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from scipy.stats import binom

from windrow.lab import grubjoin
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import DROP, LAGGING, OURS, Policy, Process, epsilon_run

RATE, SECONDS, TICK = 60.0, 40.0, 2.0
STREAMS = (2, 3)
POLICIES: dict[str, Policy] = {"harvest": OURS, "drop": DROP}
SLOWER = (2.0, 3.0, 5.0)
"""By how much the machine is slower than exact answers need; seeds take turns."""
RUNS = {"full": 100, "quick": 6}
BLOCK = {"full": 10, "quick": 6}
INSIDE = 0.9
MANY = 100


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "rate": RATE,
        "seconds": SECONDS,
        "tick": TICK,
        "slower than needed": SLOWER,
        "runs": RUNS[size],
    }


def tasks(size: Size) -> Sequence[tuple[int, int, int]]:
    return [(m, start, BLOCK[size]) for m in STREAMS for start in range(0, RUNS[size], BLOCK[size])]


def run(task: tuple[int, int, int]) -> list[Row]:
    m, start, count = task
    process = Process.steady(RATE, LAGGING, m, SECONDS)
    rows = []
    for seed in range(start, start + count):
        exact = epsilon_run(process, None, seed=seed, tick=TICK)
        slower = SLOWER[seed % len(SLOWER)]
        capacity = exact.work.sum() / SECONDS / slower
        for name, policy in POLICIES.items():
            ran = epsilon_run(process, policy, capacity, seed, TICK)
            measured = ran.measured
            rows.append(
                {
                    "m": m,
                    "policy": name,
                    "seed": seed,
                    "slower": slower,
                    "true": float(ran.results.sum() / exact.results.sum()),
                    "recall": float(measured.recall),
                    "low": float(measured.recall_low),
                    "high": float(measured.recall_high),
                }
            )
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for m in STREAMS:
        for policy in POLICIES:
            kept = [row for row in rows if (row["m"], row["policy"]) == (m, policy)]
            inside = sum(row["low"] <= row["true"] <= row["high"] for row in kept)
            width = sum(row["high"] - row["low"] for row in kept) / len(kept)
            enough, often = _enough(len(kept))
            claims.append(
                Claim(
                    "B4",
                    f"{m} streams, {policy}: the true recall is inside the 95 % interval {often}",
                    f"{inside} of {len(kept)}, mean width {width:.2f}",
                    inside >= enough,
                )
            )
    return claims


def _enough(runs: int) -> tuple[float, str]:
    """How many runs must be inside. Of a few no more can be asked than that they do not speak against it."""
    if runs >= MANY:
        return INSIDE * runs, "in 9 of 10 runs"
    return float(binom.ppf(0.01, runs, 0.95)), f"as often as in 99 of 100 tries of {runs} runs, if it is true"


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, (m, policy) in zip(
        figure.subplots(1, 4, sharey=True), [(m, p) for m in STREAMS for p in POLICIES], strict=True
    ):
        kept = sorted((r for r in rows if (r["m"], r["policy"]) == (m, policy)), key=lambda r: r["true"])
        places = range(len(kept))
        axes.vlines(places, [r["low"] for r in kept], [r["high"] for r in kept], color="lightsteelblue")
        axes.plot(places, [r["recall"] for r in kept], ".", ms=3, label="estimated")
        axes.plot(places, [r["true"] for r in kept], "k-", lw=1, label="true")
        axes.set(title=f"{m} streams, {policy}", xlabel="runs", ylim=(0, 1))
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend()


EXPERIMENT = Experiment(
    "grubjoin-recall",
    "The recall reported under a deadline, and the true one",
    ("B4",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
