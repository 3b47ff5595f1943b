"""Peers for states of numbers, each `(rows, discount, seed) -> (rule, what it expects or None)`.

cloning    P(a | s) by gradient boosting (scikit-learn); a drawn from it
FQI        fitted Q-iteration with extra trees (Ernst, Geurts and Wehenkel, 2005): Q <- trees(r + alpha max_b Q(s', b))
IQL        implicit Q-learning (Kostrikov, Nair and Levine, 2022) of our own, two layers of 64: V by the .7 expectile of
           min(Q_1, Q_2), Q by r + alpha V(s'), the policy cloned with the weights min(exp(3 A), 100); advantages in
           deviations of the reward; the most likely action is taken
"""

import math

import numpy as np

from dualq.offline.approximate.inputs import Inputs


def cloning(rows, discount, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    inputs = Inputs.of(rows)
    model = HistGradientBoostingClassifier(
        max_leaf_nodes=15, min_samples_leaf=20, early_stopping=True, random_state=seed
    )
    model.fit(inputs(rows.state), rows.a)

    def rule(states):
        p = np.zeros((len(states), len(rows.actions)))
        p[:, model.classes_] = model.predict_proba(inputs(states))
        return p

    return rule, None


def fqi(rows, discount, seed, trees=25, leaf=10, most=150):
    from sklearn.ensemble import ExtraTreesRegressor

    inputs, A = Inputs.of(rows), len(rows.actions)
    x, after, hot = inputs(rows.state), inputs(rows.next_state), np.eye(A)
    pairs = np.hstack([x, hot[rows.a]])
    model = ExtraTreesRegressor(trees, min_samples_leaf=leaf, random_state=seed, n_jobs=1)

    def Q(z):
        every = np.hstack([np.repeat(z, A, axis=0), np.tile(hot, (len(z), 1))])
        return model.predict(every).reshape(-1, A)

    target = rows.r
    iterations = min(most, math.ceil(math.log(0.05) / math.log(discount)))  # until .05 of the first guess is left
    for _ in range(iterations):
        model.fit(pairs, target)
        target = rows.r + discount * rows.live * Q(after).max(axis=1)
    model.fit(pairs, target)
    return lambda states: hot[Q(inputs(states)).argmax(axis=1)], float(Q(inputs(rows.starts)).max(axis=1).mean())


# ---- implicit Q-learning

EXPECTILE, BETA, WIDTH, RATE, BATCH, KEEP = 0.7, 3.0, 64, 1e-3, 256, 0.995


def _network(key, sizes):
    import jax

    keys = jax.random.split(key, len(sizes) - 1)
    layers = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (m, n)) * np.sqrt(2.0 / m), np.zeros(n, np.float32)) for k, m, n in layers]


def _out(layers, x):
    """The network's output, of NumPy's or JAX's arrays."""
    for W, b in layers[:-1]:
        y = x @ W + b
        x = y * (y > 0.0)
    W, b = layers[-1]
    return x @ W + b


def _loss(params, old, batch, discount):
    import jax
    import jax.numpy as jnp

    x, a, r, after, live = batch
    at = jnp.arange(a.size), a
    q = jax.lax.stop_gradient(jnp.minimum(_out(old["q1"], x)[at], _out(old["q2"], x)[at]))
    v = _out(params["v"], x)[:, 0]
    u = q - v
    expectile = jnp.abs(EXPECTILE - (u < 0.0)) * u**2
    target = jax.lax.stop_gradient(r + discount * live * _out(params["v"], after)[:, 0])
    td = sum((_out(params[name], x)[at] - target) ** 2 for name in ("q1", "q2"))
    weight = jax.lax.stop_gradient(jnp.minimum(jnp.exp(BETA * u), 100.0))
    return jnp.mean(expectile + td - weight * jax.nn.log_softmax(_out(params["pi"], x))[at])


def iql(rows, discount, seed, steps=8_000):
    import jax
    import jax.numpy as jnp
    import optax

    inputs, A, scale = Inputs.of(rows), len(rows.actions), float(rows.r.std()) or 1.0
    keys, d = jax.random.split(jax.random.key(seed), 5), inputs.width
    sizes = {"q1": A, "q2": A, "v": 1, "pi": A}
    params = {n: _network(k, (d, WIDTH, WIDTH, out)) for k, (n, out) in zip(keys, sizes.items(), strict=False)}
    data = [inputs(rows.state), rows.a, rows.r / scale, inputs(rows.next_state), rows.live]
    data = [jnp.asarray(column, jnp.int32 if column.dtype.kind == "i" else jnp.float32) for column in data]
    adam = optax.adam(RATE)

    def update(carry, key):
        params, old, state = carry
        picked = jax.random.randint(key, (BATCH,), 0, len(rows))
        gradient = jax.grad(_loss)(params, old, [column[picked] for column in data], discount)
        change, state = adam.update(gradient, state)
        params = optax.apply_updates(params, change)
        old = jax.tree.map(lambda kept, new: KEEP * kept + (1 - KEEP) * new, old, {n: params[n] for n in old})
        return (params, old, state), None

    old = {name: params[name] for name in ("q1", "q2")}
    run = jax.jit(lambda carry, each: jax.lax.scan(update, carry, each)[0])
    params, *_ = run((params, old, adam.init(params)), jax.random.split(keys[4], steps))
    params = jax.tree.map(np.asarray, params)
    expected = scale * float(_out(params["v"], inputs(rows.starts)).mean())
    return lambda states: np.eye(A)[_out(params["pi"], inputs(states)).argmax(axis=1)], expected


PEERS = {"cloning": cloning, "FQI": fqi, "IQL": iql}
