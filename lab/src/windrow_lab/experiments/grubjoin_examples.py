"""GrubJoin's two examples (s. 1) on generated streams: news items of three sources, vehicles at four gates.

Each on machines that are too slow by different factors: what harvesting leaves of the exact answer, and what
dropping rows does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow_lab import news, tracking
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.plots import Lines
from windrow_lab.slow_machine import Scenario, compare
from windrow_lab.sweep import swept

AHEAD = 1.5


def items(short: bool, seed: int) -> Scenario:
    minutes, stories = (40.0, 8.0) if short else (120.0, 12.0)
    tables = news.news_items(minutes, stories, seed)
    return Scenario(tables, 60 * minutes, 60.0, "at", news.WITHIN, news.ON)


def readings(short: bool, seed: int) -> Scenario:
    seconds, vehicles = (180.0, 1.5) if short else (600.0, 4.0)
    return Scenario(
        tracking.passages(seconds, vehicles, seed), seconds, 2.0, "at", tracking.WITHIN, tracking.ON
    )


SCENES: dict[str, Callable[[bool, int], Scenario]] = {"news": items, "tracking": readings}


def measure(scene: str, slower: float, short: bool, seed: int) -> Row:
    return compare(SCENES[scene](short, seed), slower, seed).row()


def assess(rows: Sequence[Row]) -> list[Claim]:
    harvest, drop = (pivot(rows, "scene", "slower", of=policy) for policy in ("harvest", "drop"))
    return [
        Claim(
            "examples",
            f"{scene}: harvesting finds {AHEAD:g} times what is left after dropping rows, and more",
            {f"{s:g} times too slow": f"{each:.2f} : {drop[scene][s]:.2f}" for s, each in found.items()},
            all(each >= AHEAD * drop[scene][s] for s, each in found.items()),
        )
        for scene, found in harvest.items()
    ]


EXPERIMENT = swept(
    "grubjoin-examples",
    "News of three sources, vehicles at four gates",
    ("examples",),
    measure,
    full={"scene": tuple(SCENES), "slower": (2.0, 5.0, 10.0, 20.0), "short": False, "seed": range(3)},
    quick={"slower": (2.0, 5.0), "short": True, "seed": 0},
    assess=assess,
    plot=Lines("slower", ("harvest", "drop"), panel="scene", xlabel="times too slow", ylabel="recall"),
)
