"""Step sizes: numbers for the steps k, k+1, ..., computed a chunk at a time, the same bits however steps are chunked.

    inverse_sqrt(scale, offset=1)   scale / sqrt(k + offset)      the paper's gamma_k, with scale gamma_0
    constant(scale)                 scale
    an array                        one number per step

Only operations that round correctly are used (square root, division), so that a number does not depend on where in a
chunk its step stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, door

Array = np.ndarray


@dataclass(frozen=True)
class StepSize:
    """gamma_k = scale / sqrt(k + offset), or scale where offset is None."""

    scale: float
    offset: float | None
    tag: ClassVar[str] = "StepSize"

    def __post_init__(self):
        if not (np.isfinite(self.scale) and self.scale > 0.0):
            raise ModelError(f"the step size has the scale {self.scale:g}; it must be positive")
        if self.offset is not None and not self.offset > 0.0:
            raise ModelError(f"the step size has the offset {self.offset:g}; it must be positive")

    def steps(self, k: int, count: int) -> Array:
        """gamma_k, ..., gamma_{k + count - 1}."""
        if self.offset is None:
            return np.full(count, self.scale)
        return self.scale / np.sqrt(np.arange(k, k + count) + self.offset)


@dataclass(frozen=True, eq=False)
class Listed:
    """gamma_k from a list."""

    values: Array
    tag: ClassVar[str] = "Listed"

    def steps(self, k: int, count: int) -> Array:
        """gamma_k, ..., gamma_{k + count - 1}."""
        if k + count > self.values.size:
            raise ModelError(f"step sizes were given for {self.values.size} steps; step {k + count - 1} has none")
        return self.values[k : k + count]


Schedule = StepSize | Listed


@door
def inverse_sqrt(scale: float, offset: float = 1.0) -> StepSize:
    """scale / sqrt(k + offset).

    Examples
    --------
    >>> import dualq
    >>> dualq.inverse_sqrt(2.0).steps(0, 4).round(3)
    array([2.   , 1.414, 1.155, 1.   ])
    """
    return StepSize(float(scale), float(offset))


@door
def constant(scale: float) -> StepSize:
    """The same step size for ever.

    Examples
    --------
    >>> import dualq
    >>> dualq.constant(0.1).steps(7, 3)
    array([0.1, 0.1, 0.1])
    """
    return StepSize(float(scale), None)


def as_step_size(step_size: Schedule | ArrayLike) -> Schedule:
    """A step size as the user gave it: a schedule, a number, or an array."""
    if isinstance(step_size, StepSize | Listed):
        return step_size
    try:
        values = np.array(step_size, dtype=float)
    except (TypeError, ValueError):
        right = "inverse_sqrt(scale), constant(scale), a number, or an array with one number per step"
        raise ModelError(f"the step size is {step_size!r}; it must be {right}") from None
    if values.ndim == 0:
        return constant(float(values))
    if values.ndim != 1:
        raise ModelError(f"the step sizes have shape {values.shape}; give a list with one number per step")
    bad = ~(np.isfinite(values) & (values > 0.0))
    if bad.any():
        k = int(bad.argmax())
        raise ModelError(f"step size {k} is {values.flat[k]:g}; step sizes must be positive, one per step")
    return Listed(values)


def longest(step_size: object) -> int | None:
    """How many steps a list of step sizes is for; None for any number."""
    return step_size.values.size if isinstance(step_size, Listed) else None
