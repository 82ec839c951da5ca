"""Departures with the weather at their airport from six hours before to six hours after: two streams, in SQL.

    python examples/flights_weather.py            # June to August 2013, in a few minutes
    python examples/flights_weather.py --days 14

A report of the weather is worth many departures, which `auto` finds out by itself and `fifo` does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

import windrow as wr
from shrinking import Example, main

QUESTION = """
    SELECT d.id AS departure, w.id AS report
    FROM departures d [RANGE 6 HOURS], weather w [RANGE 6 HOURS]
    WHERE d.origin = w.origin
"""

ANSWER = """
    select d.id as departure, w.id as report from departures d join weather w
    on d.origin = w.origin and abs(epoch_us(d.departed) - epoch_us(w.observed)) <= 6 * 3600e6
"""

WHOLE = """
    select max(n) from (
        select count(*) over (order by came range between interval 6 hours preceding and current row) as n
        from (select departed as came from departures union all select observed from weather)
        where came is not null)
"""

STORY = """
    select worst as visibility_miles, count(*) as departures, round(avg(dep_delay)) as mean_delay_minutes
    from (select min(floor(w.visib / 2) * 2) as worst, any_value(d.dep_delay) as dep_delay
        from found join departures d on d.id = departure join weather w on w.id = report
        where w.observed <= d.departed group by departure)
    group by all order by all
"""


def join(frames: Mapping[str, DataFrame], memory: str | None, shed: str, state: str) -> DataFrame:
    limit = f"WITH (memory = '{memory}', shed = '{shed}')" if memory else ""
    return wr.sql(
        f"{QUESTION} {limit}",
        spark=frames["departures"].sparkSession,
        streams=frames,
        time={"departures": "departed", "weather": "observed"},
        partitions=2,
        state=state,
    )


def make(tables: Mapping[str, pa.Table]) -> Example:
    return Example(
        name="flights-weather",
        title="Departures and the weather around them",
        tables={"departures": tables["flights"], "weather": tables["weather"]},
        reported={"departures": "reported", "weather": "observed"},
        join=join,
        answer=ANSWER,
        whole=WHOLE,
        story=STORY,
    )


if __name__ == "__main__":
    main(__doc__.splitlines()[0], make, start="2013-06-01", days=92, every=7)
