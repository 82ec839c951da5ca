"""iJoin's experiments (s. 5): the streams, the schemes that are compared, and one run of one of them.

The paper describes its data as categorical and close to real settings, no more, so two news feeds are made
here: stories break on one feed, are taken up by the other after a lag, and are reported for a while. The lag
decides which scheme does well, so it is swept; the other figures were chosen after trying some. None that was
tried shows all of the paper's orderings at once.

Its units are read as follows. With two seconds to mature nothing would ever be mature at 100 rows per second
and five rows of memory, and s. 5 compares seconds with rows (maturity, unproductivity, M, w in ascending
order); so each stream has one row per second, as in the worked example. M is divided equally (s. 3.4). The
decay and the penalty's constant are not given; here they are 0.1 and 10, with which nearly every unproductive
row goes before all that are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, Random
from windrow.model.policies.importance import Greedy, Importance, Lookup, Size
from windrow.model.policies.learned import Auto
from windrow_lab.driver import run_whole
from windrow_lab.experiment import Row
from windrow_lab.plots import Lines
from windrow_lab.timed_rows import timed

Array = np.ndarray
SCHEMES = ("FIFO", "RAND", "SIZE", "GREEDY", "IJOIN")
LAGS = (0, 8, 16)
"""Seconds from one feed to the other: at once, soon enough for a row that found something to find more, and
so late that FIFO, and mostly IJOIN, evict it."""


@dataclass(frozen=True)
class News:
    """Two feeds of one row per second.

    Parameters
    ----------
    seconds
        How long.
    lag
        After how many seconds the other feed takes up a story.
    domain
        Keywords.
    stories
        How many are reported at a time on a feed, on average; each for 20 seconds, more or less.
    share
        The part of the rows that belongs to stories; the others' keywords are uniform.
    equal
        Whether all keywords are equally important; else their importance is uniform from 1 to 100.
    """

    seconds: int
    lag: float
    domain: int = 100
    stories: float = 3.0
    lasts: float = 20.0
    share: float = 0.8
    equal: bool = False

    def draw(self, seed: int) -> Feeds:
        rng = np.random.default_rng(seed)
        importance = np.ones(self.domain) if self.equal else rng.uniform(1, 100, self.domain)
        before = 4 * self.lasts + self.lag
        count = rng.poisson((self.seconds + before) * self.stories / self.lasts)
        breaks = rng.uniform(-before, self.seconds, count)
        keyword = rng.integers(self.domain, size=count)
        leads = rng.integers(2, size=count)
        lasts = rng.gamma(4, self.lasts / 4, count)
        values = []
        for feed in range(2):
            begin = breaks + np.where(leads == feed, 0.0, self.lag)
            seconds = np.arange(self.seconds)[:, None]
            reported = (begin <= seconds) & (seconds < begin + lasts)
            # Any of the stories that are reported at the time: the one with the highest lot.
            lots = np.where(reported, rng.random(reported.shape), -1.0)
            story = rng.random(self.seconds) < self.share
            story &= reported.any(axis=1)
            values.append(
                np.where(story, keyword[lots.argmax(axis=1)], rng.integers(self.domain, size=self.seconds))
            )
        return Feeds(values[0], values[1], importance)


@dataclass(frozen=True, eq=False)
class Feeds:
    """The keywords of both feeds by second, and the importance of each keyword."""

    r: Array
    s: Array
    importance: Array

    def tables(self) -> dict[str, pa.Table]:
        times = np.arange(len(self.r))
        return {"r": timed(times, keyword=self.r), "s": timed(times, keyword=self.s)}

    @property
    def by(self) -> dict[str, Lookup]:
        table = Lookup("keyword", dict(enumerate(self.importance.tolist())))
        return {"r": table, "s": table}


@dataclass(frozen=True)
class Setting:
    """What a scheme runs with (Table 5): rows of memory in all, and seconds."""

    memory: int = 10
    window: int = 25
    maturity: float = 2.0
    unproductive: float = 3.0
    recompute: str = "successive"

    def scaled(self, memory: int) -> Setting:
        """Another memory, with thresholds in proportion to the rows that each stream then holds (s. 4.5)."""
        by = (memory // 2) / (self.memory // 2)
        return replace(self, memory=memory, maturity=self.maturity * by, unproductive=self.unproductive * by)


def run_schemes(news: News, setting: Setting, seed: int, schemes: Sequence[str] = SCHEMES) -> list[Row]:
    """A row for each scheme, all on one draw of the feeds."""
    feeds = news.draw(seed)
    return [run_scheme(scheme, feeds, setting, seed) for scheme in schemes]


def run_scheme(scheme: str, feeds: Feeds, setting: Setting, seed: int) -> Row:
    """One run; EXACT has no limit."""
    exact = scheme == "EXACT"
    query = wr.Query(
        streams={alias: wr.Stream("ts", f"{setting.window} seconds") for alias in "rs"},
        on="r.keyword = s.keyword",
        memory=None if exact else f"{setting.memory} rows",
        shed="fifo" if exact else _policy(scheme, feeds, setting),
        evaluate=None if exact else "eager",
        seed=seed,
    )
    operator, found = run_whole(query, feeds.tables())
    # Both rows of a result have one keyword, so its importance is the least of both.
    importance = feeds.importance[found["r"].combine_chunks().field("keyword").to_numpy()]
    quality = operator.metrics().quality
    return {
        "scheme": scheme,
        "importance": float(importance.sum()),
        "results": len(importance),
        "fairness": 1.0 if quality.fairness is None else quality.fairness,
        "recomputations": quality.priority_recomputations or 0,
    }


def _policy(scheme: str, feeds: Feeds, setting: Setting) -> MemoryPolicy:
    if scheme == "IJOIN":
        return Importance(
            by=feeds.by,
            maturity=f"{setting.maturity} seconds",
            unproductive=f"{setting.unproductive} seconds",
            penalty=10.0,
            decay=0.1,
            recompute=setting.recompute,
            split="equal",
            monitor_fraction=0.0,
        )
    if scheme == "AUTO":
        return Auto(by=feeds.by)
    if scheme == "GREEDY":
        return Greedy(by=feeds.by, split="equal", monitor_fraction=0.0)
    plain: Mapping[str, type[MemoryPolicy]] = {"FIFO": Fifo, "RAND": Random, "SIZE": Size}
    return plain[scheme](split="equal", monitor_fraction=0.0)


def lead(importance: Mapping[str, float], scheme: str = "IJOIN") -> float:
    """Importance of a scheme over that of the best other."""
    return importance[scheme] / max(each for name, each in importance.items() if name != scheme)


def curves(x: str, label: str, y: str = "importance") -> Lines:
    """A curve for each scheme, a panel for each lag."""
    return Lines(x, y, "scheme", "lag", label, f"total {y}", axes={"ylim": (0, None)})
