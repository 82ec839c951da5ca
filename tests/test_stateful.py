"""State is listed once, and comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import valued
import windrow as wr
from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.admitter import Admitter
from windrow.engine.limits.dropper import Dropper
from windrow.engine.limits.probe_statistics import ProbeStatistics
from windrow.engine.operator import runner_of
from windrow.engine.redistribution import redistributed
from windrow.engine.shared.release import PendingRows
from windrow.engine.shared.subscribers import Subscriber
from windrow.engine.state import capture, restore
from windrow.engine.watermarks import Watermarks
from windrow.errors import StateError
from windrow.estimation.missed import MissedResults
from windrow.model.policies.importance import Greedy, Importance
from windrow.model.policies.learned import Auto
from windrow.model.stateful import Stateful, decode, encode


@dataclass(frozen=True)
class Line(Stateful):
    rates: tuple[float, ...]
    width: float = 1.0


class Part(Stateful):
    saved = ("counts", "_until")
    clocks = ("_until",)

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self.counts = np.zeros((2, 3))
        self._until: int | None = None


class Whole(Part):
    saved = ("parts", "by_key", "curve", "later")

    def __init__(self, half_life: float) -> None:
        super().__init__(half_life)
        self.parts = [Part(half_life), Part(half_life)]
        self.by_key: dict[tuple[int, str], Any] = {(0, "a"): Part(half_life)}
        self.curve: Line | None = None
        self.later: Part | None = None


def moved(value: Any, into: Any = None) -> Any:
    """Written and read, as if by another process."""
    arrays: list[np.ndarray] = []
    return decode(json.loads(json.dumps(encode(value, arrays))), [a.copy() for a in arrays], into)


def learned() -> Whole:
    whole = Whole(2.0)
    whole.counts += 1.5
    whole.parts[1].counts[0] = np.inf
    whole.parts[1]._until = 1 << 60
    whole.by_key[0, "a"]._until = 7
    whole.curve = Line((0.25, float("inf")), 3.0)
    whole.later = Part(2.0)
    return whole


def test_state_comes_back_and_settings_are_those_of_today():
    before, again = learned(), Whole(5.0)
    own = again.parts[1]
    assert moved(before, again) is again and again.parts[1] is own
    assert again.half_life == own.half_life == 5.0
    assert (again.counts == 1.5).all() and (own.counts == before.parts[1].counts).all()
    assert (own._until, again.by_key[0, "a"]._until) == (1 << 60, 7)
    assert again.curve == before.curve
    assert again.later is not None and (again.later.counts == 0).all()


def test_plain_values_keep_their_kind():
    value = [(1, 2.5), {3: [None, "x"], (4, "y"): ()}, True, np.float32(0.5), np.int64(9)]
    assert moved(value) == value and isinstance(moved(value)[0], tuple)


def test_clocks_go_back_wherever_they_are():
    whole = learned()
    whole.turn_back(5)
    assert (whole._until, whole.parts[1]._until, whole.by_key[0, "a"]._until) == (None, 5, 5)


def test_state_of_another_version_is_refused(monkeypatch):
    arrays: list[np.ndarray] = []
    plain = encode(learned(), arrays)
    monkeypatch.setattr(Part, "version", 2)
    with pytest.raises(StateError, match="version 1 of Part"):
        decode(plain, arrays, Whole(2.0))


def test_state_of_an_earlier_version_may_be_migrated(monkeypatch):
    """A class says what becomes of the fields that it had."""
    arrays: list[np.ndarray] = []
    plain = json.loads(json.dumps(encode(learned(), arrays)))

    def migrated(cls: type, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        return values | {"counts": 2 * values["counts"]} if version == 1 else None

    monkeypatch.setattr(Part, "version", 2)
    monkeypatch.setattr(Part, "migrated", classmethod(migrated))
    again = decode(plain, arrays, Whole(2.0))
    assert (again.counts == 3.0).all() and again.by_key[0, "a"]._until == 7
    monkeypatch.setattr(Part, "version", 3)
    monkeypatch.setattr(Part, "migrated", classmethod(lambda cls, version, values: None))
    with pytest.raises(StateError, match="version 1 of Part"):
        decode(plain, arrays, Whole(2.0))


QUERY = wr.Query({a: wr.Stream("ts", "5 s") for a in "ab"}, "a.k = b.k")
SUMS = {"found": 3.0, "variance": 2.0}


@pytest.mark.parametrize(
    ("make", "version", "before"),
    [
        (lambda: Admitter(Units([["k"], ["k"]]), 0, 2), 1, SUMS | {"true": 7.0, "_chance": [0.5]}),
        (lambda: Dropper(QUERY), 2, SUMS | {"estimated": 7.0}),
        (MissedResults, 1, {"count": 7.0, "variance": 2.0}),
    ],
    ids=["Admitter", "Dropper", "MissedResults"],
)
def test_sums_of_results_are_migrated(make: Callable[[], Any], version: int, before: dict[str, Any]) -> None:
    part = make()
    plain = {"is": [type(part).__name__, version]} | before
    restored = decode(plain, [], into=part)
    sums = restored.results
    assert (sums.found, sums.estimated, sums.variance) == (before.get("found", 0.0), 7.0, 2.0)
    assert not set(before) & set(vars(restored))
    assert "_chance" not in before or restored._probability == [0.5]


def test_arrival_rates_of_load_shedding_are_migrated() -> None:
    arrays, begun = [np.array([30.0, 90.0])], ProbeStatistics(2)
    plain = encode(begun, arrays)
    own = {"is": ["ProbeStatistics", 1], "_arrivals": {"array": 0}, "_seconds": 3.0, "_fade": 0.5}
    restored = decode({"_known": plain["_known"], "sub_batches": 4, "_now": 7} | own, arrays, begun)
    assert restored.rates.tolist() == [10.0, 30.0] and restored._pending_decay == 0.5
    assert not {"_fade", "_seconds"} & set(vars(restored))


@pytest.mark.parametrize("shed", [Greedy, Importance, Auto])
def test_the_importance_of_a_ranking_is_migrated(shed: type[Any]) -> None:
    """Version 1 of a ranking held the fields of its importance as its own."""
    query = valued.query("ab", 60, shed(by=valued.by("ab")))
    first, rest = valued.feeds("ab", 200), valued.feeds("ab", 50, seed=5, start=200)
    begun = wr.Operator(query)
    begun.process(first)
    begun.control({"at": 0, "importance": {"a": "a.imp * 3"}})
    results = []
    for version in (1, 2):
        state, operator = capture(runner_of(begun)), wr.Operator(query)
        evictor = state.metadata["join"]["evictor"]
        if version == 1:
            own = dict(evictor["ranking"])
            importance = own.pop("importance")
            before = {"_version_of": "_judged_by"}
            evictor["ranking"] = own | {before.get(k, k): v for k, v in importance.items() if k != "is"}
            evictor["ranking"]["is"] = [own["is"][0], 1]
        restore(runner_of(operator), state)
        results.append((operator.process(rest), operator.metrics().quality))
    assert results[0][0].equals(results[1][0]) and results[0][1] == results[1][1]


def test_a_subscriber_of_an_earlier_version_is_read() -> None:
    """It did not say what it is."""
    query = wr.Query({a: wr.Stream("ts", "5 seconds") for a in "ab"}, "a.id = b.id")
    member = Subscriber("hot", wr.Subscription(query, "a.v > 3", ["a.id"]), since=5, number=2)
    member.response_times.add(0.25, 3)
    plain = encode(member, [])
    for saved in (plain, {name: value for name, value in plain.items() if name != "is"}):
        found = Subscriber.load(json.loads(json.dumps(saved)), query)
        assert encode(found, []) == plain


def test_a_field_that_was_renamed_is_read_under_its_name_of_then() -> None:
    waiting = PendingRows(1.5, new=3)
    plain = encode(waiting, [])
    plain["fresh"] = plain.pop("new")
    assert encode(decode(plain, []), []) == encode(waiting, [])


def test_a_state_says_who_wrote_it(monkeypatch):
    """A part that this version cannot read is refused with the version that can."""
    query = wr.Query({a: wr.Stream("ts", "5 seconds") for a in "ab"}, "a.id = b.id")
    state = capture(runner_of(wr.Operator(query)))
    monkeypatch.setattr(Watermarks, "version", 7)
    state.metadata["windrow"] = "9.9.9"
    told = f"version 1 of Watermarks.* Windrow 9.9.9 wrote it, and this is Windrow {wr.__version__}"
    with pytest.raises(StateError, match=told):
        restore(runner_of(wr.Operator(query)), state)
    with pytest.raises(StateError, match=told):
        redistributed([state], SimpleNamespace(first=True, copied=False))


def test_what_cannot_be_saved_is_named():
    with pytest.raises(TypeError, match="generator cannot be saved"):
        encode((x for x in ""), [])
