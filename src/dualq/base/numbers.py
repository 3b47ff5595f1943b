"""Numbers as users give them, checked here and nowhere else: one, an array, a range, a weight for every state.

Whoever asks says what the numbers are for, and which error it is where they cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsFloat, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import ErrorParts, LabelError, LogError, ModelError
from dualq.base.labels import Label, Labels

Array = np.ndarray
Weights: TypeAlias = Mapping[Label, float] | ArrayLike  # {state: weight}, one for all states, or one per state
Refusal: TypeAlias = type[ModelError] | type[LogError]

LARGEST = 1e100  # of what is multiplied and squared later


def checked_number(name: str, value: SupportsFloat | str, error: Refusal = ModelError) -> float:
    """A number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise error(f"{name} is {value!r}; it must be a number", argument=name, value=value) from None


def checked_whole(name: str, value: int, least: int, most: int | None = None, error: Refusal = ModelError) -> int:
    """A whole number within its bounds."""
    right = f"at least {least}" if most is None else f"between {least} and {most}"
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        raise error(f"{name} is {value!r}; it must be a whole number, {right}", argument=name, value=value)
    return int(value)


def checked_numbers(name: str, values: ArrayLike, error: Refusal = ModelError) -> Array:
    """An array of real numbers."""
    try:
        if np.iscomplexobj(values):
            raise TypeError("these are complex")
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as wrong:
        raise error(f"{name} must be an array of real numbers ({wrong})", argument=name) from None


# ---- ranges


def checked_range(
    what: str, given: Iterable[float], error: Refusal = ModelError, **parts: Unpack[ErrorParts]
) -> tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    return _two_numbers(what, given, "two finite numbers", np.finfo(float).max, error, parts)


def checked_interval(
    what: str, given: Iterable[float], error: Refusal = ModelError, **parts: Unpack[ErrorParts]
) -> tuple[float, float]:
    """Two numbers, the smaller one first; they may be infinite."""
    return _two_numbers(what, given, "two numbers", np.inf, error, parts)


def _two_numbers(
    what: str, given: Iterable[float], right: str, largest: float, error: Refusal, parts: ErrorParts
) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not -largest <= low <= high <= largest:
        raise error(f"{what} is {given!r}; it must be {right}, the smaller one first", **{"value": given, **parts})
    return low, high


# ---- weights of states


def checked_weights(name: str, given: Weights, states: Labels, error: Refusal = ModelError) -> Array:
    """(S,) weights that are finite and not negative; those that a mapping does not name are 0."""
    by_label = isinstance(given, Mapping)
    weights = _by_label(name, given, states, error) if by_label else checked_numbers(name, given, error)
    if weights.shape not in ((), (len(states),)):
        right = f"give one number, or one for each of {len(states)} states"
        raise error(f"{name}: the weights have shape {weights.shape}; {right}", argument=name)
    weights = np.full(len(states), weights)
    wrong = ~(np.isfinite(weights) & (weights >= 0.0))
    if wrong.any():
        s = int(wrong.argmax())
        raise weight_error(name, states, s, float(weights[s]), "finite and not negative", error)
    if (weights > LARGEST).any():
        s = int(weights.argmax())
        raise weight_error(name, states, s, float(weights[s]), f"at most {LARGEST:g}", error)
    return weights


def as_distribution(name: str, weights: Array, error: Refusal = ModelError) -> Array:
    """Weights divided by their sum, which must not be zero."""
    total = weights.sum()
    if not total > 0.0:
        raise error(f"{name}: all weights are zero; some state must have a positive one", argument=name)
    return weights / total


def weight_error(
    name: str, states: Labels, s: int, weight: float, right: str, error: Refusal = ModelError
) -> ModelError | LogError:
    """What to say of the weight of one state."""
    words = f"{name}: the weight of {states.describe(s)} is {weight:g}; weights must be {right}"
    return error(words, argument=name, state=states[s], value=weight)


def _by_label(name: str, given: Mapping[Label, float], states: Labels, error: Refusal) -> Array:
    weights = np.zeros(len(states))
    for label, weight in given.items():
        try:
            weights[states.index(label)] += checked_number(f"the weight of {label!r}", weight, error)
        except LabelError as unknown:
            raise error(f"{name}: {unknown}", **{"argument": name, **unknown.parts}) from None
    return weights
