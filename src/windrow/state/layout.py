"""How the files of a state are named.

    root/<query id>/<join>/join.json                                the pinned description
    root/<query id>/<join>/frontier/p3.b17.<time>_<time>            empty: how far a partition's batch came
    root/<query id>/<join>/p3/batch-000000000017.json               a manifest
    root/<query id>/<join>/p3/parts-<unique>.arrows                 parts, named by manifests

Frontiers stand in names so that one listing tells those of all partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from windrow.errors import StateError

PINNED = "join.json"
FRONTIERS = "frontier"
_PARTITION = re.compile(r"p(\d+)")
_PARTS = re.compile(r"parts-[0-9a-f]{32}\.arrows")
_MARK = re.compile(r"p(\d+)\.b(\d+)\.(.*)")
_UNKNOWN = "x"
_LONGEST = 200


@dataclass(frozen=True)
class Scope:
    """Whose state it is."""

    query: str
    """Spark's id of the streaming query, the same after a restart from its checkpoint."""
    join: str
    """The join's name, unique within the query."""

    def __post_init__(self) -> None:
        for what, name in (("query id", self.query), ("name of the join", self.join)):
            if not name or len(_quoted(name)) > _LONGEST:
                raise StateError(f"the {what} must have 1 to {_LONGEST} characters, got {name!r}")

    @property
    def directory(self) -> str:
        return f"{_quoted(self.query)}/{_quoted(self.join)}"


@dataclass(frozen=True)
class Mark:
    """That a partition published a batch, and the newest event time per stream it had seen by then."""

    partition: int
    batch: int
    times: tuple[int | None, ...]

    @property
    def name(self) -> str:
        times = "_".join(_UNKNOWN if t is None else str(t) for t in self.times)
        return f"p{self.partition}.b{self.batch}.{times}"

    @classmethod
    def parse(cls, name: str) -> Mark | None:
        match = _MARK.fullmatch(name)
        if match is None:
            return None
        times = tuple(None if t == _UNKNOWN else int(t) for t in match[3].split("_") if t)
        return cls(int(match[1]), int(match[2]), times)


def marks(names: Iterable[str]) -> list[Mark]:
    return [mark for mark in map(Mark.parse, names) if mark is not None]


def newest_times(published: Sequence[Mark], below: int) -> list[int | None]:
    """Per stream, the newest time over each partition's last batch below `below`."""
    last: dict[int, int] = {}
    for mark in published:
        if mark.batch < below:
            last[mark.partition] = max(mark.batch, last.get(mark.partition, 0))
    counted = [m.times for m in published if last.get(m.partition) == m.batch]
    return [max((t for t in times if t is not None), default=None) for times in zip(*counted, strict=True)]


def partition_directory(partition: int) -> str:
    return f"p{partition}"


def partition_of(name: str) -> int | None:
    match = _PARTITION.fullmatch(name)
    return int(match[1]) if match else None


def parts_name(content: str) -> str:
    return f"parts-{content}.arrows"


def holds_parts(name: str) -> bool:
    return _PARTS.fullmatch(name) is not None


def plain(name: str) -> str:
    """A query id or join name as the user wrote it."""
    return unquote(name)


def _quoted(name: str) -> str:
    """Fit for a file name, whatever the user wrote."""
    quoted = quote(name, safe=" ")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted
