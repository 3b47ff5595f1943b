"""Tables that others have published: Gymnasium's toy texts, and the ICU-Sepsis benchmark."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualq.base import DualqError, ModelError, door, pip_install
from dualq.model import MDP, TablePolicy
from dualq.worlds.building_blocks import (
    entries,
    expected_rewards,
)
from dualq.worlds.simulator import Simulator

Array = np.ndarray


@door
def gym(name: str, discount: float = 0.99) -> Simulator:
    """A Gymnasium toy-text environment from its own transition table: FrozenLake, Taxi or CliffWalking.

    States and actions keep the environment's numbers, so `env.step(policy.act(observation))` works as it is. Gymnasium
    ends an episode by a flag on a transition; here the state that such a transition leads to is absorbing and pays 0,
    so the transition is worth its reward alone. This is exact for every state that an episode can visit. (In those
    that none can visit, such as Taxi's with the passenger at the destination already, the table may go on where this
    model has ended.) The time limits that Gymnasium puts around the tables are not part of the model.

    FrozenLake: a = left, down, right, up. CliffWalking: up, right, down, left. Taxi: south, north, east, west, pick up,
    drop off. The behaviour is uniform; the start is the environment's own.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise DualqError(f"problems.gym needs Gymnasium: {pip_install('gym')}") from error
    tables = r"(FrozenLake|FrozenLake8x8|Taxi|CliffWalking|CliffWalkingSlippery)-v\d+"
    known = sorted(known for known in gymnasium.registry if re.fullmatch(tables, known))
    if name not in known:
        raise ModelError(f"no Gymnasium table {name!r}; known are {', '.join(known)}")
    env: Any = gymnasium.make(name).unwrapped
    table, start = env.P, env.initial_state_distrib
    env.close()

    S, A = len(table), len(table[0])
    listed = [(s, a, *outcome) for s, row in table.items() for a, outcomes in row.items() for outcome in outcomes]
    s, a, probability, s_next, reward, ends = np.array(listed, dtype=float).T
    terminal = np.zeros(S, bool)
    terminal[s_next[ends > 0.0].astype(int)] = True
    over = terminal[s.astype(int)]
    s_next, reward = np.where(over, s, s_next), np.where(over, 0.0, reward)
    # The table may list a successor more than once. Equal rewards are added up. Others stay apart: on the slippery
    # cliff, a fall and a step against the wall can both lead to the start, for -100 and for -1.
    outcomes, which = np.unique(np.stack([s * A + a, s_next, reward]), axis=1, return_inverse=True)
    pair, s_next, reward = outcomes
    row_starts = np.searchsorted(pair, np.arange(S * A + 1))
    P = sp.csr_array((np.bincount(which.ravel(), probability), s_next.astype(np.int32), row_starts), shape=(S * A, S))
    mdp = MDP(P, expected_rewards(P, reward, A), discount, reward_bound=(reward.min(), reward.max()))
    return Simulator(mdp, TablePolicy.uniform(mdp), start, f"Gymnasium {gymnasium.__version__}, {name}", reward, reward)


def icu_sepsis(discount: float = 0.99) -> Simulator:
    """Treatment of sepsis in intensive care: 716 states, 25 doses, estimated from the records of MIMIC-III.

    States 0 to 712 are clusters of patients, 713 death, 714 survival, 715 the end, in the package's numbers. Reaching
    survival pays 1, all else 0: a value is the (discounted) chance of survival. The behaviour is the policy estimated
    from the clinicians (uniform in the last three states, where nothing depends on it). It sometimes takes doses that
    were too rare for an estimate of their own; as in the package, these act as the average of the state's other doses
    do, so that every dose exists in every state. Choudhary, Gupta and Thomas, "ICU-Sepsis: A Benchmark MDP Built from
    Real Medical Data" (2024).
    """
    # Importing the package would import the retired gym package, which complains; only its data are needed.
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise DualqError(f"problems.icu_sepsis needs the icu-sepsis package: {pip_install('sepsis')}")
    assets = Path(package.submodule_search_locations[0], "envs", "assets")
    with np.load(assets / "dynamics.npz", allow_pickle=False) as data:
        P, rewards, start, expert = (data[name] for name in ("tx_mat", "r_mat", "d_0", "expert_policy"))
    S, A, _ = P.shape
    P = sp.csr_array(P.reshape(S * A, S))
    s, a, s_next = entries(P, A)
    paid = rewards[s, a, s_next]
    mdp = MDP(P, expected_rewards(P, paid, A), discount, reward_bound=(paid.min(), paid.max()))
    expert = np.where(expert.sum(axis=1, keepdims=True) > 0.0, expert, 1.0 / A)
    source = "icu-sepsis: Choudhary, Gupta and Thomas (2024), A Benchmark MDP Built from Real Medical Data"
    return Simulator(mdp, TablePolicy(expert, mdp.states, mdp.actions), start, source, paid, paid)
