"""Outer, semi, anti and as-of joins against SQL's sequence of joins, over random queries.

`pytest --soak` runs ten times more, with new seeds.
"""

from __future__ import annotations

from hypothesis import given

from outer_cases import OuterCase, outer_cases, outer_ids
from queries import examples


def check(case: OuterCase) -> None:
    output, measured = case.run()
    answer = case.answer()
    got = outer_ids(output)
    assert got == answer, f"too many: {got - answer}, missing: {answer - got}"
    assert measured.results == answer.total()


@examples(100)
@given(outer_cases(most_streams=2, matches=False))
def test_two_streams(case: OuterCase) -> None:
    check(case)


@examples(100)
@given(outer_cases(matches=False))
def test_roles_of_two_to_four_streams(case: OuterCase) -> None:
    check(case)


@examples(100)
@given(outer_cases())
def test_matches(case: OuterCase) -> None:
    check(case)
