"""Operations that fail for a row: raised with `on_error="raise"`, null and counted with `"null"`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
import windrow as wr
from failing import pair_terms, row_terms
from queries import Case, cases, examples
from windrow.testing import oracle


@st.composite
def failing_cases(draw: st.DrawFn, counted: bool) -> Case:
    """Random queries with some conditions more, most of which fail for some rows."""
    case = draw(cases(counted=counted, most_streams=3))
    aliases = list(case.windows)
    more = []
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.permutations(aliases))[:2]
        more.append(draw(st.sampled_from(row_terms(a) + pair_terms(a, b, not counted))))
    return replace(case, terms=draw(st.permutations([*case.terms, *more])))


def check(case: Case) -> None:
    admitted = case.admitted()
    rows = {a: oracle.failed_rows(a, admitted.rows(a), case.terms) for a in case.windows}
    possible = replace(case, terms=oracle.lenient(case.terms)).answer()
    answer = case.answer()
    combinations = possible.total() - answer.total()
    output, measured = case.run(on_error="null")
    assert results.ids(output) == answer
    assert {a: s.rows_failed for a, s in measured.streams.items()} == rows
    assert measured.combinations_failed == combinations
    if combinations or any(rows.values()):
        with pytest.raises(wr.DataError, match=r"fails for .*on_error='null'"):
            case.run(on_error="raise")
    else:
        assert results.ids(case.run()[0]) == answer


@examples(60)
@given(failing_cases(counted=False))
def test_failures_over_time_windows(case: Case) -> None:
    check(case)


@examples(40)
@given(failing_cases(counted=True))
def test_failures_over_row_windows(case: Case) -> None:
    check(case)
