"""A policy as JSON, and the JSON Schema of it. Moments and dates are written as ISO 8601."""

from __future__ import annotations

import datetime
import json

from dualq._version import __version__
from dualq.base import Label
from dualq.model import PRIME, SHIFTS
from dualq.offline.exported.branches import Branches, Condition

FORMAT = "dualq policy 1"
DRAW = (
    "x = case mod prime; for each shift k: x = (x + k)^5 mod prime. The first action whose number is above x is taken; "
    "an action without one is taken always."
)


def as_json(found: Branches) -> str:
    """The whole text."""
    value: dict[str, object] = {
        "format": FORMAT,
        "dualq": __version__,
        "source": found.source,
        "doubt": found.doubt or None,
        "state": [
            {"name": name, "edges": list(found.edges[name])} if name in found.edges else {"name": name}
            for name in found.columns
        ],
        "action": list(found.actions.names),
        "actions": [_parts(label) for label in found.actions],
        "draw": {"prime": PRIME, "shifts": list(SHIFTS), "rule": DRAW} if found.random else None,
        "otherwise": None if found.otherwise is None else found.actions.index(found.otherwise),
        "branches": [
            {
                "when": {name: _condition(c) for name, c in zip(found.columns, branch.when, strict=True)},
                **_do(branch.do),
            }
            for branch in found.branches
        ],
    }
    return json_text(value)


def json_text(value: dict[str, object]) -> str:
    """One object, a branch a line: as long as a person can read."""
    head = {name: part for name, part in value.items() if name != "branches"}
    text = json.dumps(head, indent=2, ensure_ascii=False, default=_iso)
    if "branches" not in value:
        return text + "\n"
    lines = [json.dumps(branch, ensure_ascii=False, default=_iso) for branch in value["branches"]]  # pyright: ignore
    return text[:-2] + ',\n  "branches": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"


def _parts(label: Label) -> list[Label]:
    return list(label) if isinstance(label, tuple) else [label]


def _condition(condition: Condition) -> dict[str, object]:
    if condition.values is not None:
        return {"in": list(condition.values)}
    return {"from": condition.low, "below": condition.high}


def _do(do: tuple[tuple[int, int], ...]) -> dict[str, object]:
    return {"do": do[0][0]} if len(do) == 1 else {"draw": [list(each) for each in do]}


def _iso(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


_VALUE = {"type": ["string", "number", "boolean", "null"]}
_END = {"type": ["number", "null"]}
_PLACE = {"type": "integer", "minimum": 0}
SCHEMA: dict[str, object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": FORMAT,
    "description": "What to do in which state. A branch holds where all of its conditions do; no two hold together.",
    "type": "object",
    "required": ["format", "state", "action", "actions", "draw", "otherwise", "branches"],
    "properties": {
        "format": {"const": FORMAT},
        "dualq": {"type": "string", "description": "the version that wrote it"},
        "source": {"type": "string"},
        "doubt": {"type": ["string", "null"], "description": "why the policy should not be used"},
        "state": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "edges": {"type": "array", "items": {"type": "number"}}},
            },
        },
        "action": {"type": "array", "items": {"type": "string"}, "description": "the columns of an action"},
        "actions": {"type": "array", "items": {"type": "array", "items": _VALUE}},
        "draw": {
            "type": ["object", "null"],
            "required": ["prime", "shifts", "rule"],
            "properties": {"prime": _PLACE, "shifts": {"type": "array", "items": _PLACE}, "rule": {"type": "string"}},
        },
        "otherwise": {"type": ["integer", "null"], "description": "the action in a state that no branch has"},
        "branches": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["when"],
                "properties": {
                    "when": {
                        "type": "object",
                        "additionalProperties": {
                            "oneOf": [
                                {
                                    "required": ["in"],
                                    "properties": {"in": {"type": "array", "items": _VALUE}},
                                    "additionalProperties": False,
                                },
                                {
                                    "required": ["from", "below"],
                                    "properties": {"from": _END, "below": _END},
                                    "additionalProperties": False,
                                },
                            ]
                        },
                    },
                    "do": _PLACE,
                    "draw": {
                        "type": "array",
                        "items": {"type": "array", "items": _PLACE, "minItems": 2, "maxItems": 2},
                    },
                },
                "oneOf": [{"required": ["do"]}, {"required": ["draw"]}],
            },
        },
    },
}
