"""Networks that learn from states of numbers: against a twin written from the equations, and against a known model."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dualq.base import Labels, LogError, StateColumns, States
from dualq.logs import NumberRows
from dualq.model import TablePolicy, read_saved, unpacked, write_saved
from dualq.offline.approximate import neural
from dualq.offline.approximate.inputs import Inputs
from dualq.offline.approximate.kinds import RULE_KINDS
from dualq.offline.approximate.networks import Network, SoftmaxRule, SupportedRule, TiltedRule
from dualq.worlds import problems

S, A = 12, 3
GARNET = problems.garnet(S, A, 3, discount=0.9, seed=4)


@pytest.fixture
def jax():
    pytest.importorskip("optax", reason='networks are trained with JAX and Optax: pip install ".[neural]"')
    return pytest.importorskip("jax", reason='networks are trained with JAX: pip install ".[neural]"')


def garnet_rows(n: int, seed: int) -> NumberRows:
    """Rows of the known model under uniform behaviour; the state is one category, and a number that tells nothing."""
    log, rng = GARNET.record(n, seed), np.random.default_rng(seed)
    rows = log.rows
    columns = StateColumns(("place", "noise"), {"place": tuple(range(S))})
    here, there = (States(rng.normal(size=(n, 1)), s[:, None].astype(np.int64)) for s in (rows.s, rows.s_next))
    return NumberRows(columns, Labels(A, "action"), here, rows.a, rows.r, there, np.zeros(n, bool), np.zeros(n, int))


def network(rng: np.random.Generator, *sizes: int) -> Network:
    layers = list(pairwise(sizes))
    return Network(
        tuple(rng.normal(size=each).astype(np.float32) for each in layers),
        tuple(rng.normal(size=out).astype(np.float32) for _, out in layers),
    )


# ---- the rules


def some_rules() -> tuple[dict, States, Inputs]:
    rng = np.random.default_rng(0)
    inputs = Inputs(np.array([1.0, -2.0]), np.array([2.0, 0.5]), (3,))
    q, clone = (network(rng, 5, 8, 8, 4), network(rng, 5, 8, 8, 4)), network(rng, 5, 8, 8, 4)
    rules = {
        "supported": SupportedRule(inputs, q, clone, 2.5),
        "tilted": TiltedRule(inputs, q, clone, 0.7),
        "softmax": SoftmaxRule(inputs, clone),
    }
    return rules, States(rng.normal(size=(300, 2)), rng.integers(-1, 3, (300, 1))), inputs


def by_hand(network: Network, x: np.ndarray) -> list[float]:
    """One state, one unit at a time."""
    values = [float(v) for v in x]
    for layer, (W, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        sums = [sum(v * float(W[i, j]) for i, v in enumerate(values)) + float(b[j]) for j in range(len(b))]
        values = [max(0.0, v) for v in sums] if layer < len(network.weights) - 1 else sums
    return values


def test_rules_do_what_their_equations_say():
    rules, states, inputs = some_rules()
    supported, tilted, softmax = rules["supported"], rules["tilted"], rules["softmax"]
    got = {name: rule(states) for name, rule in rules.items()}
    values = supported.values(states)
    excluded = 0
    for i, x in enumerate(inputs(states)):
        q = [(u + v) / 2 for u, v in zip(by_hand(supported.q[0], x), by_hand(supported.q[1], x), strict=True)]
        e = [math.exp(v) for v in by_hand(softmax.network, x)]
        beta = [v / sum(e) for v in e]
        allowed = [a for a in range(4) if beta[a] >= 0.03]
        excluded += max(range(4), key=q.__getitem__) not in allowed
        np.testing.assert_allclose(got["softmax"][i], beta, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(values[i], np.multiply(2.5, q), rtol=1e-6, atol=1e-9)
        assert got["supported"][i].tolist() == [float(a == max(allowed, key=q.__getitem__)) for a in range(4)]
        score = [math.log(beta[a]) + q[a] / tilted.tau for a in range(4)]
        assert got["tilted"][i].tolist() == [float(a == int(np.argmax(score))) for a in range(4)]
    assert excluded > 20  # the condition on the support decides something


def test_inputs_one_at_a_time_are_the_same_numbers():
    _, states, inputs = some_rules()
    states.numbers[0] = 1e9, -1e9
    assert (np.column_stack(list(inputs.columns(states))) == inputs(states)).all()


def test_the_most_probable_action_is_always_supported():
    rules, states, _ = some_rules()
    none = replace(rules["supported"], rare=1.1)(states)
    assert (none.argmax(axis=1) == rules["softmax"](states).argmax(axis=1)).all()


def test_rules_that_were_saved_decide_alike(tmp_path):
    rules, states, _ = some_rules()
    write_saved(tmp_path / "rules.npz", RULE_KINDS, rules=rules)
    trees, arrays = read_saved(tmp_path / "rules.npz")
    for name, rule in unpacked(trees["rules"], arrays, RULE_KINDS).items():
        assert (rule(states) == rules[name](states)).all()


def test_without_jax_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(LogError, match=r'pip install "\.\[neural\]" in the folder of dualq adds') as caught:
        neural.learned_neural(garnet_rows(10, 0), 0.9, 0)
    assert "\n" not in str(caught.value)


# ---- the training, against a twin in NumPy


def test_the_forward_pass_of_the_rules_is_the_one_of_the_training(jax, monkeypatch):
    monkeypatch.setattr("dualq.offline.approximate.networks.BLOCK", 16)
    stack = neural.begin(np.random.default_rng(3), 7, 4, 0.5).learned[0]
    stack = jax.tree.map(lambda x: x + 0.3, stack)
    x = np.random.default_rng(0).normal(size=(50, 7))
    there = np.asarray(neural.forward(stack, x.T.astype(np.float32)))
    for i in range(5):
        np.testing.assert_allclose(neural.network(stack, i)(x), there[i].T, rtol=1e-5, atol=1e-5)


def twin(nets, tau, log_tau, target, still, batch, eps):
    """The five losses from the equations; `still` are the networks where no gradient is to flow."""
    x, a, r, x_next, alpha = batch
    rows = np.arange(len(r))

    def out(networks, i, x):
        (W1, W2, W3), (b1, b2, b3) = networks
        h = np.maximum(x @ W1[i].T + b1[i].T, 0)
        return np.maximum(h @ W2[i].T + b2[i].T, 0) @ W3[i].T + b3[i].T

    def log_p(i):
        z = out(nets, i, x)
        return z[rows, a] - np.log(np.exp(z).sum(axis=1))

    def f_star(y):
        return math.exp(y) - 1 if y < 0 else y + y * y / 2

    def w_star(y):
        return math.exp(y) if y < 0 else 1 + y

    qbar = np.minimum(out(target, 0, x)[rows, a], out(target, 1, x)[rows, a])
    w = np.array([w_star(y) for y in (qbar - out(still, 2, x)[:, 0]) / tau])
    V = out(nets, 2, x)[:, 0]
    aim = r + alpha * out(still, 2, x_next)[:, 0]
    D = np.mean((w / w.mean() - 1) ** 2) / 2
    return (
        np.mean([tau * f_star(y) for y in (qbar - V) / tau] + V),
        sum(np.mean((out(nets, i, x)[rows, a] - aim) ** 2) for i in (0, 1)),
        -np.mean(np.minimum(w, 100) * log_p(3)),
        -np.mean(log_p(4)),
        log_tau * (eps - D),
    )


def test_losses_and_their_gradients_are_those_of_the_equations(jax):
    """In float64; derivatives along random directions, by differences of the twin with what stands still held."""
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        learned = jax.tree.map(lambda x: rng.normal(size=x.shape) * 0.4, neural.begin(rng, 5, A, 0.0).learned)
        nets, log_tau = learned[0], -1.3
        target = jax.tree.map(lambda x: x[:2] + 0.1, nets)
        a, alpha = rng.integers(0, A, 40), 0.9 * (rng.random(40) < 0.8)
        x, r, x_next = rng.normal(size=(40, 5)), rng.normal(size=40), rng.normal(size=(40, 5))
        batch, eps = neural.Batch(x.T, np.eye(A)[:, a], r, x_next.T, alpha), neural.allowed_divergence(A)

        def total(learned):
            each = neural.losses(*learned, target, batch, eps)
            return sum(each), each

        gradient, got = jax.jit(jax.grad(total, has_aux=True))((nets, log_tau))
    tau = math.exp(log_tau)
    plain = (x, a, r, x_next, alpha)
    np.testing.assert_allclose(got, twin(nets, tau, log_tau, target, nets, plain, eps), rtol=1e-9)
    h = 1e-6
    for _ in range(5):
        way = jax.tree.map(lambda x: rng.normal(size=np.shape(x)), (nets, log_tau))
        ends = [jax.tree.map(lambda x, d, h=h: x + h * d, (nets, log_tau), way) for h in (h, -h)]
        up, down = (sum(twin(n, tau, t, target, nets, plain, eps)) for n, t in ends)
        slope = sum(
            np.sum(np.asarray(g) * d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(way), strict=True)
        )
        assert (up - down) / (2 * h) == pytest.approx(float(slope), rel=1e-6)


def test_steps_are_those_of_adam_with_a_target_behind(jax):
    """Three hundred steps in float64 against Adam as Kingma and Ba (2015) write it, with the twin's own gradients."""
    rng, steps, size = np.random.default_rng(2), 300, 16
    rows, inputs = garnet_rows(200, 3), Inputs.of(garnet_rows(200, 3))
    table, eps = neural.as_table(rows, inputs, 0.9, 2.0), neural.allowed_divergence(A)
    drawn = table.cells[rng.integers(0, 200, (steps, size))].astype(float)
    with jax.enable_x64(True):
        begun = jax.tree.map(
            lambda x: x.astype(float) if x.dtype == np.float32 else x, neural.begin(rng, inputs.width, A, 0.3)
        )
        after = neural.compiled.__wrapped__(table.numbers, table.sizes, A)(begun, drawn, steps)
    nets, log_tau = ([np.array(x) for part in begun.learned[0] for x in part], float(begun.learned[1]))
    target = [x[:2].copy() for x in nets]
    flat = np.concatenate([*(x.ravel() for x in nets), [log_tau]])
    m, v = np.zeros_like(flat), np.zeros_like(flat)
    for k, cells in enumerate(drawn):
        g = gradient_of(nets, log_tau, target, cells, inputs, eps)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        rate = 1e-3 * (1 + math.cos(math.pi * k / steps)) / 2
        flat = flat - rate * (m / (1 - 0.9 ** (k + 1))) / (np.sqrt(v / (1 - 0.999 ** (k + 1))) + 1e-8)
        cuts = np.cumsum([x.size for x in nets])
        *parts, last = np.split(flat, cuts)
        nets, log_tau = [part.reshape(x.shape) for part, x in zip(parts, nets, strict=True)], float(last[0])
        target = [x + 0.02 * (new[:2] - x) for x, new in zip(target, nets, strict=True)]
    got = [*after.learned[0].weights, *after.learned[0].biases, *after.target.weights, *after.target.biases]
    for mine, theirs in zip([*nets, *target], got, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)
    assert log_tau == pytest.approx(float(after.learned[1]), rel=1e-9)
    assert int(after.k) == steps


def gradient_of(nets, log_tau, target, cells, inputs, eps):
    """Of the five losses, by the chain rule, one network at a time; flat, weights before biases, log tau last."""
    tau, n = math.exp(log_tau), len(cells)
    x, x_next = (np.column_stack([cells[:, [j]], cells[:, [j + 1]] == np.arange(S)]).astype(float) for j in (0, 2))
    a, r, alpha = cells[:, -3].astype(int), cells[:, -2], cells[:, -1]
    taken = np.eye(A)[a]

    def through(networks, i, x):
        W1, W2, W3, b1, b2, b3 = (part[i] for part in networks)
        h1 = np.maximum(x @ W1.T + b1[:, 0], 0)
        h2 = np.maximum(h1 @ W2.T + b2[:, 0], 0)
        return h1, h2, h2 @ W3.T + b3[:, 0]

    outs = [through(nets, i, x) for i in range(5)]
    qbar = np.min([(through(target, i, x)[2] * taken).sum(axis=1) for i in (0, 1)], axis=0)
    v, v_next = outs[2][2][:, 0], through(nets, 2, x_next)[2][:, 0]
    y = (qbar - v) / tau
    w = np.where(y < 0, np.exp(np.minimum(y, 0)), 1 + y)
    slopes = [2 * ((outs[i][2] * taken).sum(axis=1) - r - alpha * v_next)[:, None] * taken / n for i in (0, 1)]
    slopes.append(np.column_stack([(1 - w) / n, np.zeros((n, A - 1))]))
    for i, weight in ((3, np.minimum(w, 100)), (4, np.ones(n))):
        e = np.exp(outs[i][2] - outs[i][2].max(axis=1, keepdims=True))
        slopes.append(weight[:, None] * (e / e.sum(axis=1, keepdims=True) - taken) / n)
    found = [np.zeros_like(part) for part in nets]
    for i, (slope, (h1, h2, _)) in enumerate(zip(slopes, outs, strict=True)):
        back2 = (slope @ nets[2][i]) * (h2 > 0)
        back1 = (back2 @ nets[1][i]) * (h1 > 0)
        for place, (back, into) in enumerate(((back1, x), (back2, h1), (slope, h2))):
            found[place][i], found[place + 3][i] = back.T @ into, back.sum(axis=0)[:, None]
    D = np.mean((w / w.mean() - 1) ** 2) / 2
    return np.concatenate([*(part.ravel() for part in found), [eps - D]])


def test_first_weights_are_drawn_for_inputs_in_units_of_their_spread(jax):
    """A label that one row in fifty has is as loud as a number seven deviations out, were it not for the bound of 6."""
    rows, rng = garnet_rows(4000, 0), np.random.default_rng(0)
    rows.state.categories[:, 0] = np.where(rng.random(4000) < 0.02, 1, 0)
    rows.state.categories[:7] = -1
    x = Inputs.of(rows)(rows.state)
    means, deviations = neural.typical(rows, Inputs.of(rows))
    np.testing.assert_allclose(means, x.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(deviations, np.maximum(x.std(axis=0), 1 / 6), atol=1e-12)
    plain, fitted = (
        neural.begin(np.random.default_rng(3), S + 1, A, 0.0, *known) for known in ((), (means, deviations))
    )
    (W, *_), (b, *_) = neural.network(plain.learned[0], 0).weights, neural.network(plain.learned[0], 0).biases
    (U, *_), (c, *_) = neural.network(fitted.learned[0], 0).weights, neural.network(fitted.learned[0], 0).biases
    np.testing.assert_allclose(x @ U + c, (x - means) / deviations @ W + b, atol=1e-5)
    for one, other in zip(jax.tree.leaves(fitted.target), jax.tree.leaves(fitted.learned[0]), strict=True):
        assert (np.asarray(one) == np.asarray(other)[:2]).all()  # Qbar begins as Q


def test_the_dual_policy_is_what_two_draws_agree_on(jax):
    training = neural.begin(np.random.default_rng(3), 4, A, 0.5)
    training = training._replace(learned=jax.tree.map(lambda x: x + 0.3 * x**2 + 0.1, training.learned))
    inputs = Inputs(np.zeros(4), np.ones(4), ())
    states = States(np.random.default_rng(0).normal(size=(50, 4)), np.zeros((50, 0), int))
    one = SoftmaxRule(inputs, neural.network(training.learned[0], neural.PI))(states)
    both = one * one  # two independent draws are both this action
    assert np.ptp(one, axis=1).min() > 0.01
    np.testing.assert_allclose(
        neural.rules_of(training, inputs, 1.0)["dual"](states), both / both.sum(axis=1, keepdims=True), rtol=1e-5
    )


def test_the_share_of_rows_that_count_is_what_eps_allows():
    for actions in (1, 2, 7):
        share = 1 / (1 + 2 * neural.allowed_divergence(actions))
        assert share == pytest.approx(1 / actions + 0.2 * (1 - 1 / actions))


def test_returns_are_those_of_the_episodes():
    rows = garnet_rows(6, 0)
    rows = replace(rows, r=np.array([1.0, 2, 3, 4, 5, 6]), episode=np.array([0, 0, 1, 1, 1, 2]))
    to_go = [1 + 0.5 * 2, 2, 3 + 0.5 * 4 + 0.25 * 5, 4 + 0.5 * 5, 5, 6]
    assert neural.returns_of(rows, 0.5) == pytest.approx((np.mean(to_go), np.std(to_go)))
    assert neural.returns_of(replace(rows, r=np.zeros(6)), 0.5) == (0.0, 1.0)


def test_the_table_gives_the_rows_back(jax):
    """Categories are places there and indicators in a batch; nothing is read where nothing follows."""
    rows = garnet_rows(37, 1)
    rows.state.categories[3] = -1
    ended = np.arange(37) == 5
    rows.next_state.numbers[5] = np.nan
    rows, inputs = replace(rows, ended=ended), Inputs.of(rows)
    table = neural.as_table(rows, inputs, 0.9, 2.0)
    batch = neural.batch_of(table.cells, table.numbers, table.sizes, table.actions)
    np.testing.assert_allclose(batch.x.T, inputs(rows.state), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(batch.x_next.T)[~ended], inputs(rows.next_state)[~ended], rtol=1e-6)
    assert np.isfinite(batch.x_next).all()
    np.testing.assert_array_equal(np.argmax(batch.a, axis=0), rows.a)
    np.testing.assert_allclose(batch.r, rows.r / 2.0, rtol=1e-6)
    np.testing.assert_allclose(batch.alpha, np.where(ended, 0.0, 0.9), rtol=1e-6)
    assert len(table.cells) == 37


# ---- what is learned


def matrix(rule) -> np.ndarray:
    return rule(States(np.zeros((S, 1)), np.arange(S)[:, None]))


def earned(rule) -> float:
    """Exactly, in the known model, from its start."""
    return float(GARNET.start @ TablePolicy(matrix(rule)).value(GARNET.mdp))


def test_what_is_learned_earns_most_of_what_can_be_earned(jax):
    """The clone of uniform behaviour has nothing to lose; and values are those of the saddle point at tau."""
    done = []
    rules = neural.learned_neural(garnet_rows(4000, 0), 0.9, seed=0, steps=2400, progress=lambda *at: done.append(at))
    assert done[-1] == (2500, 2500)
    assert np.abs(matrix(rules["clone"]) - 1 / A).max() < 0.15
    clone, optimal = earned(rules["clone"]), float(GARNET.start @ best_values())
    for name in ("supported", "tilted"):
        assert earned(rules[name]) > clone + 0.9 * (optimal - clone)
    assert earned(rules["dual"]) > clone + 0.6 * (optimal - clone)
    supported, tau = rules["supported"], rules["tilted"].tau * rules["supported"].scale
    values = supported.values(States(np.zeros((S, 1)), np.arange(S)[:, None]))
    assert np.abs(values - regularised(tau)).max() < 0.2  # 0.09 as it is; the values without tau are 1.1 higher


def best_values() -> np.ndarray:
    """The best values of the known model, by value iteration."""
    P, r, V = GARNET.mdp.transitions.toarray().reshape(S, A, S), GARNET.mdp.rewards, np.zeros(S)
    for _ in range(500):
        V = (r + 0.9 * P @ V).max(axis=1)
    return V


def regularised(tau: float) -> np.ndarray:
    """Q of the known model at the saddle point: V(s) is where the weights of uniform actions have mean one."""
    P, r, V = GARNET.mdp.transitions.toarray().reshape(S, A, S), GARNET.mdp.rewards, np.zeros(S)
    for _ in range(300):
        Q = r + 0.9 * P @ V
        low, high = Q.min(axis=1), Q.max(axis=1)
        for _ in range(50):  # the mean weight falls with V
            V = (low + high) / 2
            y = (Q - V[:, None]) / tau
            heavy = np.where(y < 0, np.exp(np.minimum(y, 0)), 1 + y).mean(axis=1) > 1
            low, high = np.where(heavy, V, low), np.where(heavy, high, V)
    return Q


def test_a_seed_says_all(jax):
    rows = garnet_rows(4000, 0)
    one, same, other = (neural.learned_neural(rows, 0.9, seed, steps=250)["dual"] for seed in (1, 1, 2))
    assert (matrix(one) == matrix(same)).all()
    assert (matrix(one) != matrix(other)).any()


def test_steps_are_compiled_once(jax):
    """What a chunk gives has the types of what it took; otherwise the second would be compiled anew, for seconds."""
    before = neural.begin(np.random.default_rng(0), 2, A, 0.0)
    after = jax.eval_shape(neural.compiled(2, (), A), before, np.zeros((3, 8, 7), np.float32), 250)
    kinds = [
        [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(jax.eval_shape(lambda x: x, each))]
        for each in (before, after)
    ]
    assert kinds[0] == kinds[1]
