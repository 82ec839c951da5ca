"""A server and its queues: when each unit of work ends, if rows pass rungs in order and rungs have ranks.

Rows arrive at known times and pass the rungs 0, 1, ... in turn, each taking a known time. Whenever the server
is free it takes, of all rungs where rows wait, the one of the lowest rank, and there the first row. Units are
not interrupted; a row that arrives in the meantime waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def serve(arrived: Any, work: Any, ranks: Any, ended: Any) -> int:
    """Fills `ended[row, rung]`; returns the most rows that waited or were being served at any moment.

    As rungs are served first come first served, the rows that have passed a rung are always the first ones:
    `passed[r]` rows have passed rung r, and the next to pass it is row passed[r].
    """
    rows, rungs = work.shape
    order = np.argsort(ranks)
    passed = np.zeros(rungs, np.int64)
    came = 0
    now = 0.0
    most = 0
    while passed[rungs - 1] < rows:
        while came < rows and arrived[came] <= now:
            came += 1
        most = max(most, came - passed[rungs - 1])
        chosen = -1
        for k in range(rungs):
            rung = order[k]
            ready = came if rung == 0 else passed[rung - 1]
            if passed[rung] < ready:
                chosen = rung
                break
        if chosen < 0:
            now = max(now, arrived[came])
            continue
        row = passed[chosen]
        now += work[row, chosen]
        ended[row, chosen] = now
        passed[chosen] += 1
    return most


@njit(cache=True, nogil=True)
def matches_by_rung(
    keys: Any, times: Any, streams: Any, rungs: Any, first: int, head: Any, back: Any, found: Any, seen: Any
) -> None:
    """For each row from `first` on: matches in the other stream, and rows of it that are visited, per rung.

    Rows of both streams in order of time. `head[stream, key]` and `back[row]` are chains from newer to older
    rows; they are built on the way. `seen` counts all links followed, as a hash bucket with one key.
    """
    for i in range(len(keys)):
        other = 1 - streams[i]
        if i >= first:
            p = head[other, keys[i]]
            rung = 0
            while p >= 0:
                age = times[i] - times[p]
                while rung < len(rungs) and age > rungs[rung]:
                    rung += 1
                if rung == len(rungs):
                    break
                found[i - first, rung] += 1
                seen[i - first, rung] += 1
                p = back[p]
        back[i] = head[streams[i], keys[i]]
        head[streams[i], keys[i]] = i
