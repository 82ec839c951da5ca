"""Claims as lists in Markdown, written from records: those of docs/papers.md, and all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.errors import QueryError
from windrow_lab.records import PAPERS, ClaimVerdict, Record, headline, verdicts
from windrow_lab.run import shown

END = "<!-- end -->"


def markdown(records: Sequence[Record]) -> str:
    """Every claim with what was measured."""
    judged, by_name = verdicts(records), {record.experiment.name: record for record in records}
    items = [_item(v, by_name) for v in judged]
    lacking = [r.experiment.name for r in records if r.outcome is None]
    left = ["", f"Without a result: {', '.join(lacking)}."] if lacking else []
    return "\n".join([f"{headline(judged).capitalize()}.", "", *items, *left])


def written_into(page: str, records: Sequence[Record]) -> str:
    """A page with the claims of each paper renewed, between `<!-- claims GrubJoin -->` and `<!-- end -->`."""
    judged, by_name = verdicts(records), {record.experiment.name: record for record in records}
    page = _between(page, "count", [f"{headline(judged).capitalize()}.", *_durations(records)])
    for letter, paper in PAPERS.items():
        mine = [v for v in judged if v.id[0] == letter or (letter == "B" and v.id[0] not in PAPERS)]
        page = _between(page, paper, [_item(v, by_name) for v in mine])
    return page


def _durations(records: Sequence[Record]) -> list[str]:
    """How long the runs took, and which were at quick size."""
    full = [r.outcome.ran.get("seconds", 0) for r in records if r.outcome and r.size == "full"]
    quick = [f"`{r.experiment.name}`" for r in records if r.size == "quick"]
    left = f"; quick size only: {', '.join(quick)}" if quick else ""
    return [f"Full-size runs: {len(full)}, which took {sum(full) / 60:.0f} minutes together{left}."]


def _between(page: str, name: str, lines: Sequence[str]) -> str:
    begin = f"<!-- claims {name} -->\n"
    if begin not in page:
        raise QueryError(f"report: the page has no line {begin.strip()!r}; put it where the claims belong")
    before, _, after = page.partition(begin)
    text = "\n".join(lines)
    return f"{before}{begin}{text}\n{END}{after.partition(END)[2]}"


def _item(verdict: ClaimVerdict, by_name: Mapping[str, Record]) -> str:
    """A claim in a list: verdict, sentence, cause and where from; below it what was measured."""
    promise = verdict.promise
    where = f" ({promise.where})" if promise.where else ""
    parts = [
        f"- **{promise.id}**{where} **{_phrase(verdict)}.** {promise.says[0].upper()}{promise.says[1:]}."
    ]
    if verdict.cause:
        parts.append(f"*Cause:* {verdict.cause}.")
    if verdict.otherwise_at_quick_size:
        parts.append(f"*It {verdict.otherwise_at_quick_size}.*")
    parts += [f"(`{name}`: {_ran(by_name[name])})" for name in promise.judged_by]
    lines = [" ".join(parts)]
    for each in verdict.statements:
        missed = "" if each.holds else "**Missed:** "
        lines.append(f"    - {missed}{each.says}: {shown(each.measured)}".replace("\n", " "))
    return "\n".join(lines)


def _phrase(verdict: ClaimVerdict) -> str:
    word = {True: "holds", False: "misses", None: "not run"}[verdict.holds]
    if verdict.size == "full" or not verdict.statements:
        return word
    return f"{word} at quick size, not run at full size since it is judged so"


def _ran(record: Record) -> str:
    if record.outcome is None:
        return "not run"
    ran = record.outcome.ran
    return f"{record.size} size, {ran.get('commit')}, {ran.get('at')}, {ran.get('seconds')} s"
