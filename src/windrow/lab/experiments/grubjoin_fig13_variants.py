"""GrubJoin Fig. 13 again, with a less random fourth and fifth stream and at the paper's own rates.

`grubjoin-fig13` takes the fourth and fifth stream to be as random as the third (kappa 50) and runs at a
quarter of the paper's rates, as most runs do. Here they follow the first two as closely as these do each
other (kappa 2), the rates are the paper's, or both; the paper does not tell. Nothing is claimed in the
ledger: these are variants, and the claim is read off `grubjoin-fig13`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, DEVIATIONS, POLICIES, SCALE, Process, epsilon_run

RATE = 100.0
LAGS = {"aligned": grubjoin.ALIGNED, "lagging": grubjoin.LAGGING}
VARIANTS = {
    "full": ((1.0, 50.0), (SCALE, 2.0), (1.0, 2.0)),
    "quick": ((SCALE, 2.0),),
}
"""By what rates are divided, and kappa of the fourth and fifth stream."""
STREAMS = {"full": (4, 5), "quick": (4,)}
"""With three there is no fourth, and nothing is shed to speak of."""
SEEDS = {"full": 2, "quick": 1}
SECONDS = {"full": 60.0, "quick": 30.0}
PAPER = 700.0


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "scale": "by variant: rates are divided by it, epsilon is multiplied by it",
        "kappa": "by variant for the fourth and fifth stream",
        "variants (scale, kappa)": VARIANTS[size],
        "comparisons per second": {f"scale {s:g}": _capacity(s) for s, _ in VARIANTS[size]},
        "rate": RATE,
        "streams": STREAMS[size],
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[float, float, str, str, int, float, int]]:
    return [
        (scale, kappa, streams, policy, m, SECONDS[size], seed)
        for scale, kappa in VARIANTS[size]
        for streams in LAGS
        for policy in POLICIES
        if size == "full" or policy != "the paper's"
        for m in STREAMS[size]
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[float, float, str, str, int, float, int]) -> list[Row]:
    scale, kappa, streams, policy, m, seconds, seed = task
    deviations = (*DEVIATIONS[:3], kappa, kappa)
    process = Process(((0.0, RATE),), LAGS[streams][:m], deviations[:m], seconds, scale=scale)
    ran = epsilon_run(process, POLICIES[policy], _capacity(scale), seed)
    point = {"scale": scale, "kappa": kappa, "streams": streams, "policy": policy, "m": m, "seed": seed}
    return [point | ran.row(_capacity(scale))]


def assess(rows: Sequence[Row]) -> list[Claim]:
    return []


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["scale", "kappa", "streams", "policy", "m"], of=["output"])
    output = {tuple(m[name] for name in ("scale", "kappa", "streams", "policy", "m")): m for m in means}
    variants = list(dict.fromkeys((row["scale"], row["kappa"]) for row in rows))
    counts = sorted({row["m"] for row in rows})
    for axes, (scale, kappa) in zip(
        figure.subplots(1, len(variants), sharey=True, squeeze=False)[0], variants, strict=True
    ):
        for number, policy in enumerate(POLICIES):
            for streams, style in (("aligned", "--"), ("lagging", "-")):
                found = [output.get((scale, kappa, streams, policy, m)) for m in counts]
                left = [output[scale, kappa, streams, "drop", m] for m in counts]
                if policy == "drop" or None in found:
                    continue
                gains = [100 * (f["output"] / d["output"] - 1) for f, d in zip(found, left, strict=True) if f]
                line = {"color": f"C{number}", "label": f"{policy}, {streams}"}
                axes.plot(counts, gains, style, marker="o", **line)
        rates = "the paper's rates" if scale == 1 else f"1/{scale:g} of the rates"
        axes.axhline(PAPER, color="grey", lw=1)
        axes.set(title=f"{rates}, kappa {kappa:g}", xlabel="streams", xticks=counts)
    figure.axes[0].set_ylabel("gain over RandomDrop, %")
    figure.axes[0].set_ylim(0, None)
    figure.axes[0].legend(fontsize=7)


def _capacity(scale: float) -> float:
    """Comparisons per second: just enough for three streams, whose work goes with the square of the rates."""
    return CAPACITY * (SCALE / scale) ** 2


EXPERIMENT = Experiment(
    "grubjoin-fig13-variants",
    "Fig. 13 with less random streams, and at the paper's rates",
    (),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
