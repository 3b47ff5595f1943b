"""dualq learns a better policy from the log you already have, and says how good it is.

Names load when they are first used, so that importing dualq costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualq._version import __version__

if TYPE_CHECKING:
    from dualq import errors, problems
    from dualq.exact import solve
    from dualq.labels import Labels
    from dualq.mdp import MDP
    from dualq.policy import Policy
    from dualq.saddle.gaps import duality_gap, pseudo_gap
    from dualq.simulator import Simulator
    from dualq.solution import Solution

_HOME = {
    "errors": "dualq.errors",
    "problems": "dualq.problems",
    "Labels": "dualq.labels",
    "MDP": "dualq.mdp",
    "Policy": "dualq.policy",
    "duality_gap": "dualq.saddle.gaps",
    "pseudo_gap": "dualq.saddle.gaps",
    "Simulator": "dualq.simulator",
    "Solution": "dualq.solution",
    "solve": "dualq.exact",
}

__all__ = [  # noqa: RUF022 (modules first)
    "errors",
    "problems",
    "Labels",
    "MDP",
    "Policy",
    "Simulator",
    "Solution",
    "__version__",
    "duality_gap",
    "pseudo_gap",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dualq' has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if module.__name__ == f"dualq.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
