"""dualq learns a better policy from the log you already have, and says how good it is.

Names load when they are first used, so that importing dualq costs nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dualq._version import __version__ as __version__
from dualq.base.faces import PublicModules, face

if TYPE_CHECKING:
    from dualq.base import DualqError as DualqError
    from dualq.base import InfeasibleError as InfeasibleError
    from dualq.base import Labels as Labels
    from dualq.base import LogError as LogError
    from dualq.base import ModelError as ModelError
    from dualq.base import errors as errors
    from dualq.logs import ArrayLog as ArrayLog
    from dualq.logs import Log as Log
    from dualq.logs import Look as Look
    from dualq.logs import counts_in_blocks as counts_in_blocks
    from dualq.logs import look as look
    from dualq.logs import read_log as read_log
    from dualq.model import MDP as MDP
    from dualq.model import FunctionPolicy as FunctionPolicy
    from dualq.model import Policy as Policy
    from dualq.model import Solution as Solution
    from dualq.model import TablePolicy as TablePolicy
    from dualq.model import limits as limits
    from dualq.model import models as models
    from dualq.offline import Check as Check
    from dualq.offline import Comparison as Comparison
    from dualq.offline import Evaluation as Evaluation
    from dualq.offline import Fit as Fit
    from dualq.offline import IterateFit as IterateFit
    from dualq.offline import Network as Network
    from dualq.offline import NumberEvaluation as NumberEvaluation
    from dualq.offline import NumberFit as NumberFit
    from dualq.offline import PolicyLearner as PolicyLearner
    from dualq.offline import Together as Together
    from dualq.offline import check as check
    from dualq.offline import compare as compare
    from dualq.offline import evaluate as evaluate
    from dualq.offline import export as export
    from dualq.offline import learn as learn
    from dualq.offline import learn_together as learn_together
    from dualq.offline import load as load
    from dualq.offline import update as update
    from dualq.online import PDHG as PDHG
    from dualq.online import SPDQ as SPDQ
    from dualq.online import SPDRL as SPDRL
    from dualq.online import Algorithm as Algorithm
    from dualq.online import NetworkedSPDQ as NetworkedSPDQ
    from dualq.online import PrimalDual as PrimalDual
    from dualq.online import QDLearning as QDLearning
    from dualq.online import QLearning as QLearning
    from dualq.online import Regret as Regret
    from dualq.online import SafeSPDQ as SafeSPDQ
    from dualq.online import SPDQLinear as SPDQLinear
    from dualq.online import SPDRLUniform as SPDRLUniform
    from dualq.online import constant as constant
    from dualq.online import inverse_sqrt as inverse_sqrt
    from dualq.online import linear as linear
    from dualq.online import train as train
    from dualq.online import visits as visits
    from dualq.paper import theory as theory
    from dualq.proof import Certificate as Certificate
    from dualq.proof import certificate_of as certificate_of
    from dualq.proof import cost_bounds as cost_bounds
    from dualq.solvers import duality_gap as duality_gap
    from dualq.solvers import pseudo_gap as pseudo_gap
    from dualq.solvers import solve as solve
    from dualq.worlds import Simulator as Simulator
    from dualq.worlds import play as play
    from dualq.worlds import problems as problems
    from dualq.worlds import settling as settling
    from dualq.worlds import wandering as wandering

__getattr__, __dir__, __all__ = face(__name__, __file__)
__all__ += ["__version__"]

sys.meta_path.append(
    PublicModules(
        {
            "dualq.errors": "dualq.base.errors",
            "dualq.limits": "dualq.model.limits",
            "dualq.models": "dualq.model.models",
            "dualq.problems": "dualq.worlds.problems",
            "dualq.theory": "dualq.paper.theory",
        }
    )
)
