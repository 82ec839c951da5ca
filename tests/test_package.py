"""What the package says of itself, and that no file of it is left out of a wheel."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

import windrow

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_file_that_is_not_python_is_packed():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    package = ROOT / "src/windrow"
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    others = [p for p in files if p.suffix not in (".py", ".nbi", ".nbc")]
    assert package / "py.typed" in others
    for path in others:
        in_package = (path.parent / "__init__.py").exists()
        anywhere = in_package and any(fnmatch(path.name, pattern) for pattern in patterns.get("*", ()))
        of_package = any(fnmatch(str(path.relative_to(package)), p) for p in patterns.get("windrow", ()))
        assert anywhere or of_package, f"{path.relative_to(ROOT)} would be missing from a wheel"
    # Setuptools takes folders for packages only if Python does.
    python = [p for p in (ROOT / "src").rglob("*.py") if "__pycache__" not in p.parts]
    assert {p.parent for p in python} == {p.parent for p in python if p.name == "__init__.py"}


def test_no_class_name_occurs_twice():
    defined = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(str(path.relative_to(ROOT / "src")))
    assert not {name: paths for name, paths in defined.items() if len(paths) > 1}


def test_a_file_has_one_subject():
    """Past 400 lines it is two."""
    long = {
        path.name
        for path in (ROOT / "src/windrow").rglob("*.py")
        if len(path.read_text("utf-8").splitlines()) > 400
    }
    assert not long


def test_the_newest_version_in_the_changelog_is_this_one():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d[\w.]*)\]", changes, re.MULTILINE)[0] == windrow.__version__
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (\w+)$", changes, re.MULTILINE)) <= known


def test_extras_are_few_and_explained():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) <= {"java", "examples", "docs", "dev"}
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    for name in set(extras) - {"dev"}:
        assert re.search(rf"^#.*\n{name} = ", section, re.MULTILINE), f"why is there an extra '{name}'?"
