"""The example notebook runs from top to bottom, and what its cells end with shows itself."""

from __future__ import annotations

import ast
import json
from typing import Any

from pages import ROOT
from spark_tools import spark

NOTEBOOK = ROOT / "examples" / "first_join.ipynb"


def run(source: str, names: dict[str, Any], cell: str) -> Any:
    """The value of the last expression of a cell, as a notebook would show it."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), cell, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), cell, "eval"), names)


def test_the_notebook_runs_in_order(capsys):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in codes), "strip the outputs"
    spark()  # the session of the tests, so that the notebook does not begin another
    names: dict[str, Any] = {}
    shown = [run("".join(cell["source"]), names, cell["id"]) for cell in codes]
    assert "true recall 0." in capsys.readouterr().out
    assert sum(hasattr(value, "_repr_html_") for value in shown) == 6
    assert any(value is True for value in shown), "Spark finds as many results as the operator"
    recall = names["limited"].metrics().quality
    assert recall.recall_low <= names["found"] / names["exact"].num_rows <= recall.recall_high
