"""Checkpoints: one file with all that a run needs to go on, and the digests by which its settings are compared.

    state.*      the arrays of the algorithm's State          history.*   the columns of the history
    stream.*     those of the stream of rows                  settings    JSON: all that the run's bits depend on

A file is written whole or not at all, with a SHA-256 (files.py). It is read only under the settings that it was
written with; of others the first difference is named. Classes stand there by their tags, which stay when a class is
renamed. The version that wrote a file is kept in it, and later versions go on from it as long as they read its format.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dualq._version import __version__
from dualq.base import Arrays, CheckpointError, Json, Tagged, as_json_array, from_json_array, load_arrays, save_arrays
from dualq.model import MDP
from dualq.online.algorithm import Algorithm, ProblemT, StateT
from dualq.worlds import Simulator

Array = np.ndarray
Settings = dict[str, Json]

FORMAT = 1


def settings_of(algorithm: Algorithm[StateT, ProblemT], **words: Json) -> Settings:
    """All that a run's bits depend on, the words of the run among them, in a form that can be compared and named."""
    about: Settings = {"format": FORMAT, "dualq": __version__, "algorithm": algorithm.tag}
    return about | _fields(algorithm) | words


def _fields(value: object) -> Settings:
    """{field: its value in words} of a dataclass."""
    if not dataclasses.is_dataclass(value):
        name = type(value).__name__
        raise CheckpointError(f"{name} is no dataclass, so its choices cannot be kept; put @dataclass above the class")
    return {field.name: _words(vars(value)[field.name]) for field in dataclasses.fields(value)}


def _words(value: object) -> Json:
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Simulator):
        return digest(value)
    if isinstance(value, Tagged):
        return {"kind": value.tag} | _fields(value)
    if dataclasses.is_dataclass(value):
        name = type(value).__name__
        raise CheckpointError(f'{name} has no tag to stand in a file; give it one: tag: ClassVar[str] = "{name}"')
    if isinstance(value, Mapping):
        return {str(name): _words(part) for name, part in value.items()}
    array = np.ascontiguousarray(value)
    if array.size <= 8:
        return array.tolist()
    return hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest()


def digest(source: Simulator | MDP) -> str:
    """A digest of all numbers of a model or a simulator."""
    if isinstance(source, MDP):
        words = f"{source.discount!r} {source.reward_range!r}"
        return sha256(words, source.indptr, source.indices, source.probabilities, source.rewards)
    drift = source.drift
    arrays = [source.behaviour.matrix, source.start, source.reward_low, source.reward_high, drift and drift.to.matrix]
    words = f"{digest(source.mdp)} {drift and (drift.kind, drift.rate)} {source.episodic}"
    return sha256(words, *(array for array in arrays if array is not None))


def sha256(words: str, *arrays: Array) -> str:
    """A digest of words and arrays."""
    digest = hashlib.sha256(words.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def save(path: Path, settings: Settings, state: Arrays, walk: Arrays, history: list[dict[str, float]]) -> None:
    """Write a run as it stands: its state, that of its rows, and its history."""
    arrays = {f"state.{name}": array for name, array in state._asdict().items()}
    arrays |= {f"stream.{name}": array for name, array in walk._asdict().items()}
    columns = {name: np.array([row[name] for row in history]) for name in (history[0] if history else ())}
    arrays |= {f"history.{name}": column for name, column in columns.items()}
    save_arrays(path, {**arrays, "settings": as_json_array(settings)})


def resume(path: Path, settings: Settings, state: Arrays, walk: Arrays) -> list[dict[str, float]]:
    """Put a checkpoint's numbers in place; its history."""
    arrays = load_arrays(path)
    if "settings" not in arrays:
        raise CheckpointError(f"{path}: not a checkpoint of a training run")
    before = {"format": 1} | from_json_array(arrays["settings"])  # the first files did not say
    if before["format"] != FORMAT:
        raise CheckpointError(f"{path}: is of the format {before['format']}; this version of dualq reads {FORMAT}")
    for name in sorted({*before, *settings} - {"dualq"}):
        if before.get(name) != settings.get(name):
            if name == "source":
                raise CheckpointError(f"{path}: written on another source of rows; use the same, or another file")
            difference = f"written with {name} = {before.get(name)!r}, asked to go on with {settings.get(name)!r}"
            raise CheckpointError(f"{path}: {difference}; use the same, or another file")
    for kind, target in (("state", state), ("stream", walk)):
        for name, array in target._asdict().items():
            array[...] = arrays[f"{kind}.{name}"]
    names = [name.removeprefix("history.") for name in arrays if name.startswith("history.")]
    columns = [arrays[f"history.{name}"].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
