"""Algorithms that read one row after another, all of one shape, and the one loop around them.

algorithm                    what the loop asks of every algorithm
spd_q, spd_q_limited         Algorithm 1, stochastic primal-dual Q-learning; the same with limits
spd_q_linear                 the same with linear features of the state
spd_rl, primal_dual          the earlier primal-dual method and its modification; the deterministic iteration
q_learning, pdhg             the standard; primal-dual hybrid gradient on the counts of the rows so far
qd_learning                  several agents with rewards of their own, and neighbours that compare
networked_spd_q              Algorithm 1 by several agents with rows of their own, and neighbours that mix
settings, distributions      what a user chooses for any primal-dual method; what is known of M_k
step_sizes                   step sizes, as numbers that kernels read
training                     the loop: chunks, progress, history, checkpoints; tasks, metrics and stopping rules for it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.online.algorithm import Algorithm as Algorithm
    from dualq.online.algorithm import ProblemT as ProblemT
    from dualq.online.algorithm import StateT as StateT
    from dualq.online.networked_spd_q import NetworkedSPDQ as NetworkedSPDQ
    from dualq.online.pdhg import PDHG as PDHG
    from dualq.online.primal_dual import PrimalDual as PrimalDual
    from dualq.online.q_learning import ByVisits as ByVisits
    from dualq.online.q_learning import QLearning as QLearning
    from dualq.online.q_learning import linear as linear
    from dualq.online.q_learning import visits as visits
    from dualq.online.qd_learning import QDLearning as QDLearning
    from dualq.online.spd_q import SPDQ as SPDQ
    from dualq.online.spd_q_limited import SafeSPDQ as SafeSPDQ
    from dualq.online.spd_q_linear import SPDQLinear as SPDQLinear
    from dualq.online.spd_rl import SPDRL as SPDRL
    from dualq.online.spd_rl import SPDRLUniform as SPDRLUniform
    from dualq.online.step_sizes import StepSize as StepSize
    from dualq.online.step_sizes import constant as constant
    from dualq.online.step_sizes import inverse_sqrt as inverse_sqrt
    from dualq.online.stopping import FIRST_LOOK as FIRST_LOOK
    from dualq.online.stopping import Regret as Regret
    from dualq.online.tasks import Task as Task
    from dualq.online.tasks import task_of as task_of
    from dualq.online.training import train as train

__getattr__, __dir__, __all__ = face(__name__, __file__)
