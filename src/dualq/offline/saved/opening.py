"""A fit on disk: opened and checked, and asked what to do, without what learned it (no SciPy, no Numba).

solution.npz   all of it, as model/packing.py writes it, the arrays of the solution by their names;  `load` (fit.py)
               makes it again
fit.json       the settings and the numbers, and the SHA-256 of the other two files; written last
policy.csv     the policy, for people
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import CheckpointError, Label, LabelLike, Labels, LogError
from dualq.logs import Bins
from dualq.model import NOUNS, FunctionPolicy, Kind, Seed, TablePolicy, Tree, drawn, read_saved, unpacked

Array = np.ndarray

ARRAYS, NUMBERS, POLICY = "solution.npz", "fit.json", "policy.csv"


@dataclass(frozen=True, eq=False)
class Decider:
    """The recommended policy of a fit, asked in the log's own words."""

    policy: TablePolicy
    bins: Mapping[str, Sequence[float]]  # {column: edges}

    def label(self, state: LabelLike) -> LabelLike:
        """A state as the log has it: numbers of columns that were cut into bins find their bins, dates may be text."""
        states: Labels = self.policy.states
        names, known = states.names, states.named(0)
        dates = {name for name in names if isinstance(known[name], datetime.date)}
        if not (self.bins or dates):
            return state
        values = state if isinstance(state, Mapping) else dict(zip(names, _parts(state, names), strict=True))
        return {name: self._value(name, value, type(known.get(name))) for name, value in values.items()}

    def _value(self, name: str, value: Any, kind: type) -> Label:
        """A number finds its bin, and a date may be written as text."""
        if name in self.bins and not isinstance(value, str):
            return Bins(tuple(self.bins[name])).label(value)
        if isinstance(value, str) and issubclass(kind, datetime.date):
            try:
                return kind.fromisoformat(value)
            except ValueError:
                raise LogError(f"{name} is {value!r}; write a date as 2024-02-29") from None
        return value

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None) -> Label:
        """The label of an action in a state, drawn where the policy is random; numbers find their bins."""
        return self.policy.act(self.label(state), seed, default)

    def act_many(self, table: Mapping[str, ArrayLike], seed: Seed = None) -> list[Label]:
        """The label of an action for each row of a table or frame; each state is looked up once."""
        names, generator = self.policy.states.names, np.random.default_rng(seed)
        columns = [np.asarray(table[name]).tolist() for name in names]
        states = list(zip(*columns, strict=True))
        place = {state: self.policy.states.index(self.label(state)) for state in dict.fromkeys(states)}
        chosen = drawn(self.policy.matrix[np.array([place[state] for state in states], int)], generator)
        return [self.policy.actions[a] for a in chosen.tolist()]


def _parts(state: Label, names: tuple[str, ...]) -> tuple[Label, ...]:
    parts = state if isinstance(state, tuple | list) else (state,)
    if len(parts) != len(names):
        raise LogError(f"the state {state!r} has {len(parts)} parts; it needs {len(names)}: {', '.join(names)}")
    return tuple(parts)


def decider_of(folder: str | os.PathLike[str]) -> Decider | FunctionPolicy:
    """What to do, by the fit that was saved in a folder."""
    trees, arrays = open_saved(folder)
    if "bins" not in trees and trees["format"] != 1:  # a function of numbers
        from dualq.offline.approximate.kinds import RULE_KINDS

        return unpacked(trees["policy"], arrays, RULE_KINDS)
    if trees["format"] == 1:
        fields = trees["fit"]["fields"]
        old = [Kind("Labels", "Labels", dict, NOUNS[0].make), Kind("Policy", "TablePolicy", dict, TablePolicy)]
        policy, settings = (unpacked(fields[name], arrays, old) for name in ("policy", "settings"))
        return Decider(policy, settings["bins"])
    return Decider(unpacked(trees["policy"], arrays), unpacked(trees["bins"], arrays))


def doubt_of(folder: str | os.PathLike[str]) -> str:
    """What to know before the policy of a saved fit is followed: why its verdict is "do not use"; empty: it is not."""
    said = json.loads((Path(folder) / NUMBERS).read_text())
    if said.get("verdict") != "do not use":
        return ""
    if shown := said["withheld"][: len(said["contradicted"])]:
        return f"do not use: the log shows that {' and that '.join(dict.fromkeys(shown))}"
    limits = ", unless you need the limits" if said["limits"] else ""
    return f"do not use{limits}: the new policy is expected to earn less than what was done so far"


def open_saved(folder: str | os.PathLike[str]) -> tuple[dict[str, Tree], dict[str, Array]]:
    """The trees and the arrays of a saved fit; `CheckpointError` where one of its files is missing or changed."""
    folder = Path(folder)
    try:
        known = json.loads((folder / NUMBERS).read_text())["sha256"][ARRAYS]
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{folder}: no fit was saved here; there is no {NUMBERS}") from None
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder / NUMBERS}: was not written by dualq, or was changed") from None
    trees, arrays = read_saved(folder / ARRAYS)
    if sha256_of(folder / ARRAYS) != known:
        raise CheckpointError(f"{folder}: {ARRAYS} and {NUMBERS} are of different fits")
    return trees, arrays


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
