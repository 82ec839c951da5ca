"""Whatever dies in mid-batch, every result comes exactly once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from driver import Drivers
from faults import kill, wait_until
from places import Place, differences
from windrow.state.inspect import verify

pytestmark = pytest.mark.faults

POINTS = ("reading", "manifest", "mark", "results")


def assert_exact(at: Place) -> None:
    assert not differences(at.found(), at.expected())
    assert not verify(str(at / "state")).damage


def test_a_task_fails_after_publishing_and_with_results_half_out(drivers: Drivers, at: Place) -> None:
    drivers.faults.plant("results", "fail", batch=1, times=2)
    drivers.faults.plant("mark", "fail", batch=2)
    drivers.faults.plant("manifest", "fail", batch=3, times=2)
    drivers.driver.run("pairs", at.arrive())
    assert not drivers.faults.waiting()
    assert_exact(at)


def test_a_batch_that_failed_for_good_is_done_on_restart(drivers: Drivers, at: Place) -> None:
    """Three failures of one task end the query, with other tasks' state published and results written."""
    drivers.faults.plant("results", "fail", batch=2, times=6)
    with pytest.raises(RuntimeError, match="struck at results of batch 2"):
        drivers.driver.run("pairs", at.arrive())
    assert at.found() < at.expected()
    drivers.faults.clear()
    drivers.driver.run("pairs", at)
    assert_exact(at)


def test_a_killed_python_worker(drivers: Drivers, at: Place) -> None:
    drivers.faults.plant("results", "pause", batch=1)
    drivers.faults.plant("manifest", "pause", batch=3)
    drivers.driver.order("pairs", at.arrive())
    for count in (1, 2):
        for pid in drivers.faults.wait(count):
            kill(pid)
    assert drivers.driver.reply()["error"] is None
    assert_exact(at)


def test_kill_9_of_the_driver_again_and_again(drivers: Drivers, at: Place) -> None:
    at.arrive()
    for batch, point in ((1, "reading"), (2, "mark"), (3, "results")):
        drivers.die_at(point, batch, "pairs", at)
    drivers.driver.run("pairs", at)
    assert_exact(at)


def test_kill_9_of_the_driver_under_a_memory_limit(drivers: Drivers, tmp_path: Path) -> None:
    """Shed results are those of a run that nobody killed, each once."""
    places = [tmp_path / name for name in ("undisturbed", "killed")]
    for place in places:
        place.mkdir()
    undisturbed, killed = (Place(place).write().arrive() for place in places)
    options = {"memory": "60 rows", "shed": "auto"}
    drivers.driver.run("pairs", undisturbed, **options)
    for batch, point in ((1, "mark"), (2, "results")):
        drivers.die_at(point, batch, "pairs", killed, **options)
    drivers.driver.run("pairs", killed, **options)
    assert not differences(killed.found(), undisturbed.found())
    assert 0 < killed.found().total() < killed.expected().total()
    assert not killed.found() - killed.expected()


@pytest.mark.parametrize("deadline", ["1 ms", "1 hour"])
def test_kill_9_of_the_driver_under_a_deadline(drivers: Drivers, at: Place, deadline: str) -> None:
    """How much is found depends on the clock; that it is right and found once does not."""
    at.arrive()
    for batch, point in ((1, "mark"), (2, "mark")):
        drivers.die_at(point, batch, "pairs", at, deadline=deadline)
    drivers.driver.run("pairs", at, deadline=deadline)
    assert not at.found() - at.expected()
    if deadline == "1 hour":
        assert_exact(at)


def test_kill_9_of_the_driver_under_both_limits(drivers: Drivers, tmp_path: Path) -> None:
    """Quanta follow the clock, and what is shed follows quanta; but as much is found as if nobody was killed,
    nothing twice, and the limit holds."""
    places = [tmp_path / name for name in ("undisturbed", "killed")]
    for place in places:
        place.mkdir()
    undisturbed, killed = (Place(place).write().arrive() for place in places)
    options = {"memory": "60 rows", "deadline": "1 hour"}
    drivers.driver.run("pairs", undisturbed, **options)
    for batch, point in ((1, "mark"), (2, "results"), (3, "manifest")):
        drivers.die_at(point, batch, "pairs", killed, **options)
    drivers.driver.run("pairs", killed, **options)
    assert not killed.found() - killed.expected()
    assert 0.7 * undisturbed.found().total() < killed.found().total() < killed.expected().total()
    assert not verify(str(killed / "state")).damage


def test_twins_publish_the_same_batch_at_the_same_time(drivers: Drivers, at: Place) -> None:
    drivers.driver.run("twins", at.arrive())
    assert_exact(at)


def test_a_twin_that_comes_last_by_two_batches(drivers: Drivers, at: Place) -> None:
    """Its manifest stands beside the one that later batches were built on."""
    at.arrive(4)
    drivers.faults.plant("reading", "pause", batch=1)
    drivers.driver.order("abandoned_twin", at, batch=1)
    drivers.faults.wait()
    assert drivers.driver.reply()["error"] is None
    before = at.state_files("batch-*1/p*.json")
    drivers.faults.clear()
    wait_until(
        lambda: at.state_files("batch-*1/p*.json") != before,
        "the late twin never published",
    )
    drivers.driver.run("abandoned_twin", at.arrive(), batch=-1)
    assert_exact(at)


def test_the_sink_committed_but_the_commit_log_did_not(drivers: Drivers, at: Place) -> None:
    drivers.driver.run("pairs", at.arrive(3))
    for path in (at / "checkpoint" / "commits").glob("*2*"):
        path.unlink()
    drivers.driver.run("pairs", at.arrive())
    assert_exact(at)


def test_a_sink_without_memory_gets_the_same_batch_again(drivers: Drivers, at: Place) -> None:
    """As before, but this sink takes the repeated batch in place of the first: its rows must be the same."""
    drivers.driver.run("abandoned_twin", at.arrive(3), batch=-1)
    for path in (at / "checkpoint" / "commits").glob("*2*"):
        path.unlink()
    drivers.driver.run("abandoned_twin", at.arrive(), batch=-1)
    assert_exact(at)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a batch or two; nothing if this machine lets us mount none."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", str(disk)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield disk
    if mounted:
        # Workers still map files of it.
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk(drivers: Drivers, at: Place, small_disk: Path) -> None:
    state, mounted = str(small_disk), os.path.ismount(small_disk)
    if not mounted:
        drivers.faults.plant("reading", "room", batch=2, times=6)
    with pytest.raises(RuntimeError, match=r"Nothing is lost.*free some space and start the query again"):
        drivers.driver.run("pairs", at.arrive(), state=state)
    assert at.found() < at.expected()
    drivers.faults.clear()
    if mounted:
        subprocess.run(["mount", "-o", "remount,size=32m", state], check=True)
    drivers.driver.run("pairs", at, state=state)
    assert not differences(at.found(), at.expected())
    assert not verify(state).damage


def test_kills_at_any_time(request: pytest.FixtureRequest, drivers: Drivers, tmp_path: Path) -> None:
    if not request.config.getoption("--soak"):
        pytest.skip("a long run: --soak")
    at, rng = Place(tmp_path).write(files=60).arrive(), Random(time.time_ns())
    for _ in range(20):
        if _next_batch(at) >= 60:
            break  # a fault planted there would wait for a batch that never comes
        drivers.driver.order("pairs", at)
        drivers.prepare()
        if rng.random() < 0.5:
            drivers.faults.plant(rng.choice(POINTS), "pause", batch=_next_batch(at))
            drivers.faults.wait()
        else:
            time.sleep(rng.uniform(0.5, 4))
        drivers.driver.kill()
        drivers.faults.clear()
        found = at.found() if (at / "out" / "_spark_metadata").exists() else None
        assert found is None or found <= at.expected()
    drivers.driver.run("pairs", at)
    assert_exact(at)


def _next_batch(at: Place) -> int:
    """One that is still to come, soon."""
    begun = [int(p.name) for p in (at / "checkpoint" / "offsets").glob("*") if p.name.isdigit()]
    return max(begun, default=0) + 2
