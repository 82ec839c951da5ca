"""What tasks leave in `frontier/`: files without contents, whose names say all.

    p3.b17.<time>_<time>                   partition 3 published batch 17, its streams having come this far
    p3.b17.<time>_<time>.n<need>           the same, with what its windows would take without a limit
    e2.b17.<versions>.<attempt>.<unique>   a task of batch 17 had no rows

Names, so that one listing tells the marks of all partitions. A task without rows does not know its partition,
only Spark's number for the task, which several partitions may share; so its mark can be counted, no more.
Every partition leaves a mark in every batch, so what was lost or never run is noticed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

_MARK = re.compile(r"p(\d+)\.b(\d+)\.([^.]*)(?:\.n(\d+))?")
_EMPTY = re.compile(r"e(\d+)\.b(\d+)\.(\d+)\.([0-9a-f-]+)\.([0-9a-f]+)")
_UNKNOWN = "x"


@dataclass(frozen=True)
class Mark:
    """That a partition published a batch, and the newest event time per stream it had seen by then."""

    partition: int
    batch: int
    times: tuple[int | None, ...]
    need: int | None = None
    """What its windows would take if they were whole, where memory is limited."""

    @property
    def name(self) -> str:
        times = "_".join(_UNKNOWN if t is None else str(t) for t in self.times)
        need = "" if self.need is None else f".n{self.need}"
        return f"p{self.partition}.b{self.batch}.{times}{need}"

    @classmethod
    def parse(cls, name: str) -> Mark | None:
        match = _MARK.fullmatch(name)
        if match is None:
            return None
        times = tuple(None if t == _UNKNOWN else int(t) for t in match[3].split("_") if t)
        return cls(int(match[1]), int(match[2]), times, None if match[4] is None else int(match[4]))


@dataclass(frozen=True)
class EmptyMark:
    """That a task had no rows.

    Parameters
    ----------
    task
        Spark's number of the task. Several partitions can run in one, one after the other.
    versions
        What `Marks.versions` was for this batch: the partition of this very task may be among those that had
        published before.
    attempt
        The same for all that one attempt at the task leaves, and for nothing else.
    """

    task: int
    batch: int
    versions: int
    attempt: str
    unique: str

    @property
    def name(self) -> str:
        return f"e{self.task}.b{self.batch}.{self.versions}.{self.attempt}.{self.unique}"

    @classmethod
    def parse(cls, name: str) -> EmptyMark | None:
        match = _EMPTY.fullmatch(name)
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4], match[5]) if match else None


class Marks:
    """The marks of a join, as one listing found them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.published = [mark for mark in map(Mark.parse, self.names) if mark is not None]
        self.empty = [mark for mark in map(EmptyMark.parse, self.names) if mark is not None]

    @property
    def newest(self) -> int:
        """The newest batch with a mark; -1 if there is none."""
        return max([m.batch for m in self.published] + [m.batch for m in self.empty], default=-1)

    def last(self, partition: int, below: int) -> int | None:
        """The last batch below `below` that the partition published."""
        return self._last(below).get(partition)

    def newest_times(self, below: int) -> list[int | None]:
        """Per stream, the newest time over each partition's last batch below `below`; nothing if there is no
        such batch."""
        last = self._last(below)
        counted = [m.times for m in self.published if last.get(m.partition) == m.batch]
        return [
            max((t for t in times if t is not None), default=None) for times in zip(*counted, strict=True)
        ]

    def needs(self, below: int) -> dict[int, int]:
        """Per partition, what it needed at its last batch below `below`."""
        last = self._last(below)
        return {m.partition: m.need for m in self.published if last.get(m.partition) == m.batch and m.need}

    def versions(self, below: int) -> int:
        """A number that falls if any partition's last version below `below` is lost, and rises only as
        batches are published."""
        return sum(batch + 1 for batch in self._last(below).values())

    def traces(self, batch: int) -> int:
        """Partitions that left a mark of the batch. Where a task ran several times, the attempt that left the
        most counts: so a repeated task does not stand in for one that never ran."""
        published = {m.partition for m in self.published if m.batch == batch}
        attempts = Counter((m.task, m.attempt) for m in self.empty if m.batch == batch)
        empty: Counter[int] = Counter()
        for (task, _), count in attempts.items():
            empty[task] = max(empty[task], count)
        return len(published) + empty.total()

    def wrong(self, batch: int, partitions: int) -> str | None:
        """What is missing of the batch, which is over, or of those before it; None if nothing is."""
        missing = partitions - self.traces(batch)
        if missing > 0:
            return f"batch {batch} left no trace in {missing} of {partitions} partitions"
        known = max((m.versions for m in self.empty if m.batch == batch), default=0)
        if self.versions(batch) < known:
            return f"what earlier batches published was there in batch {batch} and is not any more"
        return None

    def empty_mark(self, batch: int, task: int, attempt: str) -> EmptyMark:
        """The mark for a task of `batch` that found no rows and these marks."""
        return EmptyMark(task, batch, self.versions(batch), attempt, uuid4().hex)

    def _last(self, below: int) -> dict[int, int]:
        last: dict[int, int] = {}
        for mark in self.published:
            if mark.batch < below:
                last[mark.partition] = max(mark.batch, last.get(mark.partition, 0))
        return last
