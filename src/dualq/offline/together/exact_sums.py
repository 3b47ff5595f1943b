"""Sums that are exact in any order: floats as integers of a fixed unit, in words that add without carrying.

    x = m 2^e          every float is a whole number m of some unit 2^e; all agents agree on the finest that any needs
    m mod 2^(32 L)     in two's complement, cut into L limbs of 32 bits, each in a word of 64: up to 2^31 agents' limbs
                       add up word by word, modulo 2^64, and nothing is carried
    sum of m, 2^e      put together again and rounded once, to the nearest float

So the sum does not depend on who adds what first. It is the sum that one pooled table has wherever floats add exactly
(whole numbers, halves, quarters, ...), and elsewhere the nearest float to what a pooled table approaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

Array = np.ndarray

LIMB = 32
MANTISSA = 53


class Unit(NamedTuple):
    """Whole numbers of 2^exponent, modulo 2^(32 limbs). Both are in steps of 32 bits, so they say little of a log."""

    exponent: int
    limbs: int

    @property
    def top(self) -> int:
        """The first power of two that does not fit."""
        return self.exponent + LIMB * self.limbs


def unit_of(values: Array) -> Unit:
    """The unit in which these floats are whole numbers, with room for their sign and for 2^31 agents."""
    values = values[values != 0.0]
    if not values.size:
        return Unit(0, 2)
    mantissas, exponents = _parts(values)
    lowest = mantissas & -mantissas  # the last bit that is set
    last = exponents + np.frexp(lowest.astype(float))[1] - 1
    exponent = int(last.min()) // LIMB * LIMB
    top = -(-(int(np.frexp(values)[1].max()) + 1) // LIMB) * LIMB + LIMB
    return Unit(min(exponent, 0), max(top, 2 * LIMB) // LIMB - min(exponent, 0) // LIMB)


def common_unit(units: Iterable[Unit]) -> Unit:
    """The unit that serves all."""
    units = list(units)
    exponent = min(unit.exponent for unit in units)
    return Unit(exponent, (max(unit.top for unit in units) - exponent) // LIMB)


def whole_numbers(values: Array, exponent: int) -> list[int]:
    """Floats as whole numbers of 2^exponent, exactly."""
    mantissas, exponents = _parts(values)
    shifts = (exponents - exponent).tolist()
    # what is shifted out to the right is zeros: the unit was chosen so
    return [m << e if e >= 0 else m >> -e for m, e in zip(mantissas.tolist(), shifts, strict=True)]


def floats(numbers: Iterable[int], exponent: int) -> Array:
    """Whole numbers of 2^exponent as the nearest floats: Python divides integers with one rounding."""
    if exponent >= 0:
        return np.array([float(m << exponent) for m in numbers], float)
    return np.array([m / (1 << -exponent) for m in numbers], float)


def to_words(numbers: Sequence[int], limbs: int) -> Array:
    """(numbers, limbs) whole numbers, of either sign, as limbs in words of 64 bits."""
    modulus = 1 << (LIMB * limbs)
    data = b"".join((m % modulus).to_bytes(4 * limbs, "little") for m in numbers)
    return np.frombuffer(data, "<u4").reshape(-1, limbs).astype(np.uint64)


def from_words(words: Array) -> list[int]:
    """The whole numbers of words that were added up."""
    limbs = words.shape[1]
    modulus, half = 1 << (LIMB * limbs), 1 << (LIMB * limbs - 1)
    found = []
    for row in words.tolist():
        m = sum(word << (LIMB * place) for place, word in enumerate(row)) % modulus
        found.append(m - modulus if m >= half else m)
    return found


def _parts(values: Array) -> tuple[Array, Array]:
    """x = m 2^e with whole numbers m of at most 53 bits."""
    fractions, exponents = np.frexp(values)
    return np.ldexp(fractions, MANTISSA).astype(np.int64), exponents.astype(np.int64) - MANTISSA
