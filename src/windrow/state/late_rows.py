"""The directory of late rows: parquet files that any reader of parquet takes as they are.

    <late_rows>/<join>/batch-000000000017-<run>-p3.parquet   what partition 3 dropped in micro-batch 17
    <late_rows>/<join>/_query.json                           the query that owns the directory

Readers do not know the commit log, so every file must count. A task publishes its file before it commits its
state. An attempt that is repeated in the same run drops the same rows and replaces the file. A later run that
forms the micro-batch again removes the file, as it voids the version of the state: every task looks for such
files as long as an earlier run is on record, which is some micro-batches after each start. A task of a run
whose micro-batch a later one has taken over meanwhile takes its own file back.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.errors import StateError
from windrow.state.commit_log import CommitLog, Start
from windrow.state.paths import JoinId
from windrow.state.runs import Version, owner
from windrow.state.storage import Storage, open_storage

OWNER = "_query.json"
"""Readers of parquet skip names that begin with an underscore."""
_NAME = re.compile(r"batch-(\d+)-([0-9a-f]+)-p(\d+)\.parquet")


class LateRows:
    """The late rows of one join.

    Parameters
    ----------
    root
        A local path, or a URL that pyarrow or fsspec understands.
    scope
        The join that owns its directory.
    """

    def __init__(self, root: str | Storage, scope: JoinId) -> None:
        self.storage = open_storage(root)
        self._scope = scope
        self._directory = scope.directory.partition("/")[2]
        self._claimed = False

    def claim(self) -> None:
        """Refuse the directory of another query, and one that cannot be written."""
        if self._claimed:
            return
        path = f"{self._directory}/{OWNER}"
        self.storage.create(path, json.dumps({"query": self._scope.query}).encode(), "the owner of late rows")
        try:
            found = json.loads(self.storage.read(path).to_pybytes())["query"]
        except (ValueError, TypeError, KeyError):
            found = "unknown"
        if found != self._scope.query:
            raise StateError(
                f"{self.storage.at(self._directory)} holds the late rows of another query ({found}); give "
                "late_rows= a directory of its own, or the join another name. If that query is gone for "
                "good, move the directory away"
            )
        self._claimed = True

    def publish(self, log: CommitLog, start: Start, partition: int, rows: pa.Table) -> None:
        """Publish the late rows of a task, and remove the files that void versions left for its partition."""
        self.claim()
        path = f"{self._directory}/{_name(start.version, partition)}"
        if rows.num_rows:
            with self.storage.commit(f"late rows of batch {start.batch}", self._directory) as commit:
                sink = pa.BufferOutputStream()
                pq.write_table(rows, sink)
                commit.open(path).write(sink.getvalue())
            if log.is_void(start.version):
                self.storage.delete(path)
        if len(log.runs) > 1:
            self._remove_void(log, partition)

    def _remove_void(self, log: CommitLog, partition: int) -> None:
        for name in self.storage.names(self._directory):
            match = _NAME.fullmatch(name)
            if match is None or int(match[3]) % log.partitions != partition:
                continue
            batch, run = int(match[1]), match[2]
            last = owner(log.runs, batch)
            if last is None or last.id == run:
                continue
            # A run that is not in the listing may be a later one: ask for its record by name. The records of
            # runs long past are gone.
            own = log.run(run)
            if own is None or own < last:
                self.storage.delete(f"{self._directory}/{name}")


def _name(version: Version, partition: int) -> str:
    return f"batch-{version.batch:012d}-{version.run}-p{partition}.parquet"
