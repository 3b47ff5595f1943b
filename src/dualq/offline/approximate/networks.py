"""Small neural networks as arrays, and the rules made of them; NumPy only.

    network       x -> W3' relu(W2' relu(W1' x + b1) + b2) + b3
    supported     argmax_a Q(s,a) among the actions with beta(a|s) >= 3%, or the most probable one
    tilted        argmax_a log beta(a|s) + Q(s,a)/tau: what was done, tilted to what is worth more
    softmax       a ~ pi(.|s): the dual policy, or the clone of what was done

Q is the mean of two opinions. In training the lower of them counts, against values that are high by luck; among the
actions of one state that error is about the same for all, and the mean has less noise to choose by.
What is learned with JAX (neural.py) is asked without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualq.base import States
from dualq.offline.approximate.inputs import Inputs

Array = np.ndarray

RARE = 0.03  # an action that is done less often than this in a state is not supported there
BLOCK = 65_536  # rows at once


@dataclass(frozen=True, eq=False)
class Network:
    """A multilayer perceptron; the layers that are not the last end in max(0, .)."""

    weights: tuple[Array, ...]  # (in, out) each
    biases: tuple[Array, ...]  # (out,) each

    def __call__(self, x: Array) -> Array:
        """(n, out) of inputs (n, in), some rows at a time: what is in between is wider than what is asked."""
        return np.vstack([self._of(x[i : i + BLOCK]) for i in range(0, max(1, len(x)), BLOCK)])

    def _of(self, x: Array) -> Array:
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ W + b, 0.0)
        return x @ self.weights[-1] + self.biases[-1]


@dataclass(frozen=True, eq=False)
class SoftmaxRule:
    """Actions drawn with the probabilities of a network."""

    inputs: Inputs
    network: Network

    def __call__(self, states: States) -> Array:
        """(n, A) probabilities."""
        return softmax(self.network(self.inputs(states)))


@dataclass(frozen=True, eq=False)
class SupportedRule:
    """The action of the largest value among those that the log supports."""

    inputs: Inputs
    q: tuple[Network, Network]
    clone: Network
    scale: float  # what one unit of the networks' values is in rewards
    rare: float = RARE

    def values(self, states: States) -> Array:
        """(n, A) what each action is worth in discounted rewards, less tau times the distance from what was done."""
        return self.scale * mean(self.q, self.inputs(states))

    def __call__(self, states: States) -> Array:
        """(n, A) probabilities: one of them is 1."""
        x = self.inputs(states)
        beta = softmax(self.clone(x))
        supported = beta >= np.minimum(self.rare, beta.max(axis=1, keepdims=True))
        return best(np.where(supported, mean(self.q, x), -np.inf))


@dataclass(frozen=True, eq=False)
class TiltedRule:
    """The action that is most probable once what was done is tilted by what it is worth."""

    inputs: Inputs
    q: tuple[Network, Network]
    clone: Network
    tau: float  # the temperature, in units of the networks' values

    def __call__(self, states: States) -> Array:
        """(n, A) probabilities: one of them is 1."""
        x = self.inputs(states)
        return best(self.clone(x) + mean(self.q, x) / self.tau)  # logits are log beta up to a term of the state


def mean(q: tuple[Network, Network], x: Array) -> Array:
    """(n, A) the mean of two opinions on each action."""
    return 0.5 * (q[0](x) + q[1](x))


def softmax(logits: Array) -> Array:
    """(n, A) probabilities from logits."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def best(scores: Array) -> Array:
    """(n, A) 1 at the largest score of each row, the first of them."""
    return np.eye(scores.shape[1])[scores.argmax(axis=1)]
