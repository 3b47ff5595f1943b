"""The saddle problem over networks: Q1, Q2, V, pi and beta of the state, trained together on the rows of a log.

Problem   max over occupancies lambda of E_lambda[r] - tau D_f(lambda || log): a saddle point in V and w = lambda / log,
          with the Bellman equation of Q in between, so that no model and no second draw of s' is needed.
          f is the soft chi-square divergence, by its conjugate
          f*(y) = e^y - 1 for y < 0,  y + y^2/2 for y >= 0;    f*'(y) = e^y,  1 + y
Update    of the sum of these, each a mean over a batch of rows, by Adam:
          V       tau f*(y) + V(s),  y = (min Qbar(s,a) - V(s)) / tau;   the ratio of the occupancies is w = f*'(y)
          Q1, Q2  (Q(s,a) - r - alpha live V(s'))^2
          pi      -min(w, 100) log pi(a|s): the dual policy, pi ~ w beta
          beta    -log beta(a|s): what was done
          tau     log tau (eps - D),  D = mean (w/mean w - 1)^2 / 2: falls while w is flatter than it may be
          and Qbar <- Qbar + .02 (Q - Qbar).
Limit     1/(1 + 2D) is the share of the rows that count once they are weighted with w (effective sample size). A
          policy that picks one of A actions keeps 1/A of random rows: eps is such that this share is 1/A + .2(1 - 1/A).
Gives     four rules (networks.py), which need neither JAX nor Optax. The dual one is pi^2 over its sum: an action is
          taken if two draws of pi agree on it. The limit holds w down so that Q and V stay near the log, and with it
          pi, in which much of the log's chance is left; the square has the same order of actions, and less chance.

    paper     here
    alpha     discount
    lambda    w times how often the log has (s, a)

Rewards are in units of the spread of discounted returns, and first weights are drawn for inputs in units of theirs.
The networks are stacked, so that one product serves all five, and rows are the last axis of everything: no product then
waits for a transposed copy, which took a fourth of a step.
Rows are drawn outside of what is compiled, which therefore serves logs of any size: all of a log, and its halves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dualq.base import LogError, States, pip_install
from dualq.logs import NumberRows
from dualq.model import Rule
from dualq.offline.approximate.inputs import FARTHEST, Inputs
from dualq.offline.approximate.networks import Network, SoftmaxRule, SupportedRule, TiltedRule

if TYPE_CHECKING:
    import jax
    import optax

    Traced = jax.Array
    Moments = optax.OptState

Array = np.ndarray

WIDTH = 64  # of both hidden layers
BATCH = 256
STEP_SIZE = 1e-3
TARGET_RATE = 0.02
LARGEST_WEIGHT = 100.0
FIRST_TAU = 0.1
DRAWS = 2.0  # of the dual policy that must agree
CHUNK = 250  # steps of one call: after each, progress is shown and Ctrl-C answers
ROWS_PER_STEP = 6  # each row is drawn about 40 times
FEWEST_STEPS, MOST_STEPS = 4_000, 20_000  # value comes far only in many steps, however few the rows are
BLOCK = 65_536  # rows that are made ready at once

Q, V, PI, BETA = slice(0, 2), slice(2, 3), 3, 4  # places in the stack


class Stack(NamedTuple):
    """Networks of one shape, one after another."""

    weights: tuple[Traced, ...]  # (networks, out, in) each
    biases: tuple[Traced, ...]  # (networks, out, 1) each


class Batch(NamedTuple):
    """Rows as the losses read them."""

    x: Traced  # (d, n) inputs of the states
    a: Traced  # (A, n) 1 at the action
    r: Traced  # (n,) in units of the spread of returns
    x_next: Traced  # (d, n)
    alpha: Traced  # (n,) the discount, 0 where nothing follows


class Losses(NamedTuple):
    """What each part minimises; their gradients do not mix."""

    V: Traced
    Q: Traced
    pi: Traced
    beta: Traced
    tau: Traced


class Training(NamedTuple):
    """All that the next step needs."""

    learned: tuple[Stack, Traced]  # the five networks, log tau
    target: Stack  # Qbar
    moments: Moments  # of Adam
    k: Traced  # steps taken


class Table(NamedTuple):
    """A log as one table of float32: numbers scaled, categories as places (one-hot only within a batch)."""

    cells: Array  # (n, columns)
    numbers: int
    sizes: tuple[int, ...]
    actions: int


def learned_neural(
    rows: NumberRows,
    discount: float,
    seed: int,
    steps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Rule]:
    """Four rules from a log: "supported", "dual", "tilted" and "clone".

    steps      of training, in chunks of 250; about 1,000 take a second. By default one for 6 rows, 4,000 to 20,000
    progress   called with (steps taken, steps in all) now and then
    """
    needed()
    if not len(rows):
        raise LogError("no row of the log can be used: there is nothing to learn from")
    inputs, (centre, spread) = Inputs.of(rows), returns_of(rows, discount)
    training = trained(rows, inputs, discount, centre, spread, seed, steps or steps_for(len(rows)), progress)
    return rules_of(training, inputs, spread)


def steps_for(rows: int) -> int:
    """How many steps so many rows are trained for."""
    return min(max(rows // ROWS_PER_STEP, FEWEST_STEPS), MOST_STEPS)


def needed() -> None:
    """Say what to install where JAX is missing."""
    try:
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError as error:
        raise LogError(
            f"networks are trained with JAX and Optax: {pip_install('neural')} adds them, and with them policies "
            "that learn from states of numbers without bins"
        ) from error


def returns_of(rows: NumberRows, discount: float) -> tuple[float, float]:
    """The mean and the spread of what followed each row, discounted, to the end of its episode."""
    following, to_go = 0.0, np.empty(len(rows))
    first = rows.first.tolist()
    for i, r in zip(range(len(rows) - 1, -1, -1), rows.r[::-1].tolist(), strict=True):
        to_go[i] = following = r + discount * following
        if first[i]:
            following = 0.0
    spread = float(to_go.std())
    return float(to_go.mean()), spread if spread > 1e-9 * (1.0 + np.abs(to_go).max()) else 1.0


def trained(
    rows: NumberRows,
    inputs: Inputs,
    discount: float,
    centre: float,
    spread: float,
    seed: int,
    steps: int,
    progress: Callable[[int, int], None] | None,
) -> Training:
    """Train for so many steps, rounded up to whole chunks."""
    table, rng = as_table(rows, inputs, discount, spread), np.random.default_rng(seed)
    training = begin(rng, inputs.width, table.actions, centre / spread, *typical(rows, inputs))
    chunk = compiled(table.numbers, table.sizes, table.actions)
    steps = -(-steps // CHUNK) * CHUNK
    for done in range(CHUNK, steps + CHUNK, CHUNK):
        drawn = table.cells[rng.integers(0, len(rows), (CHUNK, BATCH))]
        training = chunk(training, drawn, steps)
        training.k.block_until_ready()  # else the rows of all chunks would wait in memory, and so would Ctrl-C
        if progress is not None:
            progress(done, steps)
    return training


def rules_of(training: Training, inputs: Inputs, scale: float) -> dict[str, Rule]:
    """The rules that the networks make, of plain arrays."""
    nets, log_tau = training.learned
    q1, q2, _, pi, beta = (network(nets, i) for i in range(5))
    return {
        "supported": SupportedRule(inputs, (q1, q2), beta, scale),
        "dual": SoftmaxRule(inputs, sharpened(pi)),
        "tilted": TiltedRule(inputs, (q1, q2), beta, float(np.exp(log_tau))),
        "clone": SoftmaxRule(inputs, beta),
    }


def network(nets: Stack, i: int) -> Network:
    """One network of a stack, as NumPy's arrays."""
    return Network(
        tuple(np.ascontiguousarray(np.asarray(W)[i].T) for W in nets.weights),
        tuple(np.array(np.asarray(b)[i, :, 0]) for b in nets.biases),
    )


def sharpened(pi: Network) -> Network:
    """Pi to the power of DRAWS: its logits times that."""
    (*weights, W), (*biases, b) = pi.weights, pi.biases
    return Network((*weights, DRAWS * W), (*biases, DRAWS * b))


# ---- the rows


def as_table(rows: NumberRows, inputs: Inputs, discount: float, spread: float) -> Table:
    """The rows as one table: state, next state, action, reward, discount."""
    n, width = len(rows), inputs.mean.size + len(inputs.sizes)
    cells = np.empty((n, 2 * width + 3), np.float32)
    for i in range(0, n, BLOCK):
        some = slice(i, min(i + BLOCK, n))
        cells[some, :width] = compact(rows.state, inputs, some)
        cells[some, width : 2 * width] = compact(rows.next_state, inputs, some)
    cells[:, -3], cells[:, -2], cells[:, -1] = rows.a, rows.r / spread, discount * rows.live
    cells[rows.ended, width : 2 * width] = 0.0  # of any value there, even none
    return Table(cells, inputs.mean.size, inputs.sizes, len(rows.actions))


def compact(states: States, inputs: Inputs, some: slice) -> Array:
    """The inputs of some states, with categories as places."""
    z = Inputs(inputs.mean, inputs.deviation, ())(States(states.numbers[some], states.categories[some]))
    return np.hstack([z, states.categories[some]])


def batch_of(cells: Traced, numbers: int, sizes: tuple[int, ...], actions: int) -> Batch:
    """Some rows of the table with categories and actions as indicators."""
    import jax.numpy as jnp

    columns, width = cells.T, numbers + len(sizes)

    def hot(places: Traced, size: int) -> Traced:
        return (places == jnp.arange(size)[:, None]).astype(cells.dtype)

    def expanded(state: Traced) -> Traced:
        return jnp.vstack([state[:numbers], *(hot(state[numbers + j], n) for j, n in enumerate(sizes))])

    x, x_next = expanded(columns[:width]), expanded(columns[width : 2 * width])
    return Batch(x, hot(columns[-3], actions), columns[-2], x_next, columns[-1])


# ---- the networks


def begin(
    rng: np.random.Generator,
    width: int,
    actions: int,
    centre: float,
    means: Array | float = 0.0,
    deviations: Array | float = 1.0,
) -> Training:
    """Five networks drawn at random (He et al., 2015), which first say the same of all states: Q = V = the mean.

    The draw is for inputs less their means, over their deviations. Made with NumPy: JAX would compile every small step
    of it.
    """
    import jax
    import optax

    shape = ((width, WIDTH), (WIDTH, WIDTH), (WIDTH, actions))
    scales = (np.sqrt(2.0 / width), np.sqrt(2.0 / WIDTH), 0.01)
    drawn = [scale * rng.standard_normal((5, *each)) for each, scale in zip(shape, scales, strict=True)]
    drawn[0] /= np.broadcast_to(deviations, width)[:, None]
    weights, biases = [W.swapaxes(1, 2) for W in drawn], [np.zeros((5, out, 1)) for _, out in shape]
    biases[0] -= (np.broadcast_to(means, width) @ drawn[0])[:, :, None]
    biases[-1][: V.stop] = centre

    def stack(which: slice) -> Stack:
        return Stack(*(tuple(jax.device_put(np.float32(x[which])) for x in parts) for parts in (weights, biases)))

    learned = stack(slice(None)), jax.device_put(np.float32(np.log(FIRST_TAU)))
    still, k = jax.tree.map(np.zeros_like, learned), jax.device_put(np.int32(0))  # of one type from the first step on
    return Training(learned, stack(Q), optax.ScaleByAdamState(k, still, still), k)


def typical(rows: NumberRows, inputs: Inputs) -> tuple[Array, Array]:
    """Means and deviations of the inputs: 0 and 1 of numbers, which are scaled already, and those of indicators.

    A label that is rare, such as a leg that touches the ground, makes a difference from the first step on, as a number
    does that is as far from its mean; no input is farther than about FARTHEST deviations.
    """
    columns = zip(rows.state.categories.T, inputs.sizes, strict=True)
    counts = [np.bincount(places[places >= 0], minlength=size) for places, size in columns]
    share = np.concatenate([*counts, np.zeros(0)]) / max(1, len(rows))
    numbers = inputs.mean.size
    deviations = np.maximum(np.sqrt(share * (1.0 - share)), 1.0 / FARTHEST)
    return np.r_[np.zeros(numbers), share], np.r_[np.ones(numbers), deviations]


def adam() -> optax.GradientTransformation:
    """The direction of Adam; how far to go is for `one_step`."""
    import optax

    return optax.scale_by_adam()


def part(nets: Stack, which: slice) -> Stack:
    """Some networks of a stack."""
    return Stack(tuple(W[which] for W in nets.weights), tuple(b[which] for b in nets.biases))


def forward(nets: Stack, x: Traced) -> Traced:
    """(networks, out, n) of inputs (in, n)."""
    import jax

    (W, *weights), (b, *biases) = nets
    y = (W.reshape(-1, len(x)) @ x).reshape(*W.shape[:2], -1) + b  # one product, since all networks have one input
    for W, b in zip(weights, biases, strict=True):
        y = W @ jax.nn.relu(y) + b
    return y


def conjugate(y: Traced) -> tuple[Traced, Traced]:
    """f*(y) and f*'(y) of the soft chi-square divergence."""
    import jax.numpy as jnp

    below = jnp.exp(jnp.minimum(y, 0.0))  # no overflow on the branch that is not taken
    return jnp.where(y < 0.0, below - 1.0, y + 0.5 * y**2), jnp.where(y < 0.0, below, 1.0 + y)


def losses(nets: Stack, log_tau: Traced, target: Stack, batch: Batch, eps: float) -> Losses:
    """The five losses of a batch."""
    import jax
    import jax.numpy as jnp

    still = jax.lax.stop_gradient
    out, tau = forward(nets, batch.x), jnp.exp(still(log_tau))
    q, v = (out[Q] * batch.a).sum(1), out[V][0, 0]
    qbar = (forward(target, batch.x) * batch.a).sum(1).min(0)
    v_next = forward(still(part(nets, V)), batch.x_next)[0, 0]
    f, w = conjugate((qbar - v) / tau)
    w = still(w)
    log_p = (jax.nn.log_softmax(out[PI:], axis=1) * batch.a).sum(1)
    D = 0.5 * ((w / w.mean() - 1.0) ** 2).mean()
    return Losses(
        V=(tau * f + v).mean(),
        Q=((q - batch.r - batch.alpha * v_next) ** 2).mean(axis=1).sum(),
        pi=-(jnp.minimum(w, LARGEST_WEIGHT) * log_p[0]).mean(),
        beta=-log_p[1].mean(),
        tau=log_tau * (eps - D),
    )


def allowed_divergence(actions: int) -> float:
    """Eps: the chi-square divergence at which a share 1/A + .2(1 - 1/A) of the rows counts."""
    share = 1.0 / actions + 0.2 * (1.0 - 1.0 / actions)
    return 0.5 * (1.0 / share - 1.0)


@lru_cache(maxsize=8)
def compiled(numbers: int, sizes: tuple[int, ...], actions: int) -> Callable[[Training, Array, int], Training]:
    """A chunk of steps, compiled: (training, cells (steps, rows, columns), steps in all) -> training."""
    import jax

    eps = allowed_divergence(actions)

    def step(training: Training, cells: Traced, steps: int) -> Training:
        return one_step(training, batch_of(cells, numbers, sizes, actions), steps, eps)

    def chunk(training: Training, drawn: Traced, steps: int) -> Training:
        return jax.lax.scan(lambda training, cells: (step(training, cells, steps), None), training, drawn)[0]

    return jax.jit(chunk)


def one_step(training: Training, batch: Batch, steps: int, eps: float) -> Training:
    """One step of Adam for all, with a step size that falls to nothing along a cosine."""
    import jax
    import jax.numpy as jnp

    def total(learned: tuple[Stack, Traced]) -> Traced:
        return sum(losses(*learned, training.target, batch, eps), start=jnp.zeros(()))

    gradient = jax.grad(total)(training.learned)
    direction, moments = adam().update(gradient, training.moments)
    step_size = STEP_SIZE * 0.5 * (1.0 + jnp.cos(jnp.pi * training.k / steps))
    learned = jax.tree.map(lambda x, d: x - step_size * d, training.learned, direction)
    target = jax.tree.map(lambda x, new: x + TARGET_RATE * (new - x), training.target, part(learned[0], Q))
    return Training(learned, target, moments, training.k + 1)
