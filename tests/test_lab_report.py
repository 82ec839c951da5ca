"""`windrow lab report`: every experiment on one page, whatever part of the results is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from test_explain import Page
from windrow.cli import app
from windrow.errors import WindrowError
from windrow_lab import experiments
from windrow_lab.claims import Promise, promises
from windrow_lab.experiment import Claim
from windrow_lab.papers_page import written_into
from windrow_lab.records import ClaimVerdict, read_records, verdicts
from windrow_lab.run import run_experiment, save

ROOT = Path(__file__).parents[1]
RAN = ("grubjoin-fig2", "multijoin-table3")


def run(*arguments: str):
    return CliRunner().invoke(app, ["lab", "report", *arguments])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two experiments that ran, one record that was changed to a miss, one that is broken."""
    directory = tmp_path_factory.mktemp("results")
    for name in RAN:
        experiment = experiments.find(name)
        save(experiment, run_experiment(experiment, "quick"), directory)
    (directory / "multijoin-orders.json").write_text("{not json")
    (directory / "notes.json").write_text("[]")
    changed = json.loads((directory / "grubjoin-fig2.json").read_text())
    changed["claims"][0] |= {"says": "<script>alert(1)</script>", "holds": False}
    (directory / "grubjoin-fig2.json").write_text(json.dumps(changed))
    return directory


def test_a_page_of_what_is_there_and_what_is_not(results, tmp_path):
    ran = run(str(results), "--html", str(tmp_path / "lab.html"))
    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith("of 44 claims 1 hold, 1 miss, 42 not run")
    assert "G1 (Fig. 2, quick) misses" in ran.output and "cause: not known; the miss is new" in ran.output
    text = (tmp_path / "lab.html").read_text()
    page = Page(text)
    assert sum(tag == "svg" for tag, _ in page.seen) == 2
    assert "script" not in {tag for tag, _ in page.seen} and "<script>alert(1)" in page.text
    assert "windrow lab run grubjoin-fig2 --quick" in page.text
    assert f"{len(experiments.names()) - 2} experiments have no result" in page.text
    assert "multijoin-orders.json is no record" in page.text
    assert 'href="http' not in text and "src=" not in text
    assert text.count('name="paper"') == 7 and "body:has(#paper-G:checked)" in text


def test_markdown_and_json_say_the_same(results):
    shown = run(str(results), "--markdown").output
    assert "- **G1** (Fig. 2) **misses at quick size" in shown and "**Missed:** <script>alert(1)" in shown
    assert "Without a result: " in shown
    plain = json.loads(run(str(results), "--json").output)
    claims = {claim["id"]: claim for claim in plain["claims"]}
    assert claims["G1"]["holds"] is False and claims["M1"]["holds"] is True and claims["S1"]["holds"] is None
    assert claims["drift"]["counted"] is False
    assert [v.id for v in verdicts(read_records(results))][:2] == ["G1", "G2"]
    strict = run(str(results), "--json", "--strict")
    assert strict.exit_code == 1 and json.loads(strict.stdout) == plain


def test_rows_of_another_version_leave_a_word_instead_of_a_picture(results, tmp_path):
    record = json.loads((results / "grubjoin-fig2.json").read_text())
    (tmp_path / "grubjoin-fig2.json").write_text(json.dumps(record | {"rows": [{"other": 1}]}))
    assert run(str(tmp_path), "-o", str(tmp_path / "lab.html")).exit_code == 0
    assert "other rows than this version draws" in (tmp_path / "lab.html").read_text()


@pytest.mark.parametrize("kind", ["missing", "file", "empty"])
def test_a_directory_without_results_is_refused(kind, tmp_path):
    place = tmp_path / kind
    if kind == "file":
        place.write_text("")
    elif kind == "empty":
        place.mkdir()
    ran = run(str(place))
    assert ran.exit_code == 2
    assert str(place) in ran.stderr.replace("\n", "") and "windrow lab run --all" in ran.stderr
    assert not ran.stdout


def test_the_page_on_the_papers_says_what_the_kept_records_say():
    page = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
    assert written_into(page, read_records(ROOT / "lab/results")) == page, "make lab renews it"


def test_kept_records_miss_what_the_ledger_knows_to_miss():
    """So a miss that begins to hold at full size is noticed as well."""
    for record in read_records(ROOT / "lab/results"):
        if record.outcome is None:
            continue
        missed = {claim.id for claim in record.outcome.claims if not claim.holds}
        name = record.experiment.name
        known = {c for c in record.experiment.claims if promises()[c].known_miss(name, record.size)}
        assert missed == known, name


def judged(size, holds, **known):
    """A claim of two experiments, the second of which says whether it holds."""
    promise = Promise("X1", "it is so", ("first", "second"), **known)
    said = (Claim("X1", "first", 1, True), Claim("X1", "second", 2, holds))
    return ClaimVerdict(promise, said, (), size)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (judged("full", True, misses={"quick": "too short"}), "misses at quick size: too short"),
        (judged("full", False, misses={"full": "chance"}), "holds at quick size"),
        (judged("full", False, misses={"full": "chance", "quick": "chance"}), ""),
        (judged("full", True), ""),
        (judged("quick", False, misses={"quick": "too short"}), ""),
    ],
)
def test_a_claim_may_hold_at_one_size_and_miss_at_the_other(verdict, said):
    assert verdict.otherwise_at_quick_size == said


def test_experiments_that_miss_a_claim_are_named_by_size():
    known = Promise("X1", "", ("a", "b"), misses={"full": "f", "quick": "q"}, missed_by={"full": ["b"]})
    missing = {(name, size): known.known_miss(name, size) for name in "ab" for size in ("full", "quick")}
    assert missing == {("a", "full"): None, ("b", "full"): "f", ("a", "quick"): "q", ("b", "quick"): "q"}


def test_every_report_says_what_is_otherwise_at_quick_size(tmp_path):
    record = json.loads((ROOT / "lab/results/multijoin-fig4a.json").read_text(encoding="utf-8"))
    (tmp_path / "multijoin-fig4a.json").write_text(json.dumps(record))
    said = f"misses at quick size: {promises()['M5'].misses['quick']}"
    assert f"\nM5 {said}" in run(str(tmp_path)).output
    assert f"*It {said}" in run(str(tmp_path), "--markdown").output
    claims = {claim["id"]: claim for claim in json.loads(run(str(tmp_path), "--json").output)["claims"]}
    assert claims["M5"]["holds"] is True and claims["M5"]["otherwise_at_quick_size"] == said
    assert claims["M5'"]["otherwise_at_quick_size"] is None


def test_a_page_without_places_for_claims_is_refused(results):
    with pytest.raises(WindrowError, match="has no line '<!-- claims count -->'"):
        written_into("# Papers", read_records(results))


@pytest.mark.parametrize("command", [["lab", "list"], ["bench", "harvest"]])
def test_without_the_lab_one_line_says_how_to_install_it(command, monkeypatch):
    monkeypatch.setattr("windrow.cli.common.find_spec", lambda name: None)
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 2 and not ran.stdout
    assert "lab: not installed; `pip install windrow-lab` brings" in ran.stderr
    assert ran.stderr.count("\n") == 1
