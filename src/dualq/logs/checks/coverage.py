"""Coverage: what a log can tell, and what it cannot.

visits           n(s, a); a pair is supported if it occurs at all, and nothing is known of the others
zeta             the least frequency of a supported pair, n(s, a) / N: the paper's zeta, estimated
effective_size   K^2 / sum 1/n(s, a) over the K supported pairs: the rows of a log in which all of them occur alike,
                 that would tell as much of them together. Far below N: most rows say again what is known
never_left       states that rows lead to and none leaves: their future is unknown
drift            did something change while the log was written? (drift.py)
memory           does the state before help to predict the next? (markov.py)
checks           what the rows say, read one after another (battery.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dualq.base import Label, Labels, count, few
from dualq.logs.checks.findings import Finding
from dualq.logs.counts import Counts

Array = np.ndarray

LEVEL = 0.01
THIN = 10  # rows below which a pair is called thin
UNCLOCKED = "whether the system changed was not tested: no column of numbers or dates tells early rows from late ones"
MANY = 1000  # different numbers in a column of the state, from which bins are advised where most pairs are thin


@dataclass(frozen=True, eq=False)
class Coverage:
    """What a log can tell, and what it cannot; `log.coverage()` finds it out.

    Attributes
    ----------
    visits : array, (S, A)
        How often each pair of state and action occurs; `supported` where it does at all.
    zeta : float
        The least frequency of a supported pair: the paper's zeta, estimated.
    effective_size : float
        The rows of a log in which all supported pairs occur alike that would tell as much.
    never_left : list
        The labels of states that rows lead to and none leaves.
    drift : {str: Finding}
        Whether behaviour, dynamics or rewards changed while the log was written.
    memory : Finding or None
        Whether the state before helps to predict the next.
    checks : tuple of Finding
        What else the rows say of how they were read.
    warnings, notes : list of str
        What a reader must know before trusting anything learned from this log, and what he should.

    Examples
    --------
    >>> import dualq
    >>> coverage = dualq.problems.two_state().record(steps=1000, seed=0).coverage()
    >>> bool(coverage.supported.all()), coverage.drift["dynamics"].found
    (True, False)
    >>> coverage.warnings
    []
    """

    counts: Counts = field(repr=False)
    rows: int  # that are used
    dropped: int = 0  # without a successor
    skipped: int = 0  # bad ones, set aside
    jumps: int | None = None  # rows whose next_state is not the state of the following row; None: that cannot be known
    drift: Mapping[str, Finding] = field(default_factory=dict)  # behaviour, dynamics, rewards; empty without a clock
    drift_by: str | None = None  # what the periods are cut by
    level: float = LEVEL
    memory: Finding | None = None  # does the state before matter? None where that was not asked
    remarks: tuple[str, ...] = ()  # what became of the columns when they were read
    checks: tuple[Finding, ...] = ()  # what else the rows, read one after another, say of how they were read (checks/)
    doubts: tuple[str, ...] = ()  # what in the columns may be wrong

    @property
    def visits(self) -> Array:
        """n(s, a) (S, A)."""
        return self.counts.visits

    @property
    def states(self) -> Labels:
        """The labels of the states."""
        return self.counts.states

    @property
    def supported(self) -> Array:
        """(S, A) the pairs that occur."""
        return self.visits > 0

    @property
    def actions_per_state(self) -> Array:
        """(S,) how many actions the log has seen in each state."""
        return self.supported.sum(axis=1)

    @property
    def thin(self) -> int:
        """Supported pairs with fewer than ten rows."""
        return int((self.supported & (self.visits < THIN)).sum())

    @cached_property
    def zeta(self) -> float:
        """The least frequency of a supported pair."""
        seen = self.visits[self.supported]
        return float(seen.min() / seen.sum()) if seen.size else 0.0

    @cached_property
    def effective_size(self) -> float:
        """K^2 / sum 1/n over the K supported pairs."""
        seen = self.visits[self.supported].astype(float)
        return float(seen.size**2 / (1.0 / seen).sum()) if seen.size else 0.0

    @property
    def never_left(self) -> list[Label]:
        """The labels of the states that rows lead to and none leaves."""
        return [self.states[int(place)] for place in self.counts.never_left]

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting anything learned from this log."""
        found = [finding.words for finding in self._against if finding.because(self._names) is None]
        return [*found, *self.doubts, *([self._scattered] if self.scattered > 0.5 else self._crowded)]

    @property
    def _against(self) -> list[Finding]:
        """What was found of the system, and not of who acted in it."""
        return [finding for finding in self.evidence if finding.found and finding.what != "behaviour"]

    @property
    def _names(self) -> set[str]:
        return {finding.what for finding in self._against}

    @property
    def evidence(self) -> list[Finding]:
        """What the tests say of the assumptions: that nothing changed with time, and that the state says all."""
        return [*self.checks, *self.drift.values(), *([self.memory] if self.memory is not None else [])]

    @cached_property
    def scattered(self) -> float:
        """The part of the states that have a row which have no more than that: nothing is seen twice in them."""
        rows = self.visits.sum(axis=1)
        return float((rows == 1).sum() / max(1, (rows > 0).sum()))

    @property
    def _scattered(self) -> str:
        rows = self.visits.sum(axis=1)
        alone, states = int((rows == 1).sum()), count(int((rows > 0).sum()), "state")
        names = self.states.names
        numbers = [name for name, found in zip(names, self._numbers, strict=True) if len(found) > 1]
        advice = [f"cut the numbers of the state into bins (--bins {numbers[0]}=10)"] if numbers else []
        advice += ["leave some of its columns out"] if len(names) > 1 else []
        occur = "occurs" if alone == 1 else "occur"
        few = f"{alone:,} of {states} {occur} in one row only, so little can be learned"
        return f"{few}: {' or '.join(advice)}" if advice else few

    @property
    def _numbers(self) -> list[set[float]]:
        """The different numbers in each column of the state."""
        columns = self.states.columns().values()
        return [{x for x in column if isinstance(x, int | float) and not isinstance(x, bool)} for column in columns]

    @cached_property
    def _crowded(self) -> list[str]:
        """Bins, for the column of the state with the most numbers, where there are many and most pairs are thin."""
        pairs = int(self.supported.sum())
        if isinstance(self.states.values, range) or len(self.states) < MANY or self.thin <= 0.5 * pairs:
            return []
        most, name = max((len(found), name) for found, name in zip(self._numbers, self.states.names, strict=True))
        few_rows = f"{self.thin:,} of {pairs:,} combinations of state and action have fewer than {THIN} rows"
        advice = f"{name} has {most:,} different numbers; cut them into bins (--bins {name}=8)"
        return [f"{few_rows}, so little can be guaranteed: {advice}"] if most >= MANY else []

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        notes = [change.words for change in self.drift.values() if change.found and change.what == "behaviour"]
        if self.dropped:
            rows = count(self.dropped, "row")
            notes.append(f"{rows} left out, because the log does not show what came next")
        if self.skipped:
            notes.append(f"{count(self.skipped, 'bad row')} set aside")
        if self.jumps:
            notes.append(f"in {count(self.jumps, 'row')} the next state is not the state of the following row")
        if self.never_left:
            states = count(len(self.never_left), "state")
            notes.append(f"{states} reached in which no decision was logged ({few(self.never_left, 3)})")
        causes = [(finding, finding.because(self._names)) for finding in self._against]
        notes += [f"{finding.brief}, {cause}" for finding, cause in causes if cause is not None]
        return [*notes, *self.remarks]

    def summary(self) -> dict[str, object]:
        """The figures, as plain values."""
        S, A = self.visits.shape
        return {
            "rows": self.rows,
            "dropped": self.dropped,
            "skipped": self.skipped,
            "jumps": self.jumps,
            "states": S,
            "actions": A,
            "supported_pairs": int(self.supported.sum()),
            "thin_pairs": self.thin,
            "zeta": self.zeta,
            "effective_size": self.effective_size,
            "never_left": len(self.never_left),
            "drift_by": self.drift_by,
            "drift": {
                name: {"found": c.found, "p_value": c.p_value, "period": c.period} for name, c in self.drift.items()
            },
            "memory": None if self.memory is None else {"found": self.memory.found, "p_value": self.memory.p_value},
            "checks": {check.what: {"found": check.found, "p_value": check.p_value} for check in self.checks},
            "warnings": self.warnings,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        S, A = self.visits.shape
        pairs, worth = int(self.supported.sum()), count(round(self.effective_size), "row")
        lines = [
            f"{count(self.rows, 'row')}, {count(S, 'state')}, {count(A, 'action')}",
            f"{pairs:,} of {S * A:,} combinations of state and action occur, {self.thin:,} in fewer than {THIN} rows",
            f"as informative as {worth} spread evenly over them; the rarest has {self.zeta:.2g} of all",
            *(f"note: {note}" for note in self.notes),
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)
