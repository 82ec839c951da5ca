"""For mkdocs: lists the decisions on their page; pages of absent parts are left out of the navigation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PARTS = {"explain.md", "dashboard.md", "command-line.md", "guides/kafka.md"}
"""Pages that come with a part of Windrow; any other page that is missing is a mistake."""
DECISIONS = "<!-- decisions -->"


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    config["nav"] = [kept for entry in config["nav"] if (kept := _entry(entry, docs))]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    if DECISIONS not in markdown:
        return markdown
    found = sorted(Path(config["docs_dir"], "decisions").glob("*.md"))
    return markdown.replace(DECISIONS, "\n".join(f"- [{_title(p)}](decisions/{p.name})" for p in found))


def _entry(entry: dict[str, Any], docs: Path) -> dict[str, Any] | None:
    ((title, place),) = entry.items()
    if isinstance(place, list):
        return {title: [kept for each in place if (kept := _entry(each, docs))]}
    return None if place in PARTS and not (docs / place).exists() else entry


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
