"""dualq learns a better policy from the log you already have, and says how good it is.

Names load when they are first used, so that importing dualq costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualq._version import __version__

if TYPE_CHECKING:
    from dualq import errors, limits, models, problems
    from dualq.algorithms.pdhg import PDHG
    from dualq.algorithms.primal_dual import PrimalDual
    from dualq.algorithms.q_learning import QLearning, linear, visits
    from dualq.algorithms.safe import SafeSPDQ
    from dualq.algorithms.schedules import constant, inverse_sqrt
    from dualq.algorithms.spd_q import SPDQ
    from dualq.algorithms.spd_rl import SPDRL, SPDRLUniform
    from dualq.certificate import Certificate, certificate_of, cost_bounds
    from dualq.errors import DualqError, InfeasibleError, LogError, ModelError
    from dualq.exact import solve
    from dualq.fit import Fit, load
    from dualq.labels import Labels
    from dualq.learner import PolicyLearner
    from dualq.learning import learn
    from dualq.logs.blocks import counts_in_blocks
    from dualq.logs.log import Log
    from dualq.logs.look import Look, look
    from dualq.logs.tables import read_log
    from dualq.mdp import MDP
    from dualq.policy import Policy
    from dualq.saddle import theory
    from dualq.saddle.gaps import duality_gap, pseudo_gap
    from dualq.simulator import Simulator, settling, wandering
    from dualq.solution import Solution
    from dualq.stopping import Regret
    from dualq.streams import play
    from dualq.training import train

_MODULES = {
    "errors": "dualq.errors",
    "limits": "dualq.limits",
    "models": "dualq.models",
    "problems": "dualq.problems",
    "theory": "dualq.saddle.theory",
}
_HOME = {
    "Certificate": "dualq.certificate",
    "DualqError": "dualq.errors",
    "Fit": "dualq.fit",
    "InfeasibleError": "dualq.errors",
    "Labels": "dualq.labels",
    "Log": "dualq.logs.log",
    "LogError": "dualq.errors",
    "Look": "dualq.logs.look",
    "MDP": "dualq.mdp",
    "ModelError": "dualq.errors",
    "PDHG": "dualq.algorithms.pdhg",
    "Policy": "dualq.policy",
    "PolicyLearner": "dualq.learner",
    "PrimalDual": "dualq.algorithms.primal_dual",
    "QLearning": "dualq.algorithms.q_learning",
    "Regret": "dualq.stopping",
    "SPDQ": "dualq.algorithms.spd_q",
    "SPDRL": "dualq.algorithms.spd_rl",
    "SPDRLUniform": "dualq.algorithms.spd_rl",
    "SafeSPDQ": "dualq.algorithms.safe",
    "Simulator": "dualq.simulator",
    "Solution": "dualq.solution",
    "certificate_of": "dualq.certificate",
    "constant": "dualq.algorithms.schedules",
    "cost_bounds": "dualq.certificate",
    "counts_in_blocks": "dualq.logs.blocks",
    "duality_gap": "dualq.saddle.gaps",
    "inverse_sqrt": "dualq.algorithms.schedules",
    "learn": "dualq.learning",
    "linear": "dualq.algorithms.q_learning",
    "load": "dualq.fit",
    "look": "dualq.logs.look",
    "play": "dualq.streams",
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
    "Certificate",
    "DualqError",
    "Fit",
    "InfeasibleError",
    "Labels",
    "Log",
    "LogError",
    "Look",
    "ModelError",
    "Policy",
    "PolicyLearner",
    "PrimalDual",
    "QLearning",
    "Regret",
    "SPDRLUniform",
    "SafeSPDQ",
    "Simulator",
    "Solution",
    "__version__",
    "certificate_of",
    "constant",
    "cost_bounds",
    "counts_in_blocks",
    "duality_gap",
    "errors",
    "inverse_sqrt",
    "learn",
    "limits",
    "linear",
    "load",
    "look",
    "models",
    "play",
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
