"""The joins that all peers run, as SQL that all of them understand.

Every stream has the columns `ts` (a timestamp), `us` (the same in microseconds, whole milliseconds), `p` (a
text) and those of its join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PRIME = 1_000_003


@dataclass(frozen=True)
class PeerJoin:
    """
    Parameters
    ----------
    columns
        Beside `ts`, `us` and `p`, of each stream.
    equal
        Two streams and the column in which they must agree.
    span
        Seconds that any two rows of a result may be apart.
    other
        A further condition.
    """

    aliases: str
    columns: Mapping[str, tuple[str, ...]]
    equal: tuple[tuple[str, str, str], ...]
    span: int = 60
    other: str | None = None

    def used(self, alias: str) -> tuple[str, ...]:
        return ("ts", "us", *self.columns[alias], "p")

    @property
    def predicate(self) -> str:
        """Without windows."""
        return " and ".join([*(f"{x}.{c} = {y}.{c}" for x, y, c in self.equal), *filter(None, [self.other])])

    def near(self, x: str, y: str) -> str:
        return f"abs({x}.us - {y}.us) <= {self.span * 1_000_000}"

    @property
    def chain(self) -> str:
        """`a join b on ... join c on ...`, with windows as conditions on `us`."""
        text = "a"
        for number, alias in enumerate(self.aliases[1:], 1):
            before = self.aliases[:number]
            text += f" join {alias} on {self.on(alias)} and " + " and ".join(
                self.near(x, alias) for x in before
            )
        return text

    def on(self, alias: str) -> str:
        """The conditions that can be checked once a stream has joined those before it."""
        before = self.aliases[: self.aliases.index(alias)]
        equal = [f"{x}.{c} = {y}.{c}" for x, y, c in self.equal if y == alias and x in before]
        return " and ".join([*equal, *filter(None, [self.other if alias == self.aliases[-1] else None])])

    @property
    def fingerprint(self) -> str:
        """A number for a result that says which rows it is made of, and needs their texts."""
        terms = [f"{alias}.{column}" for alias in self.aliases for column in ("us", *self.columns[alias])]
        weighed = [f"{2 * n + 3} * {term}" for n, term in enumerate(terms)]
        texts = [f"char_length({alias}.p)" for alias in self.aliases]
        return f"cast(mod({' + '.join([*weighed, *texts])}, {PRIME}) as bigint)"


K: dict[str, tuple[str, ...]] = dict.fromkeys("abc", ("k",))
JOINS = {
    "key": PeerJoin("ab", K, (("a", "b", "k"),)),
    "three": PeerJoin("abc", K, (("a", "b", "k"), ("b", "c", "k"))),
    "triangle": PeerJoin(
        "abc",
        dict.fromkeys("abc", ("i", "j", "k")),
        (("a", "b", "i"), ("b", "c", "j"), ("a", "c", "k")),
    ),
    # Persons a who open auctions b within ten seconds.
    "q8": PeerJoin("ab", K, (("a", "b", "k"),), span=10),
    # Auctions a and the bids b before they close. Nexmark then takes the highest bid, which is no join.
    "q9": PeerJoin(
        "ab", K | {"a": ("k", "expires")}, (("a", "b", "k"),), other="b.us >= a.us and b.us <= a.expires"
    ),
    # Bids b for auctions a of one category.
    "q20": PeerJoin("ab", K | {"a": ("k", "category")}, (("a", "b", "k"),), other="a.category = 10"),
}
