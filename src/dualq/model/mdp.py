"""The finite Markov decision process (S, A, P, R, alpha) of the paper's Section 2.

Transitions are kept as sparse rows, one per pair of state and action: row s*A + a lists the successors s' of (s, a)
and their probabilities (the three arrays of SciPy's CSR format; a successor may be listed twice). An action that does
not exist in a state has an empty row; an absorbing state is an ordinary state whose rows lead back to it. Everything
is checked once, here, and read-only after. Arrays that have this layout already are shared with the caller, not
copied: do not write to them afterwards.

    paper                      here
    P_a(s, s')                 transitions[s*A + a, s'], P(s, a) for one row
    R_a(s) = E[r | s, a]       rewards[s, a]
    alpha                      discount
    sigma: 0 <= r <= sigma     reward_bound (after reward_shift, if some reward is negative)
    eta                        default_weights()

The paper assumes rewards in [0, sigma]. Users have costs and losses: any finite reward is accepted, and
`nonnegative()` is the one place where rewards are moved into the paper's range, by adding `reward_shift` to every
reward. A shift c moves every value by c / (1 - alpha) and leaves policies and occupancies as they are, provided that
it is paid in every state for ever, absorbing states included. Rewards that are nowhere negative are not moved.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import (
    ErrorParts,
    Labels,
    LabelsLike,
    ModelError,
    Weights,
    as_labels,
    checked_number,
    checked_numbers,
    checked_range,
    checked_weights,
    door,
    kernel,
    unsigned,
    weight_error,
)

Array = np.ndarray
Sparse: TypeAlias = Any  # a SciPy matrix; SciPy has no types

LARGEST_VALUE = 1e200  # squares of values must not overflow
ROW_SUM_TOLERANCE = 1e-6  # single precision: rows this close to one are scaled to sum to one; others are refused


@door
@dataclass(frozen=True, eq=False, init=False)
class MDP:
    """A finite discounted Markov decision process, checked and read-only.

    Parameters
    ----------
    P
        transition probabilities: array (S, A, S), or SciPy sparse (S*A, S) with row s*A + a for (s, a)
    rewards
        expected rewards (S, A), or rewards per transition: array (S, A, S), or sparse (S*A, S)
    discount
        alpha, in [0, 1)
    reward_bound
        range of the rewards as drawn, where it is wider than the expected ones: a number b for [0, b] ([-b, b] if
        some reward is negative), or a pair (low, high)
    states, actions
        labels; 0, 1, 2, ... if not given
    available
        boolean (S, A): which actions exist in which state; all, if not given. Rows of P and rewards of pairs that
        are not available are not read.

    Examples
    --------
    A machine that is new or worn; running it wears it, a repair makes it new:

    >>> import dualq
    >>> P = [[[0.7, 0.3], [1.0, 0.0]],
    ...      [[0.0, 1.0], [1.0, 0.0]]]
    >>> mdp = dualq.MDP(P, [[10.0, 4.0], [3.0, 4.0]], discount=0.9, states=["new", "worn"], actions=["run", "repair"])
    >>> mdp.num_states, mdp.num_actions, mdp.reward_range
    (2, 2, (3.0, 10.0))
    >>> dualq.solve(mdp).primal_policy.act("worn")
    'repair'
    >>> dualq.MDP([[[0.7, 0.2]], [[0.0, 1.0]]], [[1.0], [0.0]], discount=0.9)
    Traceback (most recent call last):
    dualq.base.errors.ModelError: row (state=0, action=0) sums to 0.9; it must sum to 1
    """

    indptr: Array = field(repr=False)  # (S*A + 1,) where the row of each pair starts
    indices: Array = field(repr=False)  # (nonzeros,) successors
    probabilities: Array = field(repr=False)  # (nonzeros,)
    rewards: Array = field(repr=False)  # (S, A) expected; 0 where the action is not available
    discount: float
    reward_range: tuple[float, float]  # of the rewards as drawn, in the user's units
    states: Labels
    actions: Labels

    def __init__(
        self,
        P: ArrayLike | Sparse,
        rewards: ArrayLike | Sparse,
        discount: float,
        reward_bound: float | tuple[float, float] | None = None,
        *,
        states: LabelsLike = None,
        actions: LabelsLike = None,
        available: ArrayLike | None = None,
    ):
        discount = checked_discount(discount)
        rows, num_actions = _sparse_rows(P)
        num_states = rows.shape[1]
        states = as_labels(states, num_states, "state")
        actions = as_labels(actions, num_actions, "action")

        exists = None if available is None else _checked_available(available, states, num_actions)
        if exists is not None:
            rows = _only(rows, exists.ravel())

        pairs = _Pairs(states, actions)
        indptr, indices, probabilities = _checked_rows(rows, exists, pairs)
        shape = num_states, num_actions
        expected, drawn_range = _expected_rewards(rewards, indptr, indices, probabilities, shape, pairs)
        _check_size(drawn_range, discount)
        self._set(
            indptr=indptr,
            indices=indices,
            probabilities=probabilities,
            rewards=expected,
            discount=discount,
            reward_range=_checked_range(reward_bound, drawn_range),
            states=states,
            actions=actions,
        )

    def _set(self, **fields: Array | Labels | float | tuple[float, float]) -> None:
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # ---- what a reader asks of a model

    @property
    def num_states(self) -> int:
        """|S|."""
        return len(self.states)

    @property
    def num_actions(self) -> int:
        """|A|."""
        return len(self.actions)

    @cached_property
    def transitions(self) -> sp.csr_array:
        """P as a SciPy matrix (S*A, S) that shares this model's memory; row s*A + a belongs to (s, a)."""
        shape = (self.num_states * self.num_actions, self.num_states)
        return sp.csr_array((self.probabilities, self.indices, self.indptr), shape=shape, copy=False)

    @cached_property
    def available(self) -> Array:
        """Boolean (S, A): the actions that exist in each state."""
        mask = (self.indptr[1:] > self.indptr[:-1]).reshape(self.num_states, self.num_actions)
        mask.flags.writeable = False
        return mask

    @cached_property
    def absorbing(self) -> Array:
        """Boolean (S,): the states that no available action leaves."""
        return _never_left(*self.rows, self.num_actions)

    @property
    def rows(self) -> tuple[Array, Array, Array]:
        """(indptr, indices, probabilities) as the kernels take them."""
        return unsigned(self.indptr), unsigned(self.indices), self.probabilities

    def P(self, s: int, a: int) -> tuple[Array, Array]:
        """Successors of (s, a) and their probabilities."""
        row = slice(*self.indptr[s * self.num_actions + a :][:2])
        return self.indices[row], self.probabilities[row]

    # ---- the paper's units

    @property
    def reward_shift(self) -> float:
        """What `nonnegative()` adds to every reward: nothing, unless some reward is negative."""
        return max(0.0, -self.reward_range[0])

    @property
    def value_shift(self) -> float:
        """What the shift adds to every value: reward_shift / (1 - discount)."""
        return self.reward_shift / (1.0 - self.discount)

    @property
    def reward_bound(self) -> float:
        """The paper's sigma: all rewards are in [0, sigma] once `reward_shift` is added."""
        return self.reward_range[1] + self.reward_shift

    def nonnegative(self) -> MDP:
        """The same model with rewards in [0, reward_bound], as the paper assumes; itself, if no reward is negative."""
        if self.reward_shift == 0.0:
            return self
        return self.moved(self.reward_shift)

    def moved(self, shift: float) -> MDP:
        """The same model with `shift` added to every reward, absorbing states included: V moves by shift/(1-alpha)."""
        moved = copy.copy(self)
        low, high = self.reward_range
        rewards = np.where(self.available, self.rewards + shift, 0.0)
        moved._set(rewards=rewards, reward_range=(low + shift, high + shift))
        return moved

    def paying(self, rewards: ArrayLike | Sparse) -> MDP:
        """The same model with other rewards, (S, A) or per transition; its rows were checked and are not again."""
        paying, pairs = copy.copy(self), _Pairs(self.states, self.actions)
        expected, drawn = _expected_rewards(
            rewards, self.indptr, self.indices, self.probabilities, self.rewards.shape, pairs
        )
        _check_size(drawn, self.discount)
        paying._set(rewards=expected, reward_range=drawn)
        return paying

    def default_weights(self) -> Array:
        """The paper's eta: reward_bound / |S| in each state, 1 / |S| if the bound is zero (eta must be positive)."""
        return np.full(self.num_states, (self.reward_bound or 1.0) / self.num_states)

    def checked_weights(self, weights: Weights | None) -> Array:
        """Eta as an array: the default where it is None, one number for all states, or one per state; positive."""
        if weights is None:
            return self.default_weights()
        eta = self.checked_start(weights)
        if not eta.all():
            raise weight_error("weights", self.states, int((eta == 0.0).argmax()), 0.0, "positive")
        return eta

    def checked_start(self, weights: Weights) -> Array:
        """Where something starts, as an array: one number for all states, or one per state; some may be zero."""
        return checked_weights("weights", weights, self.states)

    def q_values(self, V: Array) -> Array:
        """Q = R + alpha P V as an array (S, A); -inf where the action does not exist."""
        Q = self.rewards + self.discount * (self.transitions @ V).reshape(self.rewards.shape)
        return np.where(self.available, Q, -np.inf)


# ---- checks at the border


def checked_discount(discount: SupportsFloat | str) -> float:
    """A discount as a number; a ModelError where it is none."""
    discount = checked_number("discount", discount)
    if not 0.0 <= discount < 1.0:
        advice = " (for episodes that end, use absorbing states and, say, 0.999)" if discount == 1.0 else ""
        raise ModelError(
            f"discount is {discount:g}; it must be at least 0 and below 1{advice}", argument="discount", value=discount
        )
    return discount


def _check_size(rewards: tuple[float, float], discount: float) -> None:
    largest = max(abs(rewards[0]), abs(rewards[1])) / (1.0 - discount)
    if largest > LARGEST_VALUE:
        raise ModelError(f"rewards up to {largest * (1.0 - discount):g} make values up to {largest:g}; scale them down")


def _sparse_rows(P: ArrayLike | Sparse) -> tuple[Sparse, int]:
    """P as CSR (S*A, S), and A."""
    if sp.issparse(P):
        rows: Sparse = P
        num_rows, num_states = rows.shape
        if num_states == 0 or num_rows == 0 or num_rows % num_states:
            raise ModelError(f"sparse P has shape {rows.shape}; it must be (S*A, S), row s*A + a for state s, action a")
        return sp.csr_array(rows), num_rows // num_states
    P = checked_numbers("P", P)
    if P.ndim != 3 or P.shape[0] != P.shape[2] or 0 in P.shape:
        raise ModelError(f"P has shape {P.shape}; it must be (S, A, S): P[s, a, s'] (or sparse, (S*A, S))")
    num_states, num_actions, _ = P.shape
    return sp.csr_array(P.reshape(num_states * num_actions, num_states)), num_actions


def _checked_available(available: ArrayLike, states: Labels, num_actions: int) -> Array:
    """(S, A) which pairs exist; every state has an action."""
    exists = np.asarray(available)
    if exists.dtype != bool and not np.isin(exists, (0, 1)).all():
        raise ModelError("available has entries that are not True or False")
    exists = exists.astype(bool)
    if exists.shape != (len(states), num_actions):
        raise ModelError(f"available has shape {exists.shape}; it must be {(len(states), num_actions)}")
    lacking = ~exists.any(axis=1)
    if lacking.any():
        s = int(lacking.argmax())
        words = f"no action is available in {states.describe(s)}; give it at least one"
        raise ModelError(words, argument="available", state=states[s])
    return exists


def _only(rows: Sparse, wanted: Array) -> sp.csr_array:
    """The same rows, those that are not wanted emptied."""
    lengths = np.diff(rows.indptr)
    entries = np.repeat(wanted, lengths)
    indptr = np.concatenate([[0], np.cumsum(lengths * wanted)])
    return sp.csr_array((rows.data[entries], rows.indices[entries], indptr), shape=rows.shape)


@dataclass(frozen=True)
class _Pairs:
    """The rows of a model, s*A + a, in its labels: how errors name them."""

    states: Labels
    actions: Labels

    def named(self, row: int) -> str:
        s, a = divmod(row, len(self.actions))
        return f"({self.states.describe(s)}, {self.actions.describe(a)})"

    def parts(self, row: int) -> ErrorParts:
        s, a = divmod(row, len(self.actions))
        return {"state": self.states[s], "action": self.actions[a]}


def _checked_rows(rows: Sparse, available: Array | None, pairs: _Pairs) -> tuple[Array, Array, Array]:
    """The three CSR arrays, every available pair's row a distribution; in the caller's memory where the types fit."""
    num_rows, num_states = rows.shape
    # One integer type for both index arrays, as SciPy wants it: four bytes unless there are over 2**31 nonzeros.
    integer = np.int32 if rows.nnz < 2**31 else np.int64
    indptr, indices = (np.ascontiguousarray(index, integer).view() for index in (rows.indptr, rows.indices))
    probabilities = np.ascontiguousarray(rows.data, float).view()
    wanted = np.ones(num_rows, bool) if available is None else available.ravel()
    row, deviation = _check(unsigned(indptr), unsigned(indices), probabilities, wanted, num_states, ROW_SUM_TOLERANCE)
    if row >= 0:
        entries = slice(indptr[row], indptr[row + 1])
        wrong = _complaint(indices[entries], probabilities[entries], num_states)
        raise ModelError(f"row {pairs.named(row)} {wrong}", **pairs.parts(row))
    if deviation > 1e-15 * max(1, rows.nnz // num_rows):  # more than rounding
        sums = np.bincount(np.repeat(np.arange(num_rows), np.diff(indptr)), probabilities, num_rows)
        probabilities = probabilities / np.repeat(sums, np.diff(indptr))
    return indptr, indices, probabilities


def _complaint(successors: Array, probabilities: Array, num_states: int) -> str:
    """What is wrong with a row that the kernel refused."""
    for s, p in zip(successors, probabilities, strict=True):
        if not 0 <= s < num_states:
            return f"leads to state {s}; states are 0 to {num_states - 1}"
        if not 0.0 <= p < np.inf:
            return f"has the probability {p:g}; probabilities must be finite and not negative"
    advice = "" if len(successors) else "; if the action does not exist there, say so with `available`"
    return f"sums to {probabilities.sum():.10g}; it must sum to 1{advice}"


@kernel
def _check(indptr, indices, probabilities, wanted, num_states, tolerance):
    """The first row that is not a distribution over the states (-1 if all are), and how far the sums are from one."""
    furthest = 0.0
    begin = indptr[0]
    for row in range(wanted.size):
        end = indptr[row + 1]
        total, least, last = 0.0, 0.0, 0
        for j in range(begin, end):
            total += probabilities[j]
            least = min(least, probabilities[j])
            last = max(last, indices[j])
        begin = end
        if wanted[row]:
            deviation = abs(total - 1.0)
            if not deviation <= tolerance or least < 0.0 or last >= num_states:  # NaN fails the first
                return row, deviation
            furthest = max(furthest, deviation)
    return -1, furthest


@kernel
def _never_left(indptr, indices, probabilities, num_actions):
    num_states = (indptr.size - 1) // num_actions
    never_left = np.ones(num_states, np.bool_)
    for s in range(num_states):
        for j in range(indptr[s * num_actions], indptr[(s + 1) * num_actions]):
            if indices[j] != s and probabilities[j] > 0.0:
                never_left[s] = False
                break
    return never_left


def _expected_rewards(
    given: ArrayLike | Sparse,
    indptr: Array,
    indices: Array,
    probabilities: Array,
    shape: tuple[int, int],
    pairs: _Pairs,
) -> tuple[Array, tuple[float, float]]:
    """Expected rewards (S, A), and the range of the rewards that transitions of positive probability pay."""
    num_states, num_actions = shape
    sparse = sp.issparse(given)
    rewards: Sparse = given if sparse else checked_numbers("rewards", given)
    if not sparse and rewards.shape == shape:
        expected = np.zeros(shape)
        row, low, high = _copy_rewards(unsigned(indptr), np.ascontiguousarray(rewards).ravel(), expected.ravel())
        if row >= 0:
            value = float(rewards.flat[row])
            words = f"reward of {pairs.named(row)} is {value:g}; rewards must be finite numbers"
            raise ModelError(words, **pairs.parts(row) | ErrorParts(value=value))
        return expected, (low, high)
    elif rewards.shape == ((num_states * num_actions, num_states) if sparse else (*shape, num_states)):
        row_of = np.repeat(np.arange(num_states * num_actions), np.diff(indptr))
        flat = sp.csr_array(rewards) if sparse else rewards.reshape(-1, num_states)
        per_transition = np.asarray(flat[row_of, indices], dtype=float).ravel()
        possible = probabilities > 0.0
        bad = possible & ~np.isfinite(per_transition)
        if bad.any():
            j = int(bad.argmax())
            row, value = int(row_of[j]), float(per_transition[j])
            words = f"reward of {pairs.named(row)} to state {indices[j]} is {value:g}; rewards must be finite numbers"
            raise ModelError(words, **pairs.parts(row) | ErrorParts(value=value))
        paid = per_transition[possible]
        expected = np.bincount(row_of[possible], probabilities[possible] * paid, num_states * num_actions).reshape(
            shape
        )
    else:
        raise ModelError(
            f"rewards have shape {rewards.shape}; they must be {shape} or {(*shape, num_states)} (S, A[, S]), "
            f"or sparse {(num_states * num_actions, num_states)}"
        )
    return expected, (float(paid.min()), float(paid.max()))


@kernel
def _copy_rewards(indptr, rewards, out):
    """Copy the rewards of the pairs that exist; the first that is not finite (-1: none), the least, the greatest."""
    low, high = np.inf, -np.inf
    for row in range(out.size):
        if indptr[row] != indptr[row + 1]:
            if not -np.inf < rewards[row] < np.inf:
                return row, low, high
            out[row] = rewards[row]
            low = min(low, rewards[row])
            high = max(high, rewards[row])
    return -1, low, high


def _checked_range(reward_bound: float | tuple[float, float] | None, drawn: tuple[float, float]) -> tuple[float, float]:
    if reward_bound is None:
        return drawn
    ends = np.atleast_1d(np.asarray(reward_bound, dtype=object))
    if np.ndim(reward_bound) == 0:
        bound = checked_number("reward_bound", ends[0])
        low, high = (0.0 if drawn[0] >= 0.0 else -bound), bound
    elif ends.shape == (2,):
        low, high = checked_range("reward_bound", ends, argument="reward_bound")
    else:
        raise ModelError(f"reward_bound is {reward_bound!r}; it must be a number or a pair (low, high)")
    if not (np.isfinite(low) and np.isfinite(high) and low <= drawn[0] and drawn[1] <= high):
        here, given = f"[{drawn[0]:g}, {drawn[1]:g}]", f"[{low:g}, {high:g}]"
        raise ModelError(f"rewards lie in {here}, outside of the bound given, {given}")
    return low, high
