"""GrubJoin Fig. 13: what a harvest gains over RandomDrop with 3, 4 and 5 streams of 100 rows/s.

The machine is the same for all: just fast enough for three streams, so with more it falls behind by far. The
paper does not tell the lags and deviations of the fourth and fifth stream; here they lag by 10 and 2 s and
are as random as the third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, POLICIES, Process, epsilon_run

RATE = 100.0
STREAMS = (3, 4, 5)
LAGS = {"aligned": grubjoin.ALIGNED, "lagging": grubjoin.LAGGING}
SEEDS = {"full": 3, "quick": 1}
SECONDS = {"full": 60.0, "quick": 30.0}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rate": RATE,
        "streams": STREAMS,
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, int, float, int]]:
    return [
        (streams, policy, m, SECONDS[size], seed)
        for streams in LAGS
        for policy in POLICIES
        if size == "full" or policy != "the paper's"
        for m in STREAMS
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, int, float, int]) -> list[Row]:
    streams, policy, m, seconds, seed = task
    ran = epsilon_run(Process.steady(RATE, LAGS[streams], m, seconds), POLICIES[policy], seed=seed)
    return [{"streams": streams, "policy": policy, "m": m, "seed": seed, **ran.row(CAPACITY)}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    gains = _gains(rows)
    claims = []
    for streams in LAGS:
        gain = [gains[streams, "harvest", m] for m in STREAMS]
        claims.append(
            Claim(
                "G7",
                f"{streams}: more is gained over RandomDrop with 4 and with 5 streams than with 3",
                _shown(gains, streams),
                gain[0] < min(gain[1:]),
            )
        )
    if len({row["seed"] for row in rows}) == 1:
        return claims  # One short run tells which is more, not how much more.
    most = max(gains, key=lambda key: gains[key])
    claims.append(
        Claim(
            "G7",
            "most is gained of five lagging streams, +700 % or more",
            f"{gains[most]:+.0%} ({most[0]}, {most[1]}, m = {most[2]})",
            most == ("lagging", "harvest", 5) and gains[most] >= 7.0,
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    gains = _gains(rows)
    means = average(rows, by=["streams", "policy", "m"], of=["output"])
    left, right = figure.subplots(1, 2)
    for number, policy in enumerate(p for p in POLICIES if any(m["policy"] == p for m in means)):
        for streams, style in (("aligned", "--"), ("lagging", "-")):
            kept = [m for m in means if (m["streams"], m["policy"]) == (streams, policy)]
            line = {"color": f"C{number}", "label": f"{policy}, {streams}"}
            left.plot([m["m"] for m in kept], [m["output"] for m in kept], style, marker="o", **line)
            if policy != "drop":
                gain = [100 * gains[streams, policy, m] for m in STREAMS]
                right.plot(STREAMS, gain, style, marker="o", **line)
    left.set(xlabel="streams", ylabel="results per second", xticks=STREAMS)
    right.set(xlabel="streams", ylabel="gain over RandomDrop, %", xticks=STREAMS)
    left.legend(fontsize=8)


def _gains(rows: Sequence[Row]) -> dict[tuple[str, str, int], float]:
    means = average(rows, by=["streams", "policy", "m"], of=["output"])
    output = {(m["streams"], m["policy"], m["m"]): m["output"] for m in means}
    return {
        (streams, policy, m): each / output[streams, "drop", m] - 1
        for (streams, policy, m), each in output.items()
        if policy != "drop"
    }


def _shown(gains: Mapping[tuple[str, str, int], float], streams: str) -> dict[str, str]:
    return {f"{policy}, m={m}": f"{gain:+.0%}" for (s, policy, m), gain in gains.items() if s == streams}


EXPERIMENT = Experiment(
    "grubjoin-fig13", "Harvests of more streams gain more", ("G7",), parameters, tasks, run, assess, plot
)
