"""The policy's own value (docs/certificate.md): its twin, its parts against brute force, and how often it holds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from naive_own import NaiveOwn

import dualq
from dualq import problems
from dualq.logs.blocks import FIRSTS, borders_of, first_of
from dualq.logs.counts import Counts
from dualq.proof import proving
from dualq.proof.directions import KINDS, direction
from dualq.proof.evidence import First, cut_beforehand, evidence_of, first_part, merged_counts
from dualq.proof.foresight import foresee, quotas
from dualq.proof.isotropic import LOG_WEIGHTS, NODES, ellipsoid, norm, psi_ratio
from dualq.proof.ledger import Ledger
from dualq.proof.martingale import Aim, Box, log_martingale, own_value, reach_of
from dualq.proof.noise import noise_of
from dualq.proof.own_rows import errors_of, fitted, own_rows
from dualq.proof.own_value import OwnEvent, coarse, decided_start, foreseen_start, foresighted, prior_of, shared_out
from dualq.proof.prior import GRID, Prior, on_grid
from dualq.proof.questions import question_of
from dualq.proof.successors import divergence
from dualq.proof.total_variance import settle, thin_end, varied

S, A, ALPHA = 4, 2, 0.7


class Case:
    """A small random log: with ends or without, rewards far from 0, a pair without rows, a policy for sure or mixed."""

    def __init__(self, seed, rows=4000):
        rng = np.random.default_rng(seed)
        ends, shift = seed % 2 == 1, (0.0, -3.0)[seed % 2]
        P = rng.dirichlet(np.full(S, 0.7), size=(S, A))
        s, self.rows = 0, []
        for i in range(rows):
            a = 1 if s == 3 else int(rng.random() < 0.2 + 0.5 * i / rows)  # action 0 in state 3 is never seen
            s_next = int(rng.choice(S, p=P[s, a]))
            ended = bool(ends and rng.random() < 0.1)
            self.rows.append((s, a, float(shift + P[s, a, 0] + rng.choice([0.0, 0.3, 0.6])), s_next, ended))
            s = int(rng.integers(S)) if ended else s_next
        cuts = [0, 500, 1100, 2300, rows]
        self.blocks = [self.rows[i:j] for i, j in pairwise(cuts)]
        self.counts = [self._counted(block) for block in self.blocks]
        self.merged = merged_counts(self.counts)
        self.policy = np.eye(A)[
            [1, 0, 1, 1 if seed < 2 else 0]
        ]  # from seed 2 on, the pair without rows is the policy's
        if seed == 1:
            self.policy[1] = [0.25, 0.75]
        self.start = np.array([0.5, 0.3, 0.2, 0.0])
        self.foreseen = np.array([0.4, 0.4, 0.1, 0.1])
        low, high = shift - 0.2, shift + 1.8
        self.value_range = (min(low / (1 - ALPHA), 0.0), max(high / (1 - ALPHA), 0.0))

    def _counted(self, block):
        s, a, r, s_next, ended = (np.array(column) for column in zip(*block, strict=True))
        shift = -3.0 if self.rows[0][2] < -1.0 else 0.0
        return Counts.from_arrays(s, a, r, s_next, ended, states=S, actions=A, reward_range=(shift - 0.2, shift + 1.8))


@pytest.mark.parametrize("seed", range(4))
def test_the_twin_row_by_row(seed):
    case, level = Case(seed), 3.0
    ev = evidence_of(case.counts, case.merged)
    rows = own_rows(ev, case.policy, case.start, ALPHA)
    # a box around the plug-in value, wide enough that the event has to make it smaller
    worth = np.full(rows.pairs.size, case.rows[0][2] / (1.0 - ALPHA))
    V = fitted(rows, np.ones(rows.visits[1:].shape), worth).V[:-1]
    low, high = V - 0.7, V + 0.7
    box = Box(np.column_stack([[low, high], np.zeros(2)]), np.tile([[low.min()], [high.max()]], rows.pairs.size))
    aims = [Aim(case.start, case.foreseen, (0.8, 1.0)), Aim(case.start[::-1], case.foreseen[::-1], (0.2, 0.0))]
    found = own_value(rows, aims, case.merged.reward_range, ev.possible, box, level)
    pairs = [(int(p) // A, int(p) % A) for p in rows.pairs]
    twin = NaiveOwn(
        [[(s, a, r, S if ended else s_next) for s, a, r, s_next, ended in block] for block in case.blocks],
        S, case.policy.tolist(), case.start.tolist(), case.foreseen.tolist(), ALPHA, case.merged.reward_range,
        np.flatnonzero(ev.possible).tolist(), {s: (low[s], high[s]) for s in range(S)},
        dict.fromkeys(pairs, (low.min(), high.max())), level, aims[0].parts,
    )  # fmt: skip
    assert found is not None
    np.testing.assert_allclose(found.states.T, [twin.V[s] for s in range(S)], rtol=1e-9, atol=1e-9)
    (lower, upper), (there, nothing) = found.ends
    assert (lower, upper) == pytest.approx((twin.end(0), twin.end(1)), rel=1e-9)
    twin.aim(aims[1].start.tolist(), aims[1].foreseen.tolist(), aims[1].parts)
    assert there == pytest.approx(twin.end(0), rel=1e-9)
    assert nothing == pytest.approx(case.start[::-1] @ found.states[1])  # no direction of its own
    if seed == 0:  # all pairs of the policy have rows
        assert case.start @ low < case.start @ found.states[0] < lower
        assert upper < case.start @ found.states[1] < case.start @ high


def wide(case):
    """Rows of a case's policy, and a box that is all that the rewards' range says."""
    ev = evidence_of(case.counts, case.merged)
    rows = own_rows(ev, case.policy, case.start, ALPHA)
    low, high = case.value_range
    V = np.column_stack([np.tile([[low], [high]], S), np.zeros(2)])
    box = Box(V, np.tile([[low], [high]], rows.pairs.size))
    reach = reach_of(rows, box, case.merged.reward_range, ev.possible)
    return rows, foresee(rows, case.foreseen, case.merged.reward_range, ev.possible), box, reach, ev


@pytest.mark.parametrize("seed", [1, 2])
def test_the_twin_where_the_box_stays_wide(seed):
    case, level = Case(seed), 3.0
    rows, seen, box, reach, ev = wide(case)
    pairs = [(int(p) // A, int(p) % A) for p in rows.pairs]
    twin = NaiveOwn(
        [[(s, a, r, S if ended else s_next) for s, a, r, s_next, ended in block] for block in case.blocks],
        S, case.policy.tolist(), case.start.tolist(), case.foreseen.tolist(), ALPHA, case.merged.reward_range,
        np.flatnonzero(ev.possible).tolist(), dict.fromkeys(range(S), case.value_range),
        dict.fromkeys(pairs, case.value_range), level, shrunk=False,
    )  # fmt: skip
    for side, beyond in enumerate((-1e6, 1e6)):
        found = thin_end(rows, seen, box.V, box.q, reach, level, side, beyond)
        assert found == pytest.approx(twin.thin_end(side), rel=1e-6)
        assert abs(found) < 100.0


@pytest.mark.parametrize("seed", range(4))
def test_what_rows_vary_is_what_flows_in_less_what_flows_out(seed):
    # for weights rho of any size, any q and V = pi q: exactly, where actions are for sure, and else no less
    rng, case = np.random.default_rng(seed), Case(seed)
    rows, seen, box, reach, _ = wide(case)
    one = direction(rows, seen, KINDS[3], 0, reach[0], box.q[0], 3.0)
    rho = np.where(one.model.total > 0.0, rng.random(rows.pairs.size), 0.0)
    q = one.model.q + rng.normal(size=rho.size)
    V = np.append(np.bincount(rows.state, rows.chance * q, minlength=S), 0.0)
    Z, squares = np.zeros(rho.size), 0.0
    for e, block in enumerate(case.blocks[1:]):
        for s, a, r, s_next, ended in block:
            for k in np.flatnonzero(rows.pairs == s * A + a):
                x = r + ALPHA * (0.0 if ended else V[s_next]) - q[k]
                Z[k] += one.u[e, k] * x
                squares += rho[k] * one.u[e, k] * x * x
    used, linear, square = varied(rows, one, rho)
    h = q - one.model.q
    found = used + (linear * h + square * h * h - 2.0 * rho * h * Z).sum()
    assert found == pytest.approx(squares, rel=1e-6) if (rows.chance == 1.0).all() else found > squares


def test_weights_over_rates_pay_for_every_noise_and_every_square():
    # (y - 2 rho h) Z <= log sum_j w_j exp(theta_j Z - omega_j Q) + rho u Q + paid, for all h, Z that can be, Q >= 0
    rng, nearest = np.random.default_rng(0), np.inf
    theta = 0.02 * np.array([0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0])
    log_w = np.log([0.02, 0.1, 0.2, 0.34, 0.2, 0.1, 0.03, 0.01])
    for _ in range(100):
        u, rows = rng.uniform(0.1, 1.0, (2, 1)), rng.uniform(20.0, 200.0, 2)
        R = rng.uniform(1.0, 12.0)
        x = np.minimum(theta[:, None, None] * u * R, 0.99)
        omega = (theta[:, None, None] * u) ** 2 * psi_ratio(x)
        logs = (log_w - 1.5 * (omega[:, :, 0] * rows).sum(axis=1))[None]
        h = np.sort(rng.uniform(-1.0, 1.0, (2, 1)) * R, axis=0)
        noise = (u[:, 0] @ rows) * R * np.array([[-1.0], [rng.uniform(0.5, 2.0)]])
        y = rng.uniform(0.005, 0.04, 1)
        settled, rho, paid = settle(y, h, noise, np.ones(1, bool), theta, logs, log_w, u, omega)
        assert settled
        for _ in range(40):
            Z = noise[:, 0] @ rng.dirichlet([0.5, 0.5])
            Q = rows * R**2 * rng.beta(0.3, 2.0, 2) * rng.choice([0.0, 0.03, 1.0])
            at = h[:, 0] @ rng.dirichlet([0.3, 0.3])
            L = np.logaddexp.reduce(log_w + theta * Z - omega[:, :, 0] @ Q)
            left, right = (y[0] - 2.0 * rho[0] * at) * Z, L + rho[0] * (u[:, 0] @ Q) + paid[0]
            assert left <= right + 1e-9
            nearest = min(nearest, right - left)
    assert nearest < 0.05


def test_the_identity_is_exact_for_any_weights_of_rows():
    # eta'(V^ - V) = sum lambda^ Z / sum n u, for weights u of any size and any V that solves V = pi (r + alpha P V)
    rng, case = np.random.default_rng(3), Case(0)
    ev = evidence_of(case.counts, case.merged)
    rows = own_rows(ev, case.policy, case.start, ALPHA)
    model = dualq.MDP(rng.dirichlet(np.ones(S), size=(S, A)), rng.normal(size=(S, A)), ALPHA)
    V = dualq.TablePolicy(case.policy).value(model)
    q = model.q_values(V).ravel()[rows.pairs]
    u = rng.random(rows.visits[1:].shape)
    fit = fitted(rows, u, np.zeros(rows.pairs.size))
    Z = np.zeros(rows.pairs.size)
    for e, block in enumerate(case.blocks[1:]):
        for s, a, r, s_next, _ in block:
            for k in np.flatnonzero(rows.pairs == s * A + a):
                Z[k] += u[e, k] * (r + ALPHA * V[s_next] - q[k])
    np.testing.assert_allclose(fit.V[:-1] - V, fit.G[:-1] @ Z, rtol=1e-9)
    np.testing.assert_allclose(fit.q - q, fit.G_q @ Z, rtol=1e-9)
    assert case.start @ (fit.V[:-1] - V) == pytest.approx((fit.occupancy / fit.total) @ Z)
    off, squares = errors_of(rows, fit)
    assert (rows.n[1:] * off**2).sum() <= squares.sum()


def test_no_noise_within_the_event_is_outside_the_ellipsoid():
    # Noise on the very border of the event, in random directions: |A Z| is never above its bound, and comes near it.
    rng = np.random.default_rng(5)
    K, level = 6, 9.0
    scale, spread = rng.uniform(0.02, 0.1, K), rng.uniform(50.0, 500.0, K)
    reach = rng.uniform(1.0, 12.0, (2, K))
    one = ellipsoid(scale, spread, reach, level)
    theta = scale[:, None] * NODES
    x = np.abs(theta) * np.where(theta > 0.0, reach[0][:, None], reach[1][:, None])
    logs = np.where(x < 1.0, LOG_WEIGHTS - theta**2 * psi_ratio(np.minimum(x, 0.999)) * spread[:, None], -np.inf)

    def of_event(Z):
        return np.logaddexp.reduce(logs + theta * Z[:, None], axis=1).sum()

    for shape in ((1, K), (3, K)):
        A_ = rng.normal(size=shape) * rng.uniform(0.1, 1.0, K)
        bound, most = norm(one, A_.T @ A_), 0.0
        for _ in range(60):
            # mostly along the worst direction of the quadratic form
            w = rng.normal(size=shape[0])
            Z = one.kappa * (A_.T @ w) + rng.normal(size=K) * rng.choice([0.0, 10.0, 100.0])
            low, high = 0.0, 5e3 / np.abs(Z).max()
            for _ in range(40):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if of_event(middle * Z) < level else (low, middle)
            most = max(most, float(np.linalg.norm(A_ @ (low * Z))))
        assert 0.6 * bound < most <= bound


@pytest.mark.parametrize("short", [1e-1, 1e-5, 1e-6, 1e-7, 1e-10])
def test_rates_that_are_all_but_dead_bound_nothing_too_tightly(short):
    """The nodes of one side are within `short` of their pole: the bound of Z is no lower than Z on a grid can be."""
    scale, spread, reach, level = np.array([0.1]), np.array([5000.0]), np.array([[(1.0 - short) / 0.05], [1.0]]), 5.0
    found = ellipsoid(scale, spread, reach, level)
    if found is None:
        return
    theta = scale[0] * NODES
    x = np.abs(theta) * np.where(theta > 0.0, reach[0, 0], reach[1, 0])
    phi = np.where(x < 1.0, theta**2 * psi_ratio(np.where(x < 1.0, x, 0.0)) * spread[0], np.inf)
    Z = np.linspace(-1e4, 1e4, 20001)
    L = np.logaddexp.reduce((LOG_WEIGHTS - phi)[:, None] + theta[:, None] * Z, axis=0)
    assert np.abs(Z[level >= L]).max() <= norm(found, np.ones((1, 1))) * (1.0 + 1e-9)


def log_with(simulator, size, seed):
    log = simulator.record(size, seed)
    return log, dualq.counts_in_blocks(log)


def test_the_martingale_at_the_truth_has_a_mean_of_at_most_one():
    # 150 logs of a behaviour that drifts. M >= 0 has a mean of at most 1. Capped at 20 its variance is at most 20, so
    # that a mean above 2.6 is 4.4 standard errors off: a chance of about 1e-5. P(M > 20) <= .05: more than 12% of 150
    # logs have a chance below 1e-3.
    base = problems.garnet(4, 2, 3, discount=0.8, seed=2)
    drift = dualq.settling(dualq.TablePolicy(np.tile([0.85, 0.15], (4, 1))), 0.4)
    simulator = dualq.Simulator(
        base.mdp, base.behaviour, base.start, base.source, base.reward_low, base.reward_high, drift
    )
    policy = np.eye(2)[[0, 1, 1, 0]]
    V = np.append(dualq.TablePolicy(policy).value(base.mdp), 0.0)
    q = base.mdp.q_values(V[:-1]).ravel()
    aims = [Aim(base.start, base.start, (0.8, 1.0)), Aim(np.eye(4)[0], np.eye(4)[0], (0.2, 0.0))]
    found = []
    for seed in range(150):
        log, blocks = log_with(simulator, 800, seed)
        parts, merged = foresighted(blocks), log.counts()
        ev = evidence_of(parts, merged)
        rows = own_rows(ev, policy, base.start, 0.8)
        found.append(log_martingale(rows, aims, (0.0, 1.0), ev.possible, V, q[rows.pairs], 4.0))
    M = np.exp(found)
    assert np.minimum(M, 20.0).mean() < 2.6
    assert (M > 20.0).mean() <= 0.12
    assert M.mean() > 0.05  # and it is no zero either


def test_policies_pay_for_being_one_of_many():
    rng = np.random.default_rng(1)
    log = problems.garnet(3, 2, 2, discount=0.8, seed=1).record(3000, 0)
    parts = foresighted(dualq.counts_in_blocks(log))
    merged = log.counts()
    prior = Prior(parts[0], merged, 0.8, np.ones((3, 2), bool))
    # all policies on a coarse part of the grid: what they have of W is no more than 1 (for sure: 8 of them)
    sure = [np.eye(2)[[i, j, k]] for i in range(2) for j in range(2) for k in range(2)]
    total = sum(np.exp(-prior.price(policy)) for policy in sure)
    assert 0.5 < total < 1.0
    chances = [np.array([k / GRID, 1.0 - k / GRID]) for k in range(GRID + 1)]
    alone = [sum(np.exp(-prior.price(np.array([x, *one[1:]]))) for x in chances) for one in sure[:4]]
    assert sum(alone) <= 1.0
    assert prior.price(np.array([[0.3, 0.7], [1.0, 0.0], [1.0, 0.0]])) == np.inf
    near = on_grid(rng.dirichlet(np.ones(2), 3))
    np.testing.assert_allclose(near.sum(axis=1), 1.0)
    assert prior.price(near) < np.inf
    np.testing.assert_allclose(on_grid(near), near)


def test_blocks_are_joined_by_their_lengths_alone():
    log = problems.two_state().record(4096, 0)
    blocks = dualq.counts_in_blocks(log)
    ends = np.cumsum([block.total for block in blocks])
    assert len(blocks) == 7 + 12  # seven up to 512 rows, twelve after
    assert [block.total for block in coarse(blocks)] == [1, 2, 5, 15, 41, 117, 331, 936, 2648]
    parts = foresighted(blocks)
    assert parts[0].total == 512
    assert len(parts) == 13
    assert foresighted([log.counts()]) is None
    doubling = log.counts_between([0, 512, 1024, 2048, 4096])
    assert coarse(doubling) == doubling
    assert ends[-1] == sum(part.total for part in parts) == 4096
    other = log.counts_between([0, 300, 500, 4096])  # cut as nobody else would: about an eighth, and it costs nothing
    assert foresighted(other)[0].total == 500
    assert first_part(np.array([300, 500, 4096]), 4) == First(2, 0.0)


def noted(rows, states=2):
    """Rows with two actions, drawn without kernels: tests that mutants meet run as plain Python."""
    rng = np.random.default_rng(0)
    s, to, a = rng.integers(states, size=rows), rng.integers(states, size=rows), rng.integers(2, size=rows)
    return dualq.ArrayLog(s, a, rng.random(rows), to, states, 2, reward_range=(0.0, 1.0))


def test_who_ends_a_log_moves_no_border():
    # Borders are the same for all lengths, but for the last; what differs is which first part there is, and all of them
    # have weights that add up to no more than 1.
    cuts = {rows: borders_of(rows, 4)[1:-1] for rows in range(2, 5_000)}
    for rows, some in cuts.items():
        ends = np.array([*some, rows])
        first = first_part(ends, 4)
        assert cut_beforehand(ends)
        assert (first is None) == (rows < 192)
        if first is not None:
            assert ends[first.blocks - 1] in FIRSTS
            assert first.price == pytest.approx(np.log(1.0 / FIRSTS[ends[first.blocks - 1]]))
    assert cut_beforehand(np.array([20_000_000]))  # without order there is one block at every length ...
    assert not cut_beforehand(np.array([20_000_001]))  # ... and with it from here on, so that somebody can choose
    log = noted(4_999)
    for rows in (5, 100, 383, 384, 1_000, 3_071, 3_072, 4_999):
        ends = np.cumsum([block.total for block in coarse(log.counts_between(borders_of(rows, 4)))])
        assert ends[:-1].tolist() == [end for end in (1, 3, 8, 23, 64, 181, 512, 1448, 4096) if end < rows]
    assert sum(FIRSTS.values()) <= 1.0
    assert first_of(1_000_000, 200) == 32_768
    assert first_of(1_000_000, 9_000) == 262_144  # an eighth of it has four rows a pair


def test_what_is_foreseen_does_not_know_how_many_rows_will_come():
    # The same rows, ended at different places: what was foreseen for the rows that both have is the same, and so is
    # what each may fail with.
    log, start = noted(2_900, states=4), np.full(4, 0.25)
    policy, parts, seen, levels = np.eye(2)[[0, 1, 1, 0]], {}, {}, {}
    for rows in (1_600, 2_000, 2_900):
        short = dualq.ArrayLog(
            log.state[:rows], log.action[:rows], log.reward[:rows], log.next_state[:rows], 4, 2, reward_range=(0.0, 1.0)
        )
        blocks, merged = dualq.counts_in_blocks(short), short.counts()
        parts[rows] = foresighted(blocks)
        own = own_rows(evidence_of(parts[rows], merged), policy, start, 0.8)
        seen[rows] = foresee(own, start, (0.0, 1.0), np.append(np.ones(4, bool), False))
        account = Ledger(0.05)
        levels[rows] = [share.delta for share in shared_out(blocks, account)]
    shared = len(parts[1_600]) - 2  # the last block of the shortest is cut short
    for rows in (2_000, 2_900):
        for one, other in zip(seen[1_600][:5], seen[rows][:5], strict=True):
            np.testing.assert_array_equal(one[: shared + 1], other[: shared + 1])
        np.testing.assert_array_equal(quotas(seen[1_600], 2.0, 0)[:shared], quotas(seen[rows], 2.0, 0)[:shared])
    assert levels[1_600] == levels[2_000] == levels[2_900] == pytest.approx([0.03, 0.02])


def test_an_end_that_is_seen_late_changes_nothing_that_was_foreseen():
    # States 2 and 3 are only ever entered to end, 3 by the last row alone. With or without that row, the rates of event
    # 1, the codes of event 2 and the price of a policy are those that the earlier rows allow.
    rng = np.random.default_rng(0)
    s, a = rng.integers(2, size=600), rng.integers(2, size=600)
    ended = rng.random(600) < 0.3
    to, reward = np.where(ended, 2, rng.integers(2, size=600)), rng.random(600)
    ended[-1], to[-1] = True, 3
    found = []
    for rows in (599, 600):
        columns = (column[:rows] for column in (s, a, reward, to))
        log = dualq.ArrayLog(*columns, 4, 2, ended=ended[:rows], reward_range=(0.0, 1.0))
        merged = log.counts()
        blocks = log.counts_between([0, 64, 599])
        ev = evidence_of(blocks, merged)
        f = np.outer([0.0, 1.0], [2.0, 3.0, 0.0, 9.0, 0.0])  # 9 where nobody knows of an end yet
        price = Prior(blocks[0], merged, 0.8, np.ones((4, 2), bool)).price(np.eye(2)[[0, 1, 0, 0]])
        eps = divergence(ev, ev.n[0], ev.n[1], 3.0)
        found.append((ev.possible.sum(), *noise_of(ev, f, 0.8, (0.0, 1.0), 3.0)[0][:, :4], eps[:4], price))
    assert [one[0] for one in found] == [4, 3]  # of 0, 1, 3 and the end; with the last row, 3 is no place to be
    for one, other in zip(*(x[1:] for x in found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_short_log_has_no_more_of_delta():
    log = noted(100)  # too short for a first part
    ledger = Ledger(0.05)
    pairs, own = shared_out(dualq.counts_in_blocks(log), ledger)
    assert own is None
    assert pairs.delta == pytest.approx(0.03)
    assert [one.spent for one in ledger.accounts] == pytest.approx([0.0, 0.02])


def test_the_first_part_is_paid_for():
    # that of 512 rows has .18 of all; cut as nobody else would, it was chosen beforehand and costs nothing
    log = noted(4_096)
    levels = []
    for blocks in (dualq.counts_in_blocks(log), log.counts_between([0, 512, 1000, 2000, 4096])):
        levels.append(OwnEvent(foresighted(blocks), log.counts(), None, Ledger(0.02)).level)
    assert levels == pytest.approx([np.log(1.0 / (0.02 * 0.18)), np.log(1.0 / 0.02)])


def test_the_promise_holds_for_whoever_stops_when_it_looks_best():
    # 12 logs, each asked at five lengths from 1,500 to 12,000 rows, and ended where a bound is furthest beyond
    # the truth. A bound may be wrong somewhere in .05 of logs: more than 4 of 12 have a chance below 2e-4.
    base, broken = problems.two_state(), 0
    policy = dualq.solve(base.mdp).primal_policy
    truth = float(base.start @ policy.value(base.mdp))
    for seed in range(12):
        log, over = base.record(12_000, seed), -np.inf
        for rows in (1_500, 2_400, 4_000, 7_300, 12_000):
            short = dualq.ArrayLog(
                log.state[:rows], log.action[:rows], log.reward[:rows], log.next_state[:rows], 2, 2,
                reward_range=base.mdp.reward_range,
            )  # fmt: skip
            found = dualq.certificate_of(dualq.counts_in_blocks(short), policy, base.mdp.discount, base.start)
            over = max(over, found.lower - truth, truth - found.policy_upper)
        broken += over > 1e-9
    assert broken <= 4


def test_the_start_is_foreseen_from_the_first_rows():
    # episodes of three rows that begin in state 1 and end: all that is left more often than it is entered is state 1
    s, s_next = np.tile([1, 0, 2], 40), np.tile([0, 2, 0], 40)
    ended = np.tile([False, False, True], 40)
    counts = Counts.from_arrays(s, np.zeros(120, int), np.ones(120), s_next, ended, states=3, actions=1)
    policy = dualq.TablePolicy(np.ones((3, 1)))
    given = question_of(counts, policy, 0.9, np.array([0.0, 0.5, 0.5]), 0.95)
    np.testing.assert_allclose(foreseen_start(given, counts), [0.0, 0.5, 0.5])
    np.testing.assert_allclose(foreseen_start(given._replace(measured="episodes"), counts), [0.0, 1.0, 0.0])
    np.testing.assert_allclose(foreseen_start(given._replace(measured="log"), counts), np.full(3, 1 / 3))


@pytest.mark.parametrize("ends", [False, True])
def test_what_the_log_earned_is_the_policy_less_what_its_decisions_gave_away(ends):
    # the performance difference, row by row: what V^pi earns from where decisions were taken, less what they earned,
    # is the mean over rows of V(s) - q(s, a), but for the noise Z of the rows; here V is that of the log's own model
    case = Case(1 if ends else 0)
    counts = case.merged
    decided = decided_start(counts, ALPHA)
    start, earned = decided.e, decided.earned
    mdp = counts.mdp(ALPHA)
    policy = dualq.solve(mdp).primal_policy
    V, q = counts.support.to_log(policy.value(mdp)), counts.support.to_log(mdp.q_values(policy.value(mdp)))
    given_away = sum(V[s] - q[s, a] for s, a, *_ in case.rows)
    last = case.rows[-1]
    cut_off = 0.0 if last[4] else ALPHA * V[last[3]]  # the log stops there: what comes then is unknown
    scale = len(case.rows) - ALPHA * sum(not row[4] for row in case.rows)
    assert given_away > 0.0
    assert start.min() >= 0.0
    assert start.sum() == pytest.approx(1.0)
    assert start @ V - earned == pytest.approx(given_away / scale, abs=0.0 if not cut_off else 1e-9)


def test_rows_that_do_not_follow_each_other_have_no_such_start():
    rng = np.random.default_rng(0)
    s, s_next = rng.integers(2, size=400), np.full(400, 2)  # all lead to a state that is hardly ever left
    counts = Counts.from_arrays(s, s * 0, rng.random(400), s_next, states=3, actions=1)
    assert decided_start(counts, 0.9) is None
    once = Counts.from_arrays(s, s * 0, rng.random(400), s_next, np.ones(400, bool), states=3, actions=1)
    start, earned = decided_start(once, 0.9)[:2]  # one decision each: what it earned is its reward
    np.testing.assert_allclose(start, np.bincount(s, minlength=3) / 400)
    assert earned == pytest.approx(once.reward_sum.sum() / 400)


@pytest.mark.parametrize("logs", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_the_interval_holds_for_policies_chosen_from_the_log(logs):
    # Each certificate may fail with probability .05; more than 7 of 30 (25 of 150) have a chance below 3e-4 (3e-6).
    base = problems.garnet(5, 3, 3, discount=0.8, seed=4)
    broken, narrower, closer = 0, 0, 0
    for seed in range(logs):
        log, blocks = log_with(base, 6000, 100 + seed)
        policy = dualq.TablePolicy(dualq.solve(log.counts().mdp(0.8)).primal_policy.matrix)
        truth = base.start @ policy.value(base.mdp)
        c = dualq.certificate_of(blocks, policy, 0.8, base.start)
        there = decided_start(log.counts(), 0.8).e @ policy.value(base.mdp)
        broken += not c.lower <= truth <= c.policy_upper or (c.per_state["lower"] > policy.value(base.mdp)).any()
        broken += c.lower_decided > there
        closer += c.gain > c.improvement and c.lower_decided > there - 0.5
        one = dualq.certificate_of(log.counts_between([0, 6000]), policy, 0.8, base.start)
        narrower += c.policy_upper - c.lower < 0.5 * (one.policy_upper - one.lower)
    assert broken <= (7 if logs == 30 else 25)
    assert narrower >= 0.9 * logs
    assert closer >= 0.9 * logs


def test_what_is_owed_where_recordings_stop_is_paid():
    # Recordings stop at random after one row in five, and X, which pays 1 for ever, is hardly ever left: e is negative
    # there. The policy that stays in 0 earns less than the log did, however near the two are.
    rng, rows, s = np.random.default_rng(5), [], 0
    for _ in range(100_000):
        tried = s == 0 and rng.random() < 0.7
        s_next = 1 if s == 1 or (tried and rng.random() < 0.0026) else 0
        rows.append((s, int(s == 0 and not tried), 1.0 if s == 1 else 0.4925 if tried else 0.5, s_next))
        s = 0 if rng.random() < 0.2 else s_next
    s, a, r, s_next = (np.array(column) for column in zip(*rows, strict=True))
    log = dualq.ArrayLog(s, a, r, s_next, 2, 2, reward_range=(0.0, 1.0))
    decided = decided_start(log.counts(), 0.9)
    assert decided.owed.max() > 0.005
    stay = dualq.TablePolicy(np.array([[0.0, 1.0], [1.0, 0.0]]))
    found = dualq.certificate_of(dualq.counts_in_blocks(log), stay, 0.9, [1.0, 0.0])
    truth = decided.e @ np.array([0.5 / 0.1, 1.0 / 0.1]) - decided.earned
    assert truth < 0.0
    assert found.gain <= truth  # it fails in 5 of 100 logs at most


def ward(rng, rows, beds=220, cures=2, alpha=0.95):
    """(log, value of a policy): every row may end in death or in survival, which alone pays; each pair has few rows."""
    truth = np.random.default_rng(7)
    P, each = np.zeros((beds, cures, beds)), np.arange(beds)
    for a in range(cures):
        for s in each:
            P[s, a, truth.choice(beds, 6, replace=False)] = truth.dirichlet(np.ones(6))
    die, live = truth.uniform(0.0, 0.06, (beds, cures)), truth.uniform(0.02, 0.2, (beds, cures))
    s, a, x = rng.integers(beds, size=rows), (rng.random(rows) < 0.25).astype(int), rng.random(rows)
    to = np.minimum((rng.random(rows)[:, None] > P.cumsum(axis=2)[s, a]).sum(axis=1), beds - 1)
    ended, r = x < (die + live)[s, a], (x < live[s, a]).astype(float)

    def value(policy):
        onward = np.einsum("sa,sat->st", policy * (1.0 - die - live), P)
        return float(np.linalg.solve(np.eye(beds) - alpha * onward, (policy * live).sum(axis=1)).mean())

    return dualq.ArrayLog(s, a, r, to, beds, cures, ended=ended, reward_range=(0.0, 1.0)), value


@pytest.mark.parametrize("logs", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_of_many_states_with_few_rows_each_something_is_proven(logs):
    # 220 states, 60,000 rows: the events of pairs say next to nothing, the first rows' policy is worth about .6. Each
    # log may fail with probability .05: both of 2 (more than 3 of 8) have a chance below 3e-3 (4e-4).
    broken, start = 0, np.full(220, 1.0 / 220)
    for seed in range(logs):
        log, value = ward(np.random.default_rng(seed), 60_000)
        blocks, counts = dualq.counts_in_blocks(log), log.counts()
        prior = prior_of(blocks, counts, 0.95)
        policies = prior.cheapest(np.eye(2)[counts.visits.argmax(axis=1)])
        known = dualq.TablePolicy(policies[12])
        found = dualq.certificate_of(blocks, known, 0.95, start, value_range=(0.0, 1.0))
        broken += not found.lower <= value(known.matrix) <= found.policy_upper
        assert prior.price(policies[12]) < 8.0  # that of another policy is the higher, the more states differ
        assert prior.price(policies[12][:, ::-1]) > 220.0
        assert start @ found.per_state["lower"] < 0.01
        assert found.lower > 0.4
        assert found.policy_upper < 0.8
    assert broken <= (1 if logs == 2 else 3)


def test_a_policy_fixed_before_the_log_pays_nothing():
    base = problems.garnet(5, 3, 3, discount=0.8, seed=4)
    _, blocks = log_with(base, 6000, 7)
    odd = dualq.TablePolicy(np.eye(3)[[2, 2, 0, 1, 0]])
    chosen, fixed = (dualq.certificate_of(blocks, odd, 0.8, base.start, fixed=x) for x in (False, True))
    assert chosen.lower < fixed.lower <= base.start @ odd.value(base.mdp) <= fixed.policy_upper < chosen.policy_upper


def test_where_few_policies_can_be_the_best_their_own_ceilings_bound_all(monkeypatch):
    # 6 logs; each certificate may fail with probability .05: more than 3 have a chance below 1e-4
    base = problems.two_state()
    best, broken, lower = float(base.start @ dualq.solve(base.mdp).V), 0, 0
    for seed in range(6):
        log, blocks = log_with(base, 5_000, seed)
        ask = dualq.solve(log.counts().mdp(base.mdp.discount)).primal_policy, base.mdp.discount, base.start
        found = dualq.certificate_of(blocks, *ask)
        with monkeypatch.context() as patch:
            patch.setattr(proving, "FEW", 0)
            pairs = dualq.certificate_of(blocks, *ask)
        broken += not found.lower <= best <= found.upper
        lower += found.upper < pairs.upper
        assert (found.lower, found.behaviour) == (pairs.lower, pairs.behaviour)
        assert sum(found.causes.values()) == pytest.approx(found.regret)
        assert found.upper_supported <= found.upper
    assert broken <= 3
    assert lower >= 5


def test_several_looks_share_delta():
    base = problems.garnet(5, 3, 3, discount=0.8, seed=4)
    log, blocks = log_with(base, 6000, 7)
    policy = dualq.TablePolicy(dualq.solve(log.counts().mdp(0.8)).primal_policy.matrix)
    one, five = (dualq.certificate_of(blocks, policy, 0.8, base.start, looks=looks) for looks in (1, 5))
    alone = dualq.certificate_of(blocks, policy, 0.8, base.start, confidence=0.99)
    assert five.lower == pytest.approx(alone.lower)
    assert five.lower < one.lower
    assert five.ledger.spent == pytest.approx(0.01)
    assert "5 times at most" in five.assumptions[-1]
    assert "only look" in one.assumptions[-1]
    with pytest.raises(dualq.ModelError, match="looks is 0; it must be a whole number"):
        dualq.certificate_of(blocks, policy, 0.8, base.start, looks=0)


def test_rewards_far_from_zero_say_the_same():
    # the same log with 1e6 added to every reward: bounds move by 1e6 / (1 - .8), but for what squares lost by rounding
    base = problems.garnet(4, 2, 3, discount=0.8, seed=2)
    log = base.record(6000, 1)
    policy = dualq.TablePolicy(dualq.solve(log.counts().mdp(0.8)).primal_policy.matrix)
    far = dualq.ArrayLog(log.state, log.action, log.reward + 1e6, log.next_state, 4, 2, reward_range=(1e6, 1e6 + 1.0))
    near = dualq.ArrayLog(log.state, log.action, log.reward, log.next_state, 4, 2, reward_range=(0.0, 1.0))
    one, other = (dualq.certificate_of(dualq.counts_in_blocks(x), policy, 0.8, base.start) for x in (near, far))
    for name in ("lower", "policy_upper", "upper", "upper_supported"):
        assert getattr(other, name) - 5e6 == pytest.approx(getattr(one, name), abs=1e-2)
    assert other.improvement == pytest.approx(one.improvement, abs=1e-2)
    np.testing.assert_allclose(other.per_state["lower"] - 5e6, one.per_state["lower"], atol=1e-2)
