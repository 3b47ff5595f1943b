"""Fits that were saved in format 1: flat, with the names that classes had then for tags."""

from __future__ import annotations

from typing import Any

from dualq.model import NOUNS, Kind
from dualq.offline.careful.model import Careful
from dualq.offline.saved.kinds import KINDS
from dualq.offline.stages import Counted, Modelled, Proven, Read, Solved

NAMES = {
    "labels": "Labels",
    "policy": "Policy",
    "model": "MDP",
    "solution": "Solution",
    "limited solution": "LimitedSolution",
    "counts": "Counts",
    "coverage": "Coverage",
    "finding": "Finding",
    "estimate": "Estimate",
    "certificate": "Certificate",
    "wanted rows": "Wanted",
    "asked limit": "Asked",
    "limit outcome": "Kept",
    "limit": "Limit",
    "action cap": "ActionCap",
    "distance": "Near",
}


def _careful(kept: float, **fields: Any) -> Careful:
    return Careful(reliability=kept, **fields)


def _fit(settings: dict[str, Any], blocks: tuple[Any, ...] = (), **fields: Any) -> Proven:
    """The stages, from the fields that a fit had."""
    read = Read(settings["source"], settings["columns"], settings["guessed"], settings["bins"], settings["set_aside"])
    counted = Counted(read, fields["counts"], fields["coverage"], fields["start"], settings["start"])
    if blocks:
        vars(counted)["blocks"] = blocks  # a cached property looks here first
    filled = settings.get("returns_filled", 0.0)
    modelled = Modelled(counted, fields["careful"], fields.get("returns"), fields.get("returns_check"), filled)
    limits = {name: fields.get(name, ()) for name in ("limits", "asked", "limits_wanted")}
    words = {name: fields[name] for name in ("solution", "policy", "reason")}
    words |= {name: settings[name] for name in ("solver", "gap", "margin")}
    solved = Solved(modelled, **words, **limits)
    assumed = tuple(settings.get("assumed", ()))
    return Proven(solved, fields["certificate"], fields["confidence"], assumed, version=settings["version"])


FORMAT_1 = (
    *(Kind(NAMES[kind.tag], kind.name, kind.parts, kind.make) for kind in (*NOUNS, *KINDS) if kind.tag in NAMES),
    Kind("Careful", "Careful", lambda value: {}, _careful),
    Kind("Fit", "Proven", lambda value: {}, _fit),
)
