"""How a verdict follows from the numbers, for every experiment by the same rule.

A claim is split into checks, each a statement that the numbers make true or false. All hold: "reproduced". Some do:
"in part". None does: "not". A check that compares two medians asks that their intervals (curves.py) do not overlap, so
that it does not hold by luck.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict


class Number(TypedDict):
    """A number with its interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Check:
    """A statement, whether it holds, and the numbers that say so."""

    claim: str
    holds: bool
    because: str


class Entry(TypedDict):
    """A verdict as it stands in summary.json."""

    verdict: str
    sentence: str
    checks: list[dict[str, str | bool]]
    numbers: dict[str, Number]


@dataclass(frozen=True)
class Verdict:
    """The word, the line of text, and what they follow from."""

    checks: Sequence[Check]
    numbers: Mapping[str, Number]

    @property
    def word(self) -> str:
        """The rule."""
        return judged(check.holds for check in self.checks)

    @property
    def sentence(self) -> str:
        """One line: every check with its answer and its numbers."""
        parts = [f"{check.claim}: {'yes' if check.holds else 'no'} ({check.because})" for check in self.checks]
        return "; ".join(parts)

    def as_json(self) -> Entry:
        """For summary.json."""
        return {
            "verdict": self.word,
            "sentence": self.sentence,
            "checks": [{"claim": c.claim, "holds": c.holds, "because": c.because} for c in self.checks],
            "numbers": dict(self.numbers),
        }


def judged(answers: Iterable[bool]) -> str:
    """The word for a list of answers."""
    answers = list(answers)
    if all(answers):
        return "reproduced"
    return "in part" if any(answers) else "not"


def value_of(number: Number) -> float:
    """The number itself; NaN, which compares with nothing, where there is none."""
    return math.nan if number["value"] is None else number["value"]


def below(one: Number, other: Number) -> bool:
    """Whether a number is below another one by more than their uncertainty; what is unknown is below nothing."""
    high, low = one["high"], other["low"]
    return high is not None and low is not None and high < low


def shown(number: Number) -> str:
    """A number for people, three digits."""
    return "not reached" if number["value"] is None else f"{number['value']:.3g}"


def listed(numbers: Sequence[Number]) -> str:
    """Several numbers for people."""
    return " / ".join(shown(number) for number in numbers)
