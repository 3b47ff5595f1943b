"""Exact answers for a known model: `solve` chooses the fastest method; each method is one file.

exact        solve: the dictionary of methods
dynamic      modified and Krylov policy iteration
pdhg         restarted primal-dual hybrid gradient, on the bilinear form of the saddle problem (bilinear); on counts
             that grow (counted_pdhg)
programs     the paper's linear programs and their duals, by HiGHS
gaps         how far a point is from the saddle: the true gap and the paper's pseudo gap
limited      the same with limits: the program, column generation (Dantzig-Wolfe), PDHG with prices
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.solvers import counted_pdhg as counted_pdhg
    from dualq.solvers.dynamic import solve_dynamic as solve_dynamic
    from dualq.solvers.exact import solve as solve
    from dualq.solvers.gaps import duality_gap as duality_gap
    from dualq.solvers.gaps import pseudo_gap as pseudo_gap
    from dualq.solvers.limited.program import LimitedSolution as LimitedSolution
    from dualq.solvers.limited.program import least_shift as least_shift
    from dualq.solvers.limited.program import most_room as most_room

__getattr__, __dir__, __all__ = face(__name__, __file__)
