"""What the primal-dual methods share: the user's choices, checked once, the numbers of the kernels, small formulas.

w_k       averaging_weight    weight of iterate k in the averages
M-hat     frequencies         the estimate of M: how often each pair was seen
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, kernel
from dualq.model import MDP, Sets
from dualq.online.algorithm import Algorithm, ProblemT, StateT, Traits
from dualq.online.step_sizes import Schedule, as_step_size, inverse_sqrt, longest

Array = np.ndarray

STARTS = ("zeros", "random")


class Problem(NamedTuple):
    """What the kernels read and never change."""

    eta: Array  # (S,)
    available: Array  # (S, A)
    alpha: float
    shift: float  # added to every reward
    end_value: float  # V of having ended, in the paper's units
    value_bound: float  # sigma / (1 - alpha)
    occupancy_bound: float  # ||eta||_1 / (1 - alpha)
    ratio_bound: float  # ||eta||_1 / (zeta (1 - alpha))
    power: float  # of the averaging weights w_k = (k + 1)^power
    average_from: float  # step before which w_k is zero
    num_available: Array  # (S,) unsigned: how many actions each state has


@dataclass(frozen=True, eq=False)
class PrimalDualSettings(Algorithm[StateT, ProblemT], Generic[StateT, ProblemT]):
    """The choices that the primal-dual methods share.

    Parameters
    ----------
    step_size
        gamma_k: `inverse_sqrt(scale, offset)`, `constant(scale)`, or an array with one number per step
    weights
        eta: one per state, one for all, or None for reward_bound / |S| each
    zeta
        a lower bound on how often each pair is seen; the box of mu is ||eta||_1 / (zeta (1 - discount)). Ten times
        too small does no harm; too large excludes mu* and breaks convergence.
    start
        "zeros" (made feasible), "random" in the sets, or a mapping with any of the method's variables out of Q, V,
        occupancy and ratio
    average_power
        0 for the paper's plain average; p for weights (k + 1)^p, which forget the start sooner
    average_from
        step from which to average: 0 for all, as the paper does
    """

    step_size: Schedule | ArrayLike = inverse_sqrt(1.0)
    weights: ArrayLike | None = None
    zeta: float | None = None
    start: str | Mapping[str, ArrayLike] = "zeros"
    average_power: float = 0.0
    average_from: int = 0

    def __post_init__(self):
        object.__setattr__(self, "step_size", as_step_size(self.step_size))
        if self.zeta is not None and not 0.0 < self.zeta <= 1.0:
            raise ModelError(
                f"zeta is {self.zeta:g}; it must be above 0 and at most 1, the least probability of a pair"
            )
        if not 0.0 <= self.average_power <= 100.0:
            raise ModelError(f"average_power is {self.average_power:g}; it must be from 0 to 100")
        if not self.average_from >= 0:
            raise ModelError(f"average_from is {self.average_from}; it must not be negative")
        if not isinstance(self.start, Mapping) and not (isinstance(self.start, str) and self.start in STARTS):
            right = "'zeros', 'random', or a mapping of Q, V, occupancy, ratio"
            raise ModelError(f"start is {self.start!r}; it must be {right}")

    @property
    def schedule(self) -> Schedule:
        """gamma_k as it was checked."""
        return as_step_size(self.step_size)

    def traits(self) -> Traits:
        """The sets need the range of the rewards, and zeta."""
        return Traits(
            needs_bounds=True,
            has_dual=True,
            weights=self.weights,
            zeta=self.zeta,
            longest=longest(self.schedule),
        )

    def numbers(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel. `mdp` need only know its sizes, rewards' range and discount."""
        sets = self.sets(mdp, zeta)
        return Problem(
            eta=sets.eta,
            available=np.ascontiguousarray(mdp.available),
            alpha=mdp.discount,
            shift=mdp.reward_shift,
            end_value=mdp.value_shift,
            value_bound=sets.value_bound,
            occupancy_bound=sets.occupancy_bound,
            ratio_bound=sets.ratio_bound,
            power=float(self.average_power),
            average_from=float(self.average_from),
            num_available=mdp.available.sum(axis=1, dtype=np.uint32),
        )

    def sets(self, mdp: MDP, zeta: float) -> Sets:
        """The compact sets; `zeta` counts where the user gave none."""
        return Sets.of(mdp, self.weights, self.zeta or zeta)

    def start_values(self, mdp: MDP, seed: int, sets: Sets, names: str) -> tuple[Array, ...]:
        """The named variables at the start, in the paper's units and in their sets."""
        variables = {
            "Q": (sets.value_bound, sets.project_Q),
            "V": (sets.value_bound, sets.project_V),
            "occupancy": (sets.occupancy_bound, sets.project_lambda),
            "ratio": (sets.ratio_bound, sets.project_mu),
        }
        values = {name: np.zeros(mdp.rewards.shape[: 1 if name == "V" else 2]) for name in names.split()}
        if isinstance(self.start, str) and self.start == "random":
            rng = np.random.default_rng([seed, 2])
            values = {name: variables[name][0] * rng.random(value.shape) for name, value in values.items()}
        elif isinstance(self.start, Mapping):
            for name, value in self.start.items():
                if name not in values:
                    raise ModelError(f"start has {name!r}; this method starts from {', '.join(values)}")
                if np.shape(value) != values[name].shape:
                    shape = values[name].shape
                    raise ModelError(f"{name} of the start has shape {np.shape(value)}; it must be {shape}")
                if not np.isfinite(value).all():
                    raise ModelError(f"{name} of the start has values that are not finite numbers")
                values[name] = np.array(value, dtype=float) + (mdp.value_shift if name in ("Q", "V") else 0.0)
        if "Q" in values:
            values["Q"] = np.where(mdp.available, values["Q"], 0.0)
        return tuple(np.ascontiguousarray(variables[name][1](value)) for name, value in values.items())


@kernel
def averaging_weight(k, average_from, power):
    """w_k, the weight of iterate k in the averages."""
    if k < average_from:
        return 0.0
    return 1.0 if power == 0.0 else (k + 1.0) ** power


@kernel
def clip(x, top):
    """Project onto [0, top]."""
    return min(max(x, 0.0), top)
