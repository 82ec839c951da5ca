"""Aircraft that left all three airports of New York within a week: three streams, skewed and out of order.

    python examples/aircraft.py                   # the whole of 2013, in a few minutes
    python examples/aircraft.py --days 28

The event time is the scheduled departure, but a flight is reported only when it has left: the later it is,
the further out of order. Most aircraft never see three airports, so most rows find nothing, and a policy that
learns which do can live in a fraction of the memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import windrow as wr
from flights_data import AIRPORTS
from shrinking import Example, main

STREAMS = tuple(airport.lower() for airport in AIRPORTS)
LATE = "22 hours"
"""Just over the longest delay of the year, so no row is too late."""

ANSWER = """
    select e.id as ewr, j.id as jfk, l.id as lga
    from ewr e join jfk j using (tailnum) join lga l using (tailnum)
    where greatest(e.scheduled, j.scheduled, l.scheduled) - least(e.scheduled, j.scheduled, l.scheduled)
        <= interval 7 days
"""

WHOLE = """
    select max(n) from (
        select count(*) over (order by scheduled range between interval '7 days 22 hours' preceding
            and current row) as n
        from (select scheduled, tailnum from ewr union all select scheduled, tailnum from jfk
            union all select scheduled, tailnum from lga)
        where tailnum is not null)
"""

STORY = """
    select tailnum, count(*) as results, round(count(*) / (select count(*) from found), 3) as share
    from found join ewr on ewr.id = found.ewr group by all order by results desc, tailnum limit 3
"""


def join(frames: Mapping[str, DataFrame], memory: str | None, shed: str, state: str) -> DataFrame:
    joined = wr.join(
        frames,
        on="ewr.tailnum = jfk.tailnum and jfk.tailnum = lga.tailnum",
        time="scheduled",
        within="7 days",
        late=LATE,
        memory=memory,
        shed=shed,
        partitions=2,
        state=state,
        name="aircraft",
    )
    return joined.selectExpr(*(f"{stream}.id as {stream}" for stream in STREAMS))


def make(tables: Mapping[str, pa.Table]) -> Example:
    flights = tables["flights"]
    return Example(
        name="aircraft",
        title="Aircraft that left three airports within a week",
        tables={a.lower(): flights.filter(pc.field("origin") == a) for a in AIRPORTS},
        reported=dict.fromkeys(STREAMS, "reported"),
        join=join,
        answer=ANSWER,
        whole=WHOLE,
        story=STORY,
    )


if __name__ == "__main__":
    main(__doc__.splitlines()[0], make, start="2013-01-01", days=365, every=28)
