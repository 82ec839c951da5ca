"""`windrow report`: a recorded run as one file, and runs that cannot be read."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from typer.testing import CliRunner

from page_runs import record
from windrow.cli import app
from windrow.ui.assets import embed, standalone
from windrow.ui.report import metrics_file


def report(*arguments: object):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_directory_and_a_file_give_the_same_page(tmp_path):
    told = record(tmp_path / "metrics.jsonl", 4)
    ran = report(tmp_path)
    assert ran.exit_code == 0 and "metrics.html: 4 batches of sensors" in ran.output
    ran = report(tmp_path / "metrics.jsonl", "--out", tmp_path / "other.html")
    assert ran.exit_code == 0
    one, other = (data_of((tmp_path / n).read_text()) for n in ("metrics.html", "other.html"))
    assert one["joins"] == other["joins"] and one["run"]["name"] == "sensors"
    assert [p["results"] for p in one["joins"]["sensors"]["points"]] == [
        batch["joins"]["sensors"]["results"] for batch in told
    ]
    assert one["joins"]["sensors"]["learned_models"]["0"]["plan"].startswith("Plan for 3 streams")


def test_the_page_needs_nothing_else_and_runs_nothing_else(tmp_path):
    record(tmp_path / "metrics.jsonl", 2)
    report(tmp_path)
    page = (tmp_path / "metrics.html").read_text()
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", page.split("<script")[0])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    code = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(code) == 4
    for text in (*code, re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_data_cannot_leave_its_place():
    evil = "</script><!--<script>\u2028&amp;"
    text = embed({evil: [evil]})
    assert "<" not in text and "\u2028" not in text and json.loads(text) == {evil: [evil]}
    page = standalone("<b>&", [], {"name": evil})
    assert "<title>&lt;b&gt;&amp;</title>" in page and page.count("</script>") == 3
    with pytest.raises(ValueError, match="JSON"):
        embed(float("nan"))


def test_a_run_that_was_killed_while_it_wrote_counts_up_to_there(tmp_path):
    file = tmp_path / "metrics.jsonl"
    record(file, 3)
    file.write_text(file.read_text()[:-40])
    ran = report(file)
    assert ran.exit_code == 0 and "2 batches" in ran.output


def test_runs_that_cannot_be_read(tmp_path):
    def why(*arguments: object) -> str:
        ran = report(*arguments)
        assert ran.exit_code == 2, ran.output
        return ran.output

    assert "does not exist; `windrow run FILE --metrics" in why(tmp_path / "gone")
    assert f"{tmp_path} holds no metrics.jsonl" in why(tmp_path)
    file = tmp_path / "metrics.jsonl"
    file.write_text("")
    assert "is empty: no batch of the run had ended" in why(tmp_path)
    file.write_text("hello\n")
    assert "metrics.jsonl, line 1: not JSON" in why(tmp_path)
    file.write_text('{"hello": 1}\n')
    assert "line 1: not the metrics of a batch" in why(tmp_path)
    file.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in why(tmp_path)
    file.unlink()
    file.mkdir()
    assert "metrics.jsonl cannot be read: Is a directory" in why(tmp_path)
    file.rmdir()
    record(file, 1)
    assert "cannot be written" in why(tmp_path, "--out", tmp_path / "no" / "page.html")


def test_a_new_path_without_a_suffix_is_a_directory(tmp_path):
    assert metrics_file(tmp_path / "new" / "run") == tmp_path / "new" / "run" / "metrics.jsonl"
    assert metrics_file(tmp_path / "run.jsonl") == tmp_path / "run.jsonl"
    (tmp_path / "plain").write_text("")
    assert metrics_file(tmp_path / "plain") == tmp_path / "plain"
