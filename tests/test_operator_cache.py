"""Workers keep joins for reuse within the memory limit, and drop those that others have carried on."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from stored import SCOPE, log
from windrow.spark.operator_cache import OPERATORS, CachedJoin, OperatorCache
from windrow.state import JoinId, StateStore

PARTITIONS = 8


class Circular:
    """Like a join, whose parts refer to each other."""

    def __init__(self) -> None:
        self.itself = self


def filled(root: Path, batch: int = 5, held: float = 10.0, count: int = OPERATORS) -> OperatorCache:
    cache = OperatorCache()
    for partition in range(count):
        store = StateStore(log(root, PARTITIONS), partition)
        cache.checkin("call", partition, CachedJoin(store, content="x", batch=batch, held=held))
    return cache


def kept(cache: OperatorCache, root: Path, token: str = "call") -> list[int]:
    found = [(p, cache.checkout(token, log(root, PARTITIONS), p)) for p in range(PARTITIONS)]
    return [partition for partition, join in found if join.content is not None]


def test_no_more_than_the_limit_is_kept_and_the_oldest_goes_first(tmp_path: Path) -> None:
    for room, left in ((40.0, [0, 1, 2, 3]), (39.0, [1, 2, 3]), (10.0, [3]), (9.0, []), (-5.0, [])):
        cache = filled(tmp_path)
        cache.limit("call", SCOPE, room)
        assert kept(cache, tmp_path) == left


def test_the_limit_of_a_join_is_for_that_join(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.limit("call", JoinId("query", "other"), 0.0)
    cache.limit("other call", SCOPE, 0.0)
    assert kept(cache, tmp_path) == [0, 1, 2, 3]


def test_joins_that_others_have_carried_on_are_dropped(tmp_path: Path) -> None:
    for batch, left in ((4, []), (5, [0, 1, 2, 3]), (6, [0, 1, 2, 3]), (7, [])):
        cache = filled(tmp_path, batch=5)
        cache.drop_outdated("call", SCOPE, batch)
        assert kept(cache, tmp_path) == left


def test_joins_of_an_earlier_call_are_dropped(tmp_path: Path) -> None:
    cache = filled(tmp_path, batch=5)
    cache.drop_outdated("another call", SCOPE, 6)
    assert kept(cache, tmp_path) == []


def test_what_is_dropped_is_free_before_the_task_goes_on(tmp_path: Path) -> None:
    for drop in (
        lambda cache: cache.limit("call", SCOPE, 0.0),
        lambda cache: cache.drop_outdated("call", SCOPE, 7),
    ):
        cache = OperatorCache()
        join = Circular()
        alive = weakref.ref(join)
        store = StateStore(log(tmp_path, PARTITIONS), 0)
        cache.checkin("call", 0, CachedJoin(store, content="x", join=join, batch=5, held=10.0))
        gc.disable()
        try:
            del join
            drop(cache)
            assert alive() is None
        finally:
            gc.enable()


def test_copies_of_parts_are_in_the_local_directories_of_spark(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/one,{tmp_path}/two")
    remote = log("memory://states", PARTITIONS)
    assert OperatorCache().checkout("call", remote, 0).store.cache.directory.parent == tmp_path / "one"
