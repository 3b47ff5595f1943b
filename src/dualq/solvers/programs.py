"""The paper's six linear programs, as sparse matrices, solved by HiGHS.

    name      program                                                                        the paper's equation
    primal    min eta'V     s.t. R + alpha P V <= E V                                        eq:DP-LP-form
    dual      max lambda'R  s.t. eta + alpha P'lambda = E'lambda,  lambda >= 0               eq:dual-LP
    Q-primal  min eta'V     s.t. Q <= E V,  alpha P V + R = Q                                eq:LP-form-Q-learning
    Q-dual    max mu'R      s.t. eta + alpha P'mu = E'lambda,  lambda = mu,  lambda >= 0     eq:dual-LP-form-Q-learning
    M-primal  min eta'V     s.t. Q <= E V,  alpha M P V + M R = M Q                          eq:LP-form-Q-learning2
    M-dual    max mu'M R    s.t. eta + alpha P'M mu = E'lambda,  M mu = lambda,  lambda >= 0 eq:dual-LP-form-Q-learning2

Below, the variables stand on the left of each row and the data on the right, turned so that the multiplier of a row is
the derivative of the optimum with respect to its right side and carries the paper's name: the rows of the primal forms
have the multipliers lambda and mu, those of the dual forms V and Q. So every program gives all that it speaks of.

    paper                     here
    E = 1_{|A|} (x) I_{|S|}   E, one row per available pair (s, a), a one at s
    P, R, M                   P, R, M, one row or entry per available pair, in the order of flatnonzero(mdp.available)
    eta                       eta

V has no bounds in these programs, so rewards may have any sign. `solve_lp` moves their middle to zero, for the sake of
HiGHS's tolerances, and moves V and Q back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import DualqError, ModelError
from dualq.model import MDP, Solution, checked_distribution

if TYPE_CHECKING:
    import highspy

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Program:
    """min or max objective'x  such that  row_lower <= rows x <= row_upper  and  x >= column_lower (0 or -inf each)."""

    minimise: bool
    objective: Array
    rows: sp.csc_array
    row_lower: Array
    row_upper: Array
    column_lower: Array
    variables: dict[str, slice]  # where each block stands in x
    multipliers: dict[str, slice]  # where each block stands among the rows


class Answer(NamedTuple):
    """What a program gave: variables and multipliers by their names in the paper, and how it was solved."""

    blocks: dict[str, Array]
    objective: float
    method: str
    iterations: int


# ---- the six programs


class _Model(NamedTuple):
    """The matrices of the paper, over the available pairs."""

    P: sp.csr_array
    E: sp.csr_array
    R: Array
    alpha: float


def _model(mdp: MDP) -> _Model:
    pairs = np.flatnonzero(mdp.available)
    state = pairs // mdp.num_actions
    E = sp.csr_array((np.ones(pairs.size), (np.arange(pairs.size), state)), shape=(pairs.size, mdp.num_states))
    P = mdp.transitions if pairs.size == mdp.available.size else mdp.transitions[pairs]
    return _Model(sp.csr_array(P), E, mdp.rewards.ravel()[pairs], mdp.discount)


def primal(mdp: MDP, eta: Array) -> Program:
    """min eta'V  s.t.  (E - alpha P) V >= R  [lambda]."""
    P, E, R, alpha = _model(mdp)
    return Program(
        minimise=True,
        objective=eta,
        rows=sp.csc_array(E - alpha * P),
        row_lower=R,
        row_upper=np.full(R.size, np.inf),
        column_lower=np.full(eta.size, -np.inf),
        variables=_blocks(V=eta.size),
        multipliers=_blocks(lambda_=R.size),
    )


def dual(mdp: MDP, eta: Array) -> Program:
    """max lambda'R  s.t.  (E - alpha P)' lambda = eta  [V],  lambda >= 0."""
    P, E, R, alpha = _model(mdp)
    return Program(
        minimise=False,
        objective=R,
        rows=sp.csc_array((E - alpha * P).T),
        row_lower=eta,
        row_upper=eta,
        column_lower=np.zeros(R.size),
        variables=_blocks(lambda_=R.size),
        multipliers=_blocks(V=eta.size),
    )


def q_primal(mdp: MDP, eta: Array) -> Program:
    """min eta'V  s.t.  E V - Q >= 0  [lambda],  Q - alpha P V = R  [mu]."""
    return m_primal(mdp, eta, mdp.available.astype(float))


def q_dual(mdp: MDP, eta: Array) -> Program:
    """max mu'R  s.t.  E'lambda - alpha P'mu = eta  [V],  mu - lambda = 0  [Q],  lambda >= 0."""
    return m_dual(mdp, eta, mdp.available.astype(float))


def m_primal(mdp: MDP, eta: Array, distribution: Array) -> Program:
    """min eta'V  s.t.  E V - Q >= 0  [lambda],  M Q - alpha M P V = M R  [mu]."""
    P, E, R, alpha = _model(mdp)
    M, I = _diagonal(mdp, distribution), sp.eye_array(R.size)  # noqa: E741 (the identity)
    return Program(
        minimise=True,
        objective=np.concatenate([np.zeros(R.size), eta]),
        rows=sp.csc_array(sp.block_array([[-I, E], [M, -alpha * (M @ P)]])),
        row_lower=np.concatenate([np.zeros(R.size), M @ R]),
        row_upper=np.concatenate([np.full(R.size, np.inf), M @ R]),
        column_lower=np.full(R.size + eta.size, -np.inf),
        variables=_blocks(Q=R.size, V=eta.size),
        multipliers=_blocks(lambda_=R.size, mu=R.size),
    )


def m_dual(mdp: MDP, eta: Array, distribution: Array) -> Program:
    """max mu'M R  s.t.  E'lambda - alpha P'M mu = eta  [V],  M mu - lambda = 0  [Q],  lambda >= 0."""
    P, E, R, alpha = _model(mdp)
    M, I = _diagonal(mdp, distribution), sp.eye_array(R.size)  # noqa: E741 (the identity)
    sides = np.concatenate([eta, np.zeros(R.size)])
    return Program(
        minimise=False,
        objective=np.concatenate([np.zeros(R.size), M @ R]),
        rows=sp.csc_array(sp.block_array([[E.T, -alpha * (P.T @ M)], [-I, M]])),
        row_lower=sides,
        row_upper=sides,
        column_lower=np.concatenate([np.zeros(R.size), np.full(R.size, -np.inf)]),
        variables=_blocks(lambda_=R.size, mu=R.size),
        multipliers=_blocks(V=eta.size, Q=R.size),
    )


def _diagonal(mdp: MDP, distribution: Array) -> sp.dia_array:
    return sp.diags_array(distribution[mdp.available])


def _blocks(**sizes: int) -> dict[str, slice]:
    ends = np.cumsum([0, *sizes.values()])
    return {name: slice(int(begin), int(end)) for name, begin, end in zip(sizes, ends[:-1], ends[1:], strict=True)}


WITHOUT_M: dict[str, Callable[[MDP, Array], Program]] = {
    "primal": primal,
    "dual": dual,
    "Q-primal": q_primal,
    "Q-dual": q_dual,
}
WITH_M: dict[str, Callable[[MDP, Array, Array], Program]] = {"M-primal": m_primal, "M-dual": m_dual}


# ---- HiGHS

OPTIONS: dict[str, str | float] = {
    "kkt_tolerance": 1e-10,  # the tightest that HiGHS takes
    "small_matrix_value": 1e-12,  # entries below are dropped; the default would drop probabilities of 1e-9
    # Presolve finds nothing to remove, and with it PDLP returned wrong multipliers for a maximisation (HiGHS 1.15.1).
    "presolve": "off",
}
METHODS: dict[str, dict[str, str | float]] = {
    "simplex": {"solver": "simplex"},
    "ipm": {"solver": "ipx", "run_crossover": "on"},
    "pdlp": {"solver": "pdlp", "kkt_tolerance": 1e-9},
}


def solve_program(program: Program, method: str | None = None) -> Answer:
    """Solve a program by "simplex", "ipm" or "pdlp" (None: by size); DualqError if HiGHS does not reach an optimum."""
    method = method or _fastest(program)
    if method not in METHODS:
        raise ModelError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    options = {**OPTIONS, **METHODS[method]}
    if method == "simplex":
        options["simplex_strategy"] = 1 if program.minimise else 4  # dual simplex, primal simplex: see _fastest
    import highspy  # loaded for a program: most commands solve none

    scaled = _scaled(program)
    highs = highspy.Highs()
    highs.silent()
    for option, value in options.items():
        if highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise DualqError(f"this version of HiGHS refuses the option {option}={value!r}; install a newer highspy")
    highs.passModel(_highs_lp(program, scaled))
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        reason = highs.modelStatusToString(status)
        raise DualqError(f"the linear program was not solved: HiGHS ({method}) ended with {reason!r}")

    solution, info = highs.getSolution(), highs.getInfo()
    x = np.asarray(solution.col_value) * scaled.x_unit
    y = np.asarray(solution.row_dual) * scaled.y_unit
    blocks = {name: x[place] for name, place in program.variables.items()}
    blocks |= {name: y[place] for name, place in program.multipliers.items()}
    counts = info.simplex_iteration_count, info.ipm_iteration_count, info.pdlp_iteration_count
    return Answer(blocks, float(program.objective @ x), method, sum(max(count, 0) for count in counts))


def _fastest(program: Program) -> str:
    """The method by size: the number of pairs, roughly.

    Measured on Garnet models, 5 actions, 8 successors, discount .99; seconds of CPU on one core, HiGHS 1.15.1 (primal
    and dual program; > means stopped unfinished):

        states                                   100          1000         3000         10000
        simplex: dual on primal, primal on dual  .02 / .02    4.5 / 2.1                   - / >295
        the other way round                      .04 / .05    20  / 27
        ipm with crossover                       .01 / .01    .64 / .45    6.3 / 7.6      - / 203
        ipm without                              .01 / .02    .61 / .50      - / 6.2    182 / -
        pdlp at 1e-9 (100: at 1e-8)              .45 / .60    8.5 / 3.0     17 / 34    >142 / 44

    V was right to 1e-8 relative wherever it was compared with policy iteration (up to 3,000 states). Crossover costs
    little and makes lambda right to 1e-11 where the interior point leaves 4e-8. Simplex, the most robust of them, has
    the small programs.
    """
    size = max(program.objective.size, program.row_lower.size)
    return "simplex" if size <= 500 else "ipm" if size <= 30_000 else "pdlp"


class _Scaled(NamedTuple):
    """The same program with rows, columns, right sides and objective of size one; x and y are in these units."""

    objective: Array
    rows: sp.csc_array
    row_lower: Array
    row_upper: Array
    x_unit: Array
    y_unit: Array


def _scaled(program: Program) -> _Scaled:
    """HiGHS's tolerances are absolute and it drops tiny entries, but M, eta and the rewards may be of any size."""
    largest = abs(program.rows).max(axis=1).toarray()
    row_unit = 1.0 / np.where(largest > 0.0, largest, 1.0)
    rows = sp.csc_array(sp.diags_array(row_unit) @ program.rows)
    column_unit = 1.0 / abs(rows).max(axis=0).toarray()
    rows = sp.csc_array(rows @ sp.diags_array(column_unit))
    rows.eliminate_zeros()
    lower, upper = program.row_lower * row_unit, program.row_upper * row_unit
    objective = program.objective * column_unit
    sides = np.abs(np.concatenate([lower, upper]))
    side = sides[np.isfinite(sides)].max(initial=0.0) or 1.0
    cost = np.abs(objective).max() or 1.0
    return _Scaled(objective / cost, rows, lower / side, upper / side, side * column_unit, cost * row_unit)


def _highs_lp(program: Program, scaled: _Scaled) -> highspy.HighsLp:
    import highspy

    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = scaled.row_lower.size, scaled.objective.size
    lp.sense_ = highspy.ObjSense.kMinimize if program.minimise else highspy.ObjSense.kMaximize
    lp.col_cost_ = scaled.objective
    lp.col_lower_, lp.col_upper_ = program.column_lower, np.full(scaled.objective.size, np.inf)
    lp.row_lower_, lp.row_upper_ = scaled.row_lower, scaled.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.num_row_, lp.a_matrix_.num_col_ = lp.num_row_, lp.num_col_
    lp.a_matrix_.start_ = np.asarray(scaled.rows.indptr, np.int32)
    lp.a_matrix_.index_ = np.asarray(scaled.rows.indices, np.int32)
    lp.a_matrix_.value_ = np.asarray(scaled.rows.data, np.float64)
    return lp


# ---- the solution in the user's words


def solve_lp(
    mdp: MDP,
    weights: ArrayLike | None = None,
    distribution: ArrayLike | None = None,
    program: str = "dual",
    method: str | None = None,
) -> Solution:
    """Solve one of the six programs. Q, V, occupancy and ratio are HiGHS's own, but for negative dust in lambda.

    weights        eta; the model's default if not given
    distribution   M[s, a]: needed by the M-programs; with the others it only makes the ratio M^-1 lambda
    program        "primal", "dual", "Q-primal", "Q-dual", "M-primal" or "M-dual"
    method         "simplex", "ipm" or "pdlp"; chosen by size if not given
    """
    eta = mdp.checked_weights(weights)
    M = checked_distribution(mdp, distribution)
    # HiGHS works to a part of the largest number it meets: a constant in all rewards would drown their differences.
    paid = mdp.rewards[mdp.available]
    middle = 0.5 * (paid.min() + paid.max())
    centred = mdp.moved(-middle)
    if program in WITHOUT_M:
        built = WITHOUT_M[program](centred, eta)
    elif program in WITH_M:
        if M is None:
            raise ModelError(f"the program {program!r} needs a distribution: M[s, a], positive at every available pair")
        built = WITH_M[program](centred, eta, M)
    else:
        raise ModelError(f"program is {program!r}; it must be one of {', '.join([*WITHOUT_M, *WITH_M])}")
    answer = solve_program(built, method)

    def on_pairs(values: Array, elsewhere: float) -> Array:
        array = np.full(mdp.rewards.shape, elsewhere)
        array[mdp.available] = values + 0.0  # -0.0 becomes 0.0
        return array

    blocks = answer.blocks
    V = blocks["V"] + middle / (1.0 - mdp.discount)
    occupancy = on_pairs(np.maximum(blocks["lambda_"], 0.0), 0.0)
    Q = on_pairs(blocks["Q"] + middle / (1.0 - mdp.discount), -np.inf) if "Q" in blocks else None
    # mu of a program is M^-1 lambda for that program's M: without a distribution the ratio is the occupancy.
    ratio = on_pairs(blocks["mu"], 0.0) if program in WITH_M or ("mu" in blocks and M is None) else None
    return Solution(
        mdp,
        V,
        Q=Q,
        occupancy=occupancy,
        ratio=ratio,
        weights=eta,
        distribution=M,
        error_bound=proven_error(mdp, V),
        method=f"{program} LP, {answer.method}",
        iterations=answer.iterations,
    )


def proven_error(mdp: MDP, V: Array) -> float:
    """|V - V*| <= max |T V - V| / (1 - alpha), T the Bellman operator; rounding in T V is allowed for."""
    residual = np.abs(mdp.q_values(V).max(axis=1) - V).max()
    longest = int(np.diff(mdp.indptr).max())
    rounding = (longest + 4) * np.finfo(float).eps * (np.abs(mdp.rewards).max() + np.abs(V).max())
    return float((residual + rounding) / (1.0 - mdp.discount))
