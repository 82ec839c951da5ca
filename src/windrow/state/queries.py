"""Lists the queries of shared joins from their stored state, and sends control messages to them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from windrow.engine.shared.control_messages import read_change
from windrow.engine.shared.subscribers import saved_window
from windrow.state.inspect import newest_metadata


@dataclass(frozen=True)
class QueryListing:
    """A query in the newest version of the state."""

    join: str
    name: str
    within: tuple[str, ...]
    where: str | None
    select: tuple[str, ...]
    since: int | None
    until: int | None
    complete_from: int | None
    results: int
    backlog_rows: int


def list_queries(path: str) -> list[QueryListing]:
    """The queries of all shared joins below a state path, results and backlog over all partitions."""
    found: dict[tuple[str, str, int], QueryListing] = {}
    for join, head in newest_metadata(path):
        for saved in head.get("group", {}).get("subscribers", ()):
            key = (join, saved["name"], saved["number"])
            before = found.get(key)
            results = saved["response_times"]["count"] + (before.results if before else 0)
            backlog = _backlog_rows(head["group"], saved) + (before.backlog_rows if before else 0)
            found[key] = QueryListing(
                join,
                saved["name"],
                tuple(str(saved_window(text)) for text in saved["within"]),
                saved["where"],
                tuple(saved["select"]),
                saved["since"],
                saved["until"],
                saved["complete_from"],
                results,
                backlog,
            )
    return list(found.values())


def _backlog_rows(group: Mapping[str, Any], saved: Mapping[str, Any]) -> int:
    calls = (group.get("backlog") or {}).get("calls", ())
    return sum(
        sum(q["end"]) - sum(q["start"])
        for c in calls
        if c["delivered"] <= saved["output"]
        for q in c["sub_batches"]
    )


def send(directory: Path, message: Mapping[str, Any]) -> Path:
    """Checks a control message and writes it to a directory that a text stream reads.

    The file appears in one piece, by rename. File names sort by time. `seq` orders messages that arrive in
    one micro-batch.
    """
    now = time.time_ns()
    message = {"seq": now, **message}
    read_change(message)
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{now:020d}-{uuid4().hex[:8]}"
    hidden = directory / f".{name}"
    hidden.write_text(json.dumps(message) + "\n")
    path = directory / f"{name}.json"
    hidden.replace(path)
    return path
