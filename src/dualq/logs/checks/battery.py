"""All checks together: does the log, row after row, agree with the way it was read?

Each check is a file with one function, from a `Trace` and a level to a `Finding`: `found` means that the log speaks
against an assumption that estimates and promises rest on, with a false alarm in at most `level` of logs where it holds.
Together they share one level.
"""

from __future__ import annotations

from collections.abc import Callable

from dualq.logs.checks.bins import bins
from dualq.logs.checks.cycles import cycle
from dualq.logs.checks.ends import ends
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.gaps import gaps
from dualq.logs.checks.memory import memory
from dualq.logs.checks.recent import recent
from dualq.logs.checks.set_aside import set_aside
from dualq.logs.checks.trace import Trace

CHECKS: tuple[Callable[[Trace, float], Finding | None], ...] = (
    ends,
    gaps,
    set_aside,
    bins,
    cycle,
    recent,
    memory,
)


def checks_of(trace: Trace | None, level: float) -> tuple[Finding, ...]:
    """What every check says, in the order in which a reader should hear it; nothing where rows have no order."""
    if trace is None:
        return ()
    share = level / len(CHECKS)
    return tuple(finding for check in CHECKS if (finding := check(trace, share)) is not None)
