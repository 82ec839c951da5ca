"""Every experiment in one place: what the papers claim, what was measured, whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from windrow.draw.document import document, panel, panels, table
from windrow.draw.shapes import escape
from windrow_lab.records import PAPERS, ClaimVerdict, Record, headline, verdicts
from windrow_lab.run import shown

ROWS_SHOWN = 200
"""Of an experiment's rows; the record has all."""
STYLE = """
.filters { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 0 0 12px; color: var(--soft); }
.filters label { cursor: pointer; }
.filters input { accent-color: var(--accent); }
.plotted { background: #fff; border-radius: 8px; padding: 6px; margin-top: 8px; overflow-x: auto; }
.plotted svg { display: block; width: 100%; max-width: 900px; height: auto; margin: 0 auto; }
.yes { color: var(--good); } .no { color: var(--bad); font-weight: 600; } .none { color: var(--faint); }
td.said { text-align: left; white-space: normal; min-width: 16em; }
.panel { margin-bottom: 12px; }
""" + "\n".join(
    f'body:has(#paper-{letter}:checked) [data-papers]:not([data-papers~="{letter}"]) {{ display: none; }}'
    for letter in PAPERS
)
MISSED_ONLY = 'body:has(#missed:checked) [data-holds="yes"] { display: none; }'


def page(records: Sequence[Record]) -> str:
    """One HTML document; filters work without a script."""
    judged = verdicts(records)
    lacking = [r.experiment.name for r in records if r.outcome is None]
    parts = [f"<style>{STYLE}\n{MISSED_ONLY}</style>", _filters(), _summary(judged)]
    if lacking:
        broken = [r.unreadable for r in records if r.unreadable]
        reason = f"<p>{escape(', '.join(lacking))}</p>" + "".join(f"<p>{escape(each)}</p>" for each in broken)
        parts.append(panel(f"{len(lacking)} experiments have no result", reason))
    parts += [_experiment(record) for record in records if record.outcome is not None]
    return document("Windrow's lab", parts, headline(judged))


def _filters() -> str:
    choices = [("all", "all papers"), *PAPERS.items()]
    radios = [
        f'<label><input type="radio" name="paper" id="paper-{key}"{" checked" if key == "all" else ""}> '
        f"{escape(name)}</label>"
        for key, name in choices
    ]
    missed = '<label><input type="checkbox" id="missed"> only what does not hold</label>'
    return f'<div class="filters">{"".join(radios)}{missed}</div>'


def _summary(judged: Sequence[ClaimVerdict]) -> str:
    lines = []
    for v in judged:
        links = " ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in v.promise.judged_by)
        lines.append(
            f'<tr data-papers="{escape(v.promise.paper)}" data-holds="{_word(v.holds)}">'
            + _cell(v.id, "left")
            + _cell(v.promise.says, "said")
            + _cell(_sign(v.holds), f"left {_word(v.holds)}")
            + _cell(missed_text(v), "said")
            + f'<td class="said">{links}</td></tr>'
        )
    names = ("claim", "says", "holds", "missed, and why", "judged by")
    head = "".join(f'<th class="left">{name}</th>' for name in names)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return panels(
        [panel("Claims (those with a name of their own do not count)", f'<div class="table">{body}</div>')]
    )


def missed_text(verdict: ClaimVerdict) -> str:
    """What was measured where a claim misses, and why."""
    parts = [f"{each.says}: {shown(each.measured)}" for each in verdict.missed]
    return ". ".join([*parts, *filter(None, (verdict.cause, verdict.otherwise_at_quick_size))])


def text(records: Sequence[Record]) -> str:
    """For a terminal: the count, and each miss with its number and its cause."""
    judged = verdicts(records)
    lines = [headline(judged)]
    for v in judged:
        if v.holds is False:
            size = "" if v.size == "full" else ", quick"
            lines += ["", f"{v.id} ({v.promise.where or 'extra'}{size}) misses: {v.promise.says}"]
            lines += [f"  measured: {each.says}: {shown(each.measured)}" for each in v.missed]
            lines.append(f"  cause: {v.cause or 'not known; the miss is new'}")
        if v.otherwise_at_quick_size:
            lines.append(f"{'  it' if v.holds is False else v.id} {v.otherwise_at_quick_size}")
    left = [v.id for v in judged if v.holds is None]
    if left:
        lines += ["", f"not run: {', '.join(left)}"]
    return "\n".join(lines)


def _experiment(record: Record) -> str:
    outcome, experiment = record.outcome, record.experiment
    assert outcome is not None
    claims = "".join(
        f'<tr data-holds="{_word(c.holds)}">'
        + _cell(c.id, "left")
        + _cell(c.says, "said")
        + _cell(shown(c.measured), "said")
        + _cell(_sign(c.holds), f"left {_word(c.holds)}")
        + "</tr>"
        for c in outcome.claims
    )
    head = "".join(f'<th class="left">{name}</th>' for name in ("claim", "says", "measured", "holds"))
    inside = [
        f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{claims}</tbody></table></div>',
        f'<div class="plotted">{picture(record)}</div>',
        f"<pre>{escape(record.command)}</pre>",
        _more("Numbers", _rows(outcome.rows)),
        _more("Parameters", table(("parameter", "value"), _pairs(outcome.parameters), (0, 1))),
    ]
    papers, holds = escape(" ".join(record.papers)), _word(outcome.holds)
    size = "a quick run" if record.size == "quick" else "full size"
    return (
        f'<div id="{escape(experiment.name)}" data-papers="{papers}" data-holds="{holds}">'
        + panel(experiment.name, "".join(inside), experiment.title, unit=size)
        + "</div>"
    )


def picture(record: Record) -> str:
    """The experiment's own plot as SVG, from the rows of its record."""
    assert record.outcome is not None
    if not record.outcome.rows:
        return "<p>the record holds no rows; run it again to see its picture</p>"
    figure, drawn = Figure(figsize=(9, 4.5), layout="constrained"), StringIO()
    # Names inside one drawing must not meet those of another on the same page.
    settings = {"svg.fonttype": "none", "svg.hashsalt": record.experiment.name}
    try:
        record.experiment.plot(record.outcome.rows, figure)
        with matplotlib.rc_context(settings):
            figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    except (KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        return f"<p>the record holds other rows than this version draws ({escape(reason)}); run it again</p>"
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def _rows(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return "<p>none</p>"
    cells = [[shown(row.get(name, "")) for name in names] for row in rows[:ROWS_SHOWN]]
    left = f"<p>the first {ROWS_SHOWN} of {len(rows):,} rows</p>" if len(rows) > ROWS_SHOWN else ""
    return left + table(names, cells)


def _pairs(parameters: Any) -> list[tuple[str, str]]:
    return [(name, shown(value)) for name, value in parameters.items()]


def _more(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _cell(said: object, kind: str) -> str:
    return f'<td class="{kind}">{escape(said)}</td>'


def _word(holds: bool | None) -> str:
    return "none" if holds is None else "yes" if holds else "no"


def _sign(holds: bool | None) -> str:
    return "not run" if holds is None else "✓ yes" if holds else "✗ no"


def to_dict(records: Sequence[Record]) -> dict[str, Any]:
    """As values that JSON can hold."""
    judged = verdicts(records)
    return {
        "summary": headline(judged),
        "claims": [
            {
                "id": v.id,
                "paper": PAPERS.get(v.promise.paper),
                "counted": v.promise.counted,
                "says": v.promise.says,
                "holds": v.holds,
                "missed": [{"says": c.says, "measured": c.measured} for c in v.missed],
                "cause": v.cause or None,
                "otherwise_at_quick_size": v.otherwise_at_quick_size or None,
                "experiments": list(v.promise.judged_by),
                "without_result": list(v.missing),
            }
            for v in judged
        ],
        "experiments": [
            {
                "experiment": r.experiment.name,
                "title": r.experiment.title,
                "command": r.command,
                "holds": None if r.outcome is None else r.outcome.holds,
                "unreadable": r.unreadable,
                "claims": [asdict(c) for c in r.outcome.claims] if r.outcome else [],
            }
            for r in records
        ],
    }
