"""Problems whose truth is known, and where rows may come from.

simulator, walks   an MDP, who behaves in it, how rewards are drawn; the kernels that draw
mixing             how often a simulator visits every pair: zeta, and how fast that settles
streams            every source of rows by name: a simulator, arrays, a Gymnasium environment
problems           the paper's two, Garnet, chain, maze, queue, inventory, Gymnasium's tables
continuous         problems with numbers in the state; their truth by simulation, or on a fine grid (gridded)
sample_log         the log that ships with dualq, and the script that simulated it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.worlds import continuous as continuous
    from dualq.worlds import gridded as gridded
    from dualq.worlds import problems as problems
    from dualq.worlds import sample_log as sample_log
    from dualq.worlds.mixing import Example3 as Example3
    from dualq.worlds.mixing import beta as beta
    from dualq.worlds.mixing import beta_printed as beta_printed
    from dualq.worlds.mixing import example_3 as example_3
    from dualq.worlds.mixing import least_beta_0 as least_beta_0
    from dualq.worlds.mixing import movement as movement
    from dualq.worlds.mixing import positive_zeta as positive_zeta
    from dualq.worlds.mixing import zeta_of as zeta_of
    from dualq.worlds.simulator import Simulated as Simulated
    from dualq.worlds.simulator import Simulator as Simulator
    from dualq.worlds.simulator import settling as settling
    from dualq.worlds.simulator import wandering as wandering
    from dualq.worlds.streams import Behaviour as Behaviour
    from dualq.worlds.streams import Counted as Counted
    from dualq.worlds.streams import Environment as Environment
    from dualq.worlds.streams import Played as Played
    from dualq.worlds.streams import UniformPairs as UniformPairs
    from dualq.worlds.streams import play as play
    from dualq.worlds.walks import behaviour_weight as behaviour_weight
    from dualq.worlds.walks import move_on as move_on

__getattr__, __dir__, __all__ = face(__name__, __file__)
