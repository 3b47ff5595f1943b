"""What is said of a policy in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.app.report.words import estimate, number, percent
from dualq.base import count, sentence, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dualq.offline import Check


def checked_lines(found: Check) -> list[str]:
    """Sentences: the other reasons, what it earns, whether it is followed, what changed."""
    lines = [sentence(reason) for reason in found.reasons[1:]]
    floor = "" if found.floor is None else f", at least {number(found.floor)} was guaranteed"
    before = f"Expected: {estimate(found.expected)}{floor}; what was done before earns {number(found.logged)}."
    tests = [one for what, one in found.drift.items() if what != "behaviour" and not one.found]
    lines += [before, *_followed(found)]
    if not found.drift:
        lines.append("Whether the system changed is tested from 250 new rows on.")
    lines += [sentence(one.words) for one in tests]
    return [*lines, f"However often you look, the chance of a false alarm is at most {percent(found.looks)}."]


def _followed(found: Check) -> list[str]:
    """How many decisions are the policy's, unless a reason has said it, and how many rows it knows nothing of."""
    told = any("are those of the policy" in reason for reason in found.reasons)
    lines = [] if told else [f"{percent(found.followed)} of {count(found.rows, 'decision')} are those of the policy."]
    if found.unknown:
        lines.append(f"{percent(found.unknown)} of the rows have a state or an action that the policy never saw.")
    return lines


def checked_table(states: Sequence[str], found: Check) -> tuple[list[str], list[list[str]]]:
    """Where the policy was not followed; states: the columns of the state, none where states are numbers."""
    header = [*states, "policy", "instead", "rows", "not followed"]
    rows = [
        [
            *map(visible, one["state"].values()),
            ", ".join(map(visible, one["policy"].values())),
            ", ".join(map(visible, one["instead"].values())),
            f"{one['rows']:,}",
            f"{one['not_followed']:,}",
        ]
        for one in found.elsewhere
    ]
    return header, rows
