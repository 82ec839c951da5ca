"""GrubJoin's streams (s. 6.2), and runs of the real operator over them on a virtual clock.

Rows are handed over in ticks; a call may take as long as the tick it covers, at a stated number of row
comparisons per second. So a machine that cannot keep up is simulated by a clock that goes on with the work
counted, and the outcome depends on the algorithm alone.

Most runs are at a quarter of the paper's rates with four times its epsilon: a row then has as many partners
in each window, so every hop has the same share of the work, which is a sixteenth in all. Rates are stated as
the paper's; outputs are as simulated. Chance counts for more among fewer rows, so where the throttle is
adapted every half second the scale is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.operator import Operator
from windrow.model.metrics import OperatorMetrics
from windrow.model.policies.time_policies import Dropping, Harvesting
from windrow.model.query import Query, Stream
from windrow_lab.clock import VirtualClock, WorkClock
from windrow_lab.driver import drive
from windrow_lab.experiment import Row
from windrow_lab.timed_rows import timed

Array = np.ndarray
SCALE = 4.0
DOMAIN, PERIOD, EPSILON = 1000.0, 50.0, 1.0
"""D, eta and epsilon."""
WINDOW, BASIC, SHREDDING = 20.0, 2.0, 0.1
"""w, b and omega."""
ALIGNED, LAGGING = (0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 5.0, 15.0, 10.0, 2.0)
DEVIATIONS = (2.0, 2.0, 50.0, 50.0, 50.0)
"""tau and kappa of up to five streams; the paper gives those of the first three."""
LAGS = {"aligned": ALIGNED, "lagging": LAGGING}
ALIASES = "abcde"
CAPACITY = 250_000.0
"""Comparisons per second at that scale: three aligned streams of 100 rows/s need 221,000, and a tenth is
reserve."""

OURS = Harvesting(basic_window="2 s", shredding_fraction=SHREDDING, whole_calls=False)
PAPERS = Harvesting(
    method="double-sided",
    basic_window="2 s",
    parts=False,
    shredding_fraction=SHREDDING,
    adaptation_interval="5 s",
    buffer_rows=10,
    correlations="per stream",
)
DROP = Dropping()
Policy = Harvesting | Dropping
POLICIES: dict[str, Policy] = {"drop": DROP, "harvest": OURS, "the paper's": PAPERS}


@dataclass(frozen=True)
class Process:
    """The stochastic processes X_i of section 6.2, rows coming at random (Poisson).

    Parameters
    ----------
    rates
        Start second and rows per second of each stream, before scaling.
    lags, deviations
        tau and kappa: how far each stream is ahead in seconds, and how noisy its values are.
    change
        From which second on the lags are these others.
    scale
        Rates are divided by it; epsilon is multiplied by it.
    """

    rates: tuple[tuple[float, float], ...]
    lags: tuple[float, ...]
    deviations: tuple[float, ...]
    seconds: float = 60.0
    change: tuple[float, tuple[float, ...]] | None = None
    scale: float = SCALE

    @classmethod
    def steady(cls, rate: float, lags: Sequence[float], m: int = 3, seconds: float = 60.0) -> Process:
        return cls(((0.0, rate),), tuple(lags[:m]), DEVIATIONS[:m], seconds)

    def tables(self, seed: int) -> dict[str, pa.Table]:
        """Rows of each stream, with columns `ts` and `v`."""
        random = np.random.default_rng(seed)
        streams = {}
        for number, alias in enumerate(ALIASES[: len(self.lags)]):
            times = self._times(random)
            lag = np.full(len(times), self.lags[number])
            if self.change is not None:
                lag[times >= self.change[0]] = self.change[1][number]
            noise = self.deviations[number] * random.standard_normal(len(times))
            streams[alias] = timed(times, v=(DOMAIN / PERIOD * (times + lag) + noise) % DOMAIN)
        return streams

    def _times(self, random: np.random.Generator) -> Array:
        ends = [start for start, _ in self.rates[1:]] + [self.seconds]
        parts = []
        for (start, rate), end in zip(self.rates, ends, strict=True):
            parts.append(
                np.sort(random.uniform(start, end, random.poisson(rate / self.scale * (end - start))))
            )
        return np.concatenate(parts)


@dataclass(frozen=True)
class RunOutcome:
    """What a run did.

    Parameters
    ----------
    results
        Returned by each tick.
    throttles
        The throttle fraction after each tick.
    held
        Rows in the windows after each tick.
    work
        Comparisons of each tick, and what its results cost if they do.
    measured
        At the end.
    """

    tick: float
    results: Array
    throttles: Array
    held: Array
    work: Array
    measured: OperatorMetrics

    def rate(self, after: float = 20.0, until: float = np.inf) -> float:
        """Results per second between two times; the windows fill before the first."""
        return float(self.results[self._between(after, until)].mean() / self.tick)

    def throttle(self, after: float = 20.0) -> float:
        """The mean of the throttle fractions."""
        return float(self.throttles[self._between(after, np.inf)].mean())

    def load(self, capacity: float, after: float = 20.0) -> float:
        """The part of the machine's time that was used."""
        return float(self.work[self._between(after, np.inf)].mean() / self.tick / capacity)

    def row(self, capacity: float, after: float = 20.0) -> Row:
        """For an experiment: output, throttle and load after the warm-up; the rest of the whole run."""
        return {
            "output": self.rate(after),
            "throttle": self.throttle(after),
            "load": self.load(capacity, after),
            "dropped": self.measured.rows_dropped / max(1, self.measured.rows_in),
            "recall": self.measured.recall,
        }

    def _between(self, after: float, until: float) -> Array:
        begins = np.arange(len(self.results)) * self.tick
        return (begins >= after - 1e-9) & (begins < until - 1e-9)


def gains(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """What each policy finds beyond RandomDrop, as a part of it, by the last column of a pivot."""
    return {
        policy: {at: each / outputs["drop"][at] - 1 for at, each in found.items()}
        for policy, found in outputs.items()
        if policy != "drop"
    }


def percent(parts: Mapping[Any, float], unit: str = "") -> dict[str, str]:
    return {
        f"{at:g}{unit}" if isinstance(at, float) else f"{at}{unit}": f"{p:+.0%}" for at, p in parts.items()
    }


def described(scale: float = SCALE) -> Row:
    """What all experiments share."""
    return {
        "scale": f"rates are a 1/{scale:g} of those stated, epsilon {scale:g} times the paper's",
        "epsilon": EPSILON * scale,
        "D": DOMAIN,
        "eta": PERIOD,
        "window": WINDOW,
        "basic window": BASIC,
        "shredding": SHREDDING,
        "kappa": DEVIATIONS,
        "tau": LAGGING,
    }


def epsilon_join(
    m: int, tick: float | None = None, epsilon: float = EPSILON * SCALE, **options: Any
) -> Query:
    """All values within epsilon of each other, found by nested loops; with a deadline of a tick."""
    on = " and ".join(f"abs({i}.v - {j}.v) <= {epsilon:g}" for i, j in combinations(ALIASES[:m], 2))
    streams = {alias: Stream("ts", f"{WINDOW:g} s", "scan") for alias in ALIASES[:m]}
    deadline = None if tick is None else f"{tick:g} s"
    return Query(streams, on=on, deadline=deadline, **options)


def epsilon_run(
    process: Process,
    policy: Policy | None,
    capacity: float = CAPACITY,
    seed: int = 0,
    tick: float = 1.0,
    result: float = 0.0,
    **options: Any,
) -> RunOutcome:
    """The epsilon join of these streams; without a policy exact, in whatever time that takes. Building a
    result takes as long as `result` comparisons."""
    if policy is not None:
        options["shed"] = policy
    deadline, epsilon = None if policy is None else tick, EPSILON * process.scale
    query = epsilon_join(len(process.lags), deadline, epsilon, seed=seed, **options)
    return run_in_ticks(query, process.tables(seed), process.seconds, tick, capacity, result=result)


def run_in_ticks(
    query: Query,
    tables: Mapping[str, pa.Table],
    seconds: float,
    tick: float,
    capacity: float | Callable[[int], float],
    on_tick: Callable[[int, Operator, pa.Table], None] = lambda tick, operator, output: None,
    result: float = 0.0,
) -> RunOutcome:
    """Hands rows to an operator tick by tick, on a machine of so many comparisons per second, by tick where
    that changes.

    Taking rows in is free, as in the paper's cost model; and so is building results, unless it is said to
    take as long as so many comparisons.
    """
    speed = capacity if callable(capacity) else lambda tick: capacity

    def machine(tick: int) -> VirtualClock:
        return VirtualClock(speed(tick), insertion=0.0, result=result)

    clock = WorkClock(machine(0))
    ticks = round(seconds / tick)
    results, throttles, held, work = np.zeros((4, ticks))
    before = 0.0
    for k, (operator, output) in enumerate(drive(query, tables, np.arange(ticks + 1) * tick, clock)):
        measured = operator.metrics()
        done = clock.machine.comparisons(clock.work)
        results[k], throttles[k], held[k] = output.num_rows, measured.throttle_fraction, measured.window_rows
        work[k], before = done - before, done
        on_tick(k, operator, output)
        clock.machine = machine(k + 1)
    return RunOutcome(tick, results, throttles, held, work, operator.metrics())
