"""Every experiment's quick claims hold, and the lab's command line tells the truth about it.

Of each paper, and of each kind (worked examples, a model, streams that run), some experiments are in every
run. Those that take seconds to confirm figures come with --lab, before `make lab` measures them at full size.
"""

import json
import pickle
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from windrow.cli.lab import app
from windrow.errors import WindrowError
from windrow.lab import experiments
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Outcome
from windrow.lab.multijoin import EQUAL_FOUR, Streams, arrival_first, count_work
from windrow.lab.run import run_experiment, save
from windrow.planning.cost import join_size

WITH_LAB = {
    *("grubjoin-both-limits", "grubjoin-examples", "grubjoin-fig11", "grubjoin-fig12", "grubjoin-fig13"),
    *("grubjoin-fig13-variants", "grubjoin-fig14", "grubjoin-fig15", "grubjoin-memory", "grubjoin-recall"),
    *("grubjoin-result-cost", "grubjoin-shredding"),
    *("ijoin-auto", "ijoin-fig2", "ijoin-fig3", "ijoin-fig4", "ijoin-table6"),
    *("memory-age-envelope", "memory-age-fig6", "memory-age-fig7", "memory-coverage", "memory-drift"),
    *("memory-optimum", "memory-sample-fig9", "memory-sample-size", "memory-streams-many"),
    *("multijoin-fig2", "multijoin-fig4a", "multijoin-fig4b", "multijoin-table8"),
    *("shared-buffers", "shared-fig10"),
}


def test_some_experiments_of_each_paper_are_in_every_run():
    names = set(experiments.names())
    assert names > WITH_LAB
    assert {name.split("-")[0] for name in names - WITH_LAB} == {name.split("-")[0] for name in names}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.lab if n in WITH_LAB else ()) for n in experiments.names()],
)
def test_quick_claims_hold(name, tmp_path):
    experiment = experiments.find(name)
    outcome = run_experiment(experiment, "quick")
    missed = [f"{claim.says}: {claim.measured}" for claim in outcome.claims if not claim.holds]
    assert not missed
    assert {claim.id for claim in outcome.claims} == set(experiment.claims)
    save(experiment, outcome, tmp_path)
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["experiment"] == name
    assert record["rows"] == json.loads(json.dumps(outcome.rows))
    # An experiment that only shows a choice of ours claims nothing.
    assert all(tuple(claim) == ("id", "says", "measured", "holds") for claim in record["claims"])
    assert len(record["claims"]) == len(outcome.claims) >= len(experiment.claims)
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", experiments.names())
@pytest.mark.parametrize("size", ["full", "quick"])
def test_tasks_travel(name, size):
    experiment = experiments.find(name)
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


def test_average_keeps_groups_apart():
    rows = [{"n": 1, "x": 2.0}, {"n": 2, "x": 9.0}, {"n": 1, "x": 4.0}]
    assert average(rows, by=["n"], of=["x"]) == [{"n": 1, "x": 3.0}, {"n": 2, "x": 9.0}]


def test_unknown_experiment_gets_a_hint():
    with pytest.raises(WindrowError, match="Did you mean 'multijoin-fig2'"):
        experiments.find("multijoin-fig22")


def test_list_names_every_experiment():
    shown = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert all(name in shown.output for name in experiments.names())


def test_run_writes_and_exits_with_success(tmp_path):
    ran = CliRunner().invoke(app, ["run", "multijoin-table3", "--quick", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert "yes" in ran.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "multijoin-table3.json",
        "multijoin-table3.png",
    ]


def test_run_says_so_where_nothing_is_claimed(tmp_path, monkeypatch):
    real = experiments.find("multijoin-table3")
    monkeypatch.setattr(experiments, "find", lambda name: replace(real, claims=(), assess=lambda rows: []))
    ran = CliRunner().invoke(app, ["run", "multijoin-table3", "--quick", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert "makes no claim" in ran.output and "measured" not in ran.output


def test_run_exits_with_1_when_a_claim_is_missed(tmp_path, monkeypatch):
    real = experiments.find("multijoin-table3")
    claim = Claim("M1", "what is not so", 0, False)
    monkeypatch.setattr(experiments, "find", lambda name: replace(real, assess=lambda rows: [claim]))
    ran = CliRunner().invoke(app, ["run", "multijoin-table3", "--quick", "--out", str(tmp_path)])
    assert ran.exit_code == 1
    assert "no" in ran.output
    assert not Outcome("x", {}, [], [claim]).holds


@pytest.mark.parametrize("arguments", [["run", "multijoin-fig22"], ["run"]])
def test_run_exits_with_2_for_wrong_names(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2
