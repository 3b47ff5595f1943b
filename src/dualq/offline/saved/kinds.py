"""What a saved fit is made of: the tag of every noun that may stand in the file, and how it is made again."""

from __future__ import annotations

from typing import Any

from dualq.logs import Counts, Coverage, Finding, OpenEnds
from dualq.model import ActionCap, Kind, Limit, Near, Solution, dataclass_kind, fields_of, solution_parts
from dualq.offline.careful.model import Careful
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.search import LimitOutcome
from dualq.offline.stages import Counted, Modelled, Proven, Read, Solved
from dualq.proof import Certificate, Ledger, Wanted
from dualq.solvers import LimitedSolution


def _without(*names: str) -> Any:
    """The fields of a dataclass, but for some that are not kept."""
    return lambda value: {name: part for name, part in fields_of(value).items() if name not in names}


def _counted_parts(counted: Counted) -> dict[str, object]:
    """With its blocks: trade-offs, and what is learned when more rows come, are proven from them."""
    return fields_of(counted) | {"blocks": counted.blocks}


def _counted(blocks: tuple[Counts, ...] | None = None, **fields: Any) -> Counted:
    counted = Counted(**fields)
    if blocks is not None:
        vars(counted)["blocks"] = blocks  # a cached property looks here first
    return counted


def _limited_parts(solution: LimitedSolution) -> dict[str, object]:
    return solution_parts(solution) | {
        "limits": solution.limits,
        "prices": solution.prices,
        "policy": solution.dual_policy,
    }


KINDS = (
    Kind("read", "Read", _without("log"), Read),
    Kind("counted", "Counted", _counted_parts, _counted),
    dataclass_kind("modelled", Modelled),
    dataclass_kind("solved", Solved),
    dataclass_kind("proven", Proven),
    Kind("careful", "Careful", _without("halves"), Careful),
    Kind("solution", "Solution", solution_parts, Solution),
    Kind("limited solution", "LimitedSolution", _limited_parts, LimitedSolution),
    dataclass_kind("counts", Counts),
    dataclass_kind("coverage", Coverage),
    dataclass_kind("open ends", OpenEnds),
    dataclass_kind("finding", Finding),
    dataclass_kind("estimate", Estimate),
    dataclass_kind("certificate", Certificate),
    dataclass_kind("ledger", Ledger),
    dataclass_kind("wanted rows", Wanted),
    dataclass_kind("asked limit", Asked),
    dataclass_kind("limit outcome", LimitOutcome),
    dataclass_kind("limit", Limit),
    dataclass_kind("action cap", ActionCap),
    dataclass_kind("distance", Near),
)
