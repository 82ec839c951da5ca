"""GrubJoin Fig. 11: output against input rates, aligned streams and streams that lag (0, 5 and 15 s).

The machine is just fast enough for aligned streams of 100 rows/s. Run are RandomDrop, our harvest (throttled
by sub-batches, optimal fractions, parts of basic windows, lags by pair) and the paper's (throttled every 5 s,
buffers of 10 rows, double-sided greedy, whole basic windows, lags by stream), each as the operator has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.claims import at_least_about
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, LAGS, POLICIES, Process, epsilon_run, gains, percent
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

PAPER = {"aligned": 0.65, "lagging": 1.5}
AMPLE, LOADED = 75.0, 150.0
"""Up to the first rate nothing needs shedding, in any second; from the second on everything does."""


def measure(streams: str, policy: str, rate: float, seconds: float, seed: int) -> Row:
    process = Process.steady(rate, LAGS[streams], seconds=seconds)
    return epsilon_run(process, POLICIES[policy], seed=seed).row(CAPACITY)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for streams, outputs in pivot(rows, "streams", "policy", "rate", of="output").items():
        for policy, gain in gains(outputs).items():
            loaded = [each for rate, each in gain.items() if rate >= LOADED]
            claims.append(
                Claim(
                    "G5",
                    f"{streams}, {policy}: equal to RandomDrop while nothing needs shedding, then ahead, up "
                    f"to about {PAPER[streams]:+.0%}",
                    percent(gain, " rows/s"),
                    all(abs(each) < 1e-9 for rate, each in gain.items() if rate <= AMPLE)
                    and min(loaded) > 0
                    and at_least_about(max(loaded), PAPER[streams], 0.1),
                )
            )
    return claims


EXPERIMENT = swept(
    "grubjoin-fig11",
    "Harvests and RandomDrop as rates rise",
    ("G5",),
    measure,
    full={
        "streams": tuple(LAGS),
        "policy": tuple(POLICIES),
        "rate": (50.0, 100.0, 150.0, 200.0, 250.0),
        "seconds": 60.0,
        "seed": range(2),
    },
    quick={"rate": (50.0, 150.0, 200.0), "seconds": 32.0, "seed": 0},
    assess=assess,
    plot=Lines("rate", "output", "policy", "streams", "rows/s of each stream", "results per second"),
    fixed=grubjoin.described() | {"comparisons per second": CAPACITY},
)
