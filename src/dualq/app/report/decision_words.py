"""What `dualq explain` says of one state; the vocabulary is that of `words`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.app.report.words import number, one_shot, percent
from dualq.base import count

if TYPE_CHECKING:
    from dualq.offline import Fit, StateFacts


def explained(fit: Fit, facts: StateFacts) -> tuple[str, list[str], list[list[str]], str]:
    """What `dualq explain` says of a state: a line, the table's header and rows, and a line below."""
    rows, share = count(facts["rows"], "row"), percent(facts["time_share"])
    first = f"{rows} in the log. {share} of the new policy's decisions are made here."
    names = fit.counts.actions.names
    body = [
        [
            *(str(row[name]) for name in names),
            f"{row['rows']:,}",
            percent(row["logged_share"]),
            "not known" if row["value"] is None else number(row["value"]),
            "" if row["value"] is None else f"{number(row['low'])} to {number(row['high'])}",
            percent(row["recommended"]) if row["recommended"] else "",
        ]
        for row in facts["actions"]
    ]
    sure = percent(fit.confidence)
    below = f"earns: what this decision is expected to earn, with its {sure} interval"
    below += (
        "." if one_shot(fit) else " for this one step; what follows is taken as exactly known. These are estimates."
    )
    return first, [*names, "rows", "so far", "earns", f"{sure} interval", "new policy"], body, below
