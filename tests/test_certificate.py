"""The certificate: against brute force over models that the data allow, against the truth, and at its edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.stats import binom

import dualq
from dualq import problems
from dualq.base.errors import LogError, ModelError
from dualq.logs.counts import Counts
from dualq.proof.confidence_sets import confidence_sets
from dualq.proof.evidence import Evidence
from dualq.proof.floors import floor_of, plug_in_value
from dualq.proof.ledger import Ledger
from dualq.proof.noise import boundary
from dualq.proof.successors import divergence, largest_gap, sup_over_ball, undominated

CONFIDENCE = 0.95


def noisy_garnet(states=6, actions=3, branching=3, discount=0.9, seed=0, width=0.1):
    simulator = problems.garnet(states, actions, branching, discount=discount, seed=seed)
    mdp = simulator.mdp
    means = np.repeat(mdp.rewards.ravel(), np.diff(mdp.indptr))
    wider = dualq.MDP(mdp.transitions, mdp.rewards, discount, reward_bound=(-width, 1.0 + width))
    return dualq.Simulator(wider, simulator.behaviour, simulator.start, "", means - width, means + width)


def greedy(counts, discount):
    policy = dualq.solve(counts.mdp(discount)).primal_policy
    return dualq.TablePolicy(policy.matrix[: len(counts.states)])


def certified(simulator, rows, seed=0, **options):
    log = simulator.record(rows, seed)
    policy = greedy(log.counts(), simulator.mdp.discount)
    blocks = dualq.counts_in_blocks(log)
    return policy, dualq.certificate_of(blocks, policy, simulator.mdp.discount, simulator.start, **options)


# ---- the two events


def test_boundary_is_the_root_of_the_mixture_and_beats_no_single_rate_bound_by_more_than_its_weight():
    rng = np.random.default_rng(0)
    spread, scales = rng.random((3, 5)) * 100, 1.0 + rng.random((3, 5))
    rates, weights = np.exp(np.arange(-6.0, 1.0, 0.15)), np.full(47, -np.log(47.0))
    n = np.ones((3, 5))
    found = boundary(n, spread, scales, rates, weights, 5.0)
    for p in range(5):
        alive = rates * scales[:, p].max() < 1.0
        z = rates[alive, None] * scales[:, p]
        phi = ((-np.log1p(-z) - z) / scales[:, p] ** 2 * spread[:, p]).sum(axis=1)
        mixture = np.log(np.exp(weights[alive] + rates[alive] * found[p] - phi).sum())
        assert mixture == pytest.approx(5.0, abs=1e-6)
        assert found[p] <= ((5.0 - weights[alive] + phi) / rates[alive]).min()


def test_event_one_holds_at_all_times_for_skewed_rewards():
    # 2,000 sequences of Bernoulli(.03) rewards, each looked at after every row; the boundary must be crossed in at most
    # 10% of them. False alarm: binomial(2000, .1) above 240, 3e-9 even if the bound were exact.
    rng = np.random.default_rng(1)
    rates = np.exp(np.arange(-3.0, 0.0, 0.3))
    weights = np.full(rates.size, -np.log(rates.size))
    x = (rng.random((2000, 200)) < 0.03).astype(float)
    guess = 0.05
    crossed = np.zeros(2000, bool)
    for size in range(1, 201):
        deviation = np.abs(x[:, :size].sum(axis=1) - 0.03 * size)
        spread = ((x[:, :size] - guess) ** 2).sum(axis=1)[None]
        for scale, sign in ((guess, 1.0), (1.0 - guess, -1.0)):
            noise = boundary(np.ones((1, 2000)), spread, np.full((1, 2000), scale), rates, weights, np.log(2 / 0.1))
            right_side = sign * (x[:, :size].sum(axis=1) - 0.03 * size) > 0.0
            crossed |= (deviation > noise) & right_side
    assert crossed.sum() <= 240


def test_event_two_holds_at_all_times():
    # 1,000 sequences over 6 outcomes, looked at after every row, delta = .1; false alarm as above: binomial(1000, .1)
    # above 140 has probability 3e-5 even if the bound were exact.
    rng = np.random.default_rng(2)
    truth = np.array([0.6, 0.3, 0.08, 0.02, 0.0, 0.0])
    crossed = 0
    for _ in range(1000):
        counts = np.cumsum(np.eye(6)[rng.choice(6, 60, p=truth)], axis=0)
        n = counts.ravel()
        evidence = Evidence(
            np.arange(0, n.size + 1, 6), np.tile(np.arange(6), 60), n[None], n[None], n[None], np.ones(6, bool), (60, 1)
        )
        eps = divergence(evidence, np.zeros(n.size), n, np.log(10.0))
        share = counts / counts.sum(axis=1, keepdims=True)
        ratio = np.where(share > 0, share / np.maximum(truth, 1e-300), 1.0)
        crossed += bool((np.where(share > 0, share * np.log(ratio), 0.0).sum(axis=1) > eps).any())
    assert crossed <= 140


@pytest.mark.parametrize("seed", range(6))
def test_supremum_over_the_ball_against_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    seen = rng.dirichlet(np.ones(3))
    p_hat = np.append(seen, [0.0, 0.0])
    d, eps = rng.standard_normal(5), float(rng.choice([0.003, 0.05, 0.7]))

    def divergence(p):
        return float((seen * np.log(seen / np.maximum(p[:3], 1e-12))).sum())

    best = -np.inf
    for start in (p_hat * 0.9 + 0.02, np.full(5, 0.2) * 0.1 + p_hat * 0.9):
        found = minimize(
            lambda p: -p @ d,
            start / start.sum(),
            bounds=[(1e-9, 1.0)] * 5,
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1.0},
                {"type": "ineq", "fun": lambda p: eps - divergence(p)},
            ],
            options={"ftol": 1e-12, "maxiter": 500},
        )
        if found.success and divergence(found.x) <= eps * (1 + 1e-6):
            best = max(best, -found.fun)
    weights, rest = np.empty(3), np.empty(1)
    most = sup_over_ball(
        np.array([0, 3]), np.arange(3), seen, np.array([eps]), d[:3].copy(), np.zeros(6), np.ones(1, bool),
        np.array([d.max()]), weights, rest,
    )  # fmt: skip
    assert most[0] >= best - 1e-6  # a bound
    assert most[0] == pytest.approx(best, abs=2e-4)  # and the best one, to the general solver's precision
    attained = weights @ d[:3] + rest[0] * d.max()
    assert weights.sum() + rest[0] == pytest.approx(1.0)
    assert attained == pytest.approx(most[0], abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_gap_is_found_among_few_places(seed):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal(301)
    references = np.vstack([np.zeros((2, 301)), V + 0.3 * rng.standard_normal((seed % 4, 301))])
    n = rng.integers(0, 9, (len(references), 50)).astype(float)
    n[:, 7] = 0.0
    possible = rng.random(301) < 0.8
    places = undominated(V, references, possible)
    assert places.size < 150
    share = n / np.maximum(n.sum(axis=0), 1.0)
    top, most = largest_gap(share, V, references, places)
    gaps = np.where(possible, share.T @ references - V, -np.inf)
    np.testing.assert_allclose(most, gaps.max(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(top, gaps.argmax(axis=1))


@pytest.mark.parametrize("eps", [1e-6, 0.01, 0.5, 3.0])
def test_the_worst_successors_attain_the_bound_to_rounding(eps):
    rng = np.random.default_rng(5)
    p, d = rng.dirichlet(np.ones(6), 40), rng.standard_normal((40, 6))
    weights, rest = np.empty(240), np.empty(40)
    largest = d.max(axis=1) + rng.choice([0.0, 0.5], 40)  # somewhere else it may be worse still
    most = sup_over_ball(
        np.arange(0, 241, 6), np.arange(240), p.ravel(), np.full(40, eps), d.ravel(), np.zeros(240), np.ones(40, bool),
        largest, weights, rest,
    )  # fmt: skip
    q = weights.reshape(40, 6)
    np.testing.assert_allclose((q * d).sum(axis=1) + rest * largest, most, rtol=0.0, atol=1e-9)
    used = (p * np.log(p / q)).sum(axis=1)
    np.testing.assert_allclose(used, eps, rtol=1e-5, atol=1e-10)  # the adversary spends all that is allowed


# ---- floor and ceiling against models that the data allow


def test_no_model_in_the_confidence_set_is_below_the_floor_or_above_the_ceiling():
    """Random and adversarial models inside both events: their values must respect the bounds, and come near them."""
    simulator = noisy_garnet(states=4, actions=2, branching=2)
    log = simulator.record(4000, 3)
    counts, blocks, alpha = log.counts(), dualq.counts_in_blocks(log), 0.9
    policy = greedy(counts, alpha)
    certificate = dualq.certificate_of(blocks, policy, alpha, simulator.start)
    models = confidence_sets(blocks, counts, alpha, Ledger(0.05))
    model = models["optimal"]
    ev = model.evidence
    rng = np.random.default_rng(0)
    floors, ceilings = [], []
    for _ in range(400):
        P, R = np.zeros((8, 4)), np.zeros(8)
        for i in range(8):
            entries = slice(ev.indptr[i], ev.indptr[i + 1])
            seen = model.around[entries]
            direction = rng.standard_normal(seen.size)
            step = 1.0
            while True:  # as far as the divergence allows
                q = np.maximum(seen, 1e-9) * np.exp(step * direction)
                q /= q.sum()
                if (seen * np.log(np.maximum(seen, 1e-300) / q)).sum() <= model.eps[i]:
                    break
                step *= 0.9
            P[i, ev.columns[entries]] = q
            # event 1: r + alpha P f^ in centre -+ noise / n; the reward takes what is left
            side = rng.choice([-model.noise[0, i], model.noise[1, i]]) / model.n[i]
            R[i] = model.centre[i] + side - alpha * q @ model.anchor[entries]
        mdp_values = np.linalg.solve(
            np.eye(4) - alpha * (policy.matrix[:, :, None] * P.reshape(4, 2, 4)).sum(axis=1),
            (policy.matrix * R.reshape(4, 2)).sum(axis=1),
        )
        V = np.zeros(4)
        for _ in range(300):
            V = (R + alpha * P @ V).reshape(4, 2).max(axis=1)
        floors.append(simulator.start @ mdp_values - certificate.lower)
        ceilings.append(certificate.upper - simulator.start @ V)
        assert (mdp_values >= certificate.per_state["lower"] - 1e-6).all()
        assert (certificate.per_state["upper"] + 1e-6 >= V).all()
    width = certificate.regret
    assert min(floors) < 0.5 * width
    assert min(ceilings) < 0.5 * width


def test_floor_is_below_a_linear_program_over_a_smaller_set():
    """An independent adversary: P on the L1 ball that Pinsker puts inside the KL ball's conclusion, rewards fixed."""
    simulator = noisy_garnet(states=3, actions=2, branching=2, seed=2)
    log = simulator.record(3000, 0)
    counts, alpha = log.counts(), 0.9
    policy = greedy(counts, alpha)
    certificate = dualq.certificate_of(counts, policy, alpha, simulator.start)  # one block: the anchor is 0
    model = confidence_sets([counts], counts, alpha, Ledger(0.05))["optimal"]
    ev = model.evidence
    V = np.zeros(3)
    for _ in range(60):
        q = np.zeros(6)
        for i in range(6):
            seen = np.zeros(3)
            seen[ev.columns[ev.indptr[i] : ev.indptr[i + 1]]] = model.p[ev.indptr[i] : ev.indptr[i + 1]]
            # |P - P^| small enough that KL(P^ || P) <= eps for sure: KL <= sum (P^ - P)^2 / P
            least = seen[seen > 0].min() / 2
            room = min(least, np.sqrt(model.eps[i] * least / 3))
            bounds = [(s - room, s + room) if s > 0 else (0.0, 0.0) for s in seen]
            best = linprog(V, A_eq=np.ones((1, 3)), b_eq=[1.0], bounds=bounds)
            q[i] = model.r[i] - model.noise[0, i] / model.n[i] + alpha * best.fun
        V = (policy.matrix * q.reshape(3, 2)).sum(axis=1)
    assert (certificate.per_state["lower"] <= V + 10.0 * alpha**60).all()
    assert certificate.lower > 0.0


# ---- against the truth


@pytest.mark.parametrize("logs", [40, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", [60, 3000])
def test_the_promises_hold_on_trajectories(rows, logs):
    # Each log may fail with probability .05 at worst, so the test fails by chance with probability 1e-3 at most.
    simulator = problems.two_state()
    drift = dualq.wandering(dualq.TablePolicy([[0.9, 0.1], [0.05, 0.95]]), 2.0)
    simulator = dualq.Simulator(simulator.mdp, simulator.behaviour, simulator.start, "", drift=drift)
    best = dualq.solve(simulator.mdp).V
    broken = 0
    for seed in range(logs):
        policy, c = certified(simulator, rows, seed)
        value = policy.value(simulator.mdp)
        broken += bool((c.per_state["lower"] > value + 1e-9).any() or (c.per_state["upper"] < best - 1e-9).any())
    assert broken <= binom.isf(1e-3, logs, 0.05)


def test_behaviour_interval_holds_for_the_logged_frequencies():
    simulator = noisy_garnet()
    log = simulator.record(50_000, 0)
    counts = log.counts()
    c = dualq.certificate_of(dualq.counts_in_blocks(log), greedy(counts, 0.9), 0.9, simulator.start)
    usual = dualq.TablePolicy(counts.visits / counts.visits.sum(axis=1, keepdims=True)).value(simulator.mdp)
    low, high = c.behaviour
    assert low <= simulator.start @ usual <= high
    assert c.improvement == c.lower - high > 0.0
    assert high - low < 0.5 * c.value_range[1]


def test_the_targets_are_met():
    policy, c = certified(problems.two_state(), 100_000)
    assert c.regret <= 0.5
    assert problems.two_state().start @ policy.value(problems.two_state().mdp) - c.lower <= 0.2
    assert certified(noisy_garnet(20, 4, 5, 0.9), 1_000_000)[1].regret <= 0.2
    assert certified(noisy_garnet(20, 4, 5, 0.99), 1_000_000)[1].regret <= 2.0


# ---- how it behaves


def test_more_rows_and_less_confidence_make_it_tighter():
    simulator = problems.two_state()
    widths = [certified(simulator, rows)[1].regret for rows in (300, 3000, 30_000, 300_000)]
    assert widths == sorted(widths, reverse=True)
    sure, less = (certified(simulator, 3000, confidence=confidence)[1] for confidence in (0.999, 0.5))
    assert sure.lower < less.lower
    assert sure.upper > less.upper


def test_causes_add_up_to_the_regret_and_wanted_names_what_the_floor_needs():
    simulator = noisy_garnet()
    _, c = certified(simulator, 20_000)
    assert sum(c.causes.values()) == pytest.approx(c.regret, rel=1e-5)
    assert all(c.causes[name] > 0.0 for name in ("thin pairs", "reward noise"))
    wanted = c.wanted(3)
    assert len(wanted) == 3
    assert [w.raises for w in wanted] == sorted((w.raises for w in wanted), reverse=True)
    # The rows that are asked for do raise the floor, and by about what is said: three times the pair's own rows again.
    log = simulator.record(20_000, 0)
    counts, policy = log.counts(), greedy(log.counts(), 0.9)
    before = dualq.certificate_of(counts, policy, 0.9, simulator.start)
    first = before.wanted(1)[0]
    chosen = (log.state == first.state) & (log.action == first.action)
    assert chosen.sum() == first.visits
    again = np.concatenate([np.arange(len(log)), np.tile(np.flatnonzero(chosen), 3)])
    columns = (log.state[again], log.action[again], log.reward[again], log.next_state[again])
    more = Counts.from_arrays(*columns, states=6, actions=3, reward_range=log.reward_range)
    after = dualq.certificate_of(more, policy, 0.9, simulator.start)
    assert 0.5 * first.raises < after.lower - before.lower < 2.0 * first.raises


def test_unsupported_pairs_may_do_anything():
    """A pair never logged: whatever the model does there, floor and ceiling hold."""
    base = noisy_garnet(states=4, actions=2, branching=2)
    never = dualq.TablePolicy([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    for seed, (reward, to) in enumerate([(1.1, 0), (-0.1, 0), (-0.1, 3), (1.1, 2)]):
        P, rewards = base.mdp.transitions.toarray().reshape(4, 2, 4).copy(), base.mdp.rewards.copy()
        P[0, 1], rewards[0, 1] = np.eye(4)[to], reward
        mdp = dualq.MDP(P, rewards, 0.9, reward_bound=(-0.1, 1.1))
        simulator = dualq.Simulator(mdp, never, base.start, "")
        log = simulator.record(20_000, seed)
        blocks = dualq.counts_in_blocks(log)
        for policy in (dualq.TablePolicy(np.tile([0.0, 1.0], (4, 1))), dualq.TablePolicy(np.tile([0.7, 0.3], (4, 1)))):
            c = dualq.certificate_of(blocks, policy, 0.9, base.start)
            value = policy.value(mdp)
            assert (c.per_state["lower"] <= value).all()
            assert (c.per_state["upper"] >= dualq.solve(mdp).V).all()
            assert c.causes["unsupported pairs"] > 0.0
            assert c.upper_supported < c.upper
        declared = np.ones((4, 2), bool)
        declared[0, 1] = False
        c = dualq.certificate_of(blocks, never, 0.9, base.start, available=declared)
        assert c.upper == pytest.approx(c.upper_supported)


def test_ends_and_states_never_left():
    # 0 -> 1 -> ends with 1, each step pays 0 until then; state 2 is reached once and never left, state 3 is an end.
    s, a, s_next = [0, 1] * 500, [0, 0] * 500, [1, 3] * 500
    r, ended = [0.0, 1.0] * 500, [False, True] * 500
    counts = Counts.from_arrays(
        [*s, 1], [*a, 1], [*r, 0.0], [*s_next, 2], [*ended, False], states=4, actions=2, reward_range=(0.0, 1.0)
    )
    policy = dualq.TablePolicy(np.tile([1.0, 0.0], (4, 1)))
    c = dualq.certificate_of(counts, policy, 0.9, {0: 1.0})
    assert c.value_range == (0.0, pytest.approx(10.0))
    assert c.per_state["lower"][0] <= 0.9 <= c.per_state["upper"][0]
    assert c.per_state["lower"][1] <= 1.0
    assert c.lower > 0.5  # 500 visits, one successor each: nearly everything is known of action 0
    assert c.per_state["lower"][2] == 0.0
    assert c.per_state["upper"][2] == pytest.approx(10.0)
    negative = Counts.from_arrays(s, a, [-x for x in r], s_next, ended, states=4, actions=2, reward_range=(-1.0, -0.0))
    c = dualq.certificate_of(negative, policy, 0.9, {0: 1.0})
    assert c.value_range == (pytest.approx(-10.0), 0.0)
    assert c.lower <= -0.9 <= c.upper <= 0.0
    with_range = dualq.certificate_of(counts, policy, 0.9, {0: 1.0}, value_range=(0.0, 1.0))
    assert with_range.lower >= c.lower
    assert with_range.upper <= 1.0


def test_one_row_and_no_row_say_nothing():
    one = Counts.from_arrays([0], [0], [0.5], [1], states=2, actions=2, reward_range=(0.0, 1.0))
    none = Counts.from_arrays([], [], [], [], states=2, actions=2, reward_range=(0.0, 1.0))
    policy = dualq.TablePolicy([[1.0, 0.0], [1.0, 0.0]])
    for counts in (one, none):
        c = dualq.certificate_of(counts, policy, 0.9, [0.5, 0.5])
        assert (c.lower, c.upper) == (0.0, pytest.approx(10.0))
        assert not c.informative
        assert c.rows_needed is None  # state 1 was never left: no number of rows like these tells what it is worth
    little = problems.two_state().record(30, 0)
    c = dualq.certificate_of(
        dualq.counts_in_blocks(little), greedy(little.counts(), 0.9), 0.9, problems.two_state().start
    )
    assert not c.informative
    assert c.rows_needed is not None
    assert 30 < c.rows_needed < 30_000


def test_policies_on_well_known_pairs_may_do_anything_where_a_state_has_none():
    # State 1 has 800 rows or so of its action 0; action 1, never logged there, pays 1 for ever. A policy that keeps to
    # pairs with 1,000 rows may take it, one that keeps to logged pairs may not: its ceiling is no bound of the former.
    rng, rows, s = np.random.default_rng(0), [], 0
    for _ in range(22_000):
        s_next = int(s == 0 and rng.random() < 0.04)
        rows.append((s, 0, 0.5 * (s == 0), s_next))
        s = s_next
    s, a, r, s_next = (np.array(column) for column in zip(*rows, strict=True))
    log = dualq.ArrayLog(s, a, r, s_next, 2, 2, reward_range=(0.0, 1.0))
    found = dualq.certificate_of(
        dualq.counts_in_blocks(log), dualq.TablePolicy(np.array([[1.0, 0.0], [1.0, 0.0]])), 0.9, [1.0, 0.0]
    )
    value_of_1 = 1.0 / 0.1
    truth = (0.5 + 0.9 * 0.04 * value_of_1) / (1.0 - 0.9 * 0.96)
    assert found.upper_supported < truth
    assert found.ceilings["1000"] >= truth


def test_a_floor_needs_the_noise_of_its_own_pairs_alone():
    """Sets of which only a policy's own pairs were asked for give the same bits; of others they know nothing."""
    simulator = noisy_garnet()
    log = simulator.record(3000, 0)
    counts, blocks = log.counts(), dualq.counts_in_blocks(log)
    policy = greedy(counts, 0.9).matrix
    asked = np.array([policy.ravel() > 0.0, np.zeros(policy.size, bool)])
    some, every = (confidence_sets(blocks, counts, 0.9, Ledger(0.05), which)["optimal"] for which in (asked, None))
    np.testing.assert_array_equal(np.isfinite(some.noise), asked & np.isfinite(every.noise))
    f = plug_in_value(every, policy, 5.0)
    floors = [floor_of(sets, f, 0.0, np.ones(policy.shape, bool), policy, 1.0).value for sets in (some, every)]
    assert floors[0].tobytes() == floors[1].tobytes()
    assert floors[0].min() > 0.0  # it says something


def test_informative_means_half_of_the_range_and_rows_needed_gets_there():
    simulator = problems.two_state()
    _, wide = certified(simulator, 100)
    _, narrow = certified(simulator, 3000)
    for c in (wide, narrow):
        low, high = c.value_range
        assert c.informative == (c.upper_supported - c.lower <= 0.5 * (high - low))
    assert not wide.informative
    assert narrow.informative
    assert narrow.rows_needed == 3000
    assert wide.rows_needed is not None
    assert certified(simulator, 4 * wide.rows_needed)[1].informative  # it is an estimate


def test_cost_bounds_hold_and_are_those_of_a_reward():
    # 60 logs of a cost that is 1 on entering state 0; each interval may fail with probability .05 at worst, so more
    # than 11 failures have probability 1e-4 at most.
    simulator = noisy_garnet(states=4, actions=2, branching=2)
    mdp, rng = simulator.mdp, np.random.default_rng(5)
    expected = mdp.transitions.toarray()[:, 0].reshape(4, 2)
    broken = 0
    for seed in range(60):
        log = simulator.record(3000, seed)
        policy = greedy(log.counts(), 0.9)
        cost = (log.next_state == 0).astype(float)
        columns = (log.state, log.action, log.reward, log.next_state)
        ranges = {"reward_range": log.reward_range, "cost_ranges": {"late": (0.0, 1.0)}}
        blocks = [
            Counts.from_arrays(*(x[part] for x in columns), states=4, actions=2, costs={"late": cost[part]}, **ranges)
            for part in (slice(0, 750), slice(750, None))
        ]
        low, high = dualq.cost_bounds(blocks, policy, "late", 0.9, simulator.start)
        paid = dualq.MDP(mdp.transitions, expected, 0.9)
        truth = 0.1 * float(simulator.start @ policy.value(paid))
        broken += not low <= truth <= high
        assert 0.0 <= low < high < low + 0.5
    assert broken <= 11
    one = blocks[0].merge(blocks[1])
    as_reward = Counts.from_arrays(*columns[:2], cost, log.next_state, states=4, actions=2, reward_range=(0.0, 1.0))
    anything = dualq.TablePolicy(rng.dirichlet(np.ones(2), 4))
    low, _ = dualq.cost_bounds(one, anything, "late", 0.9, simulator.start)
    assert low == pytest.approx(0.1 * dualq.certificate_of(as_reward, anything, 0.9, simulator.start).lower, rel=1e-4)
    with pytest.raises(LogError, match="no cost 'early'; its costs: 'late'"):
        dualq.cost_bounds(one, anything, "early", 0.9, simulator.start)


def test_numbers_stay_finite_at_extreme_scales_and_shift_with_the_rewards():
    simulator = noisy_garnet(states=4, actions=2, branching=2)
    log = simulator.record(5000, 0)
    policy = greedy(log.counts(), 0.9)

    def certificate(scale, shift):
        low, high = (scale * end + shift for end in log.reward_range)
        columns = (log.state, log.action, np.clip(scale * log.reward + shift, low, high), log.next_state)
        moved = dualq.ArrayLog(*columns, 4, 2, reward_range=(low, high))
        return dualq.certificate_of(dualq.counts_in_blocks(moved), policy, 0.9, simulator.start)

    base = certificate(1.0, 0.0)
    for scale, shift in ((1e-6, 0.0), (1e6, 0.0), (1.0, 1000.0)):
        other = certificate(scale, shift)
        assert other.lower == pytest.approx(scale * base.lower + 10.0 * shift, rel=1e-5)
        assert other.upper == pytest.approx(scale * base.upper + 10.0 * shift, rel=1e-5)
    constant = Counts.from_arrays([0, 1] * 50, [0] * 100, [2.0] * 100, [1, 0] * 50, states=2, actions=1)
    c = dualq.certificate_of(constant, dualq.TablePolicy([[1.0], [1.0]]), 0.5, [1.0, 0.0])
    assert (c.lower, c.upper) == (pytest.approx(4.0), pytest.approx(4.0))


def test_the_bootstrap_is_labelled_narrower_and_not_far_off():
    simulator = noisy_garnet()
    log = simulator.record(20_000, 0)
    counts = log.counts()
    policy = greedy(counts, 0.9)
    proven = dualq.certificate_of(dualq.counts_in_blocks(log), policy, 0.9, simulator.start)
    second = dualq.certificate_of(counts, policy, 0.9, simulator.start, method="bootstrap", seed=1)
    assert second.method == "bootstrap"
    assert "approximate" in second.assumptions[0]
    assert proven.lower < second.lower < second.estimate < second.upper < proven.upper
    again = dualq.certificate_of(counts, policy, 0.9, simulator.start, method="bootstrap", seed=1)
    assert again.lower == second.lower


# ---- a run that stops when the promise is met


def test_a_run_stops_at_the_promised_regret_and_keeps_it():
    # 30 runs; each promise may fail with probability .05 at worst: more than 8 failures have probability 1e-5 at most.
    simulator = problems.two_state()
    mdp, start = simulator.mdp, simulator.start
    best = float(start @ dualq.solve(mdp).V)
    runs = dualq.train(dualq.QLearning(), simulator, 200_000, seeds=range(30), stop=dualq.Regret(1.5), jobs=1)
    broken = 0
    for run in runs:
        c = run.certificate
        assert run.reason == "regret"
        assert c.regret <= 1.5
        assert c.confidence == 0.95
        assert c.rows == run.steps
        assert np.log2(run.steps / 1024) == int(np.log2(run.steps / 1024))
        broken += not (c.lower <= start @ run.solution.primal_policy.value(mdp) and best <= c.upper)
    assert broken <= 8
    # the same bits as without looking
    run = runs[0]
    plain = dualq.train(dualq.QLearning(), simulator, run.steps, seed=0)
    assert (plain.solution.Q == run.solution.Q).all()
    # the last look sees the rows of the run, with what is left of delta for it
    log = simulator.record(run.steps, 0)
    looks = int(np.log2(run.steps / 1024)) + 1
    cuts = [0, *(1024 * 2**j for j in range(looks))]
    blocks = [
        Counts.from_rows(
            type(log.rows)(*(x[i:j] for x in log.rows)), mdp.states, mdp.actions, mdp.reward_range
        )
        for i, j in pairwise(cuts)
    ]  # fmt: skip
    ask = (run.solution.primal_policy, mdp.discount, start, 1.0 - 0.05 / (looks * (looks + 1)))
    assert dualq.certificate_of(blocks, *ask).lower == pytest.approx(run.certificate.lower)


def test_a_stop_that_is_not_met_or_not_possible():
    simulator = problems.two_state()
    run = dualq.train(dualq.QLearning(), simulator, 3000, stop=dualq.Regret(1e-3))
    assert (run.reason, run.steps, run.certificate.rows) == ("steps", 3000, 2048)
    with pytest.raises(ModelError, match="on a Simulator without a checkpoint"):
        dualq.train(dualq.QLearning(), simulator.record(100, 0), 100, discount=0.9, stop=dualq.Regret(1.0))
    with pytest.raises(ModelError, match="must be positive"):
        dualq.Regret(0.0)


# ---- labels and refusals


def test_labels_in_the_table_in_wanted_and_in_starts():
    states, actions = dualq.Labels([("a", 1), ("b", 2)], ("shop", "stock")), dualq.Labels(["buy", "wait"], "order")
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    counts = Counts.from_arrays(s, a, rng.random(900), 1 - s, states=states, actions=actions)
    policy = dualq.TablePolicy([[1.0, 0.0], [0.0, 1.0]], states, actions)
    c = dualq.certificate_of(counts, policy, 0.5, {("a", 1): 1.0}, available={("a", 1): ["buy", "wait"]})
    assert c.per_state["shop"] == ["a", "b"]
    assert c.per_state["stock"] == [1, 2]
    assert c.lower == c.per_state["lower"][0]
    assert {(w.state, w.action) for w in c.wanted()} == {(("a", 1), "buy"), (("b", 2), "wait")}
    assert any("as observed" in line for line in c.assumptions)


def test_refusals():
    counts = Counts.from_arrays([0, 1], [0, 0], [0.0, 1.0], [1, 0], states=2, actions=2, costs={"late": [0.0, 1.0]})
    policy = dualq.TablePolicy([[1.0, 0.0], [1.0, 0.0]])
    good = (policy, 0.9, [1.0, 0.0])
    with pytest.raises(LogError, match="at least one block"):
        dualq.certificate_of([], *good)
    with pytest.raises(ModelError, match="no method 'magic'"):
        dualq.certificate_of(counts, *good, method="magic")
    with pytest.raises(ModelError, match="confidence is 95"):
        dualq.certificate_of(counts, *good, confidence=95)
    for call in (dualq.certificate_of, dualq.cost_bounds):
        words = (counts, policy) if call is dualq.certificate_of else (counts, policy, "late")
        with pytest.raises(ModelError, match=r"confidence is '0\.95'; it must be between 0 and 1"):
            call(*words, 0.9, [1.0, 0.0], confidence="0.95")
        with pytest.raises(ModelError, match="discount is 1; it must be at least 0 and below 1"):
            call(*words, 1.0, [1.0, 0.0])
    with pytest.raises(ModelError, match=r"confidence is '0\.95'"):
        dualq.Regret(0.5, confidence="0.95")
    with pytest.raises(ModelError, match=r"start: the weights have shape \(4,\); .* for each of 2 states"):
        dualq.certificate_of(counts, policy, 0.9, [1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ModelError, match="start: the weight of state=1 is -1; weights must be finite and not negative"):
        dualq.certificate_of(counts, policy, 0.9, [1.0, -1.0])
    with pytest.raises(ModelError, match="the policy is for"):
        dualq.certificate_of(counts, dualq.TablePolicy([[1.0]]), 0.9, [1.0, 0.0])
    with pytest.raises(ModelError, match="not available; add it"):
        dualq.certificate_of(counts, *good, available={0: [1]})
    with pytest.raises(ModelError, match="discount is 1"):
        dualq.certificate_of(counts, policy, 1, [1.0, 0.0])
