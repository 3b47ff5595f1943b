"""load: a fit from the folder that it was saved in, of whatever kind."""

from __future__ import annotations

import os

from dualq.base import door
from dualq.model import dataclass_kind, unpacked
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.fit import Fit
from dualq.offline.saved.format_1 import FORMAT_1
from dualq.offline.saved.kinds import KINDS
from dualq.offline.saved.number_kinds import NUMBER_FIT, NUMBER_KINDS
from dualq.offline.saved.opening import open_saved
from dualq.offline.together.iterated import ITERATE_FIT, IterateFit, iterate_kind


@door
def load(folder: str | os.PathLike[str]) -> Fit | NumberFit | IterateFit:
    """What `fit.save(folder)` wrote; `CheckpointError` where fit.json or solution.npz is missing or changed."""
    trees, arrays = open_saved(folder)
    if trees["fit"]["is"] == ITERATE_FIT:
        return unpacked(trees["fit"], arrays, [iterate_kind()])
    if trees["fit"]["is"] == NUMBER_FIT:
        return unpacked(trees["fit"], arrays, [*NUMBER_KINDS, dataclass_kind(NUMBER_FIT, NumberFit)])
    proven = unpacked(trees["fit"], arrays, FORMAT_1 if trees["format"] == 1 else KINDS)
    return Fit(proven, unpacked(trees.get("updated"), arrays))
