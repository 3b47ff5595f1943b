"""Policies: what to do in each state. `Policy` is what every kind offers; `TablePolicy` is the kind with one row of
probabilities per state, whose exact values and occupancies are known.

paper                              here
theta_s(a), pi_s(a)                policy.matrix[s, a]
P_theta, R_theta                   policy.chain(mdp)
V^pi = (I - alpha P_pi)^-1 R_pi    policy.value(mdp)
lambda^pi, with eta = (I - alpha P_pi')  sum_a lambda_a,  lambda_a(s) = pi_s(a) sum_a' lambda_a'(s)
                                   policy.occupancy(mdp, weights)
primal policy: argmax_a Q_a(s)     TablePolicy.greedy(Q)
dual policy: lambda_a(s) / sum_a' lambda_a'(s)   TablePolicy.from_occupancy(occupancy)

Acting needs neither SciPy nor Numba: they are imported by what computes values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Label, LabelLike, Labels, LabelsLike, ModelError, Places, as_labels, column_of, distinct, door
from dualq.model.draws import Cases, Seed, cases_of, chosen, generator, named_actions, one_case

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp

    from dualq.model.mdp import MDP

Array = np.ndarray


@runtime_checkable
class Policy(Protocol):
    """What every policy offers, whatever its states are: asked in the user's labels, it answers with labels of actions.

    Anything with these three is a Policy; it need not inherit from this class. What computes with a matrix, such as
    `value` and `occupancy`, takes a `TablePolicy`.

    Examples
    --------
    >>> import dualq
    >>> isinstance(dualq.TablePolicy([[1.0, 0.0], [0.5, 0.5]]), dualq.Policy)
    True
    """

    @property
    def actions(self) -> Labels:
        """The labels of the actions."""
        ...

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None) -> Label:
        """The label of an action, drawn where the policy is random; `default`, if given, in a state not known."""
        ...

    def probabilities(self, state: LabelLike) -> dict[Label, float]:
        """{action label: probability} in a state."""
        ...


@door
@dataclass(frozen=True, eq=False)
class TablePolicy:
    """What to do in each state, as a table: `matrix[s, a]` is the probability of action a in state s.

    Examples
    --------
    >>> import dualq
    >>> policy = dualq.TablePolicy([[1.0, 0.0], [0.25, 0.75]], states=["low", "high"], actions=["order", "wait"])
    >>> policy.act("low")
    'order'
    >>> policy.probabilities("high")
    {'order': 0.25, 'wait': 0.75}

    Its value in a model, and how often it takes each decision from the start:

    >>> two = dualq.problems.two_state()
    >>> uniform = dualq.TablePolicy.uniform(two.mdp)
    >>> uniform.value(two.mdp).round(3)
    array([17.269, 15.947])
    >>> uniform.occupancy(two.mdp, weights=[1.0, 0.0]).sum().round(6)
    np.float64(10.0)
    """

    matrix: Array
    states: Labels
    actions: Labels
    undecided: Array  # (S,) True where the data named no action and the policy is uniform for want of one

    def __init__(
        self,
        matrix: ArrayLike,
        states: LabelsLike = None,
        actions: LabelsLike = None,
        undecided: ArrayLike | None = None,
    ):
        matrix = np.array(matrix, dtype=float)
        if matrix.ndim != 2:
            raise ModelError(f"a policy has shape {matrix.shape}; it must be (S, A), a row of probabilities per state")
        bad = ~(np.abs(matrix.sum(axis=1) - 1.0) <= 1e-8) | (matrix < 0).any(axis=1)
        states = as_labels(states, matrix.shape[0], "state")
        if bad.any():
            s = int(bad.argmax())
            row = matrix[s].tolist()
            words = f"policy in {states.describe(s)} is {row}; it must be probabilities summing to 1"
            raise ModelError(words, state=states[s], value=row)
        undecided = np.zeros(matrix.shape[0], bool) if undecided is None else np.array(undecided, dtype=bool)
        for array in (matrix, undecided):
            array.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "actions", as_labels(actions, matrix.shape[1], "action"))
        object.__setattr__(self, "undecided", undecided)

    # ---- ways to get one

    @classmethod
    def deterministic(
        cls, choice: Array, num_actions: int, states: LabelsLike = None, actions: LabelsLike = None
    ) -> TablePolicy:
        """The policy that always takes action choice[s] in state s."""
        matrix = np.zeros((len(choice), num_actions))
        matrix[np.arange(len(choice)), choice] = 1.0
        return cls(matrix, states, actions)

    @classmethod
    def greedy(cls, Q: Array, states: LabelsLike = None, actions: LabelsLike = None) -> TablePolicy:
        """The action with the largest Q in each state; among those that are equal to rounding, the one listed first."""
        if Q.ndim != 2 or not Q.size:
            raise ModelError(
                f"Q has the shape {Q.shape}; it must have a row per state, a column per action", argument="Q"
            )
        best = Q.max(axis=1, keepdims=True)
        equal = best - Q <= 4.0 * np.finfo(float).eps * np.abs(best)
        return cls.deterministic(np.argmax(equal, axis=1), Q.shape[1], states, actions)

    @classmethod
    def from_occupancy(
        cls, occupancy: Array, available: Array | None = None, states: LabelsLike = None, actions: LabelsLike = None
    ) -> TablePolicy:
        """Each state's occupancy, normalised; uniform over the available actions, and `undecided`, where it is zero."""
        occupancy = np.asarray(occupancy, dtype=float)
        available = np.ones(occupancy.shape, bool) if available is None else available
        mass = occupancy.sum(axis=1, keepdims=True)
        undecided = ~(mass[:, 0] > 0.0)
        uniform = available / available.sum(axis=1, keepdims=True)
        matrix = np.where(undecided[:, None], uniform, occupancy / np.where(undecided[:, None], 1.0, mass))
        return cls(matrix, states, actions, undecided)

    @classmethod
    def uniform(cls, mdp: MDP) -> TablePolicy:
        """Every available action equally likely."""
        available = mdp.available
        return cls(available / available.sum(axis=1, keepdims=True), mdp.states, mdp.actions)

    # ---- what it does, in the user's labels

    def probabilities(self, state: LabelLike) -> dict[Label, float]:
        """{action label: probability} in a state."""
        row = self.matrix[self.states.index(state)]
        return {label: float(p) for label, p in zip(self.actions, row, strict=True) if p > 0.0}

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None, case: int | None = None) -> Label:
        """The label of an action; `default`, if given, in a state it does not know.

        A random policy draws: by the number of the case, which gives the same action wherever it is asked (draws.py),
        or by a seed, or anew. A state without one of its columns is a mistake and not an unknown state: it is refused,
        default or not.
        """
        if default is not None and self.states.key(state) not in self.states:
            return default
        row = self.matrix[self.states.index(state)]
        if row.max() == 1.0:
            return self.actions[int(row.argmax())]
        if case is not None and seed is None:
            return self.actions[int(chosen(row[None], np.zeros(1, int), None, one_case(case))[0])]
        return self.actions[int(generator(seed).choice(row.size, p=row / row.sum()))]

    def act_many(
        self, table: Mapping[str, ArrayLike], seed: Seed = None, default: Label = None, case: Cases = None
    ) -> list[Label]:
        """The label of an action for each row of a table or frame, as `act` says; None, or `default`, where unknown.

        case   of each row: a column of the table, or whole numbers; without one, the number of the row, from 0
        """
        found = [distinct(column_of(table, name, self.states.names)) for name in self.states.names]
        codes = [np.append(self.places.codes(n, v), -1)[w] for n, (v, w) in zip(self.states.names, found, strict=True)]
        places = self.act_at(self.places.find(codes), seed, cases_of(table, case, codes[0].size))
        return named_actions(self.actions, places, default)

    def act_at(self, rows: Array, seed: Seed = None, cases: Array | None = None) -> Array:
        """(n,) the places of actions in the states at these places; -1 for -1."""
        return chosen(self.matrix, rows, seed, cases)

    @cached_property
    def places(self) -> Places:
        """Where many states stand, asked at once."""
        return Places(self.states)

    def columns(self) -> dict[str, list[Label]]:
        """The policy as a table: the columns of the state, of the action, and the probability, where it is positive."""
        s, a = np.nonzero(self.matrix)
        return {**self.states.picked(s), **self.actions.picked(a), "probability": self.matrix[s, a].tolist()}

    def table(self) -> pa.Table:
        """The same as an Arrow table."""
        import pyarrow as pa

        return pa.table(self.columns())

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every state has one action of probability one."""
        return bool((self.matrix.max(axis=1) == 1.0).all())

    # ---- what it is worth

    def chain(self, mdp: MDP) -> tuple[sp.csr_array, Array]:
        """(P_pi, R_pi): the Markov chain and the expected rewards under this policy."""
        import scipy.sparse as sp

        self.check_fits(mdp)
        S, A = self.matrix.shape
        rewards = (self.matrix * mdp.rewards).sum(axis=1)
        if self.is_deterministic:
            P = sp.csr_array(mdp.transitions[np.arange(S) * A + self.matrix.argmax(axis=1)])
            P.eliminate_zeros()  # a transition of probability zero is none
            return P, rewards
        s, a = np.nonzero(self.matrix)
        choose = sp.csr_array((self.matrix[s, a], (s, s * A + a)), shape=(S, S * A))
        return sp.csr_array(choose @ mdp.transitions), rewards

    def value(self, mdp: MDP) -> Array:
        """V^pi: the expected discounted reward from each state, by a sparse solve to rounding."""
        from dualq.model.chains import solve_chain

        P, R = self.chain(mdp)
        return solve_chain(P, mdp.discount, R)

    def value_error(self, mdp: MDP, V: Array) -> float:
        """A proven bound on |V - V^pi| in every state: max |R_pi + alpha P_pi V - V| / (1 - alpha), and rounding."""
        P, R = self.chain(mdp)
        residual = np.abs(R + mdp.discount * (P @ V) - V).max()
        longest = np.diff(P.indptr).max() + 4
        rounding = 0.5 * np.finfo(float).eps * longest * (np.abs(R).max() + 2.0 * np.abs(V).max())
        return float((residual + rounding) / (1.0 - mdp.discount))

    def occupancy(self, mdp: MDP, weights: ArrayLike | None = None) -> Array:
        """lambda^pi (S, A): expected discounted visits to each pair when states start with the weights eta >= 0."""
        from dualq.model.chains import solve_chain

        P, _ = self.chain(mdp)
        eta = mdp.default_weights() if weights is None else mdp.checked_start(weights)
        visits = solve_chain(P, mdp.discount, eta, transpose=True)
        return self.matrix * visits[:, None]

    def check_fits(self, mdp: MDP) -> None:
        """Refuse a model of another size, or one where an action of this policy does not exist."""
        if self.matrix.shape != mdp.rewards.shape:
            sizes = f"{self.matrix.shape} states and actions, the model has {mdp.rewards.shape}"
            raise ModelError(f"the policy is for {sizes}")
        outside = (self.matrix > 0.0) & ~mdp.available
        if outside.any():
            s, a = (int(i) for i in np.argwhere(outside)[0])
            action, state = self.actions.describe(a), self.states.describe(s)
            words = f"the policy takes {action} in {state}, where it does not exist"
            raise ModelError(words, state=self.states[s], action=self.actions[a])
