"""Stores a version once more in another layout, before the query is restarted with it.

    new partitions, in any order and at once -> the record that names them

Only the record makes them count, and it is created in one step under a name that follows from the version it
stands for. A rescaling that is killed leaves files that cleanup removes. Of two at once the first to create
the record wins. A query that goes on meanwhile is not disturbed: the record stands for one version only, and
the next is laid out as its run says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

from windrow.engine.state import State
from windrow.errors import StateError
from windrow.state.commit_log import CommitLog
from windrow.state.commit_markers import CommitMarkers
from windrow.state.layout import StoredLayout
from windrow.state.paths import COMMITS, JoinId, plain
from windrow.state.runs import Rescaling, Version
from windrow.state.storage import Storage
from windrow.state.store import StateStore


class StoredVersion:
    """The newest complete version of a stored join.

    Parameters
    ----------
    root, directory
        The directory of the join, relative to the storage.
    """

    def __init__(self, root: Storage, directory: str, clock: Callable[[], float] = time.time) -> None:
        query, join = (plain(name) for name in directory.split("/"))
        log = CommitLog(root, JoinId(query, join), 1, clock)
        self.markers = log.read_markers()
        self.version = _newest_complete(self.markers, root.at(directory))
        layout = self.markers.layout(self.version)
        assert layout is not None
        self.layout = layout
        self.log = log.in_layout(layout)

    def states(self) -> list[State]:
        """Of all partitions."""
        stores = [StateStore(self.log, partition) for partition in range(self.layout.partitions)]
        return [
            store.load(store.manifest(self.version, store.base(self.version, self.markers)))
            for store in stores
        ]


class Rescale:
    """Stores a version in another layout: `build` every partition, then `finish`."""

    def __init__(self, stored: StoredVersion, layout: StoredLayout) -> None:
        self._stored = stored
        self._log = stored.log.in_layout(layout)
        self._made = Rescaling(stored.version, uuid4().hex, layout)

    def build(self, partition: int, state: State) -> None:
        times = self._stored.markers.times(self._stored.version)
        StateStore(self._log, partition).commit(self._made.version, state, times)

    def finish(self) -> None:
        """Make it count, in one step."""
        log, made = self._log, self._made
        path = f"{log.directory}/{COMMITS}/{made.name}"
        log.storage.create(path, made.to_bytes(), "the record of the rescaling")
        found = log.rescaling(made.of)
        if found is None or found.run != made.run:
            raise StateError(
                f"another rescaling of {log.storage.at(log.directory)} was faster: batch {made.of.batch} has "
                f"{found.layout.partitions if found else 'unknown'} partitions now. Nothing is lost; run the "
                "command again if you want other ones"
            )


def _newest_complete(markers: CommitMarkers, where: str) -> Version:
    for batch in range(markers.newest, -1, -1):
        version = markers.version(batch)
        if version is not None and not markers.missing(batch)[0]:
            return version
    raise StateError(f"no micro-batch is complete in {where}: there is nothing to redistribute")
