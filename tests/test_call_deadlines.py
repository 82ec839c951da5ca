"""Deadlines of whole calls: keys dropped, fewer probes, fewer results; never a wrong one, and what is told of
it holds. On a virtual clock that charges for everything a join does."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
import windrow as wr
from queries import Case, cases, examples
from windrow.engine.operator import runner_of
from windrow.engine.sub_batches import by_rows
from windrow.estimation.recall import UNKNOWN
from windrow.harvest.call_costs import COMPARE, RESULT, ROW, CallCosts, Costs
from windrow.harvest.call_load import Choice, Curve, Work, choose
from windrow.kernels.admission_units import UNITS
from windrow.model.metric_fields import between
from windrow.model.metrics import ResultCounts
from windrow_lab.clock import VirtualClock, WorkClock

EQUAL = "a.k = b.k"
LAB = partial(pytest.param, marks=pytest.mark.lab)


def machine(query: wr.Query, speed: float, insertion: float = 1.0, result: float = 3.0, **given: Any) -> Any:
    """A clock that charges for rows taken in, compared and built; and the operator that runs by it."""
    clock = WorkClock(VirtualClock(speed, insertion=insertion, result=result))
    clock.operator = wr.Operator(query, clock=clock, **given)
    return clock.operator, clock


def play(case: Case, speed: float, cut: int | None, insertion: float, result: float) -> tuple[pa.Table, Any]:
    query = case.query(algorithm="eager", order="heuristic", deadline="1 second")
    schemas = {alias: table.schema for alias, table in case.tables.items()}
    operator, clock = machine(query, speed, insertion, result, schemas=schemas)
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for number, call in enumerate(case.inputs()):
            parts.append(operator.process(call))
            if number == cut:
                clock.operator = operator = wr.Operator.restore(query, operator.snapshot(), clock=clock)
        parts.append(operator.finish())
    return pa.concat_tables(parts), operator.metrics()


CHARGES = st.tuples(st.sampled_from([0.0, 1.0, 20.0]), st.sampled_from([0.0, 1.0, 50.0]))


@examples(10)
@given(
    case=cases(most_streams=4) | cases(most_streams=3, counted=True),
    speed=st.sampled_from([20, 100, 1_000, 10_000]),
    cut=st.none() | st.integers(0, 3),
    charges=CHARGES,
)
def test_under_any_deadline_results_are_some_of_the_exact_ones(
    case: Case, speed: float, cut: int | None, charges: tuple[float, float]
) -> None:
    output, measured = play(case, speed, cut, *charges)
    exact = case.answer()
    assert not results.ids(output) - exact
    results.assert_payload(output, case.tables)
    assert measured.results == output.num_rows
    assert 0 <= measured.recall_low <= measured.recall_high <= 1
    if output.num_rows < sum(exact.values()):
        assert measured.recall_low < 1, "unknown is never 1"


@examples(8)
@given(case=cases(most_streams=4) | cases(most_streams=3, counted=True), charges=CHARGES)
def test_with_ample_time_nothing_is_lost(case: Case, charges: tuple[float, float]) -> None:
    output, measured = play(case, 1e12, None, *charges)
    assert results.ids(output) == case.answer()
    assert (measured.recall, measured.recall_low, measured.rows_dropped) == (1.0, 1.0, 0)


def test_a_call_that_admits_no_row_has_no_sub_batch() -> None:
    """Whatever the number of parts that it was planned to have."""
    assert list(by_rows([np.empty(0), np.empty(0)], 0)) == []


# --- Streams joined by equality -----------------------------------------------------------------------------


def keyed(
    seed: int, keys: int, calls: int = 40, rows: int = 400, skew: float = 0.0
) -> list[dict[str, pa.Table]]:
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(1, keys + 1) ** skew if skew else np.ones(1)
    found = []
    for second in range(calls):
        call = {}
        for alias in "ab":
            times = np.sort(random.uniform(second, second + 1, rows))
            ts = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us"))
            drawn = (
                random.choice(keys, rows, p=chances / chances.sum())
                if skew
                else random.integers(0, keys, rows)
            )
            call[alias] = pa.table({"ts": ts, "k": drawn})
        found.append(call)
    return found


def two(on: str = EQUAL, **options: Any) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", "5 s") for alias in "ab"}, on, **options)


def run(
    query: wr.Query, calls: list[dict[str, pa.Table]], speed: float, **charges: float
) -> tuple[Any, Any, Any]:
    """Results and seconds of each call, and what was measured."""
    operator, clock = machine(query, speed, **charges)
    found, spent = [], []
    for call in calls:
        began = clock()
        found.append(operator.process(call).num_rows)
        spent.append(clock() - began)
    return np.array(found), np.array(spent), operator


@pytest.mark.parametrize(
    ("part", "skew"),
    [(0.3, 0.0), LAB(0.5, 0.0), (0.8, 0.0), (0.5, 1.2), LAB(0.8, 1.2), LAB(0.3, 1.2)],
)
@pytest.mark.parametrize("charges", [{"insertion": 30.0, "result": 1.0}, {"insertion": 1.0, "result": 10.0}])
def test_a_part_of_the_time_gives_that_part_of_the_results(
    part: float, skew: float, charges: dict[str, float]
) -> None:
    """Whether taking rows in is what costs, or building results; dropping rows would give its square."""
    calls = keyed(1, 3_000, skew=skew)
    exact, spent, _ = run(two(), calls, 1.0, **charges)
    speed = part * float(np.median(spent[15:]))
    found, took, operator = run(two(deadline="1 s"), calls, speed, **charges)
    assert found[15:].sum() > 0.7 * part * exact[15:].sum()
    assert (took[15:] > 1.2).sum() <= 2
    measured = operator.metrics()
    recall = found.sum() / exact.sum()
    assert measured.throttle_fraction < 1
    assert measured.recall_low - 0.05 <= recall <= measured.recall_high + 0.05


class NoisyMachine:
    """A clock as a real machine's: sub-batches and calls have costs of their own, everything takes a tenth
    more or less, now and then twice as long, and the first calls some times as long."""

    def __init__(self, seed: int) -> None:
        self.operator: Any = None
        self.seconds = 0.0
        self.calls = 0
        self._random = np.random.default_rng(seed)
        self._done = np.zeros(4)

    def __call__(self) -> float:
        if self.operator is not None:
            told = self.operator.metrics()
            done = np.array([*runner_of(self.operator).work, told.results, told.sub_batches])
            self.charge(float((done - self._done) @ COSTS_OF_WORK))
            self._done = done
        return self.seconds

    def charge(self, seconds: float) -> None:
        spike = 2.0 if self._random.random() < 0.01 else 1.0
        cold = 1 + 2 * 0.7**self.calls
        self.seconds += seconds * spike * cold * float(np.exp(0.1 * self._random.standard_normal()))


COSTS_OF_WORK = np.array([5e-9, 8e-8, 3e-8, 3e-4])
"""Seconds of a comparison, a row, a result and a sub-batch."""
READING = 1e-4


def on_noisy_machine(query: wr.Query, calls: list[dict[str, pa.Table]], seed: int) -> tuple[Any, Any]:
    clock = NoisyMachine(seed)
    clock.operator = operator = wr.Operator(query, clock=clock)
    found, spent = [], []
    for call in calls:
        clock.charge(READING)
        began = clock()
        found.append(operator.process(call).num_rows)
        clock.calls += 1
        spent.append(clock() - began)
    return np.array(found), np.array(spent)


@pytest.mark.filterwarnings("ignore:deadline")
@pytest.mark.parametrize("keys", [20, 200, 5_000])
@pytest.mark.parametrize("seed", [1, LAB(2)])
def test_a_noisy_machine_keeps_its_deadlines_and_finds_back_to_exact_calls(keys: int, seed: int) -> None:
    """Slow first calls must not make it drop rows for good, nor noise."""
    calls = keyed(seed, keys, calls=60, rows=1_000)
    exact, spent = on_noisy_machine(two(), calls, seed)
    whole, floor = float(np.median(spent[25:])), 4e-4
    for part in (0.5, 0.8, 1.2, 1.5):
        query = two(deadline=f"{part * whole * 1e6:.0f} us")
        found, took = on_noisy_machine(query, calls, seed + 10)
        possible = (part * whole - floor) / (whole - floor)
        least = 0.98 if part > 1 else 0.6 * possible
        assert found[25:].sum() >= least * exact[25:].sum(), part
        assert (took[25:] > 1.2 * part * whole).sum() <= 4, part


def test_recall_intervals_hold_the_truth_over_seeds() -> None:
    inside = 0
    for seed in range(20):
        calls = keyed(seed, 1_500, calls=25)
        exact, spent, _ = run(two(), calls, 1.0, insertion=20.0)
        speed = 0.4 * float(np.median(spent[10:]))
        found, _, operator = run(two(deadline="1 s", seed=seed), calls, speed, insertion=20.0)
        measured = operator.metrics()
        inside += measured.recall_low <= found.sum() / exact.sum() <= measured.recall_high
    assert inside >= 17


def test_what_is_restored_goes_on_alike_while_keys_are_dropped() -> None:
    calls = keyed(3, 2_000)
    query = two(deadline="1 s")
    operator, _ = machine(query, 10_000.0, insertion=30.0)
    for call in calls[:20]:
        operator.process(call)
    assert operator.metrics().rows_dropped > 0
    blob = operator.snapshot()
    before = [operator.process(call).num_rows for call in calls[20:30]]
    again = WorkClock(VirtualClock(10_000.0, insertion=30.0, result=3.0))
    again.operator = restored = wr.Operator.restore(query, blob, clock=again)
    after = [restored.process(call).num_rows for call in calls[20:30]]
    # The clock begins elsewhere, so that its last digits differ, and with them a draw now and then.
    assert sum(after) == pytest.approx(sum(before), rel=0.05)
    assert restored.metrics().recall == pytest.approx(operator.metrics().recall, rel=0.05)


# --- Unknown is never 1 -------------------------------------------------------------------------------------


def told(operator: Any) -> tuple[float, float, float]:
    measured = operator.metrics()
    return measured.recall, measured.recall_low, measured.recall_high


def test_nothing_admitted_tells_nothing() -> None:
    operator, _ = machine(two(deadline="1 ms"), 10.0, insertion=1_000.0)
    with pytest.warns(UserWarning, match="rows are dropped to hold it"):
        for call in keyed(0, 10, calls=8, rows=100):
            operator.process(call)
    recall, low, _ = told(operator)
    assert operator.metrics().rows_dropped > 0
    assert low == 0.0 and (math.isnan(recall) or recall < 1)


def test_while_windows_lack_rows_that_had_no_chance_no_call_tells_its_recall() -> None:
    operator, _ = machine(two(deadline="1 ms"), 10.0, insertion=1_000.0)
    before, unknown = operator.metrics().quality, []
    with pytest.warns(UserWarning, match="rows are dropped to hold it"):
        for call in keyed(0, 10, calls=8, rows=100):
            operator.process(call)
            after = operator.metrics().quality
            sums = ResultCounts(**between(ResultCounts, before, after))
            assert sums.results_estimated >= sums.results_found - 1e-6
            assert sums.results_variance >= -1e-6
            unknown.append(sums.results_max_weight >= UNKNOWN)
            before = after
    assert unknown[-1]


def test_a_single_result_tells_next_to_nothing() -> None:
    operator, _ = machine(two(deadline="1 s"), 10_000.0, insertion=30.0)
    for call in keyed(5, 10**9, calls=20):
        operator.process(call)
    assert operator.metrics().results <= 2 and operator.metrics().rows_dropped > 0
    assert told(operator)[1] <= 0.3


def test_a_stream_that_ends_leaves_what_is_told_as_it_was() -> None:
    calls = keyed(2, 1_500, calls=20)
    operator, _ = machine(two(deadline="1 s"), 10_000.0, insertion=30.0)
    for call in calls:
        operator.process(call)
    before = told(operator)
    for _ in range(3):
        operator.process({alias: table.slice(0, 0) for alias, table in calls[0].items()})
    operator.finish()
    assert told(operator) == before and before[1] < 1


# --- Costs and choices --------------------------------------------------------------------------------------


@given(st.integers(0, 100), st.floats(0.1, 10.0))
def test_what_is_fixed_is_told_apart_as_soon_as_amounts_vary(seed: int, speed: float) -> None:
    truth = Costs(3e-4 * speed, ROW * speed, COMPARE * speed, RESULT * speed)
    costs, random = CallCosts(), np.random.default_rng(seed)
    for _ in range(40):
        rows, compared, built = random.integers(1, [5_000, 100_000, 50_000]).tolist()
        costs.add(truth.seconds(rows, compared, built), rows, compared, built)
    assert costs.fitted().fixed == pytest.approx(truth.fixed, rel=0.25)
    assert costs.fitted().row == pytest.approx(truth.row, rel=0.25)


def test_a_cold_start_is_not_believed() -> None:
    costs = CallCosts()
    costs.add(0.15, 64, 64, 10)
    assert len(costs) == 0 and costs.fitted().seconds(64, 64, 10) < 1e-4


@given(st.integers(0, 100), st.floats(0.2, 0.8), st.floats(0.0, 0.5))
def test_costs_follow_calls_that_do_less_however_much_is_fixed(seed: int, part: float, fixed: float) -> None:
    """Exact calls cannot tell what is fixed; a few calls that do a part of the work can."""
    truth = Costs(fixed * 1e-2, (1 - fixed) * 3e-7, (1 - fixed) * 1e-8, (1 - fixed) * 3e-8)
    amounts, random = np.array([20_000, 1e5, 1e5]), np.random.default_rng(seed)
    costs = CallCosts()
    for share in [1.0] * 20 + [part] * 10:
        costs.add(truth.seconds(*(share * amounts)) * random.uniform(0.95, 1.05), *(share * amounts))
    for share in (part, 1.0):
        assert costs.fitted().seconds(*(share * amounts)) == pytest.approx(
            truth.seconds(*(share * amounts)), rel=0.15
        )


def work(units: int, rows: float = 1_000, compared: float = 1e6, results: float = 1e5) -> Work:
    share = np.arange(units + 1) / units
    return Work(rows * share, compared * share, results * share, share)


COSTS = Costs(2e-4, 2e-6, 1e-8, 1e-7)
WHOLE = 2e-4 + 2e-3 + 1e-2 + 1e-2


@given(st.floats(0.0, 1.5), st.floats(0.0, 1.0), st.integers(0, UNITS))
def test_a_choice_is_as_good_as_the_best_single_one(part: float, bend: float, current: int) -> None:
    seconds = part * WHOLE
    points = np.linspace(0, 1, 9)
    curve = Curve(points, points ** (1 - 0.9 * bend))
    chosen = choose(work(UNITS), COSTS, seconds, current, curve)
    left = max(0.0, seconds - 2e-4)
    by_units = min(1.0, left / (WHOLE - 2e-4))
    by_ages = curve(min(1.0, max(0.0, left - 2e-3) / 2e-2))
    assert chosen.recall >= 0.92 * max(by_units, by_ages) - 1e-3
    assert 0 <= chosen.units <= UNITS and chosen.recall <= 1
    if part >= 1.001:
        assert chosen == Choice(UNITS)


def test_probes_are_given_up_before_units_where_nothing_else_differs() -> None:
    """What does not probe today can still be found tomorrow."""
    free = Costs(2e-4, 0.0, 1e-8, 1e-7)
    chosen = choose(work(UNITS), free, 1e-2, UNITS)
    assert chosen.units == UNITS and 0.4 < chosen.probes < 0.6


@pytest.mark.parametrize("how", ["inner", {"c": "optional"}], ids=["inner", "outer"])
def test_a_stream_without_keys_is_joined_when_no_row_of_the_others_is_admitted(how: Any) -> None:
    """Its rows are stored in any case; few of them probe, or in an outer join all."""
    streams = {alias: wr.Stream("ts", "10 s") for alias in "abc"}
    query = wr.Query(streams, "a.k = b.k and c.v > a.k", how=how, deadline="1 ms")
    operator, _ = machine(query, speed=1_000, insertion=20.0, result=50.0)
    random, found, calls = np.random.default_rng(3), 0, []
    for second in range(40):
        ts = pa.array((second * 1_000_000 + np.sort(random.integers(0, 10**6, 20))), pa.timestamp("us"))
        call = {a: pa.table({"ts": ts, "k": random.integers(0, 4, 20)}) for a in "ab"}
        calls.append({**call, "c": pa.table({"ts": ts, "v": random.integers(0, 9, 20)})})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found += operator.process(calls[-1]).num_rows
    exact = wr.Operator(wr.Query(streams, "a.k = b.k and c.v > a.k", how=how))
    total = sum(exact.process(call).num_rows for call in calls)
    measured = operator.metrics()
    assert found < total and measured.rows_dropped > 0
    assert measured.recall_low <= found / total <= measured.recall_high
