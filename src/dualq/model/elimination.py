"""Incomplete elimination: I - C = L U - E, for a chain whose states stand in the order in which it moves.

Where most of a row of C leads to states before it (a policy that goes to a goal, states by their distance to it),
elimination fills in next to nothing, and what it fills in is small: what is less than DROP is left out (ILUT; Saad,
1994), which leaves the error matrix E.

    x <- x + (L U)^-1 (b - x + C x)      each step shrinks the residual about as much as the entries left out are small

I - C is an M-matrix, and so is what elimination leaves, whatever is dropped: pivots stay positive without pivoting, and
the steps converge (a regular splitting; Meijerink and van der Vorst, 1977).

Gives     factors, or nothing where more than FILL times the entries of C would have to be kept, or LONGEST in one row:
          elsewhere news travels in no order, and elimination does not pay.
Cost      a step is one product with C and one with L and U, which have about 1.7 times as many entries in a maze.

    here      meaning
    L         multipliers, below the diagonal, their signs turned; 1 on the diagonal
    U         above the diagonal, signs turned
    pivot     the diagonal of U
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.base import kernel

Array = np.ndarray

DROP = 1e-4  # entries below it are left out, beside 1 on the diagonal
FILL = 3  # times the entries of C, kept in L and U at most
LONGEST = 64  # entries of one row of L, or of U


class Factors(NamedTuple):
    """L and U by rows, both without their diagonals."""

    lower_ptr: Array
    lower_idx: Array
    lower: Array
    upper_ptr: Array
    upper_idx: Array
    upper: Array
    pivot: Array

    def solve(self, b: Array) -> Array:
        """(L U)^-1 b."""
        x = b.copy()
        _substitute(*self, x)
        return x

    @property
    def entries(self) -> float:
        """Of L and U together."""
        return float(self.lower_ptr[-1]) + float(self.upper_ptr[-1])


def eliminated(ptr: Array, idx: Array, C: Array) -> Factors | None:
    """The factors of I - C, whose rows are `idx[ptr[s]:ptr[s + 1]]` (unsigned); None where they would be too many."""
    n, room = ptr.size - 1, FILL * int(ptr[-1])
    lower, upper = ((np.zeros(n + 1, np.uint64), np.empty(room, idx.dtype), np.empty(room)) for _ in range(2))
    found = Factors(*lower, *upper, np.empty(n))
    return found if _eliminate(ptr, idx, C, DROP, *found) else None


@kernel
def _eliminate(ptr, idx, C, drop, lower_ptr, lower_idx, lower, upper_ptr, upper_idx, upper, pivot):
    """Fill in the factors, row by row; whether there was room for them."""
    n = pivot.size
    w = np.zeros(
        n
    )  # the row in work; all entries off the diagonal are negative, and stand there with their signs turned
    row_of = np.full(n, n, np.uint64)  # the row that has an entry in this column
    below, above = np.empty(LONGEST, np.uint64), np.empty(LONGEST, np.uint64)  # its columns; those below in order
    used_lower, used_upper = np.uint64(0), np.uint64(0)
    one = np.uint64(1)
    for t in range(n):
        row = np.uint64(t)
        num_below, num_above = 0, 0
        w[row], row_of[row] = 1.0, row
        for j in range(ptr[row], ptr[row + one]):
            u = np.uint64(idx[j])
            if row_of[u] == row:
                w[u] += C[j]
                continue
            w[u], row_of[u] = C[j], row
            if num_below == LONGEST or num_above == LONGEST:
                return False
            if u < row:
                num_below = _put(below, num_below, u)
            else:
                above[num_above] = u
                num_above += 1
        i = 0
        while i < num_below:
            k = below[i]
            i += 1
            share = w[k] / pivot[k]
            if share < drop:
                continue
            if used_lower == np.uint64(lower.size):
                return False
            lower_idx[used_lower], lower[used_lower] = k, share
            used_lower += one
            for j in range(upper_ptr[k], upper_ptr[k + one]):
                u = np.uint64(upper_idx[j])
                more = share * upper[j]
                if u == row:
                    w[row] -= more
                elif row_of[u] == row:
                    w[u] += more
                else:
                    if num_below == LONGEST or num_above == LONGEST:
                        return False
                    w[u], row_of[u] = more, row
                    if u < row:
                        num_below = _put(below, num_below, u)
                    else:
                        above[num_above] = u
                        num_above += 1
        pivot[row] = w[row]
        lower_ptr[row + one] = used_lower
        for i in range(num_above):
            u = above[i]
            if w[u] >= drop:
                if used_upper == np.uint64(upper.size):
                    return False
                upper_idx[used_upper], upper[used_upper] = u, w[u]
                used_upper += one
        upper_ptr[row + one] = used_upper
    return True


@kernel
def _put(columns, number, column):
    """One column more, in order; how many there are."""
    i = number
    while i > 0 and columns[i - 1] > column:
        columns[i] = columns[i - 1]
        i -= 1
    columns[i] = column
    return number + 1


@kernel
def _substitute(lower_ptr, lower_idx, lower, upper_ptr, upper_idx, upper, pivot, x):
    """x <- (L U)^-1 x."""
    n = pivot.size
    for t in range(n):
        flow = x[t]
        for j in range(lower_ptr[t], lower_ptr[t + 1]):
            flow += lower[j] * x[lower_idx[j]]
        x[t] = flow
    for i in range(n):
        t = n - 1 - i
        flow = x[t]
        for j in range(upper_ptr[t], upper_ptr[t + 1]):
            flow += upper[j] * x[upper_idx[j]]
        x[t] = flow / pivot[t]
