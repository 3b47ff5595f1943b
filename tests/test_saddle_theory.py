"""The constants of the lemmas and theorems: exact arithmetic, brute force, and Algorithm 1 with matrices."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from naive import dense_transitions

from dualq import problems
from dualq.base.errors import ModelError
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.model.saddle.sets import Sets
from dualq.paper import theory
from dualq.solvers.exact import solve
from dualq.worlds.simulator import Simulator, settling

TWO = problems.two_state()
NUMBERS = theory.bounds(TWO).numbers  # S = A = 2, sigma = h = 3, alpha = .9, zeta = .08, gamma_0 = 2
SQRT26 = math.sqrt(26.0)


def random_numbers(rng: np.random.Generator, as_in_theorems: bool) -> theory.Numbers:
    """Numbers as a model may have them, n >= 2: zeta <= 1/n."""
    S, A = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    A += S * A == 1
    sigma = 10.0 ** rng.uniform(-1, 2)
    h = sigma if as_in_theorems else 10.0 ** rng.uniform(-2, 2)
    zeta = 10.0 ** rng.uniform(-2, 0) / (S * A)
    alpha, gamma_0, beta_0 = rng.uniform(0, 0.99), 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)
    return theory.Numbers(S, A, sigma, alpha, h, h / S, zeta, gamma_0, beta_0, rng.uniform(0.01, 0.99), 0.1)


def chain_of(P, start) -> Simulator:
    """A chain with one action."""
    P = np.asarray(P, dtype=float)
    mdp = MDP(P[:, None, :], np.ones((len(P), 1)), 0.5)
    return Simulator(mdp, TablePolicy.uniform(mdp), np.asarray(start, dtype=float), "made up")


# ---- Algorithm 1 with matrices, on a small model


class Naive:
    """One step of Algorithm 1 (with a point of the sets going in), and every outcome that it can have."""

    def __init__(self, simulator: Simulator, zeta: float, weights=None):
        self.simulator, self.mdp = simulator, simulator.mdp
        self.S, self.A = self.mdp.rewards.shape
        self.eta = self.mdp.checked_weights(weights)
        self.sets = Sets.of(self.mdp, self.eta, zeta)
        exact = solve(self.mdp, weights=self.eta)
        self.x_star = np.concatenate([exact.Q.ravel(), exact.V])
        self.lambda_star = exact.occupancy.ravel()

    def outcomes(self, tau):
        """(probability, (s, a, s', s-hat, a-hat)) of all draws."""
        uniform = 1.0 / (self.S * self.A)
        for s, a, s_hat, a_hat in itertools.product(*[range(self.S), range(self.A)] * 2):
            for s_next, p in zip(*self.mdp.P(s, a), strict=True):
                yield tau[s, a] * p * uniform, (s, a, int(s_next), s_hat, a_hat)

    def gradients(self, x, y, outcome):
        """The stochastic gradients, as vectors (Q, V) and (lambda, mu)."""
        s, a, s_next, s_hat, a_hat = outcome
        Q, V, lambda_, mu = self.split(x, y)
        n, alpha = self.S * self.A, self.mdp.discount
        g_Q, g_V = np.zeros((self.S, self.A)), np.zeros(self.S)
        g_lambda, g_mu = np.zeros((self.S, self.A)), np.zeros((self.S, self.A))
        g_Q[s, a] -= mu[s, a]
        g_Q[s_hat, a_hat] += n * lambda_[s_hat, a_hat]
        g_V[s_hat] += self.S * self.eta[s_hat] - n * lambda_[s_hat, a_hat]
        g_V[s_next] += alpha * mu[s, a]
        g_lambda[s_hat, a_hat] = n * (Q[s_hat, a_hat] - V[s_hat])
        g_mu[s, a] = alpha * V[s_next] + self.mdp.rewards[s, a] - Q[s, a]
        return np.concatenate([g_Q.ravel(), g_V]), np.concatenate([g_lambda.ravel(), g_mu.ravel()])

    def step(self, x, y, outcome, gamma):
        g_x, g_y = self.gradients(x, y, outcome)
        Q, V, lambda_, mu = self.split(x - gamma * g_x, y + gamma * g_y)
        sets = self.sets
        x = np.concatenate([sets.project_Q(Q).ravel(), sets.project_V(V)])
        return x, np.concatenate([sets.project_lambda(lambda_).ravel(), sets.project_mu(mu).ravel()])

    def split(self, x, y):
        n, shape = self.S * self.A, (self.S, self.A)
        return x[:n].reshape(shape), x[n:], y[:n].reshape(shape), y[n:].reshape(shape)

    def y_star(self, tau):
        """M_k^-1 y* with the y* of L_I: (lambda*, M_k^-1 lambda*)."""
        return np.concatenate([self.lambda_star, self.lambda_star / tau.ravel()])

    def corners(self, x_or_y):
        """All corners of X or of Y."""
        U, B, most = self.sets.value_bound, self.sets.occupancy_bound, self.sets.ratio_bound
        if x_or_y == "x":
            return (np.array(c) for c in itertools.product([0.0, U], repeat=self.S * (self.A + 1)))
        per_state = []
        for s in range(self.S):
            rows = [c for c in itertools.product([0.0, B], repeat=self.A) if any(c)]
            rows += [tuple(self.eta[s] * (a == one) for a in range(self.A)) for one in range(self.A)]
            per_state.append(rows)
        lambdas = [np.ravel(c) for c in itertools.product(*per_state)]
        mus = [np.array(c) for c in itertools.product([0.0, most], repeat=self.S * self.A)]
        return (np.concatenate([lambda_, mu]) for lambda_ in lambdas for mu in mus)

    def random_point(self, rng, corner):
        draw = (lambda size: rng.integers(0, 2, size).astype(float)) if corner else rng.random
        n, shape = self.S * self.A, (self.S, self.A)
        x = self.sets.value_bound * draw(self.S * (self.A + 1))
        lambda_ = self.sets.project_lambda(self.sets.occupancy_bound * draw(n).reshape(shape))
        return x, np.concatenate([lambda_.ravel(), self.sets.ratio_bound * draw(n)])


# ---- lemma:bound-of-solutions


@pytest.mark.parametrize("simulator", [TWO, problems.garnet(5, 3, 2, seed=3)])
def test_solutions_keep_their_bounds(simulator):
    M = simulator.stationary()
    constants = theory.bounds(simulator, zeta=float(M.min()), beta_0=1.0)
    exact = solve(simulator.mdp)
    norm = np.linalg.norm
    assert np.abs(exact.Q).max() <= np.abs(exact.V).max() + 1e-9 <= constants.value_max
    assert norm(exact.Q, axis=0).max() <= norm(exact.V) + 1e-9 <= constants.value_norm
    assert exact.occupancy.sum() == pytest.approx(constants.occupancy_sum, rel=1e-9)  # equal, not only below
    assert (exact.occupancy / M).sum() <= constants.ratio_sum


# ---- lemma:K1-K2


def test_no_stochastic_gradient_is_longer_than_K1_and_K2():
    """A norm of something linear is largest at a corner: all of them, with all draws."""
    naive = Naive(TWO, NUMBERS.zeta)
    draws = [outcome for _, outcome in naive.outcomes(TWO.stationary())]
    x, y = np.zeros(6), np.zeros(8)
    longest_x = max(np.linalg.norm(naive.gradients(x, y, o)[0]) for y in naive.corners("y") for o in draws)
    longest_y = max(np.linalg.norm(naive.gradients(x, y, o)[1]) for x in naive.corners("x") for o in draws)
    assert longest_x <= theory.K1(NUMBERS)
    assert longest_y <= theory.K2(NUMBERS)
    # What they are in fact: mu at (s, a) and n lambda at another pair, the same state in V; n (Q - V) and mu's error.
    n, alpha, B, U = 4, 0.9, 30.0, 30.0
    most, least = n * B, B / NUMBERS.zeta
    # eta costs n lambda a little where they meet in V, so that the state of mu is another one, or lambda is 0 there
    by_hand = max(
        math.sqrt(most**2 + least**2 + (most - 2 * 1.5) ** 2 + (alpha * least) ** 2),
        math.sqrt(least**2 + (2 * 1.5 + alpha * least) ** 2),
    )
    assert longest_x == pytest.approx(by_hand, rel=1e-12)
    assert longest_y == pytest.approx(U * math.sqrt(n**2 + 1), rel=1e-12)


def test_K1_K2_by_the_sums_of_squares_of_appendix_A():
    rng = np.random.default_rng(0)
    for _ in range(200):
        m = random_numbers(rng, as_in_theorems=False)
        lambda_, mu, value = m.h / m.u, m.h / (m.zeta * m.u), m.sigma / m.u
        squares_x = 5 * m.n**2 * lambda_**2 + (2 + 3 * m.alpha**2) * mu**2 + 3 * m.S**2 * m.h**2
        squares_y = 4 * m.n**2 * value**2 + 3 * m.alpha**2 * value**2 + 3 * m.sigma**2 + 3 * value**2
        assert math.sqrt(squares_x) <= theory.K1(m) * (1 + 1e-12)
        assert math.sqrt(squares_y) <= theory.K2(m) * math.sqrt(10 / 13) * (1 + 1e-12)


# ---- the two sums, and C0


def test_sums_of_steps_and_betas():
    for T in [1, 2, 3, 4, 10, 1000, 100_000]:
        k = np.arange(T)
        gamma, beta = NUMBERS.gamma_0 / np.sqrt(k + 1), NUMBERS.beta_0 / (k + 1)
        assert gamma.sum() <= theory.step_sum(NUMBERS, T)
        assert (beta / gamma)[: T - 1].sum() <= theory.beta_sum(NUMBERS, T)
        assert (gamma.sum() <= theory.step_sum_printed(NUMBERS, T)) == (T == 1)
        assert ((beta / gamma)[: T - 1].sum() <= theory.beta_sum_printed(NUMBERS, T)) == (T <= 3)
    # and 2 is the factor: nothing less will do
    assert gamma.sum() >= 0.99 * theory.step_sum(NUMBERS, T)
    assert (beta / gamma)[:-1].sum() >= 0.99 * theory.beta_sum(NUMBERS, T)


@pytest.mark.parametrize("T", [1, 7, 10**6])
def test_C0_collects_Phi_and_the_gradients(T):
    """C0 sqrt T is Phi_1 + Phi_2 + (K1^2 + K2^2)/2 sum gamma_k, but for K2^2 <= K2^2/zeta^2."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        m = random_numbers(rng, as_in_theorems=False)
        squares = (theory.K1(m) ** 2 + (theory.K2(m) / m.zeta) ** 2) / 2.0
        corrected = theory.Phi1(m, T) + theory.Phi2(m, T) + squares * theory.step_sum(m, T)
        printed = theory.Phi1_printed(m, T) + theory.Phi2_printed(m, T) + squares * theory.step_sum_printed(m, T)
        assert theory.C0(m) * math.sqrt(T) == pytest.approx(corrected, rel=1e-12)
        assert theory.C0_printed(m) * math.sqrt(T) == pytest.approx(printed, rel=1e-12)


# ---- lemma:Phi-bounds


def test_Phi1_needs_the_number_of_actions():
    """The lemma uses nothing but x_k in X. Phi_1 of a sequence that stays far from x* until its last step."""
    for A in range(1, 8):
        m = replace(NUMBERS, A=A)
        T = 9
        gamma = m.gamma_0 / np.sqrt(np.arange(T) + 1)
        E = np.full(T + 1, m.S * (A + 1) * (m.sigma / m.u) ** 2)
        E[T] = 0.0
        Phi = ((E[:-1] - E[1:]) / (2 * gamma)).sum()
        assert Phi <= theory.Phi1(m, T)
        assert (Phi <= theory.Phi1_printed(m, T)) == (A <= 3)


def test_Phi2_holds_though_its_proof_does_not():
    """Iterates at any corner of Y, the distribution drifting as fast as beta_k allows: the printed bound stands."""
    rng = np.random.default_rng(2)
    naive = Naive(TWO, 0.08)
    T, broken = 40, 0
    for trial in range(200):
        # 1/tau moves between 1/zeta and less by beta_0/(k+1) a step; the probabilities need not sum to one
        inverse, beta_0 = [rng.uniform(1.0, 12.5, (2, 2))], 10.0 ** rng.uniform(-2, 2)
        for k in range(T):
            inverse.append(np.clip(inverse[-1] + rng.choice([-1, 1], (2, 2)) * beta_0 / (k + 1), 1.0, 12.5))
        gamma = 2.0 / np.sqrt(np.arange(T) + 1)
        Phi = 0.0
        points = [naive.random_point(rng, corner=True)[1] for _ in range(T + 1)]
        if trial % 2:  # far away, and home at the last step
            points = [points[0]] * T + [naive.y_star(1.0 / inverse[T - 1])]
        for k in range(T):
            star = naive.y_star(1.0 / inverse[k])
            Phi += (((points[k] - star) ** 2).sum() - ((points[k + 1] - star) ** 2).sum()) / (2 * gamma[k])
            broken += np.linalg.norm(points[k]) > 30.0 / 0.08  # the proof's bound on ||y_k||_2
        assert Phi <= theory.Phi2_printed(replace(NUMBERS, zeta=0.08, beta_0=beta_0), T)
    assert broken > 1000


def test_Phi2_repaired():
    """E_k <= (||y_k|| + ||M^-1 y*||)^2 with the true ||y_k||_2 = sqrt(n (1 + zeta^2)) h/(zeta u), in exact terms."""
    for n in range(1, 50):
        for zeta in [F(1, n), F(1, 2 * n), F(1, 100 * n)]:
            # in units of h/(zeta^2 u): ||y_k|| <= zeta sqrt(2n), ||M^-1 y*|| <= 1
            length = float(zeta) * math.sqrt(2 * n)
            assert (1 + length) ** 2 / (2 if n == 1 else 1) <= 4 * (1 + 1e-12)
            # (1/zeta ||mu*||^2 + ||mu_k|| ||mu*||) beta with ||mu*|| <= h/u in the units of h^2/(zeta^3 u^2) beta
            assert float(zeta) ** 2 * (1 + math.sqrt(n)) <= 2


# ---- lemma:bound1, lemma:bound2


@pytest.mark.parametrize("gamma", [0.001, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("weights", [None, 0.1, 100.0])
def test_martingale_differences_keep_a_and_b(gamma, weights):
    """From points of the sets: every outcome of a step, and their exact mean and variance."""
    rng = np.random.default_rng(3)
    naive = Naive(TWO, 0.08, weights)
    m = theory.bounds(TWO, step_scale=gamma, weights=weights).numbers
    # what the width of the sets gives, without gamma_0 (module docstring)
    by_width = 5 * SQRT26 * m.sigma * m.zeta * m.h * m.n**2 / (m.zeta * m.u) ** 2
    nearest = 0.0
    for trial in range(24):
        x, y = naive.random_point(rng, corner=trial % 2 == 0)
        tau = TWO.distribution(trial)
        star = naive.y_star(tau)
        p, E, lengths = [], [], []
        for probability, outcome in naive.outcomes(tau):
            x_next, y_next = naive.step(x, y, outcome, gamma)
            p.append(probability)
            E.append(((x_next - naive.x_star) ** 2).sum() + ((y_next - star) ** 2).sum())
            lengths.append([np.linalg.norm(g) for g in naive.gradients(x, y, outcome)])
        p, E = np.array(p), np.array(E)
        differences = (E - p @ E) / (2 * gamma)
        assert p.sum() == pytest.approx(1.0)
        # the chains of appendices C and D with the gradients and distances of this point ...
        g, distance = np.max(lengths, axis=0), np.array([np.linalg.norm(x - naive.x_star), np.linalg.norm(y - star)])
        b_here = (gamma * g**2 + 4 * g * distance).sum() / 2
        a_here = (gamma * g**2 + 2 * g * distance).sum() ** 2 / 4
        assert differences.max() <= b_here
        assert p @ differences**2 <= a_here
        nearest = max(nearest, differences.max() / b_here)
        # ... and with those of the lemmas
        assert b_here <= theory.b(m)
        assert a_here <= theory.a(m)
        assert differences.max() <= min(theory.b_printed(m), by_width)
        assert p @ differences**2 <= theory.a_printed(m)
    if gamma == 0.001:  # no projection acts, and the chains are not met for nothing
        assert nearest >= 0.02


def test_a_and_b_by_appendices_C_and_D():
    """The last lines but one of the two proofs, put in numbers; printed and corrected differ in one term each."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        m = random_numbers(rng, as_in_theorems=False)
        K1, K2 = theory.K1(m), theory.K2(m)
        x, y = 2 * m.sigma / m.u, 2 * m.h / (m.zeta * m.u)  # ||x - x*||_inf, ||y - M^-1 y*||_inf, as in the proofs
        loose = math.sqrt(m.n)  # n^1.5 <= n^2 in "algebraic simplifications"
        b = (m.gamma_0 * (K1**2 + K2**2) + 4 * math.sqrt(2 * m.n) * loose * (K1 * x + K2 * y)) / 2
        Upsilon = m.gamma_0 * (K1**2 + K2**2) + 2 * math.sqrt(2 * m.n) * loose * (K1 * x + K2 * y / m.zeta)
        assert theory.b(m) == pytest.approx(b, rel=1e-12)
        assert theory.a(m) == pytest.approx(Upsilon**2 / 4, rel=1e-12)
        assert (theory.b_printed(m) >= theory.b(m)) == (m.h <= 1)
        assert (theory.a_printed(m) >= theory.a(m)) == (m.gamma_0 >= 1)


# ---- kappa, in exact arithmetic: polynomials in gamma_0 with coefficients p + r sqrt26


def product(f, g):
    """The product of {power: (p, r)}."""
    out = {}
    for (i, (p, r)), (j, (s, t)) in itertools.product(f.items(), g.items()):
        old = out.get(i + j, (F(0), F(0)))
        out[i + j] = (old[0] + p * s + 26 * r * t, old[1] + p * t + r * s)
    return out


def combination(*terms):
    """Sum of number times polynomial."""
    out = {}
    for number, f in terms:
        for i, (p, r) in f.items():
            old = out.get(i, (F(0), F(0)))
            out[i] = (old[0] + number * p, old[1] + number * r)
    return out


def at(f, gamma_0):
    return sum((float(p) + float(r) * SQRT26) * gamma_0**i for i, (p, r) in f.items())


def test_kappa2_recomputed():
    """kappa2 = 8 a + 4/3 b in units of sigma^4 n^4/(zeta^4 u^4), h = sigma, zeta and eps at most 1."""
    root_corrected = {1: (F(26), F(0)), 0: (F(0), F(8))}  # 13 + 13 zeta^2 gamma_0, 4 q zeta + 4 q
    root_printed = {1: (F(26), F(4)), 0: (F(0), F(4))}  # gamma_0 on the first 4 q
    b = {1: (F(13), F(0)), 0: (F(0), F(8))}
    corrected = combination((F(2), product(root_corrected, root_corrected)), (F(4, 3), b))
    from_printed_a = combination((F(2), product(root_printed, root_printed)), (F(4, 3), b))
    assert corrected == {2: (1352, 0), 1: (F(52, 3), 832), 0: (3328, F(32, 3))}
    assert from_printed_a == {2: (2184, 416), 1: (1664 + F(52, 3), 416), 0: (832, F(32, 3))}
    printed = {2: (2184, 416), 1: (1066, 416), 0: (832, 16)}
    for gamma_0 in [0.01, 0.5, 1.0, 2.0, 30.0]:
        m = replace(NUMBERS, gamma_0=gamma_0)
        assert theory.kappa2(m) == pytest.approx(at(corrected, gamma_0), rel=1e-13)
        assert theory.kappa2_printed(m) == pytest.approx(at(printed, gamma_0), rel=1e-13)
        # what follows from the printed a is no bound below gamma_0 = 1, and above it the corrected one is smaller
        assert (at(from_printed_a, gamma_0) >= theory.kappa2(m) * (1 - 1e-12)) == (gamma_0 >= 1)
        assert at(from_printed_a, gamma_0) > theory.kappa2_printed(m) or gamma_0 < 0.1


def test_theorems_ask_for_no_less_than_their_proofs():
    """T1 >= max(Psi1, Psi2), and T2 the same at the finer epsilon; kappa is tight where zeta is largest."""
    rng = np.random.default_rng(5)
    for _ in range(500):
        m = random_numbers(rng, as_in_theorems=True)
        if m.n * m.sigma < m.zeta * m.u:
            continue
        psi1 = theory.Psi1(theory.a(m), theory.b(m), m.epsilon, m.delta)
        psi2 = theory.Psi2(theory.C0(m), m.epsilon, m.delta)
        assert theory.T1(m, theory.kappa1(m)) >= psi2 * (1 - 1e-12)
        assert theory.T1(m, theory.kappa2(m)) >= psi1 * (1 - 1e-12)
        # sigma^2 in place of sigma^4 asks for less than the same proof does, for large rewards
        printed = theory.Psi2(theory.C0_printed(m), m.epsilon, m.delta)
        assert theory.T1_printed(m, theory.kappa1_printed(m)) * m.sigma**2 >= printed * (1 - 1e-12)
        # theorem 2 is theorem 1 at h_min u eps, h_min = sigma/|S|
        finer = replace(m, epsilon=m.sigma / m.S * m.u * m.epsilon)
        assert theory.T2(m, 1.0) == pytest.approx(theory.T1(finer, 1.0), rel=1e-12)


def test_printed_theorem_1_contradicts_its_own_lemmas():
    printed = theory.bounds(TWO).printed
    assert printed.T1 < printed.T_gap < 9.0 * printed.T1  # sigma^2 = 9


def test_small_rewards_break_the_unit_of_kappa2():
    """b in units of sigma^4 needs n sigma >= zeta u; without it kappa2 is too small, and T1 is not given."""
    m = replace(NUMBERS, S=1, A=2, sigma=1e-3, h=1e-3, h_min=1e-3, alpha=0.0, zeta=0.5, gamma_0=0.01, epsilon=0.99)
    psi1 = theory.Psi1(theory.a(m), theory.b(m), m.epsilon, m.delta)
    assert theory.T1(m, theory.kappa2(m)) < psi1
    mdp = MDP(np.ones((1, 2, 1)), np.full((1, 2), 1e-3), 0.0)
    constants = theory.bounds(mdp, 0.01, 0.99, 0.1, zeta=0.5, beta_0=0.0)
    assert math.isnan(constants.T1)
    assert math.isnan(constants.T2)
    assert constants.T_gap >= constants.Psi1 == pytest.approx(psi1)


# ---- Bernstein


def test_gap_bound_inverts_bernstein():
    constants = theory.bounds(TWO, weights=0.01)
    C0, a, b = constants.C0, constants.a, constants.b
    for T in [1e6, 1e10, 1e20]:
        x = theory.gap_bound(T, 0.0, a, b, 0.1)
        assert math.exp(-T * x**2 / (2 * (a + b * x / 3))) == pytest.approx(0.1, rel=1e-9)
        assert constants.gap(T) == pytest.approx(C0 / math.sqrt(T) + x, rel=1e-9)
    assert theory.gap_bound(1, 0.0, a, b, 0.1) == b  # with so few steps Bernstein says less than b itself
    for reading in (constants.corrected, constants.printed):
        assert reading.gap(reading.T_gap) <= 0.1
        assert reading.gap(reading.T_gap / 4) > 0.1 / 2
        assert reading.policy_loss(reading.T_policy) <= 0.1 * (1 + 1e-12)
        T = reading.Psi1
        assert math.exp(-T * 0.05**2 / (2 * (reading.a + reading.b * 0.05 / 3))) == pytest.approx(0.1, rel=1e-9)
        assert reading.C0 / math.sqrt(reading.Psi2 / math.log(10.0)) == pytest.approx(0.05, rel=1e-12)


# ---- the whole chain, on runs of Algorithm 1


@pytest.mark.parametrize(("seed", "gamma_0"), [(0, 2.0), (1, 0.3)])
def test_a_run_obeys_every_line_of_the_proof(seed, gamma_0):
    """eq:duality-gap-bound2 with the conditional expectations summed over all outcomes; it holds for every run."""
    rng = np.random.default_rng(seed)
    naive, T = Naive(TWO, 0.08), 400
    constants = theory.bounds(TWO, step_scale=gamma_0)
    m = constants.numbers
    x, y = naive.random_point(rng, corner=True)
    Phi_1 = Phi_2 = G = squares = 0.0
    lambda_sum = np.zeros(4)
    for k in range(T):
        gamma, tau = gamma_0 / math.sqrt(k + 1), TWO.distribution(k)
        star = naive.y_star(tau)

        def distances(x, y, star=star):
            return ((x - naive.x_star) ** 2).sum(), ((y - star) ** 2).sum()

        draws = list(naive.outcomes(tau))
        p = np.array([probability for probability, _ in draws])
        after = [naive.step(x, y, outcome, gamma) for _, outcome in draws]
        E = np.array([distances(*point) for point in after])
        gradients = [naive.gradients(x, y, outcome) for _, outcome in draws]
        squares += gamma / 2 * (p @ [(g_x**2).sum() + (g_y**2).sum() for g_x, g_y in gradients])
        lambda_sum += y[:4]
        i = rng.choice(len(draws), p=p / p.sum())
        before = distances(x, y)
        Phi_1 += (before[0] - E[i, 0]) / (2 * gamma)
        Phi_2 += (before[1] - E[i, 1]) / (2 * gamma)
        G += (E[i].sum() - p @ E.sum(axis=1)) / (2 * gamma)
        x, y = after[i]
    Q_star, V_star = naive.x_star[:4].reshape(2, 2), naive.x_star[4:]
    D = float(lambda_sum @ (V_star[:, None] - Q_star).ravel()) / T  # the pseudo gap is lambda'(E V* - Q*)
    assert 0.0 < D <= (Phi_1 + Phi_2 + G + squares) / T
    assert Phi_1 <= theory.Phi1(m, T)
    assert Phi_2 <= theory.Phi2(m, T)
    assert squares <= (constants.K1**2 + constants.K2**2) / 2 * theory.step_sum(m, T)
    assert constants.gap(T) >= constants.C0 / math.sqrt(T)
    assert min(constants.gap(T), constants.C0 / math.sqrt(T) + G / T) >= D
    policy = TablePolicy.from_occupancy(lambda_sum.reshape(2, 2))
    loss = np.abs(V_star - policy.value(TWO.mdp)).max()
    assert loss <= D / (m.h_min * m.u)  # eq:explain-20
    assert loss >= 0.01 * D / (m.h_min * m.u)


# ---- the numbers of the two-state example


def test_two_state_theorems_as_printed():
    """2.4e18 and 9.7e20 steps at gamma_0 = 2 with the paper's zeta, recomputed by fractions (but for sqrt26 and ln)."""
    printed = theory.bounds(TWO, 2.0, 0.1, 0.1, zeta=0.0856, beta_0=0.818).printed
    zeta, u, sigma, eps = F(856, 10_000), F(1, 10), F(3), F(1, 10)
    kappa1 = ((12 + 4 * F(818, 1000)) / (zeta**2 * 16 * 2) + 26 * 2) ** 2
    kappa2 = 4 * (2184 + 416 * SQRT26) + 2 * (1066 + 416 * SQRT26) + 832 + 16 * SQRT26
    assert printed.kappa1 == pytest.approx(float(kappa1), rel=1e-12)
    assert printed.kappa == pytest.approx(kappa2, rel=1e-12)
    T1 = kappa2 * float(sigma**2 * 2**4 * 2**4 / (zeta**4 * u**4 * eps**2)) * math.log(10)
    T2 = kappa2 * float(sigma**2 * 2**6 * 2**4 / (zeta**4 * u**6 * eps**2)) * math.log(10)
    assert printed.T1 == pytest.approx(T1, rel=1e-12) == pytest.approx(2.42e18, rel=2e-3)
    assert printed.T2 == pytest.approx(T2, rel=1e-12) == pytest.approx(9.69e20, rel=2e-3)


def test_two_state_theorems_as_corrected():
    constants = theory.bounds(TWO, 2.0, 0.1, 0.1, zeta=0.0856, beta_0=0.818)
    zeta, u, sigma, eps = F(856, 10_000), F(1, 10), F(3), F(1, 10)
    kappa1 = ((12 + 8 * F(818, 1000)) / (zeta**2 * 16 * 2) + 52 * 2) ** 2
    assert constants.kappa == constants.kappa1 == pytest.approx(float(kappa1), rel=1e-12)
    T1 = float(kappa1 * sigma**4 * 2**4 * 2**4 / (zeta**4 * u**4 * eps**2)) * math.log(10)
    T2 = float(kappa1 * sigma**2 * 2**6 * 2**4 / (zeta**4 * u**6 * eps**2)) * math.log(10)
    assert constants.T1 == constants.corrected.T1 == pytest.approx(T1, rel=1e-12) == pytest.approx(2.98e19, rel=2e-3)
    assert constants.T2 == pytest.approx(T2, rel=1e-12) == pytest.approx(1.325e21, rel=2e-3)


def test_two_state_zeta_and_beta():
    # v_0 = (.4, .6), v_1 = (.428, .572), v = (3, 4)/7, theta_1(1) = .2; P_theta has the eigenvalues 1 and .02
    assert theory.zeta_of(TWO) == pytest.approx(0.08, rel=1e-12)
    assert theory.zeta_of(TWO, first=1) == pytest.approx(0.0856, rel=1e-12)
    exact = F(1000, 80) - F(10_000, 856)  # 1/tau_0 - 1/tau_1 at the first pair
    assert float(exact) == pytest.approx(0.818, abs=5e-4)
    assert theory.movement(TWO, 0) == pytest.approx(float(exact), rel=1e-12)
    assert theory.least_beta_0(TWO) == pytest.approx(float(exact), rel=1e-12)
    for zeta in [F(8, 100), F(856, 10_000)]:
        second, c, k_star, d, beta_0 = theory.example_3(TWO, float(zeta))
        assert second == pytest.approx(0.02, rel=1e-9)
        # v_0 = v + c_2 u_2, and (lambda_2 - 1)(v_0 - v) = v_1 - v_0 = .028
        assert c == pytest.approx(float((1 - F(2, 100)) * (F(3, 7) - F(4, 10)) / zeta**2), rel=1e-9)
        assert (k_star, d) == (0, 1.0)
        assert beta_0 == c == pytest.approx(theory.beta(TWO, 0, float(zeta)), rel=1e-9)


# ---- zeta, Example 2, Example 3 on other models


SIMULATORS = [
    TWO,
    problems.garnet(6, 3, 3, seed=1),
    problems.garnet(3, 2, 2, seed=5),
    chain_of([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], [0.6, 0.3, 0.1]),  # complex eigenvalues
    chain_of([[0.95, 0.05], [0.02, 0.98]], [0.9, 0.1]),  # slow: k* > 0
]


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_zeta_and_beta_against_many_steps(simulator):
    tau = [simulator.distribution(k) for k in range(600)]
    least = min(float(t.min()) for t in tau)
    assert theory.zeta_of(simulator) == pytest.approx(least, rel=1e-9)
    assert theory.zeta_of(simulator, first=3) == pytest.approx(min(float(t.min()) for t in tau[3:]), rel=1e-9)
    zeta = theory.zeta_of(simulator)
    moves = [float(np.abs(1 / t - 1 / t_next).max()) for t, t_next in itertools.pairwise(tau)]
    assert theory.least_beta_0(simulator) == pytest.approx(max((k + 1) * x for k, x in enumerate(moves)), rel=1e-9)
    second, c, _, _, beta_0 = theory.example_3(simulator, zeta)
    dust = 1e-12 * theory.beta(simulator, 0, zeta) + 1e-14 / zeta**2
    for k in range(60):
        beta = theory.beta(simulator, k, zeta)
        assert theory.movement(simulator, k) == pytest.approx(moves[k], rel=1e-9, abs=1e-12 / zeta**2)
        assert moves[k] <= beta + dust
        assert beta <= c * second**k + dust
        assert c * second**k <= beta_0 / (k + 1) * (1 + 1e-12)
    assert theory.least_beta_0(simulator) <= beta_0 * (1 + 1e-9)


def test_second_eigenvalue_and_d():
    assert theory.example_3(SIMULATORS[3], 0.1).second_eigenvalue == pytest.approx(0.7, rel=1e-9)  # circulant
    slow = theory.example_3(SIMULATORS[4], 0.1)
    assert slow.second_eigenvalue == pytest.approx(0.93, rel=1e-9)
    assert slow.k_star == math.ceil((2 * math.log(0.93) + 2) / math.log(0.93) ** 2) == 353
    assert slow.d == pytest.approx(0.93**-353, rel=1e-9)
    # right, but the least d is max (k+1) .93^k
    assert max((k + 1) * 0.93**k for k in range(1000)) < 6 < slow.d
    slower = chain_of([[0.999, 0.001], [0.001, 0.999]], [0.7, 0.3])
    assert theory.example_3(slower, 0.3).d == math.inf
    assert theory.least_beta_0(slower) < 10.0
    assert theory.example_3(chain_of([[0.5, 0.5], [0.5, 0.5]], [0.7, 0.3]), 0.3).d == 1.0  # lambda_2 = 0


def test_zeta_may_lie_in_the_limit():
    from_above = chain_of([[0.5, 0.5], [0.1, 0.9]], [0.5, 0.5])  # v(0) falls from 1/2 to 1/6 and never gets there
    assert theory.zeta_of(from_above) == pytest.approx(1 / 6, rel=1e-12)


def test_a_drifting_behaviour():
    """zeta and beta_0 follow theta_k; Examples 2 and 3 are about a fixed one."""
    to = TablePolicy([[0.6, 0.4], [0.1, 0.9]])
    simulator = Simulator(TWO.mdp, TWO.behaviour, TWO.start, "drifts", drift=settling(to, 1.0))
    v, tau = TWO.start, []
    for k in range(300):
        theta = TWO.behaviour.matrix / (k + 1) + to.matrix * k / (k + 1)
        tau.append(v[:, None] * theta)
        v = np.einsum("sa,sat->t", tau[-1], dense_transitions(TWO.mdp))
    final = Simulator(TWO.mdp, to, TWO.start, "where it ends").stationary()
    assert theory.zeta_of(simulator) == pytest.approx(min(float(t.min()) for t in [*tau, final]), rel=1e-12)
    steps = [float(np.abs(1 / t - 1 / t_next).max()) for t, t_next in itertools.pairwise(tau)]
    assert theory.movement(simulator, 5) == pytest.approx(steps[5], rel=1e-9)
    # it falls as 1/k^2, so the largest of (k+1) times it is among the first
    assert theory.least_beta_0(simulator) == pytest.approx(max((k + 1) * x for k, x in enumerate(steps)), rel=1e-9)
    assert theory.bounds(simulator).T1 > 0.0
    for call in (theory.beta, theory.beta_printed):
        with pytest.raises(ModelError, match="drifts"):
            call(simulator, 0, 0.1)
    with pytest.raises(ModelError, match="drifts"):
        theory.example_3(simulator, 0.1)


def test_example_2_needs_absolute_values():
    """A state that loses what two others gain: the printed beta_0 is below ||M_0^-1 - M_1^-1||_2."""
    P = np.array([[0.9, 0.0, 0.1], [0.0, 0.9, 0.1], [0.25, 0.25, 0.5]])
    simulator = chain_of(P, [0.375, 0.375, 0.25])
    v_1 = P.T @ [0.375, 0.375, 0.25]
    np.testing.assert_allclose(v_1, [0.4, 0.4, 0.2])
    zeta = theory.zeta_of(simulator)
    assert zeta == pytest.approx(1 / 6)
    distance = 1 / 0.2 - 1 / 0.25
    assert theory.movement(simulator, 0) == pytest.approx(distance)
    assert theory.beta_printed(simulator, 0, zeta) < distance <= theory.beta(simulator, 0, zeta)
    assert theory.beta_printed(simulator, 0, zeta) == pytest.approx(0.025 * 36)
    assert theory.beta(simulator, 0, zeta) == pytest.approx(0.05 * 36)


# ---- bounds(): what it takes and what it refuses


def test_defaults_and_readings():
    constants = theory.bounds(TWO)
    assert constants == theory.bounds(TWO, step_scale=2.0, epsilon=0.1, delta=0.1)
    assert constants.numbers.zeta == theory.zeta_of(TWO)
    assert constants.numbers.beta_0 == theory.least_beta_0(TWO)
    assert constants.corrected is constants
    by_hand = theory.bounds(TWO.mdp, zeta=theory.zeta_of(TWO), beta_0=theory.least_beta_0(TWO))
    assert by_hand == constants
    table = str(constants).splitlines()
    assert table[0].split() == ["printed", "corrected"]
    assert ["C0", f"{constants.printed.C0:.4g}", f"{constants.C0:.4g}"] in [row.split() for row in table]


def test_other_weights_leave_the_theorems_out():
    constants = theory.bounds(TWO, weights=0.1)
    for reading in (constants.corrected, constants.printed):
        assert math.isnan(reading.T1)
        assert math.isnan(reading.T2)
        assert reading.T_gap == max(reading.Psi1, reading.Psi2)
    assert constants.numbers.h == pytest.approx(0.2)
    assert constants.T_policy > constants.T_gap


def test_theorem_2_needs_a_small_finer_epsilon():
    mdp = MDP(np.ones((1, 1, 1)), np.full((1, 1), 100.0), 0.5)
    constants = theory.bounds(mdp, zeta=1.0, beta_0=0.0)
    assert constants.T1 > 0.0
    assert math.isnan(constants.T2)
    assert constants.T_policy > 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_scale": 0.0}, "step_scale is 0"),
        ({"step_scale": math.nan}, "step_scale is nan"),
        ({"epsilon": 1.0}, "epsilon is 1"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"delta": 0.37}, "delta is 0.37.*1/e"),
        ({"delta": 0.0}, "delta is 0"),
        ({"zeta": 0.0}, "zeta is 0"),
        ({"zeta": 0.26}, "zeta is 0.26.*at most 0.25"),
        ({"beta_0": -1.0}, "beta_0 is -1"),
        ({"weights": -1.0}, "weight of"),
    ],
)
def test_bad_numbers_are_named(arguments, message):
    with pytest.raises(ModelError, match=message):
        theory.bounds(TWO, **arguments)
    assert theory.bounds(TWO, delta=0.36, zeta=0.25, epsilon=0.999).T1 > 0


def test_what_a_model_alone_cannot_say():
    with pytest.raises(ModelError, match="zeta is missing"):
        theory.bounds(TWO.mdp, beta_0=1.0)
    with pytest.raises(ModelError, match="beta_0 is missing"):
        theory.bounds(TWO.mdp, zeta=0.1)
    with pytest.raises(ModelError, match="T is 0"):
        theory.bounds(TWO).gap(0)


def test_behaviours_that_break_the_assumptions():
    elsewhere = Simulator(TWO.mdp, TWO.behaviour, np.array([1.0, 0.0]), "starts in one state")
    with pytest.raises(ModelError, match="\\(state=1, action=0\\) has probability 0 at step 0"):
        theory.bounds(elsewhere)
    assert theory.zeta_of(elsewhere) == 0.0
    assert theory.zeta_of(elsewhere, first=1) > 0.0
    assert theory.least_beta_0(elsewhere) == math.inf
    never = Simulator(TWO.mdp, TablePolicy([[1.0, 0.0], [0.7, 0.3]]), TWO.start, "never the second action")
    with pytest.raises(ModelError, match="\\(state=0, action=1\\) has probability 0"):
        theory.bounds(never)
    leaving = chain_of([[0.5, 0.5], [0.0, 1.0]], [0.5, 0.5])
    with pytest.raises(ModelError, match="\\(state=0, action=0\\) has probability 0 in the long run"):
        theory.bounds(leaving)
    circle = chain_of([[0.0, 1.0], [1.0, 0.0]], [0.9, 0.1])
    with pytest.raises(ModelError, match="still moves"):
        theory.bounds(circle)
    with pytest.raises(ModelError, match="modulus 1"):
        theory.example_3(circle, 0.1)
    jordan = chain_of([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]], [0.3, 0.3, 0.4])
    with pytest.raises(ModelError, match="diagonalizable"):
        theory.example_3(jordan, 0.1)
    assert theory.bounds(jordan).T1 > 0.0
