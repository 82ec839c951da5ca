"""For mkdocs: fills the navigation's Decisions from their directory; pages of absent parts are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PARTS = {"explain.md", "dashboard.md", "command-line.md"}
"""Pages that come with a part of Windrow; any other page that is missing is a mistake."""


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    config["nav"] = [kept for entry in config["nav"] if (kept := _entry(entry, docs))]
    return config


def _entry(entry: dict[str, Any], docs: Path) -> dict[str, Any] | None:
    ((title, place),) = entry.items()
    if isinstance(place, list):
        return {title: [kept for each in place if (kept := _entry(each, docs))]}
    if (docs / place).is_dir():
        found = sorted((docs / place).glob("*.md"))
        return {title: [{_title(page): f"{place}/{page.name}"} for page in found]}
    return None if place in PARTS and not (docs / place).exists() else entry


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
