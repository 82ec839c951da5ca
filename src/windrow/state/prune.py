"""Finds and removes states of queries that are gone.

A state does not know whether its query will be started again: Spark's checkpoint does. So whoever prunes says
which checkpoints there are, how old a state must be, or which queries are gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from windrow.errors import StateError
from windrow.state.inspect import joins_in
from windrow.state.paths import COMMITS, JOIN_METADATA, plain
from windrow.state.storage import Entry, Storage, open_storage

CHECKPOINT_ID = "metadata"
"""The file of a checkpoint that has the id of its query."""


@dataclass(frozen=True)
class GoneQuery:
    """A query whose state can be removed."""

    query: str
    joins: tuple[str, ...]
    files: int
    bytes: int
    last_commit: float
    """Seconds since 1970; 0 if there is no commit, infinite if the storage does not know when it was."""


def gone_queries(
    root: str | Storage,
    checkpoints: Collection[str] | None = None,
    before: float | None = None,
    named: Collection[str] = (),
) -> list[GoneQuery]:
    """The queries under `root` that are gone.

    Parameters
    ----------
    checkpoints
        All checkpoints still in use. Queries without one are gone. None if the checkpoints are not known.
    before
        Only queries that have committed nothing since this time, in seconds since 1970.
    named
        Only these query ids; all if empty.
    """
    storage = open_storage(root)
    kept = set() if checkpoints is None else {query_of(path) for path in checkpoints}
    found: dict[str, list[str]] = {}
    for directory in joins_in(storage):
        query = plain(directory.split("/")[0])
        if query not in kept and (not named or query in named):
            found.setdefault(query, []).append(directory)
    gone = [_measured(storage, query, directories) for query, directories in found.items()]
    return [each for each in gone if before is None or each.last_commit < before]


def query_of(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to."""
    storage = open_storage(checkpoint)
    try:
        return str(json.loads(storage.read(CHECKPOINT_ID).to_pybytes())["id"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        raise StateError(
            f"{storage.url} is no checkpoint of a Spark query: it has no file {CHECKPOINT_ID!r} with the "
            "query's id; give the directory that the query has as checkpointLocation"
        ) from None


def remove(root: str | Storage, gone: GoneQuery) -> None:
    """Removes a query's state. The files by which it is found go last, so an interrupted removal can be
    repeated."""
    storage = open_storage(root)
    for directory in joins_in(storage):
        if plain(directory.split("/")[0]) == gone.query:
            last = (COMMITS, JOIN_METADATA)
            for entry in storage.entries(directory):
                if entry.is_directory and entry.name not in last:
                    storage.delete_tree(f"{directory}/{entry.name}")
            query, _, join = directory.partition("/")
            alone = all(name == join for name in storage.names(query))
            storage.delete_tree(query if alone else directory)


def _measured(storage: Storage, query: str, directories: list[str]) -> GoneQuery:
    files = [entry for directory in directories for entry in _files(storage, directory)]
    commits = [e.modified for directory in directories for e in _files(storage, f"{directory}/{COMMITS}")]
    joins = tuple(plain(directory.split("/")[1]) for directory in directories)
    return GoneQuery(query, joins, len(files), sum(e.bytes for e in files), max(commits, default=0.0))


def _files(storage: Storage, path: str) -> Iterator[Entry]:
    for entry in storage.entries(path):
        if entry.is_directory:
            yield from _files(storage, f"{path}/{entry.name}")
        else:
            yield entry
