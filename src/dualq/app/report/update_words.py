"""What is said of an update: which decisions changed between two policies, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.app.report.words import number, percent
from dualq.base import count, visible

if TYPE_CHECKING:
    from dualq.offline import Fit, PolicyChange, Updated

UPDATED = "What the new rows changed"
HEADER = ("before", "now", "how often", "better by", "by old rows", "rows", "old rows")


def updated_words(fit: Fit, updated: Updated) -> list[str]:
    """Sentences: how many rows came, what was expected, how many decisions changed."""
    rows = f"{count(updated['new_rows'], 'new row')} beside {count(updated['old_rows'], 'old one')}."
    if linked := updated.get("linked_rows", 0):
        first = "1 more old row counts" if linked == 1 else f"{linked:,} more old rows count"
        rows += f" {first} only now: the last of their episodes, whose next state stands in the new log."
    then = updated["expected_before"]["value"]
    now = number(fit.expected.value)
    value = f"The policy before was expected to earn {number(then)}, by the old rows; the new one {now}, by all."
    changed = "No decision changes."
    if updated["num_changes"]:
        shown = len(updated["changes"])
        listed = f"; the {shown} that matter most:" if updated["num_changes"] > shown else ":"
        changed = f"Decisions change in {count(updated['num_changes'], 'state')}{listed}"
    return [rows, value, changed]


def updated_table(fit: Fit, updated: Updated) -> tuple[list[str], list[list[str]]]:
    """The states where the policy changed."""
    return [*fit.counts.states.names, *HEADER], [_cells(change) for change in updated["changes"]]


def updated_explained() -> str:
    """What the columns are."""
    return (
        "before, now: the most probable action of the policy before, and of the new one. better by: how much more the "
        "new action earns than the one before, as estimated now; then: as it was estimated before the new rows came. "
        "rows: how often the new action was tried in this state, now and then."
    )


def _cells(change: PolicyChange) -> list[str]:
    before = change["before"]
    return [
        *map(visible, change["state"].values()),
        "new state" if before is None else ", ".join(map(visible, before.values())),
        ", ".join(map(visible, change["after"].values())),
        percent(change["time_share"]),
        *("" if gain is None else number(gain) for gain in (change["gain"], change["gain_before"])),
        f"{change['rows_after']:,}",
        f"{change['rows_before']:,}",
    ]
