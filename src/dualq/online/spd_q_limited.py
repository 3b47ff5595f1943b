"""Safe stochastic primal-dual Q-learning: Algorithm 1 with limits, each with a price.

Problem   the paper's LP with M, and limits on the occupancy: with B = ||eta||_1 / (1 - alpha), and a cost c_i, a bound
          b_i and a sign z_i per limit (z = 1 for "at most", -1 for "at least"; below, c and b stand for z c and z b),

              max mu'M R   s.t.  eta + alpha P'M mu = E'lambda,  M mu = lambda,  lambda >= 0,  c_i'M mu <= B b_i

          Its Lagrangian, with a price w_i >= 0 per limit, is L_M for the reward R - w'c, and w'b on top:

              L(Q, V, w, lambda, mu) = eta'V + mu'M (alpha P V + R - sum_i w_i c_i - Q) + lambda'(Q - E V) + B w'b

          min over (Q, V, w), max over (lambda, mu): linear in each, so all that the paper does with L_M can be done.
Gradients those of L_M with R - w'c in place of R (saddle/lagrangian.py), and

              grad_w_i L = B b_i - c_i'M mu

Update    Algorithm 1 on the reward r_k - w_k'c(s_k,a_k) (spd_q.py, all its lines), and with the same row

              w_i -= gamma_k scale_i^2 (B b_i - c_i(s_k,a_k) mu(s_k,a_k)),   then onto [0, price bound]

          `price_scale` measures the price in other units, w_i = scale_i v_i: a step in v, seen from w.
Unbiased  (s_k, a_k) ~ M_k, so E[c_i(s_k,a_k) mu(s_k,a_k)] = c_i'M_k mu, and E[c_i(s_k,a_k) 1{(s_k,a_k) = (s,a)}] is
          the entry of M_k c_i; the other estimates are Algorithm 1's. A cost is read as c(s, a), an array; a cost that
          is recorded with each row, and has the mean c(s, a) given the pair, would do as well.
Sets      lambda and mu are occupancies: L, Xi and M stay as they are. Prices are bounded by Slater's condition: let a
          policy earn rho per step and have room delta_i > 0 in every limit. For the optimal prices,

              best reward per step under the limits = max over d of d'R + w'(b - c'd)  >=  rho + sum_i w_i delta_i,

          and the best is at most the largest reward, r_max. So w_i <= (r_max - rho) / delta_i. Where the model is
          known (or estimated) the policy with the most room is found by a linear program; `price_bound` overrides it.
          The reward R - w'c then lies between r_min - sum_i w_i max c_i and r_max - sum_i w_i min c_i, with
          w at its bounds where that widens it: that is the range from which Q and V have their box. A box that is too
          large does no harm, because Q, V start where Algorithm 1 starts, at zero for rewards from r_min >= 0.
Gives     the averages of Q, V, lambda, M mu, as Algorithm 1 has them, and of w. The averaged lambda gives the policy
          (dual_policy, random where a limit asks for it), the averaged w the prices. Q and V are of the reward R - w'c.
          The averages are near the saddle point, not on it: a limit is missed by as much as they are off.
Cost      O(|A|) a step, as Algorithm 1, and O(limits): the steps of the prices are in its kernel.

    paper       here        public
    eta         eta         weights; positive, as the paper asks: the limits are averages from there
    gamma_k     gamma       step_size
    w           prices      prices
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, Rows, door, unsigned
from dualq.model import MDP, AnyLimit, Limit, Solution, as_limits
from dualq.online import spd_q
from dualq.online.algorithm import Traits
from dualq.online.distributions import Distribution, known_sums, told
from dualq.online.settings import PrimalDualSettings, Problem
from dualq.online.spd_q import SPDQ
from dualq.solvers import LimitedSolution, most_room

Array = np.ndarray


class State(NamedTuple):
    """All that Algorithm 1 keeps, in the same order, and the prices."""

    Q: Array
    V: Array
    lambda_: Array
    mu: Array
    Q_moves: Array
    V_moves: Array
    lambda_moves: Array
    mu_mass: Array
    visits: Array
    total_weight: Array
    k: Array
    rng: Array
    M: Array
    M_before: Array
    v: Array
    settled: Array
    prices: Array  # (limits,) w
    price_moves: Array  # (limits,) sum_j W_j (w_{j+1} - w_j)
    lift: Array  # (1,) by how much more than there Q and V are lifted, to be positive whatever the prices

    @property
    def inner(self) -> spd_q.State:
        """What Algorithm 1 keeps: the same arrays."""
        return spd_q.State._make(self[: len(spd_q.State._fields)])


class SafeProblem(NamedTuple):
    """What the kernel reads and never changes."""

    spd_q: Problem
    costs: Array  # (S*A, limits) turned so that less is better
    sides: Array  # (limits,) B b
    tops: Array  # (limits,) bounds of the prices
    scales: Array  # (limits,) squared


class Limits(NamedTuple):
    """What the kernel of Algorithm 1 needs to know of the limits."""

    costs: Array
    sides: Array
    tops: Array
    scales: Array
    prices: Array  # changed in place, as all that State holds
    moves: Array


@door
@dataclass(frozen=True, eq=False)
class SafeSPDQ(PrimalDualSettings[State, SafeProblem]):
    """Algorithm 1 with limits.

    Parameters
    ----------
    distribution
        M_k, as in Algorithm 1
    limits
        limits on average costs, times and shares of actions (`dualq.limits`), one or several
    price_bound
        how large a price can be, one for all or one per limit; from a policy with room in every limit, if not given
    price_scale
        one for all or one per limit: a step moves a price by its square times as much

    and the choices of Algorithm 1.

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> limit = dualq.limits.average(two.mdp, [[0.0, 1.0], [0.0, 1.0]], "<=", 0.3, "overtime")
    >>> run = dualq.train(dualq.SafeSPDQ(weights=0.1, zeta=0.08, limits=limit), two, steps=10_000)
    >>> list(run.solution.prices)
    ['overtime']
    """

    distribution: Distribution = None
    limits: AnyLimit | Sequence[AnyLimit] | Mapping[str, AnyLimit] = ()
    price_bound: ArrayLike | None = None
    price_scale: ArrayLike = 1.0
    tag: ClassVar[str] = "SafeSPDQ"

    def __post_init__(self):
        super().__post_init__()
        limits = as_limits(self.limits)
        for name, limit in limits.items():
            if not isinstance(limit, Limit):
                right = "a limit on an average cost, on time, or on the share of an action"
                raise ModelError(f"{name!r} is a {type(limit).__name__}; this algorithm takes {right}")
        object.__setattr__(self, "limits", limits)
        if self.price_bound is not None:
            object.__setattr__(self, "price_bound", _per_limit("price_bound", self.price_bound, len(limits)))
        object.__setattr__(self, "price_scale", _per_limit("price_scale", self.price_scale, len(limits)))

    @property
    def inner(self) -> SPDQ:
        """Algorithm 1 with the same choices, without limits."""
        shared = (self.step_size, self.weights, self.zeta, self.start, self.average_power, self.average_from)
        return SPDQ(*shared, distribution=self.distribution)

    @property
    def by_name(self) -> dict[str, Limit]:
        """The limits as they were checked."""
        return {name: limit for name, limit in as_limits(self.limits).items() if isinstance(limit, Limit)}

    def traits(self) -> Traits:
        """Its answer must keep the limits."""
        return dataclasses.replace(super().traits(), limits=self.by_name)

    def told(self, source: object, sampling: str) -> Self:
        """With the M_k of the simulator that is trained on, where it asks to know it."""
        return dataclasses.replace(self, distribution=told(self.distribution, source, sampling))

    # ---- the sets

    def price_bounds(self, mdp: MDP) -> Array:
        """Bounds of the optimal prices, one per limit: (r_max - rho) / delta."""
        limits = self.by_name
        if self.price_bound is not None:
            return _per_limit("price_bound", self.price_bound, len(limits))
        if not limits:
            return np.zeros(0)
        room = most_room(mdp, limits, mdp.checked_weights(self.weights))
        lacking = ~(room.slack > 1e-9 * np.array([limit.span(mdp) for limit in limits.values()]))
        if lacking.any():
            first = list(limits.values())[int(lacking.argmax())]
            raise ModelError(
                f"no policy keeps all limits with room to spare ({first} has none), so their prices may have no bound; "
                "loosen them, or give price_bound"
            )
        return (mdp.reward_range[1] - float(np.sum(room.d * mdp.rewards))) / room.slack

    def priced_range(self, mdp: MDP, tops: Array) -> tuple[float, float]:
        """The range of r - w'c, over all prices up to `tops`."""
        low, high = mdp.reward_range
        for limit, top in zip(self.by_name.values(), tops, strict=True):
            cost = limit.sign * limit.cost[mdp.available]
            low, high = low - top * max(cost.max(), 0.0), high - top * min(cost.min(), 0.0)
        return float(low), float(high)

    def problem(self, mdp: MDP, zeta: float) -> SafeProblem:
        """The numbers of the kernel."""
        limits = list(self.by_name.values())
        for limit in limits:
            limit.check_fits(mdp)
        inner, tops = self.numbers(mdp, zeta), self.price_bounds(mdp)
        low, high = self.priced_range(mdp, tops)
        shift, rest = max(0.0, -low), 1.0 - mdp.discount
        costs = np.zeros((mdp.rewards.size, len(limits)))
        for i, limit in enumerate(limits):
            costs[:, i] = limit.sign * limit.on(mdp).ravel()
        return SafeProblem(
            spd_q=inner._replace(shift=shift, end_value=shift / rest, value_bound=(high + shift) / rest),
            costs=costs,
            sides=inner.occupancy_bound * np.array([limit.sign * limit.bound for limit in limits]),
            tops=tops,
            scales=_per_limit("price_scale", self.price_scale, len(limits)) ** 2,
        )

    # ---- the algorithm

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step: that of Algorithm 1, in the units of the larger box, and prices of zero."""
        state, problem = self.inner.init(mdp, seed, zeta), self.problem(mdp, zeta).spd_q
        lift = problem.end_value - mdp.value_shift
        Q, V = state.Q + lift, state.V + lift
        if isinstance(self.start, Mapping):  # what was given need not lie in the smaller box
            Q, V = (
                np.clip(np.asarray(self.start[name]) + problem.end_value, 0.0, problem.value_bound)
                if name in self.start
                else x
                for name, x in (("Q", Q), ("V", V))
            )
        zeros = np.zeros(len(self.by_name))
        fields = state._asdict() | {"Q": np.where(mdp.available, Q, 0.0), "V": np.ascontiguousarray(V)}
        return State(**fields, prices=zeros, price_moves=zeros.copy(), lift=np.full(1, lift))

    def advance(self, state: State, problem: SafeProblem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        s, a, r, s_next, ended = rows
        gamma = self.schedule.steps(k, s.size)
        sums = known_sums(state, problem.spd_q, self.distribution, s, a)
        limits = Limits(problem.costs, problem.sides, problem.tops, problem.scales, state.prices, state.price_moves)
        spd_q._run(state, problem.spd_q, unsigned(s), unsigned(a), r, unsigned(s_next), ended, gamma, sums, limits)

    def solution(self, state: State, mdp: MDP) -> LimitedSolution:
        """The averaged iterates, in the user's units; the last ones where nothing has been averaged yet."""
        if not state.total_weight[0] > 0.0:
            return self.last(state, mdp)
        prices = np.maximum(state.prices - state.price_moves / state.total_weight[0], 0.0)
        return self._with_prices(self.inner.solution(state.inner, mdp), state, prices)

    def last(self, state: State, mdp: MDP) -> LimitedSolution:
        """The last iterates, in the user's units."""
        return self._with_prices(self.inner.last(state.inner, mdp), state, state.prices)

    def _with_prices(self, found: Solution, state: State, prices: Array) -> LimitedSolution:
        lift = state.lift[0]
        return LimitedSolution(
            found.mdp,
            found.V - lift,
            limits=self.by_name,
            prices=dict(zip(self.by_name, prices.tolist(), strict=True)),
            weights=found.weights,
            Q=found.Q - lift,
            occupancy=found.occupancy,
            ratio=found.ratio,
            distribution=found.distribution,
            method="safe Algorithm 1",
            iterations=found.iterations,
        )


def _per_limit(name: str, given: ArrayLike, count: int) -> Array:
    """One positive number for each limit."""
    numbers = np.asarray(given, dtype=float)
    if numbers.shape not in ((), (count,)):
        raise ModelError(f"{name} has shape {numbers.shape}; give one number, or one for each of {count}")
    if not (np.isfinite(numbers) & (numbers > 0.0)).all():
        raise ModelError(f"{name} is {given!r}; it must be positive")
    return np.full(count, numbers)
