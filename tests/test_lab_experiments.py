"""The claims ledger and its experiments: every claim judged, misses as they are known, and the command line.

The cheapest experiments of each paper are in every run. The others, at their quick size, come with --lab.
"""

import json
import pickle
from dataclasses import replace
from functools import cache

import pytest
from typer.testing import CliRunner

from windrow.cli.lab import app
from windrow.errors import WindrowError
from windrow.planning.cost import join_size
from windrow_lab import experiments
from windrow_lab.averages import average, pivot
from windrow_lab.claims import ledger, promises
from windrow_lab.experiment import Claim, Outcome
from windrow_lab.multijoin import EQUAL_FOUR, Streams, arrival_first, count_work
from windrow_lab.run import run_experiment, save

EVERY_RUN = {
    *("grubjoin-fig2", "grubjoin-fig4", "grubjoin-pair-lags", "ijoin-example", "memory-age-examples"),
    *("multijoin-orders", "multijoin-table3", "shared-fig3"),
}


@cache
def quick(name):
    return run_experiment(experiments.find(name), "quick")


def judged():
    """Experiment and claim, the latter expected to miss where that is known."""
    for name in experiments.names():
        lab = () if name in EVERY_RUN else (pytest.mark.lab,)
        for claim in experiments.find(name).claims:
            if promises()[claim].timed:
                continue  # No test asserts what depends on the machine.
            cause = promises()[claim].known_miss(name, "quick")
            missed = () if cause is None else (pytest.mark.xfail(strict=True, reason=cause),)
            yield pytest.param(name, claim, marks=(*lab, *missed), id=f"{name}-{claim}")


def test_every_claim_of_the_ledger_is_judged_by_the_experiments_it_names():
    assert [sum(p.paper == letter for p in ledger()) for letter in "GSIMAB"] == [11, 7, 6, 6, 8, 6]
    named = {(name, p.id) for p in promises().values() for name in p.judged_by}
    assert named == {(name, claim) for name in experiments.names() for claim in experiments.find(name).claims}


def test_the_cheapest_experiments_of_each_paper_are_in_every_run():
    names = set(experiments.names())
    assert names > EVERY_RUN
    assert {name.split("-")[0] for name in EVERY_RUN} == {name.split("-")[0] for name in names}


@pytest.mark.parametrize(("name", "claim"), list(judged()))
def test_quick_claims_hold(name, claim):
    missed = [f"{c.says}: {c.measured}" for c in quick(name).claims if c.id == claim and not c.holds]
    assert not missed


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in EVERY_RUN else pytest.mark.lab) for n in experiments.names()],
)
def test_a_run_judges_all_its_claims_and_is_kept(name, tmp_path):
    experiment, outcome = experiments.find(name), quick(name)
    assert {claim.id for claim in outcome.claims} == set(experiment.claims)
    save(experiment, outcome, tmp_path)
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["experiment"] == name and record["ran"]["commit"]
    assert record["rows"] == json.loads(json.dumps(outcome.rows))
    assert all(tuple(claim) == ("id", "says", "measured", "holds") for claim in record["claims"])
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", experiments.names())
def test_quick_and_full_tasks_travel(name):
    experiment = experiments.find(name)
    for size in ("full", "quick"):
        tasks = list(experiment.tasks(size))
        assert tasks
        assert pickle.loads(pickle.dumps((experiment.run, tasks))) == (experiment.run, tasks)


def test_claims_are_read_off_the_rows():
    """A claim that could not fail would be no claim: spoil the rows and it must not hold."""
    experiment = experiments.find("multijoin-orders")
    rows = [row for task in experiment.tasks("quick") for row in experiment.run(task)]
    spoilt = [row | {"cost": row["cost"] * (2 if row["order"] == "1234" else 1)} for row in rows]
    assert all(claim.holds for claim in experiment.assess(rows))
    assert not all(claim.holds for claim in experiment.assess(spoilt))


def test_counted_work_agrees_with_the_model():
    """Windows hold rate times span rows, and results come at the expected rate."""
    orders = {s: arrival_first(s, range(2)) for s in range(2)}
    streams = Streams((3, 1), (50, 100), (10, 20))
    counted = count_work(streams, orders, units=400, seed=1)
    stats = streams.statistics()
    assert counted.rows == 1600
    assert counted.work.comparisons / 400 == pytest.approx(3 * 100 + 1 * 150, rel=0.1)
    results = sum(join_size(stats, range(2)) / stream.span for stream in stats.streams)
    assert counted.results / 400 == pytest.approx(results, rel=0.15)
    hashed = count_work(streams, orders, units=400, seed=1, buckets=(5, 5))
    assert hashed.results == counted.results
    assert hashed.work.comparisons == pytest.approx(counted.work.comparisons / 5, rel=0.3)


def test_windows_by_step_hold_a_quarter():
    literal = replace(EQUAL_FOUR, steps=1.0)
    assert [stream.rows for stream in literal.statistics().streams] == [25] * 4


def test_means_keep_groups_apart():
    rows = [{"n": 1, "x": 2.0}, {"n": 2, "x": 9.0}, {"n": 1, "x": 4.0}]
    assert average(rows, by=["n"], of=["x"]) == [{"n": 1, "x": 3.0}, {"n": 2, "x": 9.0}]
    assert pivot(rows, "n", of="x") == {1: 3.0, 2: 9.0}


def test_unknown_experiment_gets_a_hint():
    with pytest.raises(WindrowError, match="Did you mean 'multijoin-fig2'"):
        experiments.find("multijoin-fig22")


def test_list_names_every_experiment():
    shown = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert all(name in shown.output for name in experiments.names())


def test_run_writes_keeps_and_exits_with_success(tmp_path):
    kept = tmp_path / "kept"
    ran = CliRunner().invoke(
        app, ["run", "multijoin-table3", "--quick", "--out", str(tmp_path / "out"), "--keep", str(kept)]
    )
    assert ran.exit_code == 0, ran.output
    assert "yes" in ran.output and "1 experiments took 0 min" in ran.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "multijoin-table3.json",
        "multijoin-table3.png",
    ]
    assert json.loads((kept / "multijoin-table3.json").read_text())["rows"] == []


def test_run_says_so_where_nothing_is_claimed(tmp_path, monkeypatch):
    real = experiments.find("multijoin-table3")
    monkeypatch.setattr(experiments, "find", lambda name: replace(real, claims=(), assess=lambda rows: []))
    kept = tmp_path / "kept"
    run = ["run", "multijoin-table3", "--quick", "--out", str(tmp_path), "--keep", str(kept)]
    ran = CliRunner().invoke(app, run)
    assert ran.exit_code == 0, ran.output
    assert "makes no claim" in ran.output and "measured" not in ran.output
    assert json.loads((kept / "multijoin-table3.json").read_text())["rows"], "what else would be evidence?"


def test_run_exits_with_1_when_a_claim_is_missed_that_is_not_known_to(tmp_path, monkeypatch):
    run = ["run", "grubjoin-fig4", "--quick", "--out", str(tmp_path)]
    known = CliRunner().invoke(app, run)
    assert known.exit_code == 0 and "9 of 20 settings" in known.output
    real = experiments.find("grubjoin-fig4")
    missed = Claim("G2'", "what is not so", 0, False)
    monkeypatch.setattr(experiments, "find", lambda name: replace(real, assess=lambda rows: [missed]))
    assert CliRunner().invoke(app, run).exit_code == 1
    assert not Outcome("x", {}, [], [missed]).holds


@pytest.mark.parametrize("arguments", [["run", "multijoin-fig22"], ["run"]])
def test_run_exits_with_2_for_wrong_names(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2
