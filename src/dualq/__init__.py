"""dualq learns a better policy from the log you already have, and says how good it is.

Names load when they are first used, so that importing dualq costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualq._version import __version__

if TYPE_CHECKING:
    from dualq import errors, models, problems
    from dualq.algorithms.pdhg import PDHG
    from dualq.algorithms.primal_dual import PrimalDual
    from dualq.algorithms.q_learning import QLearning, linear, visits
    from dualq.algorithms.schedules import constant, inverse_sqrt
    from dualq.algorithms.spd_q import SPDQ
    from dualq.algorithms.spd_rl import SPDRL, SPDRLUniform
    from dualq.exact import solve
    from dualq.labels import Labels
    from dualq.logs.log import Log
    from dualq.logs.tables import read_log
    from dualq.mdp import MDP
    from dualq.policy import Policy
    from dualq.saddle import theory
    from dualq.saddle.gaps import duality_gap, pseudo_gap
    from dualq.simulator import Simulator, settling, wandering
    from dualq.solution import Solution
    from dualq.training import train

_MODULES = {
    "errors": "dualq.errors",
    "models": "dualq.models",
    "problems": "dualq.problems",
    "theory": "dualq.saddle.theory",
}
_HOME = {
    "Labels": "dualq.labels",
    "Log": "dualq.logs.log",
    "MDP": "dualq.mdp",
    "PDHG": "dualq.algorithms.pdhg",
    "Policy": "dualq.policy",
    "PrimalDual": "dualq.algorithms.primal_dual",
    "QLearning": "dualq.algorithms.q_learning",
    "SPDQ": "dualq.algorithms.spd_q",
    "SPDRL": "dualq.algorithms.spd_rl",
    "SPDRLUniform": "dualq.algorithms.spd_rl",
    "Simulator": "dualq.simulator",
    "Solution": "dualq.solution",
    "constant": "dualq.algorithms.schedules",
    "duality_gap": "dualq.saddle.gaps",
    "inverse_sqrt": "dualq.algorithms.schedules",
    "linear": "dualq.algorithms.q_learning",
    "pseudo_gap": "dualq.saddle.gaps",
    "read_log": "dualq.logs.tables",
    "settling": "dualq.simulator",
    "solve": "dualq.exact",
    "train": "dualq.training",
    "visits": "dualq.algorithms.q_learning",
    "wandering": "dualq.simulator",
}

__all__ = [
    "MDP",
    "PDHG",
    "SPDQ",
    "SPDRL",
    "Labels",
    "Log",
    "Policy",
    "PrimalDual",
    "QLearning",
    "SPDRLUniform",
    "Simulator",
    "Solution",
    "__version__",
    "constant",
    "duality_gap",
    "errors",
    "inverse_sqrt",
    "linear",
    "models",
    "problems",
    "pseudo_gap",
    "read_log",
    "settling",
    "solve",
    "theory",
    "train",
    "visits",
    "wandering",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dualq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
