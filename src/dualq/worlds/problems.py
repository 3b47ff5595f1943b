"""Problems with known models: each function returns a Simulator (mdp, behaviour, start) and names its source.

    two_state             the paper's Section 6.1, every number as printed
    grid_world            the paper's Section 6.2, n x n, random rewards
    garnet                random sparse models of any size
    chain                 a walk on a line: slow mixing, one distant reward
    maze                  random walls, slippery floor, an absorbing goal
    queue                 admission control of a single server
    inventory             lost sales and seasons: the example of `dualq learn`
    machine_replacement   keep or replace a machine that wears
    gym                   Gymnasium's tables: FrozenLake, Taxi, CliffWalking
    icu_sepsis            treatment of sepsis, from hospital records

In the descriptions s is the state, a the action, s' the next state, and w.p. means "with probability".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, pdtrc, xlogy

from dualq.base import Labels, ModelError, checked_whole, door
from dualq.model import MDP, TablePolicy
from dualq.worlds.building_blocks import (
    all_in,
    birth_death_rows,
    checked_number,
    checked_probability,
    entries,
    expected_rewards,
    inside,
    transition_rows,
)
from dualq.worlds.published_tables import gym as gym
from dualq.worlds.published_tables import icu_sepsis as icu_sepsis
from dualq.worlds.simulator import Simulator

Array = np.ndarray

SEASONS = {"winter": 2.0, "spring": 4.0, "summer": 8.0, "autumn": 4.0}  # mean demand per day, in the order of the year
GARNET_CHUNK = 1 << 16  # rows drawn at a time; part of the definition, since another size draws another model


# ---- the paper's own


def two_state() -> Simulator:
    """The two-state example of the paper's Section 6.1, discount 0.9, rewards in [1, 3] with the bound sigma = 3.

    States and actions 0, 1 are the paper's 1, 2. Its rewards r_11 = 3, r_12 = 1, r_21 = 2, r_22 = 1 are indexed
    (action, state): no other reading gives the values that it prints.

    Examples
    --------
    >>> import dualq
    >>> dualq.solve(dualq.problems.two_state().mdp).V.round(2)
    array([20.07, 18.69])
    """
    P_1 = [[0.2, 0.8], [0.3, 0.7]]
    P_2 = [[0.5, 0.5], [0.7, 0.3]]
    rewards = np.transpose([[3.0, 1.0], [2.0, 1.0]])  # (action, state) -> (state, action)
    mdp = MDP(np.stack([P_1, P_2], axis=1), rewards, 0.9, reward_bound=3.0)
    theta = TablePolicy([[0.2, 0.8], [0.7, 0.3]])
    return Simulator(mdp, theta, np.array([0.4, 0.6]), "Stochastic Primal-Dual Q-Learning, Section 6.1")


@door
def grid_world(size: int = 2, discount: float = 0.9, reward_on: str = "next") -> Simulator:
    """The grid world of the paper's Section 6.2, size x size cells, start bottom left, goal top right.

    A move off the grid stays. The reward is uniform on [1, 1.2] at the goal and on [0, 0.2] elsewhere, sigma = 1.2.
    "At" is read as: s' is the goal (reward_on="next", the reading that reproduces the paper's Figure 4), or as: s is
    the goal ("current"). The goal is not absorbing; the behaviour is uniform. States are (row, column), row 0 at the
    top.

    Examples
    --------
    >>> import dualq
    >>> list(dualq.problems.grid_world(2).mdp.states)
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    size = checked_whole("size", size, 1)
    if reward_on not in ("next", "current"):
        raise ModelError(f"reward_on is {reward_on!r}; it must be 'next' or 'current'")
    moves = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
    S, A = size * size, len(moves)
    row, column = np.divmod(np.arange(S), size)
    cells = [(inside(row + dr, size), inside(column + dc, size)) for dr, dc in moves.values()]
    s_next = np.stack([r * size + c for r, c in cells], axis=1)
    P = sp.csr_array((np.ones(S * A), s_next.ravel(), np.arange(S * A + 1)), shape=(S * A, S))

    goal = size - 1
    at_goal = (s_next if reward_on == "next" else np.repeat(np.arange(S)[:, None], A, axis=1)) == goal
    low, high = np.where(at_goal, 1.0, 0.0), np.where(at_goal, 1.2, 0.2)
    states = Labels(zip(row, column, strict=True), ("row", "column"))
    mdp = MDP(P, (low + high) / 2.0, discount, 1.2, states=states, actions=Labels(moves, "action"))
    start = all_in((size - 1) * size, S)
    source = "Stochastic Primal-Dual Q-Learning, Section 6.2"
    # One successor per pair, so the ranges of the pairs are the ranges of the transitions.
    return Simulator(mdp, TablePolicy.uniform(mdp), start, source, low.ravel(), high.ravel())


# ---- textbook families


@door
def garnet(states: int, actions: int, branching: int, discount: float = 0.9, seed: int = 0) -> Simulator:
    """A random sparse MDP, GARNET(states, actions, branching).

    Each (s, a) has `branching` distinct successors, every such set equally likely; their probabilities are the gaps
    between branching - 1 uniform cut points of [0, 1]; its reward was drawn uniformly from [0, 1] and is always the
    same. Behaviour and start are uniform. After Archibald, McKinnon and Thomas, "On the generation of Markov decision
    processes" (1995), in the form of Bhatnagar, Sutton, Ghavamzadeh and Lee, "Natural actor-critic algorithms" (2009),
    whose rewards are normal.

    Examples
    --------
    >>> import dualq
    >>> dualq.problems.garnet(30, 4, 3, seed=1).mdp.indices.size
    360
    """
    S, A = checked_whole("states", states, 1), checked_whole("actions", actions, 1)
    b = checked_whole("branching", branching, 1, S)
    rng = np.random.default_rng(checked_whole("seed", seed, 0))
    num_rows = S * A
    integer = np.int32 if num_rows * b < 2**31 else np.int64
    successors = np.empty((num_rows, b), integer)
    probabilities = np.empty((num_rows, b))
    for begin in range(0, num_rows, GARNET_CHUNK):
        end = min(begin + GARNET_CHUNK, num_rows)
        successors[begin:end] = _distinct(rng, end - begin, b, S)
        cuts = np.sort(rng.random((end - begin, b - 1)), axis=1)
        probabilities[begin:end] = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    rewards = rng.random((S, A))
    row_starts = np.arange(0, num_rows * b + 1, b, dtype=integer)
    P = sp.csr_array((probabilities.ravel(), successors.ravel(), row_starts), shape=(num_rows, S))
    mdp = MDP(P, rewards, discount, reward_bound=1.0)
    source = "Archibald, McKinnon and Thomas (1995), On the generation of Markov decision processes"
    return Simulator(mdp, TablePolicy.uniform(mdp), np.full(S, 1.0 / S), source)


def _distinct(rng: np.random.Generator, count: int, size: int, states: int) -> Array:
    """`count` random sets of `size` distinct states, each sorted (R. W. Floyd's algorithm on all rows at once)."""
    chosen = np.empty((count, size), np.int64)
    for place, top in enumerate(range(states - size, states)):
        new = rng.integers(0, top + 1, count)
        taken = (chosen[:, :place] == new[:, None]).any(axis=1)
        chosen[:, place] = np.where(taken, top, new)
    chosen.sort(axis=1)
    return chosen


@door
def chain(states: int = 10, discount: float = 0.95, slip: float = 0.1) -> Simulator:
    """A walk on the line 0, 1, ..., states - 1, from place 0; every step in the last place pays 1, any other 0.

        forward   s' = s + 1 w.p. 1 - slip, s - 1 w.p. slip
        back      s' = s - 1 w.p. 1 - slip, s + 1 w.p. slip

    A step off the line stays. The behaviour is uniform. Not the chain of Strens, "A Bayesian framework for
    reinforcement learning" (2000), but of its kind: that one has five states and slips to the other action too, but
    "back" jumps to the first state and pays 2, and going forward in the last pays 10.

    Examples
    --------
    >>> import dualq
    >>> dualq.problems.chain(5).mdp.num_states
    5
    """
    S, slip = checked_whole("states", states, 2), checked_probability("slip", slip)
    up = np.tile([1.0 - slip, slip], (S, 1))
    rewards = np.zeros((S, 2))
    rewards[-1] = 1.0
    actions = Labels(["forward", "back"], "action")
    mdp = MDP(birth_death_rows(up, 1.0 - up), rewards, discount, states=Labels(S, "place"), actions=actions)
    source = "a slippery walk on a line, of the kind of the chain of Strens (2000)"
    return Simulator(mdp, TablePolicy.uniform(mdp), all_in(0, S), source)


@door
def maze(size: int = 20, walls: float = 0.2, slip: float = 0.2, discount: float = 0.99, seed: int = 0) -> Simulator:
    """The way out of a maze of size x size cells, each a wall w.p. `walls`; the goal is the bottom right corner.

    A move goes where it is meant to w.p. 1 - slip and to either side of that w.p. slip / 2; a move into a wall or off
    the maze stays. Every step costs 1 (reward -1) until the goal, which is never left and pays 0. Cells from which the
    goal cannot be reached are left out. States are (row, column); the start is uniform over all cells but the goal,
    the behaviour over the moves. The slips are those of the grid world in Russell and Norvig, "Artificial
    Intelligence".

    Examples
    --------
    >>> import dualq
    >>> dualq.problems.maze(5, seed=1).mdp.num_actions
    4
    """
    from scipy.ndimage import label  # loaded here: only mazes need it

    size, walls, slip = (
        checked_whole("size", size, 2),
        checked_probability("walls", walls),
        checked_probability("slip", slip),
    )
    wall = np.random.default_rng(checked_whole("seed", seed, 0)).random((size, size)) < walls
    wall[-1, -1] = False
    regions = np.empty((size, size), np.int32)
    label(~wall, output=regions)
    free = regions == regions[-1, -1]
    S = int(free.sum())
    if S == 1:
        raise ModelError(
            f"no cell can reach the goal with walls={walls:g}, seed={seed}; use fewer walls or another seed"
        )

    state_of = np.full((size, size), -1)
    state_of[free] = np.arange(S)
    row, column = np.nonzero(free)
    moves = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}  # clockwise: neighbours are the sides
    A = len(moves)
    cells = [(inside(row + dr, size), inside(column + dc, size)) for dr, dc in moves.values()]
    reached = np.stack([state_of[cell] for cell in cells], axis=1)
    reached = np.where(reached < 0, np.arange(S)[:, None], reached)  # a wall
    goal = S - 1
    reached[goal] = goal

    turns = {0: 1.0 - slip, 1: slip / 2.0, -1: slip / 2.0}
    P = transition_rows(
        np.tile(np.arange(S * A), len(turns)),
        np.concatenate([np.roll(reached, turn, axis=1).ravel() for turn in turns]),
        np.repeat(list(turns.values()), S * A),
        (S * A, S),
    )
    rewards = np.full((S, A), -1.0)
    rewards[goal] = 0.0
    states = Labels(zip(row, column, strict=True), ("row", "column"))
    mdp = MDP(P, rewards, discount, states=states, actions=Labels(moves, "action"))
    start = np.where(np.arange(S) == goal, 0.0, 1.0 / (S - 1))
    return Simulator(
        mdp, TablePolicy.uniform(mdp), start, "a random maze, with the slips of Russell and Norvig's grid world"
    )


@door
def queue(
    capacity: int = 50,
    discount: float = 0.99,
    arrival: float = 0.48,
    service: float = 0.5,
    admission_reward: float = 1.0,
    holding_cost: float = 1.0,
) -> Simulator:
    """Admission to a queue with one server and room for `capacity` customers, in slots with at most one event each.

    In state s, the number of customers, one decides whether a customer who comes in this slot is let in:

        a customer comes   w.p. arrival             accept: s' = s + 1 and admission_reward is earned;  reject: s' = s
        one is served      w.p. service, if s > 0   s' = s - 1
        neither            else                     s' = s

    and holding_cost * s / capacity is paid in every slot, so that rewards stay of order one at any capacity. A full
    queue can only reject. The behaviour tosses a coin; the start is the empty queue. Under "always accept" the chain
    is the M/M/1 queue with room for `capacity`, seen at the ticks of a Poisson clock (uniformised): its stationary
    distribution is proportional to (arrival / service)^s. After Naor, "The regulation of queue size by levying tolls"
    (1969).

    Examples
    --------
    >>> import dualq
    >>> dualq.solve(dualq.problems.queue().mdp).error_bound < 1e-4
    True
    """
    capacity = checked_whole("capacity", capacity, 1)
    arrival, service = checked_probability("arrival", arrival), checked_probability("service", service)
    if arrival + service > 1.0:
        raise ModelError(f"arrival + service is {arrival + service:g}; a slot has one event at most: make it 1 or less")
    admission_reward = checked_number("admission_reward", admission_reward)
    holding_cost = checked_number("holding_cost", holding_cost)
    S = capacity + 1
    available = np.ones((S, 2), bool)
    available[capacity, 0] = False
    P = birth_death_rows(np.tile([arrival, 0.0], (S, 1)), np.full((S, 2), service), available)
    s, _, s_next = entries(P, 2)
    paid = admission_reward * (s_next > s) - holding_cost * s / capacity
    mdp = MDP(
        P,
        expected_rewards(P, paid, 2),
        discount,
        reward_bound=(paid.min(), paid.max()),
        states=Labels(S, "customers"),
        actions=Labels(["accept", "reject"], "action"),
        available=available,
    )
    source = "admission control of an M/M/1 queue, after Naor (1969)"
    return Simulator(mdp, TablePolicy.uniform(mdp), all_in(0, S), source, paid, paid)


@door
def inventory(
    capacity: int = 20,
    lot: int = 5,
    demand: Mapping[str, float] = SEASONS,
    season_change: float = 0.05,
    price: float = 4.0,
    unit_cost: float = 2.0,
    order_fee: float = 3.0,
    holding_cost: float = 0.1,
    shortage_cost: float = 1.0,
    discount: float = 0.95,
    haphazard: float = 0.3,
) -> Simulator:
    """A shop that orders every morning and loses the sales it cannot make. State (stock, season); action: the order.

    The shop orders 0, lot, 2 lot, ... units, at most what its shelf of `capacity` has room for; they come at once. The
    day's demand is Poisson with the season's mean. With level = stock + order,

        sales  = min(demand, level)         next stock = level - sales
        profit = price * sales - unit_cost * order - order_fee * [order > 0] - holding_cost * next stock
                 - shortage_cost * (demand - sales)

    and w.p. season_change the next day is in the next season of `demand`, in a circle. The next stock tells the sales;
    only when nothing is left can it not tell how many customers went away empty-handed, and then the reward takes the
    number to be expected, E[demand - level | demand >= level], as a shop must that does not count them. Profits may be
    negative.

    The behaviour is a rule of thumb that ignores the season: with half a shelf or less, order as many lots as fit, else
    none; but w.p. haphazard it picks any possible order instead. The start is a full shelf, each season equally likely.
    Single-product inventory control with lost sales as in Puterman, "Markov Decision Processes" (1994), seasons added.

    Examples
    --------
    >>> import dualq
    >>> dualq.problems.inventory().mdp.num_states
    84
    """
    capacity = checked_whole("capacity", capacity, 1)
    lot = checked_whole("lot", lot, 1, capacity)
    change, haphazard = checked_probability("season_change", season_change), checked_probability("haphazard", haphazard)
    if not demand:
        raise ModelError("demand is empty; give the mean demand of at least one season, such as {'winter': 2.0}")
    means = np.array([checked_number(f"demand in {season!r}", mean) for season, mean in demand.items()])
    price, unit_cost, order_fee = (
        checked_number("price", price),
        checked_number("unit_cost", unit_cost),
        checked_number("order_fee", order_fee),
    )
    holding_cost, shortage_cost = (
        checked_number("holding_cost", holding_cost),
        checked_number("shortage_cost", shortage_cost),
    )

    # One entry per (stock, season, order, sales); impossible ones get probability zero and are dropped.
    K, orders = means.size, np.arange(0, capacity + 1, lot)
    S, A = (capacity + 1) * K, orders.size
    stock, season, order, sales = np.ix_(np.arange(capacity + 1), np.arange(K), orders, np.arange(capacity + 1))
    level, mean = stock + order, means[season]
    exactly = np.exp(xlogy(sales, mean) - mean - gammaln(sales + 1.0))
    probability = np.where(sales < level, exactly, np.where(sales == level, _at_least(level, mean), 0.0))
    probability = np.where(level <= capacity, probability, 0.0)
    row, left, season = np.broadcast_arrays(
        (stock * K + season) * A + order // lot, np.clip(level - sales, 0, capacity), season, probability
    )[:3]
    P = transition_rows(
        np.concatenate([row.ravel(), row.ravel()]),
        np.concatenate([(left * K + season).ravel(), (left * K + (season + 1) % K).ravel()]),
        np.concatenate([((1.0 - change) * probability).ravel(), (change * probability).ravel()]),
        (S * A, S),
    )

    s, a, s_next = entries(P, A)
    order, left, mean = orders[a], s_next // K, means[s % K]
    level = s // K + order
    # Poisson demand has E[(demand - n)+] = mean P(demand >= n) - n P(demand >= n + 1).
    reached = np.where(left == 0, _at_least(level, mean), 1.0)
    lost = np.where(left == 0, (mean * reached - level * _at_least(level + 1, mean)) / reached, 0.0)
    costs = unit_cost * order + order_fee * (order > 0) + holding_cost * left + shortage_cost * lost
    profit = price * (level - left) - costs

    stock = np.repeat(np.arange(capacity + 1), K)
    available = stock[:, None] + orders <= capacity
    mdp = MDP(
        P,
        expected_rewards(P, profit, A),
        discount,
        reward_bound=(profit.min(), profit.max()),
        states=Labels([(n, name) for n in range(capacity + 1) for name in demand], ("stock", "season")),
        actions=Labels(orders, "order"),
        available=available,
    )
    rule = np.where(2 * stock <= capacity, (capacity - stock) // lot, 0)
    matrix = (1.0 - haphazard) * np.eye(A)[rule] + haphazard * available / available.sum(axis=1, keepdims=True)
    start = np.where(stock == capacity, 1.0 / K, 0.0)
    source = "single-product inventory with lost sales, after Puterman (1994), with seasons"
    return Simulator(mdp, TablePolicy(matrix, mdp.states, mdp.actions), start, source, profit, profit)


def _at_least(n: Array, mean: Array) -> Array:
    """P(demand >= n) for Poisson demand."""
    return np.where(n > 0, pdtrc(np.maximum(n - 1, 0), mean), 1.0)


@door
def machine_replacement(
    conditions: int = 10,
    wear: float = 0.5,
    operating_cost: float = 1.0,
    replacement_cost: float = 3.0,
    discount: float = 0.95,
) -> Simulator:
    """Keep a machine that wears, or replace it. State: its condition, from 0 (new) to conditions - 1 (worst).

        keep      pays g(s) = operating_cost * s;    s' = s + 1 w.p. wear, else s (the worst stays the worst)
        replace   pays replacement_cost + g(0);      s' = 0: the new machine does not wear in its first period

    Rewards are minus these costs. It is best to replace from some condition on. The behaviour replaces one time in
    five, whatever the condition; the start is a new machine. After the machine replacement example of Bertsekas,
    "Dynamic Programming and Optimal Control".

    Examples
    --------
    >>> import dualq
    >>> machine = dualq.problems.machine_replacement()
    >>> list(machine.mdp.actions)
    ['keep', 'replace']
    """
    n, wear = checked_whole("conditions", conditions, 2), checked_probability("wear", wear)
    operating_cost = checked_number("operating_cost", operating_cost)
    replacement_cost = checked_number("replacement_cost", replacement_cost)
    s = np.arange(n)
    keep, replace = 2 * s, 2 * s + 1  # rows of P
    P = transition_rows(
        np.concatenate([keep, keep, replace]),
        np.concatenate([inside(s + 1, n), s, np.zeros_like(s)]),
        np.repeat([wear, 1.0 - wear, 1.0], n),
        (2 * n, n),
    )
    rewards = 0.0 - np.stack([operating_cost * s, np.full(n, replacement_cost)], axis=1)
    mdp = MDP(P, rewards, discount, states=Labels(n, "condition"), actions=Labels(["keep", "replace"], "action"))
    behaviour = TablePolicy(np.tile([0.8, 0.2], (n, 1)), mdp.states, mdp.actions)
    source = "machine replacement, after Bertsekas, Dynamic Programming and Optimal Control"
    return Simulator(mdp, behaviour, all_in(0, n), source)


# What the command line offers; those with required arguments appear with an example of them.
BY_NAME: dict[str, Callable[..., Simulator]] = {
    "two_state": two_state,
    "grid_world": grid_world,
    "garnet": partial(garnet, states=100, actions=4, branching=5),
    "chain": chain,
    "maze": maze,
    "queue": queue,
    "inventory": inventory,
    "machine_replacement": machine_replacement,
    "FrozenLake-v1": partial(gym, "FrozenLake-v1"),
    "FrozenLake8x8-v1": partial(gym, "FrozenLake8x8-v1"),
    "CliffWalking-v1": partial(gym, "CliffWalking-v1"),
    "Taxi-v4": partial(gym, "Taxi-v4"),
    "icu_sepsis": icu_sepsis,
}
