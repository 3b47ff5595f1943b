"""Kernels that draw rows from the arrays of a simulator: one walk, or rows independent of each other.

trajectory   s_0 ~ start, a_k ~ theta_k(. | s_k), s_{k+1} ~ P(. | s_k, a_k): one walk. Where s' ends an episode, the
             row says so and the next one begins anew: s_{k+1} ~ start
iid          (s_k, a_k) ~ tau_k afresh for every k, as the paper's proofs ask: tau_k is the distribution that the
             walk has after k steps, carried along exactly. Costs O(nonzeros) a step until tau_k has settled.

paper         here
theta_k       behaviours, mixed by behaviour_weight(k)
v_k           state.v
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.base import advance, copy_into, kernel, uniform

Array = np.ndarray

ZERO, ONE = np.uint64(0), np.uint64(1)
SHORT = np.uint64(16)  # the longest row that is scanned and not halved
FEW = np.uint64(4)  # actions that are scanned from the first: a guess would take longer
ABOVE = 2.0  # more than any number that is drawn


NO_DRIFT, POWER, WAVE = range(3)  # how a behaviour drifts


class WalkState(NamedTuple):
    """Where a simulated walk stands."""

    k: Array  # (1,) rows drawn
    s: Array  # (1,) the state reached
    v: Array  # (S,) v_k, for iid; empty for a trajectory
    settled: Array  # (1,) whether v_k has stopped changing
    rng: Array  # (1,)


class Tables(NamedTuple):
    """A simulator as its kernels read it."""

    indptr: Array
    indices: Array
    cumulated: Array  # of the probabilities, within each row; ABOVE from the last that is positive on
    behaviours: Array  # (1 or 2, S, A) the same of theta, and of the policy it drifts to
    start: Array  # (S,) cumulated
    rewards: Array  # (S, A) expected
    low: Array  # (nonzeros,) range of each reward, or empty where a reward is always the expected one
    high: Array
    drift_kind: int
    drift_rate: float
    theta: Array  # (S, A)
    to: Array  # (S, A) the policy that theta drifts to
    first: Array  # (S,) start, not cumulated
    ends: Array  # (S,) whether an episode ends in a state; empty where there are no episodes


@kernel
def cumulated_rows(indptr, probabilities):
    """The cumulated probabilities of each row; ABOVE from the last positive one on, which takes what rounding left."""
    cumulated = np.empty(probabilities.size)
    for row in range(indptr.size - 1):
        total, last = 0.0, indptr[row]
        for j in range(indptr[row], indptr[row + 1]):
            total += probabilities[j]
            cumulated[j] = total
            last = j if probabilities[j] > 0.0 else last
        for j in range(last, indptr[row + 1]):
            cumulated[j] = ABOVE
    return cumulated


@kernel
def find(cumulated, begin, end, u):
    """The first place in begin, ..., end - 1 whose cumulated probability exceeds u; there must be one."""
    low, high = begin, end - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def behaviour_weight(kind: int, rate: float, k: int) -> float:
    """How much of the first policy is left in the behaviour at step k (the rest is the policy it drifts to)."""
    if kind == POWER:
        return (k + 1.0) ** -rate
    if kind == WAVE:
        return 0.5 + 0.5 * np.cos(rate * np.log(k + 1.0))
    return 1.0


@kernel
def act(tables, s, k, x):
    """a ~ theta_k(. | s): one number picks the policy where the behaviour drifts, one the action."""
    which = 0
    if tables.drift_kind != NO_DRIFT:
        x = advance(x)
        which = 0 if uniform(x) < behaviour_weight(tables.drift_kind, tables.drift_rate, k) else 1
    x = advance(x)
    theta = tables.behaviours[which, s]
    return find(theta, 0, theta.size, uniform(x)), x


@kernel
def follow(tables, s, a, x):
    """(r, s') after (s, a); a number is drawn for the reward only where it is random."""
    row = s * tables.rewards.shape[1] + a
    x = advance(x)
    j = find(tables.cumulated, np.int64(tables.indptr[row]), np.int64(tables.indptr[row + 1]), uniform(x))
    reward = tables.rewards[s, a]
    if tables.low.size:
        reward = tables.low[j]
        width = tables.high[j] - reward
        if width > 0.0:
            x = advance(x)
            reward += width * uniform(x)
    return reward, np.int64(tables.indices[j]), x


@kernel
def walk(tables, state, rows):
    """One walk, continued: `act` and `follow`, written out.

    Short rows are scanned, not halved; the scan of the actions begins where it would end if they were equally likely.
    No array is handed on inside the loop: counting references to it takes longer than the step. Indices are unsigned,
    see kernels.py.
    """
    indptr, indices, cumulated, rewards = tables.indptr, tables.indices, tables.cumulated, tables.rewards.ravel()
    behaviours, low, high, ends = tables.behaviours.ravel(), tables.low, tables.high, tables.ends
    num_states, num_actions = np.uint64(tables.rewards.shape[0]), np.uint64(tables.rewards.shape[1])
    k, x = state.k[0], state.rng[0]
    if state.s[0] < 0:
        x = advance(x)
        state.s[0] = find(tables.start, 0, tables.start.size, uniform(x) * tables.start[-1])
    s = np.uint64(state.s[0])
    for i in range(rows.s.size):
        theta = s * num_actions
        if tables.drift_kind != NO_DRIFT:
            x = advance(x)
            if not uniform(x) < behaviour_weight(tables.drift_kind, tables.drift_rate, k):
                theta += num_states * num_actions
        x = advance(x)
        if num_actions <= SHORT:
            u = uniform(x)
            a = ZERO
            if num_actions > FEW:
                a = np.uint64(np.int64(u * float(num_actions)))
                while a > ZERO and behaviours[theta + a - ONE] > u:
                    a -= ONE
            while behaviours[theta + a] <= u:
                a += ONE
            begin = np.uint64(indptr[s * num_actions + a])
        else:
            a = np.uint64(find(behaviours, np.int64(theta), np.int64(theta + num_actions), uniform(x))) - theta
            begin = np.uint64(indptr[s * num_actions + a])
        pair = s * num_actions + a

        end = np.uint64(indptr[pair + ONE])
        x = advance(x)
        if end - begin <= SHORT:
            u = uniform(x)
            j = begin
            while cumulated[j] <= u:
                j += ONE
            s_next = np.uint64(indices[j])
        else:
            j = np.uint64(find(cumulated, np.int64(begin), np.int64(end), uniform(x)))
            s_next = np.uint64(indices[j])
        r = rewards[pair]
        if low.size:
            r = low[j]
            width = high[j] - r
            if width > 0.0:
                x = advance(x)
                r += width * uniform(x)
        ended = ends[s_next] if ends.size else False
        rows.s[i], rows.a[i], rows.r[i], rows.s_next[i], rows.ended[i] = s, a, r, s_next, ended
        s = s_next
        if ended:
            x = advance(x)
            s = np.uint64(find(tables.start, 0, tables.start.size, uniform(x) * tables.start[-1]))
        k += 1
    state.k[0], state.s[0], state.rng[0] = k, s, x


@kernel
def move_on(tables: Tables, probabilities: Array, v: Array, k: int) -> bool:
    """v_{k+1} = P_theta_k' v_k, in place of v_k; whether it has settled: it changed no more, and never will.

    What reaches an end begins anew.
    """
    num_states, num_actions = tables.rewards.shape
    weight = behaviour_weight(tables.drift_kind, tables.drift_rate, k)
    moved = np.zeros(num_states)
    for t in range(num_states):
        for b in range(num_actions):
            flow = v[t] * (weight * tables.theta[t, b] + (1.0 - weight) * tables.to[t, b])
            row = t * num_actions + b
            for j in range(tables.indptr[row], tables.indptr[row + 1]):
                moved[tables.indices[j]] += flow * probabilities[j]
    if tables.ends.size:
        ended = 0.0
        for t in range(num_states):
            if tables.ends[t]:
                ended, moved[t] = ended + moved[t], 0.0
        moved += ended * tables.first
    change = np.abs(moved - v).max()
    copy_into(v, moved)
    return tables.drift_kind == NO_DRIFT and change < 1e-17


@kernel
def draw_iid(tables, probabilities, state, rows):
    """(s, a) ~ tau_k, independent of every other row."""
    k, x, v = state.k[0], state.rng[0], state.v
    num_states, cumulated = v.size, np.cumsum(v)
    for i in range(rows.s.size):
        x = advance(x)
        s = find(cumulated, 0, num_states, uniform(x) * cumulated[-1])
        a, x = act(tables, s, k, x)
        r, s_next, x = follow(tables, s, a, x)
        ended = tables.ends[s_next] if tables.ends.size else False
        rows.s[i], rows.a[i], rows.r[i], rows.s_next[i], rows.ended[i] = s, a, r, s_next, ended
        if not state.settled[0]:
            state.settled[0] = move_on(tables, probabilities, v, k)
            cumulated = np.cumsum(v)
        k += 1
    state.k[0], state.rng[0] = k, x
