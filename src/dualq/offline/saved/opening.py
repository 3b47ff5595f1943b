"""A fit on disk: opened and checked, and asked what to do, without what learned it (no SciPy, no Numba).

solution.npz   all of it, as model/packing.py writes it, the arrays of the solution by their names;  `load` (fit.py)
               makes it again
fit.json       the settings and the numbers, and the SHA-256 of the other two files and of itself; written last
policy.csv     the policy, for people
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dualq._version import __version__
from dualq.base import CheckpointError, locked, write_whole
from dualq.model import FORMAT, NOUNS, FunctionPolicy, Kind, TablePolicy, Tree, read_saved, unpacked
from dualq.offline.deciding import Decider

if TYPE_CHECKING:
    from dualq.offline.approximate.surroundings import Surroundings

Array = np.ndarray

ARRAYS, NUMBERS, POLICY = "solution.npz", "fit.json", "policy.csv"


def decider_of(folder: str | os.PathLike[str]) -> Decider | FunctionPolicy:
    """What to do, by the fit that was saved in a folder."""
    trees, arrays = open_saved(folder)
    if _of_numbers(trees):
        from dualq.offline.approximate.kinds import RULE_KINDS

        return unpacked(trees["policy"], arrays, RULE_KINDS)
    if trees["format"] == 1:
        fields = trees["fit"]["fields"]
        old = [Kind("Labels", "Labels", dict, NOUNS[0].make), Kind("Policy", "TablePolicy", dict, TablePolicy)]
        policy, settings = (unpacked(fields[name], arrays, old) for name in ("policy", "settings"))
        return Decider(policy, settings["bins"])
    return Decider(unpacked(trees["policy"], arrays), unpacked(trees["bins"], arrays))


def surroundings_of(folder: str | os.PathLike[str]) -> Surroundings | None:
    """By what a saved fit over numbers tells a state that is far from its log; None of a table, which refuses those."""
    trees, arrays = open_saved(folder)
    if not _of_numbers(trees):
        return None
    from dualq.offline.approximate.kinds import RULE_KINDS
    from dualq.offline.approximate.surroundings import Surroundings

    return Surroundings.of(unpacked(trees["fit"]["fields"]["sample"], arrays, RULE_KINDS))


def _of_numbers(trees: Mapping[str, Tree]) -> bool:
    """Whether the policy is a function of numbers."""
    return "bins" not in trees and trees["format"] != 1


def doubt_of(folder: str | os.PathLike[str]) -> str:
    """What to know before the policy of a saved fit is followed: why its verdict is "do not use"; empty: it is not."""
    said = _numbers_of(Path(folder))
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
    _numbers_of(folder)  # it is there
    with locked(folder, shared=True):  # nobody is putting another fit in its place
        trees, arrays = read_saved(folder / ARRAYS)
        found, known = sha256_of(folder / ARRAYS), _numbers_of(folder)["sha256"][ARRAYS]
    if found != known:
        raise CheckpointError(f"{folder}: {ARRAYS} and {NUMBERS} are of different fits")
    return trees, arrays


def _numbers_of(folder: Path) -> dict[str, Tree]:
    """What fit.json says."""
    changed = CheckpointError(f"{folder / NUMBERS}: was not written by dualq, or was changed")
    try:
        numbers = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
        itself = numbers["sha256"].pop(NUMBERS, None)  # older versions kept none
        if itself not in (None, _digest(numbers)) or ARRAYS not in numbers["sha256"]:
            raise changed
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{folder}: no fit was saved here; there is no {NUMBERS}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise changed from None
    return numbers


def _text(numbers: Mapping[str, object]) -> str:
    return json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _digest(numbers: Mapping[str, object]) -> str:
    return hashlib.sha256(_text(numbers).encode()).hexdigest()


def write_numbers(folder: Path, summary: Mapping[str, object]) -> None:
    """fit.json: what a fit says of itself, beside the other files, which stand in the folder already."""
    sums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    numbers = {"format": FORMAT, "dualq": __version__, **summary, "sha256": sums}
    sums[NUMBERS] = _digest(json.loads(_text(numbers)))
    write_whole(folder / NUMBERS, _text(numbers).encode())


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
