"""Lost and damaged state, changed queries, readers that stop early, joins that feed joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver import Driver
from faults import Faults
from places import FILES, Place, differences, last_batch
from windrow.state.inspect import verify

pytestmark = pytest.mark.faults

Undo = Callable[[], object]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Each task gets a worker without memory, as after a restart."""
    directory = tmp_path_factory.mktemp("driver")
    started = Driver(directory, Faults(directory / "faults"), **{"spark.python.worker.reuse": "false"})
    yield started
    started.stop()


# --- What a restart finds --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A query stopped after two batches. Each test goes on by a batch, at the second attempt; in other
    partitions by two."""
    files = 2 + len(DAMAGES) + 2 * len(ELSEWHERE) + len(CHANGES)
    at = Place(tmp_path_factory.mktemp("begun")).write(files=files)
    driver.run("pairs", at.arrive(2))
    return at


def truncate(at: Place, batch: str = "*") -> Undo:
    """Cuts off a file that a version of partition 0 needs, the newest or that of a batch."""
    newest = at.state_files(f"batch-{batch}/p0.*.json")[-1]
    needed = [f for f in at.state_files("p0/parts-*") if f.name in newest.read_text()]
    file, data = needed[-1], needed[-1].read_bytes()
    file.write_bytes(data[: len(data) // 2])
    return lambda: file.write_bytes(data)


def _lose(pick: Callable[[Place], list[Path]]) -> Callable[[Place], Undo]:
    """Moves files or directories out of the state."""

    def lose(at: Place) -> Undo:
        lost = pick(at)
        assert lost
        aside = at / "aside"
        aside.mkdir(exist_ok=True)
        moved = [(path, path.rename(aside / f"{number}")) for number, path in enumerate(lost)]
        return lambda: [kept.rename(path) for path, kept in moved]

    return lose


TRUNCATED = r"parts-[\w-]+\.arrows is damaged: it has \d+ bytes.*new checkpoint"
DAMAGES: dict[str, tuple[Callable[[Place], Undo], str]] = {
    "truncated parts": (truncate, TRUNCATED),
    "lost newest manifest": (
        _lose(lambda at: at.state_files("batch-*/p0.*.json")[-1:]),
        r"commit markers are missing for 1 of 2 partitions.*put the state back",
    ),
    "lost partition": (
        _lose(lambda at: at.state_files("p1")),
        r"it is missing, and batch \d+ needs it. Put it back",
    ),
    "lost description": (
        _lose(lambda at: at.state_files("join.json")),
        r"there is no state .*put the directory back",
    ),
    "lost state": (_lose(lambda at: [at / "state"]), r"there is no state .*put the directory back"),
}

ELSEWHERE = ("truncated parts", "lost partition")
"""Damages that are also tried in other partitions."""
CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "other predicate": ({"on": "a.k = b.k and a.id <> b.id"}, r"belongs to another join: on was .*now"),
    "other kind": ({"how": "left"}, r"belongs to another join: how was 'inner', now 'left'.*go back to"),
    "other state path": ({"state": "/nowhere"}, r"no state .*set `state` to the path"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_and_once_mended_nothing_is_lost(driver: Driver, begun: Place, damage: str) -> None:
    apply, message = DAMAGES[damage]
    undo = apply(begun)
    begun.arrive(1)
    try:
        with pytest.raises(RuntimeError, match=message):
            driver.run("pairs", begun)
    finally:
        for path in (begun / "state").rglob("*") if damage == "lost state" else ():
            assert not path.is_file(), "something was stored as if from the beginning"
        undo()
    driver.run("pairs", begun)
    assert not differences(begun.found(), begun.expected())


@pytest.mark.parametrize(
    ("lost", "scheme"),
    [("one partition", ""), ("all partitions", ""), ("one partition", "local://")],
    ids=["one partition", "all partitions", "one partition in an object store"],
)
def test_a_partition_lost_with_its_markers_does_not_begin_anew(
    driver: Driver, at: Place, lost: str, scheme: str
) -> None:
    state = f"{scheme}{at / 'state'}"
    driver.run("pairs", at.arrive(2), state=state)
    pattern = "1" if lost == "one partition" else "[01]"
    gone = [*at.state_files(f"p{pattern}/*"), *at.state_files(f"commits/*/p{pattern}.*")]
    undo = _lose(lambda _: gone)(at)
    at.arrive()
    with pytest.raises(RuntimeError, match=r"markers are missing for [12] of 2 partitions.*put the"):
        driver.run("pairs", at, state=state)
    undo()
    driver.run("pairs", at, state=state)
    assert not differences(at.found(), at.expected())


@pytest.mark.parametrize("damage", ELSEWHERE)
def test_damage_is_told_in_other_partitions_too(driver: Driver, begun: Place, damage: str) -> None:
    """The new partitions need all old ones. Once mended, the query goes on in three partitions, or in two."""
    apply, message = DAMAGES[damage]
    undo = apply(begun)
    begun.arrive(1)
    with pytest.raises(RuntimeError, match=message):
        driver.run("pairs", begun, partitions=3)
    undo()
    driver.run("pairs", begun, partitions=3 if damage == "lost partition" else 2)
    driver.run("pairs", begun.arrive(1), partitions=2)
    assert not differences(begun.found(), begun.expected())


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_query_is_refused_the_old_one_goes_on(driver: Driver, begun: Place, change: str) -> None:
    options, message = CHANGES[change]
    if "state" in options:
        options = {"state": str(begun / "nowhere")}
    begun.arrive(1)
    with pytest.raises(RuntimeError, match=message):
        driver.run("pairs", begun, **options)
    driver.run("pairs", begun)
    assert not differences(begun.found(), begun.expected())


def test_two_queries_share_a_state_path(driver: Driver, at: Place) -> None:
    driver.run("side_by_side", at.arrive(2))
    driver.run("side_by_side", at.arrive(1))
    assert not differences(at.found(), at.expected())
    assert not differences(at.found("near"), at.expected(within=2))
    assert not verify(str(at / "state")).damage


# --- Readers that stop early -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["limit", "isEmpty", "take", "take and write", "nothing"])
def test_a_batch_read_in_part_still_enters_the_windows(driver: Driver, at: Place, how: str) -> None:
    """Batch 1 is the one: later results with its rows must be there."""
    driver.run("partly", at.arrive(), how=how, batch=1)
    written = "write" in how
    expected = Counter({pair: n for pair, n in at.expected().items() if written or last_batch(pair) != 1})
    assert not differences(at.found(), expected)


def test_a_plain_thread_in_foreach_batch_is_told(driver: Driver, at: Place) -> None:
    with pytest.raises(RuntimeError, match=r"plain thread, use pyspark\.InheritableThread"):
        driver.run("threaded", at.arrive())


def test_a_limit_on_the_stream(driver: Driver, at: Place) -> None:
    first = sum(n for pair, n in at.arrive(2).expected().items())
    driver.run("limited", at.arrive(), limit=first // 2)
    assert at.found().total() == first // 2
    assert at.found() <= at.expected()
    # Every batch went through the windows, although nothing was read of the later ones.
    assert at.state_files(f"batch-{FILES - 1:012}/p*.json")


def test_take_in_batch_mode(driver: Driver, at: Place) -> None:
    assert driver.run("batch_take", at.arrive(), rows=3) == [3, at.expected().total()]


# --- Joins that feed joins -------------------------------------------------------------------------------


def test_a_join_feeds_a_join(driver: Driver, tmp_path: Path) -> None:
    at = Place(tmp_path).write("abc")
    driver.run("chained", at.arrive(3))
    driver.run("chained", at.arrive())
    assert not differences(at.found(), at.expected_of_three())


def test_two_joins_of_one_name_are_refused(driver: Driver, tmp_path: Path) -> None:
    at = Place(tmp_path).write("abc").arrive()
    with pytest.raises(RuntimeError, match=r"windrow\.pairs"):
        driver.run("chained", at, second="pairs")
    assert not at.state_files("*")
