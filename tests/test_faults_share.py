"""A shared join whose driver, workers or tasks die: each query's results come exactly once, as if alone."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest

from driver import Drivers
from faults import kill
from places import FILES, SECOND, START, Place, differences
from windrow.state.inspect import verify

pytestmark = pytest.mark.faults

WINDOWS = {"fast": "1 second", "middle": "5 seconds", "wide": "15 seconds"}
ADDED, REMOVED = 12 * SECOND, 24 * SECOND
"""Event times: `late` is there from the first on, `wide` until the second."""
DOCUMENTS: tuple[tuple[Any, ...], ...] = (
    ({"add": {"name": "wrong", "within": "1 s", "where": "a.nothing > 1"}},),
    (
        {"at": ADDED, "add": {"name": "late", "within": "3 seconds"}},
        {"add": {"name": "fast", "within": "1 s"}},
    ),
    ({"at": REMOVED, "remove": "wide"}, '{"remove": '),
    ({"remove": "nobody"},),
)
"""One file a batch."""


def send(at: Place, first: int = 0, end: int = FILES) -> None:
    """Control documents of these batches."""
    (at / "control").mkdir(exist_ok=True)
    for number in range(first, end):
        file = at / "control" / f"{number}.json"
        lines = [d if isinstance(d, str) else json.dumps(d) for d in DOCUMENTS[number]]
        file.write_text("\n".join(lines))
        os.utime(file, (START + number,) * 2)


def newest(at: Place) -> dict[tuple[int, int], int]:
    """When each result of the largest window was complete."""
    times: dict[str, dict[int, int]] = {"a": {}, "b": {}}
    for stream, found in times.items():
        for file in (at / stream).glob("*.parquet"):
            table = pq.read_table(file)
            found |= zip(table["id"].to_pylist(), table["ts"].cast("int64").to_pylist(), strict=True)
    return {(a, b): max(times["a"][a], times["b"][b]) for a, b in at.expected(15)}


def assert_each_as_alone(at: Place, changed: bool) -> None:
    found: dict[str, Counter[tuple]] = {}
    for (query, *pair), count in at.found().items():
        found.setdefault(query, Counter())[tuple(pair)] += count
    expected = {name: at.expected(int(window.split()[0])) for name, window in WINDOWS.items()}
    if changed:
        when = newest(at)
        expected["late"] = Counter({p: n for p, n in at.expected(3).items() if when[p] >= ADDED})
        expected["wide"] = Counter({p: n for p, n in expected["wide"].items() if when[p] < REMOVED})
    assert set(found) == set(expected)
    for name in expected:
        assert not differences(found[name], expected[name]), name
    assert not verify(str(at / "state")).damage


def test_kill_9_around_queries_that_come_and_go(drivers: Drivers, at: Place) -> None:
    settings = {"windows": WINDOWS, "control": True}
    send(at)
    at.arrive()
    for batch, point in ((1, "results"), (2, "mark"), (3, "manifest")):
        drivers.die_at(point, batch, "shared", at, **settings)
    told = drivers.driver.run("shared", at, **settings)
    assert any("nobody" in reason for reason in told["control_errors"]), told
    assert_each_as_alone(at, changed=True)


@pytest.mark.parametrize("control", [False, True])
def test_kill_9_with_rows_carried_over(drivers: Drivers, at: Place, control: bool) -> None:
    """A deadline that leaves the large windows for later, and after it none: what was carried over in a state
    that outlived its process is served once."""
    settings = {"windows": WINDOWS, "schedule": "swf", "max_backlog": 1_000_000, "control": control}
    (at / "control").mkdir()
    if control:
        send(at, end=FILES - 1)
    at.arrive(FILES - 1)
    for batch, point in ((1, "results"), (2, "reading"), (2, "results")):
        drivers.die_at(point, batch, "shared", at, deadline="1 us", **settings)
    drivers.driver.run("shared", at, deadline="1 us", **settings)
    if not control:
        some = sum(n for (query, *_), n in at.found().items() if query == "wide")
        assert some < at.expected(15).total(), "nothing was carried over"
    if control:
        send(at, FILES - 1)
    at.arrive()
    drivers.die_at("results", 3, "shared", at, **settings)
    drivers.driver.run("shared", at, **settings)
    assert_each_as_alone(at, changed=control)


def test_tasks_and_workers_that_fail(drivers: Drivers, at: Place) -> None:
    settings = {"windows": WINDOWS, "control": True}
    send(at)
    drivers.faults.plant("results", "fail", batch=1, times=2)
    drivers.faults.plant("mark", "fail", batch=2)
    drivers.faults.plant("manifest", "pause", batch=3)
    drivers.driver.order("shared", at.arrive(), **settings)
    for pid in drivers.faults.wait(4):
        kill(pid)
    assert drivers.driver.reply()["error"] is None
    assert not drivers.faults.waiting()
    assert_each_as_alone(at, changed=True)


def test_twins_carry_over_the_same(drivers: Drivers, at: Place) -> None:
    """Every task runs twice at the same time; the state may be of one and the results of the other."""
    settings = {"windows": WINDOWS, "schedule": "greedy", "max_backlog": 1_000_000}
    drivers.driver.run("twins", at.arrive(FILES - 1), deadline="1 us", **settings)
    drivers.driver.run("twins", at.arrive(), **settings)
    assert_each_as_alone(at, changed=False)
