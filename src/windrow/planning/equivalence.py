"""Classes of join columns that must be equal: a.k = b.k and b.k = c.k imply a.k = c.k.

The implied equalities allow a probe between any two streams of a class. All columns of a class have one type,
because equality is transitive only within a type.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from windrow.model.predicate import Atom, Equality, JoinColumn

Class = tuple[JoinColumn, ...]


def equality_classes(atoms: Iterable[Atom]) -> tuple[Class, ...]:
    """Classes of two or more columns, in the order in which an equality last extended them."""
    classes: list[Class] = []
    for atom in atoms:
        if isinstance(atom, Equality):
            # An equality merges up to two classes: that of its left side and that of its right side.
            linked = [members for members in classes if atom.left in members or atom.right in members]
            merged = dict.fromkeys([*chain.from_iterable(linked), *atom.columns])
            classes = [*(members for members in classes if members not in linked), tuple(merged)]
    return tuple(classes)
