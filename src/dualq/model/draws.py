"""Draws that can be repeated anywhere: which action a random policy takes in the case with a given number.

Problem   the same case must get the same answer, in Python, in SQL and on another machine; no generator does that.
Draw      with p = 2^31 - 1, a prime, and the case's whole number c, three rounds
              x <- (x + k)^5  mod p,      k = 11939, 2143651, 1903994321,      from x = c mod p
          x -> x^5 has an inverse modulo p (5 does not divide p - 1), so all remainders are alike; after three rounds
          of degree 5 neighbours have nothing in common. No product exceeds 2^62: whole numbers of 64 bits are enough,
          where an engine has no hash of its own.
Action    the first a with x < t(a),      t(a) = round(p sum_{b <= a} P(b)),  the last one p: whole numbers again, so
          that no rounding tells two machines apart.

It is no cryptography: whoever knows the rule can foresee a draw. Policies that draw by the same numbers share luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Label, Labels, LogError, column_of

Array = np.ndarray
Seed: TypeAlias = "int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None"
Cases: TypeAlias = "str | ArrayLike | None"  # the name of a column, or whole numbers

PRIME = 2**31 - 1
SHIFTS = (11939, 2143651, 1903994321)
BEYOND = 2**63  # what whole numbers of 64 bits do not reach


def scrambled(cases: Array) -> Array:
    """(n,) x of each case, from 0 to PRIME - 1."""
    x = np.mod(cases, PRIME)
    for k in SHIFTS:
        x = np.mod(x + k, PRIME)
        fourth = np.mod(np.mod(x * x, PRIME) ** 2, PRIME)
        x = np.mod(fourth * x, PRIME)
    return x


def thresholds(probabilities: Array) -> Array:
    """(n, A) t(a) of rows of probabilities."""
    below = np.cumsum(probabilities, axis=1)
    t = np.rint(below / below[:, -1:] * PRIME).astype(np.int64)
    return np.where(below >= below[:, -1:], PRIME, t)


def drawn_by_case(matrix: Array, rows: Array, cases: Array) -> Array:
    """(n,) the place of the action in each case, which has one of the rows of a matrix of probabilities."""
    return (thresholds(matrix)[rows] <= scrambled(cases)[:, None]).sum(axis=1)


def drawn(probabilities: Array, seed: Seed = None) -> Array:
    """(n,) the place of an action for each row of probabilities, by a generator."""
    below = np.cumsum(probabilities, axis=1) < generator(seed).random((len(probabilities), 1))
    return np.minimum(below.sum(axis=1), probabilities.shape[1] - 1)


def generator(seed: Seed = None) -> np.random.Generator:
    """NumPy's generator of a seed."""
    try:
        return np.random.default_rng(seed)
    except ValueError:
        wrong = f"seed is {seed!r}; it must be a whole number from 0 on, or a generator of NumPy's"
        raise LogError(wrong, argument="seed", value=seed) from None


def chosen(matrix: Array, rows: Array, seed: Seed = None, cases: Array | None = None) -> Array:
    """(n,) the place of an action for each of these rows of probabilities; -1 for the row -1, which is none.

    Drawn where none has probability one: by a seed, where one is given; else by the cases, where there are some.
    """
    places = np.append(matrix.argmax(axis=1), -1)[rows]
    random = np.flatnonzero(np.append(matrix.max(axis=1) < 1.0, False)[rows])
    if random.size and cases is not None and seed is None:
        places[random] = drawn_by_case(matrix, rows[random], cases[random])
    elif random.size:
        places[random] = drawn(matrix[rows[random]], seed)
    return places


# ---- cases as users give them


def cases_of(table: object, case: Cases, rows: int) -> Array:
    """(n,) the number of each row's case: of a column, as given, or 0, 1, 2, ..."""
    if case is None:
        return np.arange(rows)
    numbers = _whole(column_of(table, case, [case]) if isinstance(case, str) else case)
    if numbers.shape != (rows,):
        raise LogError(f"{numbers.size} cases were given for {rows} rows; give one for each", argument="case")
    return numbers


def one_case(case: int | None) -> Array | None:
    """The number of one case, where there is one."""
    return None if case is None else _whole([case])


def _whole(cases: object) -> Array:
    """(n,) whole numbers of 64 bits; a LogError where one is something else."""
    numbers = np.atleast_1d(np.asarray(cases))
    if numbers.dtype.kind == "f" and (np.abs(numbers) < BEYOND).all() and (numbers == np.rint(numbers)).all():
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu" or not (numbers < BEYOND).all():
        known = (c for c in numbers.tolist() if not isinstance(c, int) or isinstance(c, bool) or c >= BEYOND)
        first = next(known, None)
        wrong = f"a case is {first!r}; cases must be whole numbers of 64 bits, such as the number of an order"
        raise LogError(wrong, argument="case", value=first)
    return numbers.astype(np.int64)


def named_actions(actions: Labels, places: Array, default: Label = None) -> list[Label]:
    """The labels at these places; `default` for -1."""
    labels = np.empty(len(actions) + 1, object)
    for place, label in enumerate((*actions, default)):  # one by one: NumPy would make columns of tuples
        labels[place] = label
    return labels[places].tolist()
