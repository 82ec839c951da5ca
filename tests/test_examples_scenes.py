"""Examples of streams that are too fast: scripts run, streams are as they say, harvesting wins."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from windrow_lab.news import DELAYS, news_items
from windrow_lab.tracking import GATES, passages

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("news", ["--minutes", "40", "--stories", "8"]),
        ("tracking", ["--seconds", "180", "--rate", "1.5"]),
    ],
)
def test_harvesting_beats_dropping(name, size, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *size])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr().out
    recall = {
        policy: float(re.search(rf"{policy} .* recall ([0-9.]+)", told)[1]) for policy in ("harvest", "drop")
    }
    assert 1 > recall["harvest"] > 1.5 * recall["drop"] > 0
    assert "●" in told


def times(table) -> np.ndarray:
    """Seconds since the earliest minute of all."""
    return table["at"].cast("int64").to_numpy() / 1e6


def test_sources_report_one_after_the_other():
    tables = news_items(240, 5, seed=1)
    first = {}
    for source, table in tables.items():
        story, at = table["story"].to_numpy(), times(table)
        assert (np.diff(at) >= 0).all()
        shared, place = np.unique(story, return_index=True)
        first[source] = dict(zip(shared.tolist(), at[place], strict=True))
        assert np.allclose([np.linalg.norm(w) for w in table["weights"].to_pylist()[:20]], 1)
    both = [s for s in first["wire"] if s >= 0 and s in first["paper"]]
    lag = np.mean([first["paper"][s] - first["wire"][s] for s in both]) / 60
    assert abs(lag - (DELAYS["paper"] - DELAYS["wire"])) < 0.5


def test_vehicles_take_their_time_between_gates():
    tables = passages(600, 3, seed=1)
    seen = {g: dict(zip(t["vehicle"].to_pylist(), times(t), strict=True)) for g, t in tables.items()}
    both = [v for v in seen["a"] if v >= 0 and v in seen["d"]]
    took = np.array([seen["d"][v] - seen["a"][v] for v in both])
    assert abs(np.median(took) - GATES["d"] / 25) < 2
    assert len(both) > 0.8 * tables["d"].num_rows
