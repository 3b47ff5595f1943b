"""Slow twins: the paper's definitions written out with loops and dense matrices, for comparison."""

import itertools
from typing import NamedTuple

import numpy as np

from dualq.model.mdp import MDP
from dualq.worlds.streams import Recorded, Rows


def dense_transitions(mdp):
    """P[s, a, s'] with zero rows where an action does not exist."""
    P = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            for successor, p in zip(*mdp.P(s, a), strict=True):
                P[s, a, successor] += p
    return P


def policy_value(mdp, matrix):
    """(I - alpha P_pi)^-1 R_pi by a dense solve."""
    P_pi = np.einsum("sa,sat->st", matrix, dense_transitions(mdp))
    return np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * P_pi, (matrix * mdp.rewards).sum(axis=1))


def policy_occupancy(mdp, matrix, eta):
    """pi_s(a) ((I - alpha P_pi')^-1 eta)(s) by a dense solve."""
    P_pi = np.einsum("sa,sat->st", matrix, dense_transitions(mdp))
    return matrix * np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * P_pi.T, eta)[:, None]


def optimal_value(mdp):
    """V* as the best value over all deterministic policies, every one of them tried."""
    best = np.full(mdp.num_states, -np.inf)
    choices = [np.flatnonzero(row) for row in mdp.available]
    for policy in itertools.product(*choices):
        matrix = np.eye(mdp.num_actions)[list(policy)]
        best = np.maximum(best, policy_value(mdp, matrix))
    return best


def bellman(mdp, V):
    """(T V)(s) = max_a R(s,a) + alpha sum_s' P(s'|s,a) V(s'), with loops."""
    out = np.empty(mdp.num_states)
    for s in range(mdp.num_states):
        values = []
        for a in range(mdp.num_actions):
            if mdp.available[s, a]:
                successors, p = mdp.P(s, a)
                flow = sum(q * V[t] for q, t in zip(p, successors, strict=True))
                values.append(mdp.rewards[s, a] + mdp.discount * flow)
        out[s] = max(values)
    return out


# ---- the algorithms, from the paper: vectors stacked by action (entry a |S| + s), matrices, every iterate kept


class SplitMix64:
    """The generator of the kernels in Python's own integers (Steele, Lea and Flood, 2014)."""

    MASK = (1 << 64) - 1

    def __init__(self, state):
        self.state = int(state)

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.MASK
        return z ^ (z >> 31)

    def below(self, n):
        return ((self.bits() >> 32) * n) >> 32


def draw_pair(generator, available):
    """(s_hat, a_hat): a state, and one of the actions that exist there."""
    s = generator.below(available.shape[0])
    actions = np.flatnonzero(available[s])
    return s, int(actions[generator.below(actions.size)])


def stack(x):
    """An array (S, A) as the paper's vector."""
    return np.asarray(x, float).T.ravel()


def unstack(x, num_actions):
    """The paper's vectors (..., |S||A|) as arrays (..., S, A)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], num_actions, -1), -1, -2)


class Paper:
    """The matrices and bounds of the paper for a model, in its units, and the projections onto its sets."""

    def __init__(self, mdp, eta, zeta):
        self.S, self.A, self.alpha = mdp.num_states, mdp.num_actions, mdp.discount
        self.available = mdp.available
        self.exists = stack(mdp.available)
        self.n = mdp.available.sum(axis=1)  # |A|, where all actions exist
        self.eta = np.broadcast_to(np.asarray(eta, float), (self.S,))
        self.shift = max(0.0, -mdp.reward_range[0])
        sigma = mdp.reward_range[1] + self.shift
        self.R = self.exists * (stack(mdp.rewards) + self.shift)
        self.P = np.vstack([dense_transitions(mdp)[:, a] for a in range(self.A)])
        self.E = np.kron(np.ones((self.A, 1)), np.eye(self.S))
        self.value_bound = sigma / (1 - self.alpha)
        self.occupancy_bound = self.eta.sum() / (1 - self.alpha)
        self.ratio_bound = self.eta.sum() / (zeta * (1 - self.alpha))
        self.e = np.eye(self.S)
        self.pair = {
            (s, a): np.kron(np.eye(self.A)[a], self.e[s]) for s in range(self.S) for a in range(self.A)
        }  # e_(s,a)
        self.active = set()  # the projections that changed something

    def _note(self, name, before, after):
        if np.abs(before - after).max() > 1e-9:
            self.active.add(name)
        return after

    def box(self, name, x, bound):
        if (x > bound + 1e-9).any():
            self.active.add(name + " from above")
        return self._note(name, x, np.clip(x, 0.0, bound))

    def L_and_Xi(self, x):
        """Per state: clip to the box; if that sums to less than eta(s), project onto the simplex of size eta(s)."""
        out = unstack(x, self.A).copy()
        for s in range(self.S):
            here = self.available[s]
            row = out[s, here]
            clipped = np.clip(row, 0.0, self.occupancy_bound)
            if clipped.sum() < self.eta[s]:
                self.active.add("Xi")
                descending = np.sort(row)[::-1]
                excess = (np.cumsum(descending) - self.eta[s]) / np.arange(1, row.size + 1)
                last = np.flatnonzero(descending > excess)[-1]
                clipped = np.maximum(row - excess[last], 0.0)
            elif (clipped != row).any():
                self.active.add("L")
            out[s, here], out[s, ~here] = clipped, 0.0
        return stack(out)

    def next_value(self, row, V):
        """(e_{s'}, V(s')); at the end of an episode e_{s'} = 0, and V = 0 in the user's units."""
        if row.ended:
            return np.zeros(self.S), self.shift / (1 - self.alpha)
        return self.e[row.s_next], self.e[row.s_next] @ V


class Row(NamedTuple):
    s: int
    a: int
    r: float
    s_next: int
    ended: bool


def as_rows(rows):
    """The columns of a chunk as rows of Python numbers."""
    return [Row(*row) for row in zip(*(column.tolist() for column in rows), strict=True)]


def kept(paper, histories):
    """{name: every iterate, the last one too, as arrays (T + 1, S[, A])}."""
    arrays = {name: np.array(values) for name, values in histories.items()}
    return {name: x if name == "V" else unstack(x, paper.A) for name, x in arrays.items()}


def first_of_algorithm_1(paper):
    """Q, V, lambda, mu: zeros, made feasible."""
    zeros = np.zeros(paper.S * paper.A)
    lambda_ = paper.L_and_Xi(zeros)
    paper.active.clear()
    return zeros, np.zeros(paper.S), lambda_, zeros


def step_of_algorithm_1(paper, iterates, row, g, generator):
    """One step: the next Q, V, lambda, mu."""
    S, alpha, eta, E = paper.S, paper.alpha, paper.eta, paper.E
    Q, V, lambda_, mu = iterates
    s_hat, a_hat = draw_pair(generator, paper.available)
    at, hat, e_hat = paper.pair[row.s, row.a], paper.pair[s_hat, a_hat], paper.e[s_hat]
    N = np.outer(hat, hat) * S * paper.n[s_hat]  # |S||A| e e'
    H = np.outer(e_hat, e_hat) * S
    e_next, V_next = paper.next_value(row, V)
    Q_half = Q - g * (N @ lambda_ - np.outer(at, at) @ mu)
    V_half = V - g * (H @ eta - E.T @ (N @ lambda_) + alpha * np.outer(e_next, at) @ mu)
    lambda_half = lambda_ + g * (N @ (Q - E @ V))
    mu_half = mu + g * (alpha * at * V_next + at * (row.r + paper.shift) - np.outer(at, at) @ Q)
    Q, V = paper.box("Q", Q_half, paper.value_bound), paper.box("V", V_half, paper.value_bound)
    return Q, V, paper.L_and_Xi(lambda_half), paper.box("mu", mu_half, paper.ratio_bound)


def algorithm_1(paper, rows, gamma, generator):
    """SPD Q-learning, the paper's Algorithm 1, from zeros made feasible."""
    iterates = [first_of_algorithm_1(paper)]
    for row, g in zip(as_rows(rows), gamma, strict=True):
        iterates.append(step_of_algorithm_1(paper, iterates[-1], row, g, generator))
    return kept(paper, dict(zip(("Q", "V", "lambda_", "mu"), zip(*iterates, strict=True), strict=True)))


def networked_algorithm_1(paper, rows, gamma, generators, W, shares):
    """Every agent's iterates: rows dealt out in turn, all variables times W when all have taken a step."""
    N = len(W)
    agents = [first_of_algorithm_1(paper)] * N
    iterates = [[agent] for agent in agents]
    for k, row in enumerate(as_rows(rows)):
        i, own = k % N, row._replace(r=shares[k % N] * row.r)
        agents[i] = step_of_algorithm_1(paper, agents[i], own, gamma[k // N], generators[i])
        if i == N - 1:
            mixed = [W @ np.array(x) for x in zip(*agents, strict=True)]
            agents = [tuple(x[j] for x in mixed) for j in range(N)]
            for j in range(N):
                iterates[j].append(agents[j])
    return [
        kept(paper, dict(zip(("Q", "V", "lambda_", "mu"), zip(*one, strict=True), strict=True))) for one in iterates
    ]


def spd_rl(paper, rows, gamma, generator):
    """The off-policy modification of SPD-RL, on the LP with M_a on both sides."""
    S, A, alpha, E = paper.S, paper.A, paper.alpha, paper.E
    V, mu = np.zeros(S), np.zeros(S * A)
    histories = {"V": [V], "mu": [mu]}
    for row, g in zip(as_rows(rows), gamma, strict=True):
        e_hat = paper.e[generator.below(S)]
        at = paper.pair[row.s, row.a]
        M = np.outer(at, at)  # its mean is the matrix M
        e_next, V_next = paper.next_value(row, V)
        V_half = V - g * (S * np.outer(e_hat, e_hat) @ paper.eta - E.T @ (M @ mu) + alpha * np.outer(e_next, at) @ mu)
        mu_half = mu + g * (at * (row.r + paper.shift + alpha * V_next) - M @ (E @ V))
        V, mu = paper.box("V", V_half, paper.value_bound), paper.box("mu", mu_half, paper.ratio_bound)
        histories["V"].append(V)
        histories["mu"].append(mu)
    return kept(paper, histories)


def spd_rl_uniform(paper, rows, gamma):
    """SPD-RL as Chen and Wang have it: the pair of each row is uniform."""
    S, A, alpha, E = paper.S, paper.A, paper.alpha, paper.E
    V, lambda_ = np.zeros(S), paper.L_and_Xi(np.zeros(S * A))
    paper.active.clear()
    histories = {"V": [V], "lambda_": [lambda_]}
    for row, g in zip(as_rows(rows), gamma, strict=True):
        at, e_s = paper.pair[row.s, row.a], paper.e[row.s]
        N = np.outer(at, at) * S * paper.n[row.s]  # its mean is the identity
        e_next, V_next = paper.next_value(row, V)
        along = S * paper.n[row.s] * np.outer(e_next, at)  # its mean is P'
        V_half = V - g * (S * np.outer(e_s, e_s) @ paper.eta - E.T @ (N @ lambda_) + alpha * along @ lambda_)
        lambda_half = lambda_ + g * (N @ at * (row.r + paper.shift + alpha * V_next) - N @ (E @ V))
        V, lambda_ = paper.box("V", V_half, paper.value_bound), paper.L_and_Xi(lambda_half)
        histories["V"].append(V)
        histories["lambda_"].append(lambda_)
    return kept(paper, histories)


def primal_dual(paper, distributions, gamma):
    """The deterministic iteration eq:primal-dual-iteration, with the M_k given."""
    S, A, alpha, E, P = paper.S, paper.A, paper.alpha, paper.E, paper.P
    Q, V, mu = np.zeros(S * A), np.zeros(S), np.zeros(S * A)
    lambda_ = paper.L_and_Xi(np.zeros(S * A))
    paper.active.clear()
    histories = {"Q": [Q], "V": [V], "lambda_": [lambda_], "mu": [mu]}
    I = np.diag(paper.exists)  # noqa: E741
    for M, g in zip(distributions, gamma, strict=True):
        M = np.diag(stack(M))
        grad_Q = lambda_ - M @ mu
        grad_V = paper.eta - E.T @ lambda_ + alpha * P.T @ (M @ mu)
        grad_lambda = I @ (Q - E @ V)
        grad_mu = M @ (alpha * P @ V + paper.R - Q)
        Q, V = paper.box("Q", Q - g * grad_Q, paper.value_bound), paper.box("V", V - g * grad_V, paper.value_bound)
        lambda_ = paper.L_and_Xi(lambda_ + g * grad_lambda)
        mu = paper.box("mu", mu + g * grad_mu, paper.ratio_bound)
        for name, x in (("Q", Q), ("V", V), ("lambda_", lambda_), ("mu", mu)):
            histories[name].append(x)
    return kept(paper, histories)


def distributions(simulator, count):
    """tau_0, ..., tau_{count-1} by dense matrices: v_{k+1} = P_theta_k' v_k."""
    P, v, found = dense_transitions(simulator.mdp), simulator.start, []
    for k in range(count):
        w = 1.0 if simulator.drift is None else simulator.drift.weight(k)
        theta = w * simulator.behaviour.matrix
        if simulator.drift is not None:
            theta = theta + (1.0 - w) * simulator.drift.to.matrix
        found.append(v[:, None] * theta)
        v = np.einsum("sa,sat->t", found[-1], P)
        over = [s for s in range(v.size) if simulator.episodic and is_end(simulator.mdp, P, s)]
        ended = sum(v[s] for s in over)
        v = np.where(np.isin(np.arange(v.size), over), 0.0, v) + ended * simulator.start
    return found


def is_end(mdp, P, s):
    """Whether no action leaves s, and none earns anything."""
    return all(P[s, a, s] == 1.0 and mdp.rewards[s, a] == 0.0 for a in np.flatnonzero(mdp.available[s]))


def q_learning(mdp, rows, step, generator=None):
    """Watkins' update in dictionaries; step(k, n) with n the table's visits of the pair. Two tables, if a generator
    is given."""
    num_tables = 1 if generator is None else 2
    pairs = [(int(s), int(a)) for s, a in np.argwhere(mdp.available)]
    tables = [dict.fromkeys(pairs, 0.0) for _ in range(num_tables)]
    visits = [dict.fromkeys(pairs, 0) for _ in range(num_tables)]
    for k, row in enumerate(as_rows(rows)):
        pair = row.s, row.a
        which = 0 if generator is None else generator.bits() >> 63
        visits[which][pair] += 1
        table, judge = tables[which], tables[-1 - which] if num_tables == 2 else tables[0]
        future = 0.0
        if not row.ended:
            there = [other for other in pairs if other[0] == row.s_next]
            future = judge[max(there, key=lambda other, table=table: table[other])]
        gamma = step(k, visits[which][pair])
        table[pair] = (1.0 - gamma) * table[pair] + gamma * (row.r + mdp.discount * future)
    Q = np.zeros((num_tables, *mdp.rewards.shape))
    for i, table in enumerate(tables):
        for pair, value in table.items():
            Q[(i, *pair)] = value
    return Q


# ---- what the twins are compared on


def run(algorithm, mdp, stream, steps, seed=0, zeta=0.05, chunk=1000):
    """The state of an algorithm after so many steps, from the rows of a stream."""
    state, problem = algorithm.init(mdp, seed, zeta), algorithm.problem(mdp, zeta)
    source = stream.init(seed)
    for k in range(0, steps, chunk):
        rows = Rows.empty(min(chunk, steps - k))
        assert stream.fill(source, rows) == rows.s.size
        algorithm.advance(state, problem, rows, k)
    return state


def all_rows(stream, steps, seed=0):
    """The same rows in one chunk."""
    rows = Rows.empty(steps)
    assert stream.fill(stream.init(seed), rows) == steps
    return rows


def masked_model():
    """Four states, three actions of which some do not exist, rewards of either sign, and an absorbing state."""
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(4), (4, 3))
    P[3] = np.eye(4)[3]
    available = np.array([[True, True, True], [True, False, True], [False, True, False], [True, True, False]])
    return MDP(P, rng.uniform(-2.0, 1.0, (4, 3)), 0.8, available=available)


def scattered(mdp, count, seed=0):
    """Rows of pairs from anywhere, rewards within their range, some of them the end of an episode."""
    rng = np.random.default_rng([seed, 77])
    pairs = np.argwhere(mdp.available)
    s, a = pairs[rng.choice(len(pairs), count, p=rng.dirichlet(np.full(len(pairs), 5.0)))].T
    P = dense_transitions(mdp)
    s_next = np.array([rng.choice(mdp.num_states, p=P[i, j]) for i, j in zip(s, a, strict=True)])
    low, high = mdp.reward_range
    r = np.clip(mdp.rewards[s, a] + rng.uniform(-0.3, 0.3, count), low, high)
    return Recorded(s, a, r, s_next, mdp.absorbing[s_next] & (rng.random(count) < 0.5))
