"""The paper's dual program with limits: the best policy among those that keep them, and what each limit costs.

Problem   with d the occupancy as probabilities, d = (1 - alpha) lambda / ||eta||_1, and nu = eta / ||eta||_1 the start,

              max d'R   s.t.  (E - alpha P)' d = (1 - alpha) nu  [V],   G d + H u <= h  [w],   d >= 0, u >= 0

          G, H, h are the rows of the limits (limits.py). Without them this is eq:dual-LP, in other units.
Dual      min (1 - alpha) nu'V + w'h   s.t.  R - G'w + alpha P V <= E V,   H'w >= 0,   w >= 0

          So V is the optimal value for the reward R - G'w, in which every limit is paid for at its price. By
          complementary slackness d lives where R - G'w + alpha P V = V, and w is zero where a limit has room.
Price     w is the derivative of the best reward per step with respect to the bound: what one unit of it is worth.
Policy    d(s,a) / sum_b d(s,b) where the start leads to. It is random in as many states as limits bind, or fewer, at a
          vertex of the program; no argmax of Q can say that, as Q is equal among the actions that are mixed.

          A state with d(s) = 0 is never entered from the start, so no limit depends on what is done there. But a policy
          must say something. What it does there is the best for the reward R - w'c, which prices the limits as they
          are priced everywhere else, among what the caps on actions allow (one that cannot be kept there is left out),
          by the same program started there. V there comes from it too: the first program only bounds it from above.
Q, V      are those of the reward R - w'c. Caps on actions are no part of the reward: in a state with a cap, V is the
          best mean of Q that the cap allows, and may be less than the largest Q. A trust region charges each pair its
          own multiplier.

Infeasible limits. If no policy keeps them, the elastic program tells how far they are from what can be kept,

              min sum t   s.t.  (E - alpha P)' d = (1 - alpha) nu,   G d + H u <= h + T t,   d, u, t >= 0,

T as in limits.py; h + T t is the nearest set of limits that some policy keeps. Leaving out one limit after the other,
for as long as the others still cannot be kept, leaves a set of limits in conflict with none to spare.

    paper      here
    lambda     occupancy, in the units of the weights
    eta        weights; zeros are welcome: it is where the process starts
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import DualqError, InfeasibleError, ModelError, as_distribution
from dualq.model import MDP, ActionCap, AnyLimit, Limit, LimitsLike, Solution, Sparse, TablePolicy, as_limits
from dualq.solvers.programs import Answer, Program, dual, proven_error, solve_program

Array = np.ndarray
KindOfLimit = TypeVar("KindOfLimit", bound=AnyLimit)
Index: TypeAlias = "slice | Array | list[int]"

UNVISITED = 1e-9  # a state with less of d than this is not visited: HiGHS knows d to about a tenth of it
TIES = 1e-7  # of how far values are apart: Q that differ by less are equal
KEPT = 1e-9  # limits that are missed by less, in units of their span, are kept


class LimitedSolution(Solution):
    """The best policy that keeps the limits; Q and V are of the reward R - w'c, in which the limits have their price.

    limits       the limits, by name
    prices       {name: w >= 0}: what one unit of the bound is worth, in reward per step
    values       {name: what the policy reaches}, to be compared with the bound
    objective    eta'V^pi of the plain reward, under the dual policy
    dual_policy  keeps the limits from the start, and is defined everywhere; primal_policy, the greedy one, may break
                 them: `reached(policy)` says by how much
    """

    def __init__(
        self,
        mdp: MDP,
        V: Array,
        *,
        limits: Mapping[str, AnyLimit],
        prices: Mapping[str, float],
        weights: Array,
        policy: TablePolicy | None = None,
        Q: Array | None = None,
        occupancy: Array | None = None,
        ratio: Array | None = None,
        distribution: ArrayLike | None = None,
        error_bound: float | None = None,
        bounds: tuple[float, float] | None = None,
        method: str = "",
        iterations: int = 0,
    ):
        super().__init__(
            mdp,
            V,
            Q=Q,
            occupancy=occupancy,
            ratio=ratio,
            distribution=distribution,
            error_bound=error_bound,
            bounds=bounds,
            method=method,
            iterations=iterations,
        )
        self.weights = weights  # a start: some may be zero
        self.limits = dict(limits)
        self.prices = dict(prices)
        if policy is not None:
            self.__dict__["dual_policy"] = policy

    @cached_property
    def primal_policy(self) -> TablePolicy:
        """argmax_a Q[s, a]; of actions that the dual policy mixes, whose Q are equal but for rounding, the first."""
        equal = self.Q.max(axis=1, keepdims=True) - self.Q <= TIES * (np.ptp(self.V) or 1.0)
        return TablePolicy.deterministic(np.argmax(equal, axis=1), self.Q.shape[1], self.mdp.states, self.mdp.actions)

    @cached_property
    def values(self) -> dict[str, float]:
        """What the dual policy reaches, by limit."""
        return self.reached(self.dual_policy)

    @cached_property
    def objective(self) -> float:
        """The expected discounted reward of the dual policy, under the weights."""
        return float(self.weights @ self.dual_policy.value(self.mdp))

    def reached(self, policy: TablePolicy) -> dict[str, float]:
        """What any policy reaches, by limit."""
        nu = self.weights / self.weights.sum()
        d = (1.0 - self.mdp.discount) * policy.occupancy(self.mdp, nu)
        return {name: limit.value(self.mdp, d, nu) for name, limit in self.limits.items()}


def solve_limited(
    mdp: MDP,
    limits: LimitsLike,
    weights: ArrayLike | None = None,
    distribution: ArrayLike | None = None,
    method: str | None = None,
) -> LimitedSolution:
    """The best policy that keeps the limits, exactly, by HiGHS; InfeasibleError where there is none.

    limits         from dualq.limits, one or several
    weights        eta, where the process starts: one per state, zeros allowed, or one for all; the model's default
                   (the same for every state) if not given
    distribution   M[s, a]: makes the ratio M^-1 lambda
    method         "simplex", "ipm" or "pdlp"; chosen by size if not given
    """
    found = as_limits(limits)
    eta, nu = checked_limits(mdp, found, weights)
    stack = _stacked(mdp, nu, found)
    try:
        answer = solved(_limited(mdp, nu, stack), method)
    except DualqError:
        answer = None
    if answer is None:  # the elastic program, which always has a solution, tells infeasible limits from other trouble
        stack = stack._replace(upper=_explained(mdp, nu, found, stack))
        answer = solved(_limited(mdp, nu, stack), method)
    return _as_solution(mdp, eta, nu, found, stack, answer, distribution)


def checked_limits(mdp: MDP, limits: Mapping[str, AnyLimit], weights: ArrayLike | None) -> tuple[Array, Array]:
    """(eta, nu): the weights, and the start as a distribution; the limits fit the model."""
    eta = mdp.default_weights() if weights is None else mdp.checked_start(weights)
    nu = as_distribution("weights", eta)
    for limit in limits.values():
        limit.check_fits(mdp)
    return eta, nu


# ---- the programs


def solved(program: Program, method: str | None = None) -> Answer:
    """Solve it; by the interior point method where that fails, as the simplex ends "Unknown" now and then."""
    try:
        return solve_program(program, method)
    except ModelError:  # a word that is no method
        raise
    except DualqError:
        return solve_program(program, "ipm")


class _Stack(NamedTuple):
    """The rows of all limits, over the available pairs."""

    on_pairs: Sparse
    on_extra: Sparse
    upper: Array
    gives: Sparse
    moved: Array
    rows: dict[str, slice]  # where each limit's rows stand
    ways: dict[str, slice]  # where the ways to loosen it stand


def _stacked(mdp: MDP, nu: Array, limits: Mapping[str, AnyLimit]) -> _Stack:
    blocks = {name: limit.rows(mdp, nu) for name, limit in limits.items()}
    pairs = np.flatnonzero(mdp.available)
    none = sp.csr_array((0, mdp.rewards.size))
    return _Stack(
        _part(sp.csr_array(sp.vstack([none, *(block.on_pairs for block in blocks.values())])), columns=pairs),
        _diagonal([block.on_extra for block in blocks.values()]),
        np.concatenate([np.empty(0), *(block.upper for block in blocks.values())]),
        _diagonal([block.gives for block in blocks.values()]),
        np.concatenate([np.empty(0), *(block.moved for block in blocks.values())]),
        _places({name: block.upper.size for name, block in blocks.items()}),
        _places({name: block.gives.shape[1] for name, block in blocks.items()}),
    )


def _part(matrix: Sparse, rows: Index = slice(None), columns: Index = slice(None)) -> sp.csr_array:
    return sp.csr_array(sp.csr_array(matrix[rows])[:, columns])


def _diagonal(blocks: list[sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(sp.block_diag([sp.csr_array((0, 0)), *blocks]))


def _places(sizes: Mapping[str, int]) -> dict[str, slice]:
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return {name: slice(begin, end) for name, begin, end in zip(sizes, ends[:-1], ends[1:], strict=True)}


def _middle(rewards: Array) -> float:
    """HiGHS works to a part of the largest number it meets: a constant in all rewards would drown their differences."""
    return 0.5 * float(rewards.min() + rewards.max())


def _limited(mdp: MDP, nu: Array, stack: _Stack) -> Program:
    """max d'R  s.t.  (E - alpha P)' d = (1 - alpha) nu  [V],  G d + H u <= h  [w],  d, u >= 0."""
    base = _flow(mdp, nu)
    return _with_rows(base, stack, base.objective, minimise=False)


def _flow(mdp: MDP, nu: Array) -> Program:
    """The same without limits."""
    return dual(mdp.moved(-_middle(mdp.rewards[mdp.available])), (1.0 - mdp.discount) * nu)


def _elastic(base: Program, stack: _Stack, gives: Sparse, least: float) -> Program:
    """min sum t  s.t.  (E - alpha P)' d = (1 - alpha) nu,  G d + H u - T t <= h,  d, u >= 0, t >= least."""
    with_t = stack._replace(on_extra=sp.csr_array(sp.hstack([stack.on_extra, -gives])))
    program = _with_rows(base, with_t, np.zeros(base.objective.size), minimise=True)
    t = slice(program.objective.size - gives.shape[1], program.objective.size)
    program.objective[t], program.column_lower[t] = 1.0, least
    program.variables["t"] = t
    return program


def _with_rows(base: Program, stack: _Stack, objective: Array, minimise: bool) -> Program:
    """A program in d and the extra variables: the rows of `base`, and those of the limits."""
    flow, n, extra = base.rows, base.objective.size, stack.on_extra.shape[1]
    rows = sp.block_array([[flow, sp.csr_array((base.row_lower.size, extra))], [stack.on_pairs, stack.on_extra]])
    size = base.row_lower.size
    return Program(
        minimise=minimise,
        objective=np.concatenate([objective, np.zeros(extra)]),
        rows=sp.csc_array(rows),
        row_lower=np.concatenate([base.row_lower, np.full(stack.upper.size, -np.inf)]),
        row_upper=np.concatenate([base.row_upper, stack.upper]),
        column_lower=np.zeros(n + extra),
        variables={"lambda_": slice(0, n)},
        multipliers={"V": slice(0, size), "w": slice(size, size + stack.upper.size)},
    )


# ---- the solution


def _as_solution(
    mdp: MDP,
    eta: Array,
    nu: Array,
    limits: dict[str, AnyLimit],
    stack: _Stack,
    answer: Answer,
    distribution: ArrayLike | None,
) -> LimitedSolution:
    w = np.maximum(answer.blocks["w"], 0.0)
    d = np.zeros(mdp.rewards.shape)
    d[mdp.available] = np.maximum(answer.blocks["lambda_"], 0.0)
    model = priced(mdp, {limit: w[stack.rows[name]] for name, limit in limits.items()}, mdp.rewards)
    V = answer.blocks["V"] + (_middle(mdp.rewards[mdp.available]) - w @ stack.moved) / (1.0 - mdp.discount)

    visited = d.sum(axis=1) > UNVISITED
    matrix = TablePolicy.from_occupancy(np.where(visited[:, None], d, 0.0), mdp.available).matrix.copy()
    if not visited.all():
        caps = {name: limit for name, limit in limits.items() if isinstance(limit, ActionCap)}
        V, matrix[~visited] = _elsewhere(model, V, visited, caps)
    policy = TablePolicy(matrix, mdp.states, mdp.actions)
    has_caps = any(isinstance(limit, ActionCap) for limit in limits.values())
    return LimitedSolution(
        mdp,
        V,
        limits=limits,
        prices={name: limit.price(mdp, w[stack.rows[name]], d) for name, limit in limits.items()},
        weights=eta,
        policy=policy,
        Q=model.q_values(V),
        occupancy=policy.occupancy(mdp, eta),
        distribution=distribution,
        error_bound=None if has_caps else proven_error(model, V),
        method=f"dual LP with limits, {answer.method}",
        iterations=answer.iterations,
    )


def priced(mdp: MDP, multipliers: Mapping[KindOfLimit, Array], rewards: Array) -> MDP:
    """The model whose reward is R - w'c, R being `rewards`."""
    rewards = rewards - sum(limit.charged(mdp, w) for limit, w in multipliers.items())
    return MDP(mdp.transitions, rewards, mdp.discount, states=mdp.states, actions=mdp.actions, available=mdp.available)


def _elsewhere(model: MDP, V: Array, visited: Array, caps: Mapping[str, ActionCap]) -> tuple[Array, Array]:
    """(V, rows of the policy) with the states that are not visited filled in: the best there, within the caps.

    max d'(R - w'c + alpha P V)  over pairs of the states U not visited, V that of the states visited and zero in U,
    s.t.  (E - alpha P_U)' d = 1  in U  [V],  the caps.
    """
    V = np.where(visited, V, 0.0)
    base = dual(model, np.ones(model.num_states))
    stack = _stacked(model, np.ones(model.num_states), caps)
    inside = np.flatnonzero(~visited[np.nonzero(model.available)[0]])  # among the available pairs
    there = np.unique(_part(stack.on_pairs, columns=inside).nonzero()[0])  # a cap's row belongs to one state
    stack = stack._replace(
        on_pairs=_part(stack.on_pairs, there, inside),
        on_extra=_part(stack.on_extra, there),
        upper=stack.upper[there],
        gives=_part(stack.gives, there, there),
    )
    reward = model.q_values(V)[model.available][inside]
    ones = np.ones(int((~visited).sum()))
    base = Program(
        minimise=False,
        objective=reward,
        rows=sp.csc_array(_part(sp.csr_array(base.rows), ~visited, inside)),
        row_lower=ones,
        row_upper=ones,
        column_lower=np.zeros(inside.size),
        variables={},
        multipliers={},
    )
    if there.size:
        t = solved(_elastic(base, stack, stack.gives, least=0.0)).blocks["t"]
        can = t <= KEPT
        stack = stack._replace(
            on_pairs=_part(stack.on_pairs, can), on_extra=_part(stack.on_extra, can), upper=stack.upper[can]
        )
    answer = solved(_with_rows(base, stack, reward, minimise=False))
    d = np.zeros(model.rewards.size)
    d[np.flatnonzero(model.available)[inside]] = np.maximum(answer.blocks["lambda_"], 0.0)
    V[~visited] = answer.blocks["V"]
    return V, TablePolicy.from_occupancy(d.reshape(model.rewards.shape)[~visited], model.available[~visited]).matrix


# ---- limits that cannot be kept


def _explained(mdp: MDP, nu: Array, limits: dict[str, AnyLimit], stack: _Stack) -> Array:
    """Upper sides, loosened by dust, that can be kept; where it takes more than dust, an InfeasibleError explains."""
    t, d = _missing(mdp, nu, stack)
    if t.sum() <= KEPT:
        return stack.upper + stack.gives @ t + KEPT * abs(stack.gives).sum(axis=1)
    nearest = {name: _bound_of(limit, mdp, nu, t[stack.ways[name]], d) for name, limit in limits.items()}
    conflict = dict(limits)
    for name in limits:
        others = {other: limit for other, limit in conflict.items() if other != name}
        if _missing(mdp, nu, _stacked(mdp, nu, others))[0].sum() > KEPT:
            conflict = others
    least = {name: _best_alone(limit, mdp, nu) for name, limit in conflict.items()}
    raise InfeasibleError(
        _message(conflict, least, limits, nearest), conflict=tuple(conflict), least=least, nearest=nearest
    )


def _missing(mdp: MDP, nu: Array, stack: _Stack) -> tuple[Array, Array]:
    """(t, d) of the elastic program: how much each limit must give, and an occupancy that then keeps them all."""
    blocks = solved(_elastic(_flow(mdp, nu), stack, stack.gives, least=0.0)).blocks
    d = np.zeros(mdp.rewards.shape)
    d[mdp.available] = np.maximum(blocks["lambda_"], 0.0)
    return np.maximum(blocks["t"], 0.0), d


def _bound_of(limit: AnyLimit, mdp: MDP, nu: Array, t: Array, d: Array) -> float:
    """The bound that a limit must have for an occupancy of the elastic program to keep it."""
    if not t.sum() > 0.0:
        return limit.bound
    if isinstance(limit, Limit):
        return limit.bound + limit.sign * limit.span(mdp) * float(t[0])
    return limit.value(mdp, d, nu)


def _best_alone(limit: AnyLimit, mdp: MDP, nu: Array) -> float:
    """The best value that a limit can reach when there is no other."""
    if isinstance(limit, ActionCap):  # in a state with another action it can be 0, and in no other below 1
        t, _ = _missing(mdp, nu, _stacked(mdp, nu, {limit.name: limit.loosened(0.0)}))
        return 0.0 if t.sum() <= KEPT else 1.0
    stack = _stacked(mdp, nu, {limit.name: limit})
    t = solved(_elastic(_flow(mdp, nu), stack, stack.gives, least=-np.inf)).blocks["t"]
    unit = limit.span(mdp) if isinstance(limit, Limit) else 1.0
    return limit.bound + limit.sign * unit * float(t[0])


def _message(
    conflict: Mapping[str, AnyLimit],
    least: Mapping[str, float],
    limits: Mapping[str, AnyLimit],
    nearest: Mapping[str, float],
) -> str:
    """One line: what cannot be kept, what each can reach alone, and the nearest limits that can be kept."""
    wanted = " and ".join(map(str, conflict.values()))
    reach = ", ".join(
        f"{name} {'at least' if limit.sign > 0 else 'at most'} {_outward(least[name], -limit.sign)}"
        for name, limit in conflict.items()
    )
    near = ", ".join(
        f"{name} {limit.sense} {_outward(nearest[name], limit.sign) if nearest[name] != limit.bound else limit.bound}"
        for name, limit in limits.items()
    )
    if len(conflict) > 1:
        return f"no policy keeps {wanted} together; alone each is: {reach}; the nearest that can be kept: {near}"
    return f"no policy keeps {wanted}; from this start every policy has {reach}; the nearest that can be kept: {near}"


def _outward(value: float, sign: float) -> str:
    """Four digits, rounded up where the sign is 1 and down where it is -1, so that what is said stays true."""
    if abs(value) < 1e-9:
        return "0"
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - 3)
    return f"{sign * np.ceil(sign * value / unit - 1e-6) * unit:.4g}"


# ---- a point inside


class Room(NamedTuple):
    """A policy's occupancy that keeps every limit with room to spare, as far as they can all have it."""

    d: Array  # (S, A), sums to one
    slack: Array  # per limit: bound minus value, by its sign


def most_room(mdp: MDP, limits: Mapping[str, Limit], weights: ArrayLike | None = None) -> Room:
    """The occupancy with the most room in its tightest limit, in units of the spans: a point for Slater's condition."""
    _, nu = checked_limits(mdp, limits, weights)
    stack = _stacked(mdp, nu, limits)
    one = sp.csr_array(stack.gives.sum(axis=1)[:, None])
    blocks = solved(_elastic(_flow(mdp, nu), stack, one, least=-np.inf)).blocks
    d = np.zeros(mdp.rewards.shape)
    d[mdp.available] = np.maximum(blocks["lambda_"], 0.0)
    slack = [limit.sign * (limit.bound - limit.value(mdp, d, nu)) for limit in limits.values()]
    return Room(d, np.array(slack))


def least_shift(
    mdp: MDP, limits: Mapping[str, AnyLimit], moving: Mapping[str, Limit], weights: ArrayLike | None = None
) -> float:
    """The smallest u for which some policy keeps the limits with the bounds of those in `moving` loosened by u spans.

    Negative where there is room to tighten them; InfeasibleError where the others cannot be kept among themselves.
    """
    _, nu = checked_limits(mdp, limits, weights)
    stack = _stacked(mdp, nu, limits)
    column = np.zeros((stack.upper.size, 1))
    for name, limit in moving.items():
        column[stack.rows[name]] = limit.span(mdp)
    try:
        blocks = solved(_elastic(_flow(mdp, nu), stack, sp.csr_array(column), least=-np.inf)).blocks
    except DualqError:
        others = {name: limit for name, limit in limits.items() if name not in moving}
        _explained(mdp, nu, others, _stacked(mdp, nu, others))
        raise
    return float(blocks["t"][0])
