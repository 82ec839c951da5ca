"""GrubJoin's two examples (s. 1) on generated streams: news items of three sources, vehicles at four gates.

Each on machines that are too slow by different factors: what harvesting leaves of the exact answer, and what
dropping rows does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import news, tracking
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.slow_machine import Scenario, compare

SLOWER = {"full": (2.0, 5.0, 10.0, 20.0), "quick": (5.0,)}
SEEDS = {"full": 3, "quick": 1}
MINUTES, STORIES = {"full": 120.0, "quick": 40.0}, {"full": 12.0, "quick": 8.0}
SECONDS, VEHICLES = {"full": 600.0, "quick": 180.0}, {"full": 4.0, "quick": 1.5}
AHEAD = 1.5


def items(size: Size, seed: int) -> Scenario:
    tables = news.news_items(MINUTES[size], STORIES[size], seed)
    return Scenario(tables, 60 * MINUTES[size], 60.0, "at", news.WITHIN, news.ON)


def readings(size: Size, seed: int) -> Scenario:
    tables = tracking.passages(SECONDS[size], VEHICLES[size], seed)
    return Scenario(tables, SECONDS[size], 2.0, "at", tracking.WITHIN, tracking.ON)


SCENES: dict[str, Callable[[Size, int], Scenario]] = {"news": items, "tracking": readings}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "news": {"minutes": MINUTES[size], "stories a minute": STORIES[size], "within": news.WITHIN},
        "tracking": {"seconds": SECONDS[size], "vehicles/s": VEHICLES[size], "within": tracking.WITHIN},
        "slower than needed": SLOWER[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, float, Size, int]]:
    return [
        (name, slower, size, seed)
        for name in SCENES
        for slower in SLOWER[size]
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, float, Size, int]) -> list[Row]:
    name, slower, size, seed = task
    return [{"scene": name, "seed": seed, **compare(SCENES[name](size, seed), slower, seed).row()}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["scene", "slower"], of=["harvest", "drop"])
    claims = []
    for name in SCENES:
        kept = [mean for mean in means if mean["scene"] == name]
        claims.append(
            Claim(
                "examples",
                f"{name}: harvesting finds {AHEAD:g} times what is left after dropping rows, and more",
                {f"{m['slower']:g} times too slow": f"{m['harvest']:.2f} : {m['drop']:.2f}" for m in kept},
                all(m["harvest"] >= AHEAD * m["drop"] for m in kept),
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["scene", "slower"], of=["harvest", "drop"])
    for axes, name in zip(figure.subplots(1, len(SCENES), sharey=True), SCENES, strict=True):
        kept = [mean for mean in means if mean["scene"] == name]
        for policy in ("harvest", "drop"):
            axes.plot([m["slower"] for m in kept], [m[policy] for m in kept], "o-", label=policy)
        axes.set(title=name, xlabel="times the machine is too slow", ylim=(0, 1))
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend()


EXPERIMENT = Experiment(
    "grubjoin-examples",
    "News of three sources, vehicles at four gates",
    ("examples",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
