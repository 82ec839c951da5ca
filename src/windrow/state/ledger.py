"""What the partitions of a join have in common: its description, and the marks their tasks leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from windrow.errors import StateError
from windrow.state.collect import collect_empty
from windrow.state.filesystem import Root, open_root
from windrow.state.layout import FRONTIERS, PINNED, Scope
from windrow.state.marks import Marks
from windrow.state.pinned import Pinned


class Ledger:
    """
    Parameters
    ----------
    root
        A local path, or a URL that pyarrow or fsspec understands.
    scope
        Whose state it is.
    partitions
        How many there are.
    clock
        Seconds since 1970.
    """

    def __init__(
        self, root: str | Root, scope: Scope, partitions: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.root = open_root(root)
        self.scope = scope
        self.partitions = partitions
        self.clock = clock
        self.directory = scope.directory
        self._pinned: Pinned | None = None

    def pin(
        self,
        query: Mapping[str, Any],
        schemas: Mapping[str, pa.Schema],
        first: bool,
        layout: Mapping[str, str] | None = None,
    ) -> None:
        """Sees to it that the state belongs to this join; at the `first` batch, writes down what does."""
        now = Pinned.of(self.partitions, query, schemas, layout or {})
        if self._pinned == now:
            return
        path = f"{self.directory}/{PINNED}"
        before = Pinned.read(self.root, path)
        if before is None and not first:
            raise StateError(
                f"there is no state in {self.root.at(self.directory)}, though earlier batches of the query "
                "must have left one; set `state` to the path the query was begun with, put the directory "
                "back from a copy, or start the query anew with a new checkpoint"
            )
        if before is None:
            self.root.create(path, now.to_bytes(), "the description of the join")
            # Another partition, or another join of that name, may have come first.
            before = Pinned.read(self.root, path) or now
        before.check(now, self.root.at(self.directory))
        self._pinned = now

    def look(self) -> Marks:
        """The marks that are there now, by one listing."""
        return Marks(self.root.names(f"{self.directory}/{FRONTIERS}"))

    def check(self, batch: int, marks: Marks) -> None:
        """Refuses to begin `batch` if the one before it is not complete."""
        wrong = marks.wrong(batch - 1, self.partitions) if batch else None
        if wrong is not None:
            raise StateError(
                f"{wrong}. Either state in {self.root.at(self.directory)} was deleted: put it back from a "
                "copy. Or Spark was not asked for all of that batch, and its rows are missing from the "
                "windows: have foreachBatch write or persist the whole frame, of which first and take run "
                "only a part, and start the query anew with a new checkpoint"
            )

    def leave_empty(self, batch: int, marks: Marks, task: int, attempt: str) -> None:
        """The mark of a task without rows, with what it means in `EmptyMark`."""
        mark = marks.empty_mark(batch, task, attempt)
        with self.root.commit(f"a mark of batch {batch}", self.directory) as commit:
            commit.open(f"{self.directory}/{FRONTIERS}/{mark.name}")

    def collect(self, committed: int, marks: Marks) -> None:
        """Removes marks of tasks without rows that no check can need any more, and what failed attempts at
        marks left."""
        collect_empty(self.root, f"{self.directory}/{FRONTIERS}", marks, committed, self.clock())
