"""A fit on disk: opened and checked, and asked what to do, without what learned it (no SciPy, no Numba).

solution.npz   all of it, as model/packing.py writes it, the arrays of the solution by their names;  `load` (fit.py)
               makes it again
fit.json       the settings and the numbers, and the SHA-256 of the other two files; written last
policy.csv     the policy, for people
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from dualq.base import CheckpointError
from dualq.model import NOUNS, FunctionPolicy, Kind, TablePolicy, Tree, read_saved, unpacked
from dualq.offline.deciding import Decider

Array = np.ndarray

ARRAYS, NUMBERS, POLICY = "solution.npz", "fit.json", "policy.csv"


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


def source_of(folder: str | os.PathLike[str]) -> str:
    """Where the log of a saved fit came from; the folder itself, where it does not say."""
    return json.loads((Path(folder) / NUMBERS).read_text()).get("source") or str(folder)


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
