"""Every code block of the documentation runs, in the order of its page, and prints what the page says."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

import windrow as wr
from pages import BLOCK, ROOT, Reading, blocks, pages, stage
from windrow.model.execution import Execution
from windrow.model.metric_fields import metrics_of
from windrow.model.metrics import JoinCounts, StreamCounts
from windrow.model.query import Query, Stream
from windrow.model.settings import settings_of
from windrow.ui.prometheus import family_name

DASHBOARD = ROOT / "docs/dashboard.md"
REFERENCE = ROOT / "docs/reference.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#?([^)\s]*)\)")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs(page: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    Reading(tmp_path, stage(tmp_path)).read(text, str(page.relative_to(ROOT)))
    fences = len(re.findall(r"^```", text, re.MULTILINE))
    assert fences == 2 * len(list(blocks(text))), "a block that does not end, or is indented"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http", "mailto")):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead: its headings, as mkdocs names them, and `<a id>`."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_source_files_that_a_page_names_exist(page: Path):
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page.read_text(encoding="utf-8"))
    assert page.stem != "tour" or len(named) > 100
    for path in named:
        assert (ROOT / "src/windrow" / path).exists() or (ROOT / path).exists(), path


def test_the_site_has_every_page():
    """`make docs` would say so too, but few run it."""
    _, _, entries = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    named = re.findall(r": (\S+\.md)$", entries, re.MULTILINE)
    there = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(page for page in there if not page.startswith("decisions/"))


def test_the_reference_has_every_public_name():
    named = re.findall(r"^::: ([\w.]+)", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    for path in named:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
    modules = (wr.policies, wr.types, wr.testing)
    public = {*wr.__all__, *(name for module in modules for name in module.__all__)}
    assert {path.rpartition(".")[2] for path in named} >= public - {"policies", "types", "testing"}


@pytest.mark.parametrize("function", [wr.join, wr.share], ids=lambda function: function.__name__)
def test_every_parameter_of_a_main_function_has_its_sentence(function):
    named = re.findall(r"^    (\w+)\n        \S", function.__doc__, re.MULTILINE)
    assert sorted(named) == sorted(signature(function).parameters)


def test_the_table_of_options_is_that_of_their_declarations():
    table = ["| option | default | |", "|---|---|---|"]
    for kind in (Stream, Query, Execution):
        defaults = {f.name: f.default for f in fields(kind)}
        for name, each in settings_of(kind).items():
            plain = isinstance(defaults[name], str | int | float | None)
            table.append(f"| `{name}` | {f'`{defaults[name]!r}`' if plain else ''} | {each.help} |")
    shown = REFERENCE.read_text(encoding="utf-8").split("<!-- options -->")[1].split("<!-- end")[0]
    assert shown.strip() == "\n".join(table)


def test_the_table_of_metrics_is_that_of_their_declarations():
    by_stream = {metric.name for metric in metrics_of(StreamCounts)}
    table = ["| metric | unit | per stream | |", "|---|---|---|---|"]
    table += (
        f"| `{family_name(m)}` | {m.unit} | {'yes' if m.name in by_stream else ''} | {m.help} |"
        for m in metrics_of(JoinCounts)
    )
    shown = DASHBOARD.read_text(encoding="utf-8").split("<!-- metrics -->")[1].split("<!-- end")[0]
    assert shown.strip() == "\n".join(table)


def test_a_block_that_cannot_run_says_why():
    page = "Words.\n\n*Not run as a test: it needs a cluster.*\n\n```sh\nrm -rf x\n```\n\n```python\n1\n```\n"
    first, second = blocks(page)
    assert (first.kind, first.excuse, first.line) == ("sh", "it needs a cluster", 5)
    assert (second.kind, second.excuse) == ("python", None)


def test_wrong_blocks_are_found(tmp_path):
    for text, said in (
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed"),
        ("```cobol\nx\n```\n", "nothing runs"),
        ("```sh\nwindrow lab no-such-thing\n```\n", "no-such-thing"),
        ("```sh\nmake coffee\n```\n", "make coffee"),
    ):
        with pytest.raises(AssertionError, match=said):
            Reading(tmp_path, {}).read(text, "a page")
