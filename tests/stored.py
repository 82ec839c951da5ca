"""A small join whose state is stored after every batch, for the tests of `windrow.state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

import windrow as wr
from results import ids
from windrow.engine.operator import runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State, capture, restore
from windrow.state import CommitLog, JoinId, Manifest, Start, StateStore, Version

SCOPE = JoinId("query", "join")
RUN = "0" * 32
QUERY = wr.Query({alias: wr.Stream("ts", "5 seconds") for alias in "ab"}, "a.k = b.k", late="1 second")
Call = Mapping[str, pa.Table]


def batches(count: int, rows: int, seed: int = 0) -> list[Call]:
    """A second of event time per batch, two streams."""
    rng = np.random.default_rng(seed)
    return [{alias: _rows(rng, number, rows) for alias in "ab"} for number in range(count)]


def _rows(rng: np.random.Generator, second: int, rows: int) -> pa.Table:
    times = rng.integers((second - 1) * 1_000_000, (second + 1) * 1_000_000, rows)
    return pa.table(
        {
            "id": second * rows + np.arange(rows),
            "ts": pa.array(times, pa.timestamp("us")),
            "k": rng.integers(0, 2 * rows, rows),
            "note": [f"row {n}" for n in range(rows)],
        }
    )


def schemas() -> dict[str, pa.Schema]:
    return {alias: table.schema for alias, table in batches(1, 1)[0].items()}


def log(root: object, partitions: int = 1, **more) -> CommitLog:
    return CommitLog(root if not isinstance(root, Path) else str(root), SCOPE, partitions, **more)


def store(
    root: object, partition: int = 0, partitions: int = 1, cache: Path | None = None, **more
) -> StateStore:
    return StateStore(log(root, partitions, **more), partition, cache)


def at(batch: int) -> Version:
    return Version(batch, RUN)


def newest(held: StateStore, below: int) -> Manifest | None:
    """What the partition committed last before that batch."""
    markers = held.log.read_markers()
    own = [m.version for m in markers.committed if m.partition == held.partition]
    before = [version for version in own if version.batch < below and markers.valid(version)]
    return held.manifest(max(before)) if before else None


def required(held: StateStore, batch: int) -> Manifest | None:
    """What a task of the batch starts from."""
    base = held.log.begin(RUN, batch).base
    return None if base is None else held.manifest(base)


def collect(held: StateStore, committed: int) -> None:
    held.collect(Start(at(committed + 1), None, held.log.read_markers()))


def publish(into: StateStore, batch: int, op: wr.Operator) -> Manifest:
    runner = runner_of(op)
    return commit(into, batch, capture(runner), runner.watermarks.max_event_times)


def commit(into: StateStore, batch: int, state: State, times: Sequence[int | None] = ()) -> Manifest:
    """In the one run there is, which begins with the first batch."""
    begin(into.log)
    return into.commit(at(batch), state, times)


def begin(log: CommitLog) -> None:
    log.begin(RUN, 0)


def revived(query: wr.Query, state: State) -> wr.Operator:
    operator = wr.Operator(query)
    restore(runner_of(operator), state)
    return operator


def run(
    opened: Callable[[], StateStore],
    calls: list[Call],
    query: wr.Query = QUERY,
    reload: Callable[[int], bool] = lambda batch: True,
    committed: Callable[[StateStore, int], None] = lambda store, batch: None,
) -> Counter[tuple]:
    """All results, with the state published after every batch and, where told, taken up by a fresh store as
    another process would."""
    held, op, answer = opened(), wr.Operator(query), Counter()
    held.log.check_metadata(fingerprint(query), first=True)
    assert required(held, 0) is None
    for batch, call in enumerate(calls):
        if batch and reload(batch):
            held = opened()
            held.log.check_metadata(fingerprint(query), first=False)
            found = required(held, batch)
            assert found is not None and found.batch == batch - 1
            op = revived(query, held.load(found))
        answer.update(ids(op.process(call)))
        assert list(publish(held, batch, op).rows().values()) == _rows_held(op)
        committed(held, batch)
    return answer + ids(op.finish())


def _rows_held(op: wr.Operator) -> list[int]:
    runner = runner_of(op)
    windows = [len(w) for w in runner.join.windows] if runner.join else [0] * len(runner.buffer)
    return [len(waiting) + window for waiting, window in zip(runner.buffer, windows, strict=True)]


def uninterrupted(calls: list[Call], query: wr.Query = QUERY) -> Counter[tuple]:
    op, answer = wr.Operator(query), Counter()
    for call in calls:
        answer.update(ids(op.process(call)))
    return answer + ids(op.finish())


class Wrapped:
    """A filesystem around another. Subclasses change what it does."""

    def __init__(self, inner: fs.FileSystem) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def files(root: Path, pattern: str = "*") -> list[Path]:
    return sorted(path for path in root.rglob(pattern) if path.is_file())


def started(root: Path, count: int = 3, rows: int = 300) -> StateStore:
    """A pinned store with the versions 0 .. count - 1."""
    held, op = store(root), wr.Operator(QUERY)
    held.log.check_metadata(fingerprint(QUERY), first=True)
    for batch, call in enumerate(batches(count, rows)):
        op.process(call)
        publish(held, batch, op)
    return held


def publish_again_and_again(root: str, batch: int, times: int) -> None:
    """What a twin does, in a process of its own: the work of one batch, from the version before it."""
    call = batches(batch + 1, 300)[batch]
    for _ in range(times):
        held = store(root)
        op = revived(QUERY, held.load(required(held, batch)))
        op.process(call)
        publish(held, batch, op)


def publish_until_killed(root: str) -> None:
    held, op = store(root), wr.Operator(QUERY)
    held.log.check_metadata(fingerprint(QUERY), first=True)
    for batch, call in enumerate(batches(2000, 50)):
        op.process(call)
        publish(held, batch, op)
