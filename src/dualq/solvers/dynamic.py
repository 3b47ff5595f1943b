"""Dynamic programming: V* of a known model with a proven error bound, for large sparse models.

Problem   V* = T V*,  (T V)(s) = max_a R(s,a) + alpha sum_s' P(s'|s,a) V(s')
Bounds    with d = T V - V, lo = min d, hi = max d (MacQueen, 1966; Porteus, 1971):
              T V + alpha/(1-alpha) lo  <=  V*  <=  T V + alpha/(1-alpha) hi
          so the midpoint of the two is within alpha/(1-alpha) (hi - lo)/2 of V* in every state. What rounding can add
          is part of the bound. Only the span hi - lo counts, and a constant added to V never costs a sweep.
Update    two methods; `solve_dynamic` starts with the first and changes to the second when it sees slow mixing, and
          has a third one for the smallest models:

    modified policy iteration (Puterman and Shin, 1978), for chains that mix fast:
          V <- T V with the greedy policy pi taken on the fly, then V <- T_pi V until the span has shrunk a hundredfold

    Krylov policy iteration, for mazes, queues and discounts near one, where news must travel far:
          states are ordered by their distance to the most rewarding ones, so that a Gauss-Seidel sweep of T carries
          news through the whole model at once; in turn with that, T improves all states together, as Newton's method
          would; after each, the greedy policy's values come from a linear solve (chains.py). Where that is slow, as in
          large mazes, by elimination: in the order of news a good policy mostly moves to states before, and
          elimination fills in next to nothing (elimination.py). A policy that goes round in circles has no such
          order; then V is guessed anew, each state from those before it

    policy iteration (Howard, 1960), for the smallest models, on arrays: nothing to compile

Stops     when the proven bound is within the tolerance, or when rounding allows no better. Never on "the policy did not
          change": tied actions may swap for ever.
Numbers   V is kept as h + c, a constant c apart: at discount .99999 values are 1e5 times the rewards, and it is the
          differences h that decide. Rows of P are taken to sum to one exactly.
Cost      O(nonzeros) a sweep; no array of the size (S, A) is made.

    here      paper / meaning
    alpha     discount
    gain      (1 - alpha) c, what the constant costs per step
    h         V - c
    choice    pi(s), the greedy policy
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.base import kernel, one_by_one, silent, together
from dualq.model import MDP, SMALL, Ordered, solve_dense
from dualq.solvers.sweeps import Sweeps

Array = np.ndarray

SHRINK = 0.01  # an evaluation stops when the span of its residual is this part of the Bellman residual's ...
MAX_SWEEPS = 20  # ... or after so many sweeps
PROBE = 4  # sweeps after which an evaluation that would need more than PATIENCE of them is left
PATIENCE = 100  # more sweeps or improvements than this still to go, and the model is called slow
SWEEPS = 2  # Gauss-Seidel sweeps of T between two linear solves
REDUCTION = 1e-3  # of the residual by one linear solve
EXACT_AFTER = 50  # iterations, after which linear solves go to rounding: policy iteration proper, which must end
MANY = 5_000  # states from which on ...
QUICK = 32  # ... a linear solve of more sweeps than this is slow, and elimination is tried ...
FAILURES = 3  # ... until it has failed so often
LASTING = 100_000  # states from which on they are put in order by a thread of its own: so Ctrl-C need not wait for it
MAX_ITERATIONS = 100_000
SMALL_ARRAY = 20_000  # entries of P, zeros too, up to which a model is one of the smallest


class Result(NamedTuple):
    """V with |V - V*| <= error_bound everywhere."""

    V: Array
    error_bound: float
    method: str
    iterations: int
    products: float = 0.0  # passes over the model, or over the chain of a policy, or over as many entries


class Point(NamedTuple):
    """Where an iteration stands: V = h + c."""

    h: Array
    c: float
    products: float = 0.0  # that it took


def solve_dynamic(mdp: MDP, tolerance: float, guess: Array | None = None) -> Result:
    """V* to the tolerance, by whichever of the methods the model's size and mixing call for; from a guess, if large."""
    if mdp.num_states <= SMALL and mdp.num_states * mdp.rewards.size <= SMALL_ARRAY:
        return policy_iteration(mdp, tolerance)
    start = _start(mdp) if guess is None else Point(guess.copy(), 0.0)
    outcome = _modified_policy_iteration(mdp, tolerance, start, patience=PATIENCE)
    return outcome if isinstance(outcome, Result) else _krylov_policy_iteration(mdp, tolerance, outcome)


def modified_policy_iteration(mdp: MDP, tolerance: float) -> Result:
    """V* to the tolerance by modified policy iteration alone."""
    outcome = _modified_policy_iteration(mdp, tolerance, _start(mdp), patience=np.inf)
    assert isinstance(outcome, Result)
    return outcome


def krylov_policy_iteration(mdp: MDP, tolerance: float) -> Result:
    """V* to the tolerance by Krylov policy iteration alone."""
    return _krylov_policy_iteration(mdp, tolerance, _start(mdp))


def policy_iteration(mdp: MDP, tolerance: float) -> Result:
    """V* to the tolerance by policy iteration on dense arrays."""
    alpha, R = mdp.discount, np.where(mdp.available, mdp.rewards, -np.inf)
    P = mdp.transitions.toarray().reshape(*R.shape, mdp.num_states)
    every = np.arange(mdp.num_states)
    h, c, _ = _start(mdp)
    proof = Proof(mdp, tolerance)
    iteration, better, lo, hi = 0, h, 0.0, 0.0
    for iteration in range(1, MAX_ITERATIONS + 1):
        h, c = _centred(h, c)
        gain, leak = (1.0 - alpha) * c, (1.0 - alpha) * h[:, None]
        steps = h - h[:, None]  # as in `_residual`: small where transitions are local, however large h is
        q = R - gain - leak + alpha * np.einsum("sat,st->sa", P, steps)
        terms = np.abs(mdp.rewards) + abs(gain) + np.abs(leak) + alpha * np.einsum("sat,st->sa", P, np.abs(steps))
        better = q.max(axis=1)
        lo, hi = float(better.min()), float(better.max())
        if proof.is_enough(lo, hi, float(terms.max()), float(np.abs(h).max())) or iteration == MAX_ITERATIONS:
            break
        choice = q.argmax(axis=1)
        h = solve_dense(P[every, choice], alpha, R[every, choice] - gain)
    return proof.result(h + better, c, lo, hi, "policy iteration", iteration)


def _start(mdp: MDP) -> Point:
    # From below, so that T V >= V and no sweep has to take back what an earlier one found.
    return Point(np.zeros(mdp.num_states), mdp.rewards[mdp.available].min() / (1.0 - mdp.discount))


def _centred(h: Array, c: float) -> tuple[Array, float]:
    """The same h + c with the middle of h at zero, where rounding is least."""
    middle = 0.5 * (h.min() + h.max())
    h -= middle
    return h, c + middle


def _modified_policy_iteration(mdp: MDP, tolerance: float, start: Point, patience: float) -> Result | Point:
    """The result, or the point reached when more than `patience` further sweeps seem to be needed."""
    alpha, model = mdp.discount, Sweeps(mdp)
    h, c = _centred(start.h, start.c)
    Th = np.empty_like(h)
    largest_reward = float(np.abs(mdp.rewards).max())
    proof = Proof(mdp, tolerance)
    iteration, lo, hi, first_span = 0, 0.0, 0.0, 0.0
    products = 0
    for iteration in range(1, MAX_ITERATIONS + 1):
        gain = (1.0 - alpha) * c
        lo, hi = model.improve(gain, h, Th)
        products += 1
        largest = max(h.max(), -h.min())
        if proof.is_enough(lo, hi, largest_reward + abs(gain) + 2.0 * largest, largest) or iteration == MAX_ITERATIONS:
            break
        first_span = first_span or hi - lo
        hopeless = (hi - lo) * min(1.0, 2.0 * proof.residual / (hi - lo)) ** (PROBE / patience)
        h, Th, sweeps, span = model.evaluate(gain, h, Th, SHRINK * (hi - lo), MAX_SWEEPS, PROBE, hopeless)
        products += sweeps
        # Slow are chains whose evaluation drags on, and models where every improvement brings another.
        to_go = proof.steps_to_go(span, hi - lo, sweeps)
        if iteration > 2:
            to_go = max(to_go, proof.steps_to_go(hi - lo, first_span, iteration - 1))
        if to_go > patience:
            return Point(h, c, products)
        h, c = _centred(h, c)
    return proof.result(Th, c, lo, hi, "modified policy iteration", iteration, products)


def _krylov_policy_iteration(mdp: MDP, tolerance: float, start: Point) -> Result:
    alpha, A = mdp.discount, mdp.num_actions
    side_by_side = together if mdp.num_states >= LASTING else one_by_one
    [order] = side_by_side([lambda _: _order_of_news(*mdp.rows[:2], mdp.rewards)], silent)
    # from here on states are numbered in this order
    [(indptr, indices, P, R)] = side_by_side([lambda _: _in_order(*mdp.rows, mdp.rewards, order)], silent)
    h, c = start.h[order], start.c
    Th = np.empty_like(h)
    choice = np.empty(h.size, np.int64)
    proof = Proof(mdp, tolerance)
    iteration, lo, hi = 0, 0.0, 0.0
    values = Values(start.products, QUICK if h.size >= MANY else None)
    for iteration in range(1, MAX_ITERATIONS + 1):
        h, c = _centred(h, c)
        gain = (1.0 - alpha) * c
        values.products += SWEEPS if iteration % 2 else 1
        if iteration % 2 and iteration < MAX_ITERATIONS:  # carry news far
            for _ in range(SWEEPS):
                _gauss_seidel(indptr, indices, P, R, A, alpha, gain, h, choice)
        else:  # improve everywhere at once, as Newton's method would
            lo, hi, size = _residual(indptr, indices, P, R, A, alpha, gain, h, Th, choice)
            if proof.is_enough(lo, hi, size, max(h.max(), -h.min())) or iteration == MAX_ITERATIONS:
                break
        pairs = np.arange(h.size) * A + choice
        system = Ordered(indptr[pairs], indptr[pairs + 1], indices, P, alpha)
        reduction = REDUCTION if iteration < EXACT_AFTER else 1e-12
        values.failures = values.failures if iteration < EXACT_AFTER else FAILURES  # no elimination that is incomplete
        better = values.of(system, R[pairs] - gain, h, 0.1 * proof.residual, reduction)
        if better is None:  # news from afar is lost in the digits of the worst case: the policy goes round in circles
            _first_news(indptr, indices, P, R, A, alpha, gain, h)
        h = h if better is None else better
    Th[order] = Th.copy()
    return proof.result(Th, c, lo, hi, "Krylov policy iteration", iteration, values.products)


class Values:
    """Values of policies, one after another: by sweeps, and where these are slow by elimination, where that pays."""

    def __init__(self, products: float, quick: int | None):
        """Slow is what takes more than `quick` sweeps; nothing, if that is None."""
        self.products, self.quick = products, quick
        self.slow, self.failures = False, 0

    def of(self, system: Ordered, b: Array, h: Array, tolerance: float, reduction: float) -> Array | None:
        """The values, from h; None where they would take long, for the first policy whose chain moves in no order."""
        found, failures = None, self.failures
        if not self.slow:
            found = system.solve(b, h, tolerance, reduction, self.quick)
            self.slow = system.stalled
        if self.slow and failures < FAILURES:
            self.failures += not system.eliminate()
        if self.slow:
            found = None if (failures, self.failures) == (0, 1) else system.solve(b, h, tolerance, reduction)
        self.products += system.products
        return found


class Proof:
    """The bounds of MacQueen and Porteus with what rounding adds, and when they are good enough."""

    def __init__(self, mdp: MDP, tolerance: float):
        self.alpha = mdp.discount
        self.tolerance = tolerance
        self.residual = tolerance * (1.0 - self.alpha)  # half the span of T V - V that proves the tolerance, about
        # |fl(x) - x| <= unit (length + 3) sum |terms|, for a sum of products along a row of P
        self.unit = 0.5 * np.finfo(float).eps * (int(np.diff(mdp.indptr).max()) + 4)
        self.rounding = 0.0
        self.best_span, self.waited = np.inf, 0

    def is_enough(self, lo: float, hi: float, size: float, largest: float) -> bool:
        """Whether the bound is within the tolerance, or no better one is to be had.

        T h - h is a sum of terms of the given size, found to that sum's rounding. But h itself, with its largest entry,
        is kept to its own last digit only, which moves the residual too: below that no iteration can go.
        """
        self.rounding = self.unit * size
        if self._bound(lo, hi) <= self.tolerance:
            return True
        if hi - lo < 0.5 * self.best_span:
            self.best_span, self.waited = hi - lo, 0
        else:
            self.waited += 1
        finest = self.rounding + 2.0 * np.finfo(float).eps * largest
        return hi - lo <= self.rounding or (self.waited >= 10 and hi - lo <= 100.0 * finest)

    def steps_to_go(self, span: float, earlier: float, steps: int) -> float:
        """How many steps lead to the tolerance, if `steps` of them shrank the span from `earlier` to `span`."""
        if span <= 2.0 * self.residual:
            return 0.0
        return steps * np.log(span / (2.0 * self.residual)) / np.log(earlier / span) if span < earlier else np.inf

    def result(
        self, Th: Array, c: float, lo: float, hi: float, method: str, iterations: int, products: float = 0.0
    ) -> Result:
        """The midpoint of the bounds on V*, and half their distance."""
        middle = self.alpha / (1.0 - self.alpha) * 0.5 * (lo + hi)
        V = Th + (c + middle)
        terms = float(np.abs(Th).max()) + abs(c) + 2.0 * abs(middle)  # what rounding the last sum may cost
        return Result(V, float(self._bound(lo, hi) + self.unit * terms), method, iterations, products)

    def _bound(self, lo: float, hi: float) -> float:
        return (self.alpha * 0.5 * (hi - lo) + self.rounding) / (1.0 - self.alpha)


@kernel
def _residual(indptr, indices, P, R, num_actions, alpha, gain, h, Th, choice):
    """Th = T h and the greedy actions; the least and the greatest entry of Th - h, and the size of its terms.

    Th - h is found from the differences h(s') - h(s), which are small where transitions are local, however large h is.
    """
    lo, hi, size = np.inf, -np.inf, 0.0
    row = 0
    end = indptr[0]
    for s in range(h.size):
        best = -np.inf
        for a in range(num_actions):
            begin = end
            end = indptr[row + 1]
            if begin != end:
                flow, terms = 0.0, 0.0
                for j in range(begin, end):
                    step = h[indices[j]] - h[s]
                    flow += P[j] * step
                    terms += P[j] * abs(step)
                q = R[row] - gain - (1.0 - alpha) * h[s] + alpha * flow
                if q > best:
                    best, choice[s] = q, a
                size = max(size, abs(R[row]) + abs(gain) + (1.0 - alpha) * abs(h[s]) + alpha * terms)
            row += 1
        Th[s] = h[s] + best
        lo = min(lo, best)
        hi = max(hi, best)
    return lo, hi, size


@kernel
def _gauss_seidel(indptr, indices, P, R, num_actions, alpha, gain, h, choice):
    """One sweep of T in place, each state's own weight solved for; the greedy actions; the largest change of h."""
    change = 0.0
    for s in range(h.size):
        best, arg = -np.inf, 0
        for a in range(num_actions):
            row = s * num_actions + a
            begin = indptr[row]
            end = indptr[row + 1]
            if begin != end:
                flow, stay = 0.0, 0.0
                for j in range(begin, end):
                    if indices[j] == s:
                        stay += P[j]
                    else:
                        flow += P[j] * h[indices[j]]
                q = (R[row] - gain + alpha * flow) / (1.0 - alpha * stay)
                if q > best:
                    best, arg = q, a
        change = max(change, abs(best - h[s]))
        h[s] = best
        choice[s] = arg
    return change


@kernel
def _first_news(indptr, indices, P, R, num_actions, alpha, gain, h):
    """A first guess of h, each state from those before it: where a row leads behind it, it is worth what it is itself.

    Actions that lead to no state before are left out, but where there is no other.
    """
    for s in range(h.size):
        best, told = -np.inf, False
        for a in range(num_actions):
            row = s * num_actions + a
            begin = indptr[row]
            end = indptr[row + 1]
            if begin != end:
                flow, known = 0.0, 0.0
                for j in range(begin, end):
                    if indices[j] < s:
                        known += P[j]
                        flow += P[j] * h[indices[j]]
                q = (R[row] - gain + alpha * flow) / (1.0 - alpha + alpha * known)
                if (known > 0.0) == told:
                    best = max(best, q)
                elif known > 0.0:
                    best, told = q, True
        h[s] = best


@kernel
def _in_order(indptr, indices, P, R, order):
    """The model with its states in the given order: indptr, indices, probabilities and rewards of the pairs."""
    num_states, num_actions = R.shape
    place = np.empty(num_states, indices.dtype)
    for t in range(num_states):
        place[order[t]] = t
    new_indptr, new_indices = np.empty_like(indptr), np.empty_like(indices)
    new_P, new_R = np.empty_like(P), np.empty(indptr.size - 1)
    k = np.uint64(0)
    for t in range(num_states):
        for a in range(num_actions):
            row = order[t] * num_actions + a
            new_indptr[t * num_actions + a] = k
            new_R[t * num_actions + a] = R[order[t], a]
            for j in range(indptr[row], indptr[row + 1]):
                new_indices[k] = place[indices[j]]
                new_P[k] = P[j]
                k += np.uint64(1)
    new_indptr[num_states * num_actions] = k
    return new_indptr, new_indices, new_P, new_R


@kernel
def _order_of_news(indptr, indices, R):
    """States by their distance, along transitions backwards, to those of the highest reward; the rest after them."""
    num_states, num_actions = R.shape
    highest = -np.inf
    for s in range(num_states):
        for a in range(num_actions):
            if indptr[s * num_actions + a] != indptr[s * num_actions + a + 1]:
                highest = max(highest, R[s, a])

    first = np.zeros(num_states + 1, np.int64)
    for j in range(indices.size):
        first[indices[j] + 1] += 1
    for s in range(num_states):
        first[s + 1] += first[s]
    predecessors = np.empty(indices.size, np.uint32)
    fill = first[:-1].copy()
    for s in range(num_states):
        for j in range(indptr[s * num_actions], indptr[(s + 1) * num_actions]):
            predecessors[fill[indices[j]]] = s
            fill[indices[j]] += 1

    order = np.empty(num_states, np.int64)
    found = np.zeros(num_states, np.bool_)
    count = 0
    for s in range(num_states):
        for a in range(num_actions):
            if R[s, a] == highest and indptr[s * num_actions + a] != indptr[s * num_actions + a + 1] and not found[s]:
                found[s] = True
                order[count] = s
                count += 1
    looked = 0
    for root in range(num_states + 1):  # one round more than roots, for what the sources reach
        while looked < count:
            s = order[looked]
            looked += 1
            for j in range(first[s], first[s + 1]):
                u = predecessors[j]
                if not found[u]:
                    found[u] = True
                    order[count] = u
                    count += 1
        if root < num_states and not found[root]:
            found[root] = True
            order[count] = root
            count += 1
    return order
