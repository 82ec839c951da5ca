"""Paths of the files of a state.

root/<query id>/<join>/join.json                                metadata, see `join_metadata.py`
root/<query id>/<join>/commits/run.<run>                        a run, see `runs.py`
root/<query id>/<join>/commits/batch-000000000017/...           what tasks of micro-batch 17 have committed:
                                                                manifests, see `commit_markers.py`
root/<query id>/<join>/p3/parts-<version>-<unique>.arrows       parts of partition 3, named by manifests
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from windrow.errors import StateError

JOIN_METADATA = "join.json"
COMMITS = "commits"
GROUP = 32
"""Partitions whose commits of a micro-batch share a directory."""
_PARTITION = re.compile(r"p(\d+)")
_BATCH = re.compile(r"batch-(\d+)")
_LONGEST = 200


@dataclass(frozen=True)
class JoinId:
    """A join of a streaming query, which owns a state."""

    query: str
    """Spark's id of the streaming query, which survives a restart from its checkpoint."""
    join: str
    """The join's name, unique within the query."""

    def __post_init__(self) -> None:
        for what, name in (("query id", self.query), ("name of the join", self.join)):
            if not name or len(_quoted(name)) > _LONGEST:
                raise StateError(f"the {what} must have 1 to {_LONGEST} characters, got {name!r}")

    @property
    def directory(self) -> str:
        return f"{_quoted(self.query)}/{_quoted(self.join)}"


def partition_directory(partition: int) -> str:
    return f"p{partition}"


def partition_of(name: str) -> int | None:
    match = _PARTITION.fullmatch(name)
    return int(match[1]) if match else None


def group_of(partition: int) -> int:
    return partition // GROUP


def members_of(group: int, partitions: int) -> int:
    """Number of partitions in the group, if there are `partitions` in all."""
    return min(partitions - group * GROUP, GROUP)


def batch_directory(batch: int, group: int = 0) -> str:
    """Where a group's manifests of a micro-batch are, in the directory of commits. Those of the first group
    are beside the directories of the others, and so is what concerns all groups."""
    return f"batch-{batch:012d}/g{group}" if group else f"batch-{batch:012d}"


def batch_in(name: str) -> int | None:
    """The micro-batch of such a directory; None for other names."""
    match = _BATCH.fullmatch(name)
    return int(match[1]) if match else None


def base_file(partition: int, batch: int, run: str) -> str:
    """Names the attempt at a version that the next micro-batch starts from; in the directory of commits."""
    return f"{batch_directory(batch, group_of(partition))}/p{partition}.{run}.base"


def run_of_base(name: str) -> str | None:
    """The run in the name of such a file; None for other names."""
    return name.split(".")[-2] if name.endswith(".base") else None


def plain(name: str) -> str:
    """A query id or join name as the user wrote it."""
    return unquote(name)


def _quoted(name: str) -> str:
    """The name quoted for use as a file name."""
    quoted = quote(name, safe=" ")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted
