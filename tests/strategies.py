"""Hypothesis strategies: small random models of every kind that users bring.

Probabilities and rewards are drawn from coarse grids, so that ties, zero rewards and impossible transitions are common.
Masks, absorbing states, negative rewards, discount 0, one state, one action, dense and sparse input all occur.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from dualq.model.mdp import MDP

DISCOUNTS = (0.0, 0.3, 0.5, 0.9, 0.99)


@st.composite
def mdps(
    draw, max_states: int = 4, max_actions: int = 3, discounts: tuple[float, ...] = DISCOUNTS, masks: bool = True
) -> MDP:
    """A model with up to max_states states and max_actions actions."""
    S = draw(st.integers(1, max_states))
    A = draw(st.integers(1, max_actions))
    grid = st.lists(st.integers(0, 4), min_size=S * A * S, max_size=S * A * S)
    P = np.array(draw(grid), dtype=float).reshape(S, A, S)
    P[P.sum(axis=2) == 0.0] = 1.0  # a row without weights goes anywhere
    absorbing = draw(st.lists(st.booleans(), min_size=S, max_size=S)) if draw(st.booleans()) else [False] * S
    for s in np.flatnonzero(absorbing):
        P[s] = np.eye(S)[s]
    P /= P.sum(axis=2, keepdims=True)
    discount = draw(st.sampled_from(discounts))
    available = draw(availability(S, A)) if masks and draw(st.booleans()) else None
    rewards = draw(reward_tables(S, A))
    if draw(st.booleans()):
        return MDP(sp.csr_array(P.reshape(S * A, S)), rewards, discount, available=available)
    return MDP(P, rewards, discount, available=available)


@st.composite
def availability(draw, S: int, A: int) -> np.ndarray:
    """Which actions exist in which state: at least one in each."""
    mask = np.array(draw(st.lists(st.booleans(), min_size=S * A, max_size=S * A))).reshape(S, A)
    kept = draw(st.lists(st.integers(0, A - 1), min_size=S, max_size=S))
    mask[np.arange(S), kept] = True
    return mask


@st.composite
def reward_tables(draw, S: int, A: int) -> np.ndarray:
    """Rewards (S, A) or (S, A, S): zero, not negative, or of either sign, in steps of a half."""
    low, high = draw(st.sampled_from([(0, 0), (0, 6), (-6, 6), (-6, -1)]))
    shape = (S, A, S) if draw(st.booleans()) else (S, A)
    size = int(np.prod(shape))
    return (
        np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), dtype=float).reshape(shape) / 2.0
    )


def weights_for(mdp: MDP) -> st.SearchStrategy[np.ndarray]:
    """Eta: one positive number per state."""
    return st.lists(st.integers(1, 8), min_size=mdp.num_states, max_size=mdp.num_states).map(
        lambda n: np.array(n) / 4.0
    )


def distributions_for(mdp: MDP) -> st.SearchStrategy[np.ndarray]:
    """M: a probability for every available pair, positive, from 1 to 1/9 of one another; zero at the others."""
    size = mdp.rewards.size

    def normalised(n: list[int]) -> np.ndarray:
        M = np.where(mdp.available, np.reshape(n, mdp.rewards.shape).astype(float), 0.0)
        return M / M.sum()

    return st.lists(st.integers(1, 9), min_size=size, max_size=size).map(normalised)


seeds = st.integers(0, 2**32 - 1)  # for numpy.random.default_rng, where many real numbers are wanted
