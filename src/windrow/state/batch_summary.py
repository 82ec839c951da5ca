"""The summary of what a micro-batch has committed, encoded in a file name; see `summaries.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from windrow.engine.source_partitions import PartitionTimes
from windrow.errors import StateError
from windrow.state.manifest import sealed, unsealed
from windrow.state.parts import damaged
from windrow.state.paths import batch_directory
from windrow.state.runs import Version

_NAME = re.compile(
    r"batch-(\d+)/(?:g(\d+)/)?(?:all|group(\d+))\.([0-9a-f]+)\.([^.]*)(?:\.n(\d+)_(\d+)_(\d+))?"
)
ALL, GROUPS = "all.", "group"
"""How names of summaries begin."""
_NONE = "x"
NAMES_KNOWN = 4096
"""Names that are not parsed again: tasks of a micro-batch list the same ones."""
Times = tuple[int | None, ...]
"""Max event time per stream; None before its first row."""


@dataclass(frozen=True)
class Demands:
    """Memory demand of the partitions that have one."""

    count: int = 0
    total: int = 0
    first: int = 0
    """The first partition with a demand."""
    own: int = 0
    """That of the partition that asks."""

    @classmethod
    def of(cls, demands: Mapping[int, int]) -> Demands:
        return cls(len(demands), sum(demands.values()), min(demands, default=0))


@dataclass(frozen=True)
class BatchSummary:
    """All partitions, or those of a group, have committed a version. Has the totals of their markers."""

    version: Version
    times: Times
    demands: Demands
    group: int | None = None
    """The partitions; None for all."""
    held_by: int = 0
    """The group whose directory holds it."""

    @property
    def name(self) -> str:
        """Relative to the directory of commits."""
        whose = ALL if self.group is None else f"{GROUPS}{self.group}."
        name = f"{whose}{self.version.run}.{times_text(self.times)}"
        if self.demands.count:
            name += f".n{self.demands.count}_{self.demands.total}_{self.demands.first}"
        return f"{batch_directory(self.version.batch, self.held_by)}/{name}"

    @classmethod
    @lru_cache(NAMES_KNOWN)
    def parse(cls, name: str) -> BatchSummary | None:
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        batch, held_by, group, run, seen, *numbers = match.groups()
        demands = Demands(*map(int, numbers)) if numbers[0] else Demands()
        whose = None if group is None else int(group)
        return cls(Version(int(batch), run), parse_times(seen), demands, whose, int(held_by or 0))

    @classmethod
    def of_groups(cls, groups: Sequence[BatchSummary]) -> BatchSummary:
        demanding = [each.demands for each in groups if each.demands.count]
        demands = Demands(
            sum(each.count for each in demanding),
            sum(each.total for each in demanding),
            min((each.first for each in demanding), default=0),
        )
        return cls(groups[0].version, latest_times(each.times for each in groups), demands)


def times_text(times: Times) -> str:
    """Event times as in file names."""
    return "_".join(_NONE if t is None else str(t) for t in times)


def parse_times(text: str) -> Times:
    return tuple(None if t == _NONE else int(t) for t in text.split("_") if t)


def latest_times(several: Iterable[Times]) -> Times:
    times = zip(*several, strict=True)
    return tuple(max((t for t in some if t is not None), default=None) for some in times)


def times_to_bytes(times: Sequence[Mapping[str | None, int]]) -> bytes:
    """The contents of a summary: per stream, the max event time of each source partition."""
    return sealed("times", json.dumps([list(each.items()) for each in times]).encode())


def times_from_bytes(data: bytes, where: str) -> list[PartitionTimes]:
    try:
        return [dict(map(tuple, each)) for each in json.loads(unsealed("times", data, where))]
    except (ValueError, TypeError) as error:
        raise StateError(damaged(where, f"it does not hold event times ({error})")) from error
