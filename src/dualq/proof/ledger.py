"""The ledger of delta: every chance to fail that a promise takes, handed out once, and by one object.

A promise holds with probability 1 - delta because each of its statements fails with a small probability, and these add
up to delta at most (the union bound). A ledger begins with delta. Whoever makes statements opens an account in it, and
spends that account on them, alike; an account that was spent, or shared out, has nothing left. So no statement can be
made twice on the same delta, and what was spent on what can be read:

    >>> ledger = Ledger(0.05)
    >>> value, limits = ledger.take("value", 0.5), ledger.take("limits", 0.5)
    >>> late, lost = limits.alike("late", "lost")
    >>> round(late.level(sides=2, pairs=10), 3)  # log(1 / delta') of each of 20 statements: log(20 / 0.0125)
    7.378
    >>> print(ledger)
    everything   0.05
      value      0.025    not spent
      limits     0.025
        late     0.0125   2 sides x 10 pairs, 0.000625 each
        lost     0.0125   not spent
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dualq.base import ModelError

ROUNDING = 1e-9  # relative: parts such as .8, .1 and .1 add up to one but for rounding


@dataclass
class Ledger:
    """An account of delta: what it was opened for, and what became of it. It is only ever added to.

    delta      what may fail at most, all that is in here together
    what       what it was opened for
    accounts   what was handed on
    among      {"sides": 2, "pairs": 56}: how many statements share it alike, once it is spent
    covers     the promises that rest on it, and cost nothing more: they hold on the same events
    """

    delta: float
    what: str = "everything"
    accounts: tuple[Ledger, ...] = ()
    among: dict[str, int] = field(default_factory=dict)
    covers: tuple[str, ...] = ()

    def take(self, what: str, part: float) -> Ledger:
        """An account of its own with a part of this delta."""
        return self._open(what, part * self.delta)

    def alike(self, *names: str) -> tuple[Ledger, ...]:
        """An account for each name, with equal parts of all of this delta."""
        return tuple(self._open(name, self.delta / len(names)) for name in names)

    def level(self, **among: int) -> float:
        """Spend all of it, alike, on so many statements: log(1 / delta') for each of them."""
        if self.among or self.accounts:
            raise ModelError(
                f"the ledger of delta: {self.what!r} was spent or handed on already; nothing of it is left"
            )
        self.among = among
        return float(np.log(self.statements / self.delta))

    def cover(self, *promises: str) -> None:
        """Name promises that rest on this account's events, and take no delta of their own."""
        self.covers += promises

    @property
    def statements(self) -> int:
        """How many statements it was spent on."""
        return math.prod(self.among.values()) if self.among else 0

    @property
    def handed_on(self) -> float:
        """What its accounts have, together."""
        return math.fsum(account.delta for account in self.accounts)

    @property
    def spent(self) -> float:
        """What its statements may fail with, and those of its accounts: never more than delta."""
        return self.delta if self.among else math.fsum(account.spent for account in self.accounts)

    def _open(self, what: str, delta: float) -> Ledger:
        if self.among:
            raise ModelError(f"the ledger of delta: {what!r} asks for a part of {self.what!r}, which was spent already")
        if any(account.what == what for account in self.accounts):
            raise ModelError(f"the ledger of delta: {self.what!r} has an account {what!r} already; open each once")
        left = self.delta - self.handed_on
        if not 0.0 <= delta <= left + ROUNDING * self.delta:
            raise ModelError(
                f"the ledger of delta: {what!r} asks for {delta:.4g} of {self.what!r}, where {max(left, 0.0):.4g} of "
                f"{self.delta:.4g} is left; parts must add up to one at most"
            )
        self.accounts += (Ledger(delta, what),)
        return self.accounts[-1]

    # ---- what was spent on what

    def rows(self, depth: int = 0) -> Iterator[tuple[int, Ledger]]:
        """(depth, account), this one first."""
        yield depth, self
        for account in self.accounts:
            yield from account.rows(depth + 1)

    def summary(self) -> list[dict[str, object]]:
        """The accounts as plain values, each under the names of those that it is a part of."""
        mine: dict[str, object] = {"account": self.what, "delta": self.delta, "spent": self.spent}
        mine |= {"among": dict(self.among), "covers": list(self.covers)}
        below = [row for account in self.accounts for row in account.summary()]
        return [mine, *(row | {"account": f"{self.what} / {row['account']}"} for row in below)]

    def __str__(self) -> str:
        """A table: the accounts, what each has, what rests on it, and on how many statements it was spent."""
        named = [("  " * depth + account.what, account) for depth, account in self.rows()]
        wide = max(len(name) for name, _ in named)
        lines = []
        for name, account in named:
            lines.append(f"{name:<{wide}}   {account.delta:<8.4g} {account._fate()}".rstrip())
            indent = " " * (len(name) - len(name.lstrip()) + 2)
            lines += [f"{indent}for {promise}" for promise in account.covers]
        return "\n".join(lines)

    def _fate(self) -> str:
        if not self.among:
            return "" if self.accounts else "not spent"
        alike = " x ".join(f"{many:,} {name}" for name, many in self.among.items())
        return f"{alike}, {self.delta / self.statements:.3g} each"
