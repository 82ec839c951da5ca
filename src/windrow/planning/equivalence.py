"""Which words must be equal to each other: a.k = b.k and b.k = c.k imply a.k = c.k.

The implied equalities let any stream of a class be probed from any other. Only words of one type share a
class, since equality is transitive only within a type.
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.model.predicate import Atom, Equality, JoinColumn

Class = tuple[JoinColumn, ...]


def equality_classes(atoms: Iterable[Atom]) -> tuple[Class, ...]:
    """Classes of two or more words, in the order in which they first appear."""
    classes: list[list[JoinColumn]] = []
    for atom in atoms:
        if not isinstance(atom, Equality):
            continue
        joined: list[JoinColumn] = []
        apart = []
        for members in classes:
            if atom.left in members or atom.right in members:
                joined.extend(members)
            else:
                apart.append(members)
        joined.extend(w for w in atom.words if w not in joined)
        classes = [*apart, joined]
    return tuple(tuple(members) for members in classes)
