"""Every constant and bound of the paper's lemmas, propositions and theorems: as printed, and as corrected.

Corrected means: what the paper's own proof gives when its slips are put right, and nothing sharper. A constant that is
merely loose stays as it is. With h = ||eta||_1, h_min = min_s eta(s), n = |S||A|, u = 1 - alpha, q = sqrt(26),
gamma_k = gamma_0/sqrt(k+1), beta_k = beta_0/(k+1); [] is printed [] corrected, one entry where they agree:

lemma:bound-of-solutions    ||Q*_a||_inf <= ||V*||_inf <= sigma/u,   ||Q*_a||_2 <= ||V*||_2 <= sqrt|S| sigma/u,
                            ||lambda*||_1 <= h/u (it is equal),      ||mu*||_1 <= h/(zeta u)
lemma:K1-K2                 K1 = sqrt13 n h/(zeta u),   K2 = sqrt13 n sigma/u
    2+3 squares of n lambda, 2+3 of mu and 3 of |S| eta make 13; 2+2 of n Q, n V, and 3 alpha^2 + 3 u^2 + 3 make 10.
the two sums                sum_{k=0}^{T-1} gamma_k <= [ 1 ] [ 2 ] gamma_0 sqrt T,
                            sum_{k=1}^{T-1} beta_{k-1}/gamma_{k-1} <= [ 1 ] [ 2 ] beta_0/gamma_0 sqrt T
    The integral of t^(-1/2) over [0, T] is 2 sqrt T. T = 4 has 1 + .71 + .58 + .5 > 2: the printed sum is false.
lemma:Phi-bounds            Phi_1 <= [ 2 sigma^2 |S| ] [ 2 sigma^2 |S|(|A|+1) ] / (u^2 gamma_{T-1})
    x = (Q, V) has |S|(|A|+1) entries in [0, sigma/u], not |S|. (So ||x - x*||^2 <= |S|(|A|+1) sigma^2/u^2 without the
    factor 4 of the proof, and the printed bound is true after all where |A| <= 3.)
                            Phi_2 <= 4 h^2/(zeta^4 u^2 gamma_{T-1}) + 2 h^2/(zeta^3 u^2) sum beta_{k-1}/gamma_{k-1}
    The proof gives the iterates the 1-norm bound of y*, ||y_k||_2 <= h/(zeta u); what holds is sqrt(2n) times that.
    The result survives: zeta <= 1/n, so 1 + sqrt(2n) zeta <= 1 + sqrt(2/n), whose square is <= 4 and which itself is
    <= 2 for n >= 2 (for n = 1 the factor 1/2 that the proof loses in the first term, and ||mu*||_2 = h/u, make up).
proposition:duality-bound   D <= C0/sqrt T + G_T/T,
                            C0 = [ 2 sigma^2 zeta^4 |S| + 4 h^2 + 2 zeta h^2 beta_0 ]
                                 [ 2 sigma^2 zeta^4 |S|(|A|+1) + 4 h^2 + 4 zeta h^2 beta_0 ] / (zeta^4 u^2 gamma_0)
                               + gamma_0 [ 13/2 ] [ 13 ] n^2 (h^2 + sigma^2)/(zeta^2 u^2)
    From the two sums and Phi_1.
lemma:bound1                G_{T+1} - G_T <= b,
                            b = ([ 13 gamma_0 h ] [ 13 gamma_0 h^2 ] + 13 gamma_0 zeta^2 sigma^2 + 16 q sigma zeta h)/2
                                n^2/(zeta^2 u^2)
    gamma_0 K1^2 holds h^2. (The printed b is true all the same: a projected step is no longer than its set is wide,
    so that ||x_{k+1} - x_k||^2 <= gamma K1 width, and 5 q sigma zeta h n^2/(zeta^2 u^2) is a bound already.)
lemma:bound2                <G>_T/T <= a,
                            a = ( 13 gamma_0 h^2 + [ gamma_0 ] [ 1 ] 4 q sigma zeta h + 13 gamma_0 zeta^2 sigma^2
                                + 4 q sigma h )^2 n^4 / (4 zeta^4 u^4)
    2 gamma_k K1 ||x_k - x*||_2 has one gamma_k, which stands outside. With gamma_0 >= 1 the printed a is larger.
lemma:Bernstein-inequality  P[ G_T/T >= x ] <= exp( - T x^2 / (2 (a + b x/3)) )
    Stated for x <= b; beyond b the event is impossible, since no difference exceeds b: nothing needs checking.
proof of theorem 1          D <= eps with probability 1 - delta  if  T >= max(Psi1, Psi2),   ln(1/delta) > 1,
                            Psi1 = 8 (a + b eps/6)/eps^2 ln(1/delta),   Psi2 = 4 C0^2/eps^2 ln(1/delta)
    Both halves get eps/2: Bernstein at x = eps/2, and C0/sqrt T <= eps/2.
theorem 1                   eta = sigma/|S|, so h = sigma:   T1 = kappa [ sigma^2 ] [ sigma^4 ] n^4/(zeta^4 u^4)
                            ln(1/delta)/eps^2,   kappa = max(kappa1, kappa2)
    4 C0^2 and 8 a have sigma^4; the text below the theorem has it too.
                            kappa1 = ( (12 + [ 4 ] [ 8 ] beta_0)/(zeta^2 n^2 gamma_0) + [ 26 ] [ 52 ] gamma_0 )^2
    sqrt kappa1 is 2 C0 zeta^2 u^2/(sigma^2 n^2) with zeta <= 1. The 12 = 4 + 8 stays: zeta^4 |S|(|A|+1) <= 1 (n >= 2).
                            kappa2 = [ (2184 + 416 q) gamma_0^2 + (1066 + 416 q) gamma_0 + 832 + 16 q ]
                                     [ 1352 gamma_0^2 + (832 q + 52/3) gamma_0 + 3328 + 32/3 q ]
    8 a + 4/3 b with zeta <= 1 is 2 (26 gamma_0 + 8 q)^2 + 4/3 (13 gamma_0 + 8 q). (With the printed a it would be
    2 (26 gamma_0 + 4 q gamma_0 + 4 q)^2 + the same: 1681 1/3 where 1066 is printed, 32/3 q where 16 q is.)
    That b is counted in units of n^4 sigma^4/(zeta^4 u^4) needs n sigma >= zeta u, which the paper does not say.
theorem 2                   ||V* - V^pi||_inf <= D/(h_min u) for the dual policy pi, so eps becomes h_min u eps:
                            T2 = kappa sigma^2 |S|^6 |A|^4/(zeta^4 u^6) ln(1/delta)/eps^2
    sigma^4 over (sigma/|S|)^2 is sigma^2 |S|^2: right as printed, if sigma u eps/|S| < 1.

Example 2 (ex:ex2)          beta_k = zeta^-2 max_s [ v_{k+1}(s) - v_k(s) ] [ |v_{k+1}(s) - v_k(s)| ]
    ||M_k^-1 - M_{k+1}^-1||_2 is a largest absolute value. For |S| = 2 the two are the same.
Example 3 (proposition:ex3) beta_k <= c |lambda_2|^k <= c d/(k+1),   beta_0 = c d, with v_0 = sum_j c_j u_j,
                            c = zeta^-2 max_s sum_{j>=2} |c_j (lambda_j - 1) u_j(s)|,
                            d = |lambda_2|^-k*,   k* = max(0, ceil( (2 ln|lambda_2| + 2)/(ln|lambda_2|)^2 ))
    lambda_j, u_j: eigenvalues and eigenvectors of P_theta' (P_theta' = U Sigma U^-1; printed without the transpose).
    Right, but d grows like exp(2/(1 - |lambda_2|)) in slow chains, where max_k (k+1)|lambda_2|^k is about
    1/(e (1 - |lambda_2|)).

The assumptions behind all of it: tau_k(s, a) >= zeta > 0 at every k (assump:time-varying-distribution), and (s_k, a_k)
drawn from tau_k independently of the past; a trajectory is not. The iterate relations hold for x in X and y in Y only
(printed: for any); y = (lambda*, M_k^-1 lambda*), where they are used, is in Y because tau_k >= zeta.
Pairs that do not exist in a model count in n = |S||A| all the same, which only makes the bounds larger.

    paper      here            public
    sigma      sigma           mdp.reward_bound
    alpha      alpha           mdp.discount
    eta        h, h_min        weights
    gamma_0    gamma_0         step_scale
    beta_0     beta_0          beta_0
    zeta       zeta            zeta
    eps        epsilon         epsilon
    delta      delta           delta

Below, `f` is the corrected and `f_printed` the printed form; where there is only `f`, they agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, door
from dualq.model import MDP
from dualq.worlds import Example3 as Example3
from dualq.worlds import Simulator, positive_zeta
from dualq.worlds import beta as beta
from dualq.worlds import beta_printed as beta_printed
from dualq.worlds import example_3 as example_3
from dualq.worlds import least_beta_0 as least_beta_0
from dualq.worlds import movement as movement
from dualq.worlds import zeta_of as zeta_of

Array = np.ndarray

q = math.sqrt(26.0)


@dataclass(frozen=True)
class Numbers:
    """All that the bounds depend on, in the paper's symbols."""

    S: int
    A: int
    sigma: float
    alpha: float
    h: float  # ||eta||_1
    h_min: float  # min_s eta(s)
    zeta: float
    gamma_0: float
    beta_0: float
    epsilon: float
    delta: float

    @property
    def n(self) -> int:
        """|S||A|."""
        return self.S * self.A

    @property
    def u(self) -> float:
        """1 - alpha."""
        return 1.0 - self.alpha


# ---- lemma:bound-of-solutions


def value_max(m: Numbers) -> float:
    """||Q*_a||_inf <= ||V*||_inf <= sigma/(1 - alpha)."""
    return m.sigma / m.u


def value_norm(m: Numbers) -> float:
    """||Q*_a||_2 <= ||V*||_2 <= sqrt|S| sigma/(1 - alpha)."""
    return math.sqrt(m.S) * m.sigma / m.u


def occupancy_sum(m: Numbers) -> float:
    """||lambda*||_inf <= ||lambda*||_2 <= ||lambda*||_1 <= ||eta||_1/(1 - alpha)."""
    return m.h / m.u


def ratio_sum(m: Numbers) -> float:
    """||mu*||_inf <= ||mu*||_2 <= ||mu*||_1 <= ||eta||_1/(zeta (1 - alpha))."""
    return m.h / (m.zeta * m.u)


# ---- lemma:K1-K2


def K1(m: Numbers) -> float:
    """||grad_x L_{M_k} + noise||_2 <= sqrt13 |S||A| ||eta||_1/(zeta (1 - alpha))."""
    return math.sqrt(13.0) * m.n * m.h / (m.zeta * m.u)


def K2(m: Numbers) -> float:
    """||grad_y L_{M_k} + noise||_2 <= sqrt13 |S||A| sigma/(1 - alpha)."""
    return math.sqrt(13.0) * m.n * m.sigma / m.u


# ---- the two sums in the proof of proposition:duality-bound


def step_sum(m: Numbers, T: int) -> float:
    """sum_{k=0}^{T-1} gamma_k <= 2 gamma_0 sqrt T."""
    return 2.0 * m.gamma_0 * math.sqrt(T)


def step_sum_printed(m: Numbers, T: int) -> float:
    """Gamma_0 sqrt T, which is too small from T = 2 on."""
    return m.gamma_0 * math.sqrt(T)


def beta_sum(m: Numbers, T: int) -> float:
    """sum_{k=1}^{T-1} beta_{k-1}/gamma_{k-1} <= 2 beta_0/gamma_0 sqrt T."""
    return 2.0 * m.beta_0 / m.gamma_0 * math.sqrt(T)


def beta_sum_printed(m: Numbers, T: int) -> float:
    """beta_0/gamma_0 sqrt T, which is too small from T = 4 on."""
    return m.beta_0 / m.gamma_0 * math.sqrt(T)


# ---- lemma:Phi-bounds, with gamma_{T-1} = gamma_0/sqrt T and the sums above


def Phi1(m: Numbers, T: int) -> float:
    """Phi_1(x*) <= 2 sigma^2 |S|(|A|+1)/(1 - alpha)^2 1/gamma_{T-1}."""
    return 2.0 * m.sigma**2 * m.S * (m.A + 1) / m.u**2 * math.sqrt(T) / m.gamma_0


def Phi1_printed(m: Numbers, T: int) -> float:
    """2 sigma^2 |S|/(1 - alpha)^2 1/gamma_{T-1}."""
    return 2.0 * m.sigma**2 * m.S / m.u**2 * math.sqrt(T) / m.gamma_0


def Phi2(m: Numbers, T: int) -> float:
    """Phi_2(y*) <= 4 h^2/(zeta^4 u^2) 1/gamma_{T-1} + 2 h^2/(zeta^3 u^2) sum_{k=1}^{T-1} beta_{k-1}/gamma_{k-1}."""
    return _Phi2(m, T, beta_sum(m, T))


def Phi2_printed(m: Numbers, T: int) -> float:
    """The same, with the sum as printed."""
    return _Phi2(m, T, beta_sum_printed(m, T))


def _Phi2(m: Numbers, T: int, betas: float) -> float:
    still = 4.0 * m.h**2 / (m.zeta**4 * m.u**2) * math.sqrt(T) / m.gamma_0
    return still + 2.0 * m.h**2 / (m.zeta**3 * m.u**2) * betas


# ---- proposition:duality-bound


def C0(m: Numbers) -> float:
    """D <= C0/sqrt T + G_T/T."""
    start = 2.0 * m.sigma**2 * m.zeta**4 * m.S * (m.A + 1) + 4.0 * m.h**2 + 4.0 * m.zeta * m.h**2 * m.beta_0
    noise = 13.0 * m.n**2 * (m.h**2 + m.sigma**2) / (m.zeta**2 * m.u**2)
    return start / (m.zeta**4 * m.u**2 * m.gamma_0) + m.gamma_0 * noise


def C0_printed(m: Numbers) -> float:
    """As printed: without |A|+1, and with the two sums too small by 2."""
    start = 2.0 * m.sigma**2 * m.zeta**4 * m.S + 4.0 * m.h**2 + 2.0 * m.zeta * m.h**2 * m.beta_0
    noise = 13.0 / 2.0 * m.n**2 * (m.h**2 + m.sigma**2) / (m.zeta**2 * m.u**2)
    return start / (m.zeta**4 * m.u**2 * m.gamma_0) + m.gamma_0 * noise


# ---- lemma:bound1 and lemma:bound2


def b(m: Numbers) -> float:
    """G_{T+1} - G_T <= b."""
    return _b(m, 13.0 * m.gamma_0 * m.h**2)


def b_printed(m: Numbers) -> float:
    """As printed: ||eta||_1 not squared in the first term."""
    return _b(m, 13.0 * m.gamma_0 * m.h)


def _b(m: Numbers, first: float) -> float:
    bracket = first + 13.0 * m.gamma_0 * m.zeta**2 * m.sigma**2 + 16.0 * q * m.sigma * m.zeta * m.h
    return bracket / 2.0 * m.n**2 / (m.zeta**2 * m.u**2)


def a(m: Numbers) -> float:
    """<G>_T/T <= a."""
    return _a(m, 4.0 * q * m.sigma * m.zeta * m.h)


def a_printed(m: Numbers) -> float:
    """As printed: gamma_0 on a term that has none."""
    return _a(m, m.gamma_0 * 4.0 * q * m.sigma * m.zeta * m.h)


def _a(m: Numbers, second: float) -> float:
    bracket = 13.0 * m.gamma_0 * (m.h**2 + m.zeta**2 * m.sigma**2) + second + 4.0 * q * m.sigma * m.h
    return bracket**2 * m.n**4 / (4.0 * m.zeta**4 * m.u**4)


# ---- theorem 1 (proposition:duality-gap-convergence) and theorem 2 (proposition:dual-policy-convergence)


def Psi1(a: float, b: float, epsilon: float, delta: float) -> float:
    """Steps after which G_T/T <= eps/2 with probability 1 - delta: 8 (a + b eps/6)/eps^2 ln(1/delta)."""
    return 8.0 * (a + b * epsilon / 6.0) / epsilon**2 * math.log(1.0 / delta)


def Psi2(C0: float, epsilon: float, delta: float) -> float:
    """Steps after which C0/sqrt T <= eps/2: 4 C0^2/eps^2 ln(1/delta); the logarithm is above 1 and not needed."""
    return 4.0 * C0**2 / epsilon**2 * math.log(1.0 / delta)


def kappa1(m: Numbers) -> float:
    """( (12 + 8 beta_0)/(zeta^2 |S|^2|A|^2 gamma_0) + 52 gamma_0 )^2."""
    return ((12.0 + 8.0 * m.beta_0) / (m.zeta**2 * m.n**2 * m.gamma_0) + 52.0 * m.gamma_0) ** 2


def kappa1_printed(m: Numbers) -> float:
    """( (12 + 4 beta_0)/(zeta^2 |S|^2|A|^2 gamma_0) + 26 gamma_0 )^2."""
    return ((12.0 + 4.0 * m.beta_0) / (m.zeta**2 * m.n**2 * m.gamma_0) + 26.0 * m.gamma_0) ** 2


def kappa2(m: Numbers) -> float:
    """1352 gamma_0^2 + (832 sqrt26 + 52/3) gamma_0 + 3328 + 32/3 sqrt26."""
    return 1352.0 * m.gamma_0**2 + (832.0 * q + 52.0 / 3.0) * m.gamma_0 + 3328.0 + 32.0 / 3.0 * q


def kappa2_printed(m: Numbers) -> float:
    """(2184 + 416 sqrt26) gamma_0^2 + (1066 + 416 sqrt26) gamma_0 + 832 + 16 sqrt26."""
    return (2184.0 + 416.0 * q) * m.gamma_0**2 + (1066.0 + 416.0 * q) * m.gamma_0 + 832.0 + 16.0 * q


def T1(m: Numbers, kappa: float) -> float:
    """Kappa sigma^4 |S|^4|A|^4/(zeta^4 (1 - alpha)^4) ln(1/delta)/eps^2."""
    return kappa * m.sigma**4 * m.n**4 / (m.zeta**4 * m.u**4) * _confidence(m)


def T1_printed(m: Numbers, kappa: float) -> float:
    """Kappa sigma^2 |S|^4|A|^4/(zeta^4 (1 - alpha)^4) ln(1/delta)/eps^2."""
    return kappa * m.sigma**2 * m.n**4 / (m.zeta**4 * m.u**4) * _confidence(m)


def T2(m: Numbers, kappa: float) -> float:
    """Kappa sigma^2 |S|^6|A|^4/(zeta^4 (1 - alpha)^6) ln(1/delta)/eps^2."""
    return kappa * m.sigma**2 * m.S**6 * m.A**4 / (m.zeta**4 * m.u**6) * _confidence(m)


def _confidence(m: Numbers) -> float:
    return math.log(1.0 / m.delta) / m.epsilon**2


def gap_bound(T: float, C0: float, a: float, b: float, delta: float) -> float:
    """What D(x_T, y_T) stays below with probability 1 - delta after T steps.

    C0/sqrt T + x with T x^2 = 2 (a + b x/3) ln(1/delta) solved for x; never above b, since no difference of G is.
    """
    L = math.log(1.0 / delta)
    x = (b * L / 3.0 + math.sqrt((b * L / 3.0) ** 2 + 2.0 * a * L * T)) / T
    return C0 / math.sqrt(T) + min(x, b)


# ---- all of them at once


@dataclass(frozen=True, kw_only=True)
class Constants:
    """One reading of the paper's constants, printed or corrected.

    T1, T2 are nan where the theorem does not apply: under other weights than sigma/|S|; and, as corrected, where
    n sigma < zeta (1 - alpha) or (T2) h_min (1 - alpha) epsilon >= 1. T_gap and T_policy always apply.
    """

    numbers: Numbers
    value_max: float  # lemma:bound-of-solutions
    value_norm: float
    occupancy_sum: float
    ratio_sum: float
    K1: float  # lemma:K1-K2
    K2: float
    C0: float  # proposition:duality-bound
    a: float  # lemma:bound2
    b: float  # lemma:bound1
    Psi1: float  # proof of theorem 1
    Psi2: float
    T_gap: float  # max(Psi1, Psi2): steps until D <= epsilon, for any weights
    T_policy: float  # the same at h_min (1 - alpha) epsilon: steps until ||V* - V^pi||_inf <= epsilon, for any weights
    kappa1: float  # theorem 1
    kappa2: float
    kappa: float
    T1: float
    T2: float  # theorem 2

    def gap(self, T: float) -> float:
        """What D(x_T, y_T) stays below with probability 1 - delta after T steps."""
        if not T >= 1:
            raise ModelError(f"T is {T!r}; the number of steps must be at least 1")
        return gap_bound(T, self.C0, self.a, self.b, self.numbers.delta)

    def policy_loss(self, T: float) -> float:
        """What ||V* - V^pi||_inf of the dual policy stays below, likewise: gap(T)/(h_min (1 - alpha))."""
        return self.gap(T) / (self.numbers.h_min * self.numbers.u)


@dataclass(frozen=True, kw_only=True)
class Bounds(Constants):
    """The corrected constants (`bounds.T1`, `bounds.corrected.T1`) and the printed ones (`bounds.printed.T1`)."""

    printed: Constants

    @property
    def corrected(self) -> Constants:
        """This object: the corrected constants are its own attributes."""
        return self

    def __str__(self) -> str:
        names = [f.name for f in fields(Constants) if f.name != "numbers"]
        printed, corrected = vars(self.printed), vars(self)
        rows = [f"{name:14}{printed[name]:>12.4g}{corrected[name]:>12.4g}" for name in names]
        return "\n".join([f"{'':14}{'printed':>12}{'corrected':>12}", *rows])


@door
def bounds(
    problem: Simulator | MDP,
    step_scale: float = 2.0,
    epsilon: float = 0.1,
    delta: float = 0.1,
    *,
    weights: ArrayLike | None = None,
    zeta: float | None = None,
    beta_0: float | None = None,
) -> Bounds:
    """The constants of all lemmas and theorems for Algorithm 1 with gamma_k = step_scale/sqrt(k + 1).

    problem        a Simulator; or an MDP, and then zeta and beta_0 must be given
    epsilon        in (0, 1): the gap (theorem 1) or the loss of the dual policy (theorem 2) that is asked for
    delta          in (0, 1/e): the probability with which it may be missed
    weights        eta; sigma/|S| each if not given, which is what the theorems assume
    zeta           least probability of a pair at any step; of the simulator (`zeta_of`) if not given
    beta_0         ||M_k^-1 - M_{k+1}^-1||_2 <= beta_0/(k+1); by default the least (`least_beta_0`); see `example_3`

    Examples
    --------
    >>> from dualq import problems, theory
    >>> theory.bounds(problems.two_state()).T1 > 1e9
    True
    """
    mdp = problem.mdp if isinstance(problem, Simulator) else problem
    if not 0.0 < step_scale < math.inf:
        raise ModelError(f"step_scale is {step_scale:g}; it must be positive")
    if not 0.0 < epsilon < 1.0:
        raise ModelError(f"epsilon is {epsilon:g}; the theorems need it between 0 and 1")
    if not 0.0 < delta < 1.0 / math.e:
        raise ModelError(f"delta is {delta:g}; the theorems need it between 0 and 1/e = 0.3679")
    if zeta is None:
        zeta = positive_zeta(_simulator(problem, "zeta"))
    largest = 1.0 / int(mdp.available.sum())
    if not 0.0 < zeta <= largest * (1.0 + 1e-9):
        raise ModelError(f"zeta is {zeta:g}; it must be positive and at most {largest:g}, one over the number of pairs")
    if beta_0 is None:
        beta_0 = least_beta_0(_simulator(problem, "beta_0"))
    if not beta_0 >= 0.0:
        raise ModelError(f"beta_0 is {beta_0:g}; it must not be negative")
    eta = mdp.checked_weights(weights)
    m = Numbers(
        S=mdp.num_states,
        A=mdp.num_actions,
        sigma=mdp.reward_bound,
        alpha=mdp.discount,
        h=float(eta.sum()),
        h_min=float(eta.min()),
        zeta=float(zeta),
        gamma_0=float(step_scale),
        beta_0=float(beta_0),
        epsilon=float(epsilon),
        delta=float(delta),
    )
    usual = bool(np.allclose(eta, m.sigma / m.S, rtol=1e-9, atol=0.0))  # the weights of the theorems
    return Bounds(numbers=m, printed=Constants(numbers=m, **_printed(m, usual)), **_corrected(m, usual))


def _corrected(m: Numbers, as_in_theorems: bool) -> dict[str, float]:
    kappa = max(kappa1(m), kappa2(m))
    applies_1 = as_in_theorems and m.n * m.sigma >= m.zeta * m.u
    applies_2 = applies_1 and m.h_min * m.u * m.epsilon < 1.0
    return {
        **_common(m, C0(m), a(m), b(m)),
        "kappa1": kappa1(m),
        "kappa2": kappa2(m),
        "kappa": kappa,
        "T1": T1(m, kappa) if applies_1 else math.nan,
        "T2": T2(m, kappa) if applies_2 else math.nan,
    }


def _printed(m: Numbers, as_in_theorems: bool) -> dict[str, float]:
    kappa = max(kappa1_printed(m), kappa2_printed(m))
    return {
        **_common(m, C0_printed(m), a_printed(m), b_printed(m)),
        "kappa1": kappa1_printed(m),
        "kappa2": kappa2_printed(m),
        "kappa": kappa,
        "T1": T1_printed(m, kappa) if as_in_theorems else math.nan,
        "T2": T2(m, kappa) if as_in_theorems else math.nan,
    }


def _common(m: Numbers, C0: float, a: float, b: float) -> dict[str, float]:
    first, second = Psi1(a, b, m.epsilon, m.delta), Psi2(C0, m.epsilon, m.delta)
    finer = m.h_min * m.u * m.epsilon  # what theorem 2 puts in the place of epsilon
    return {
        "value_max": value_max(m),
        "value_norm": value_norm(m),
        "occupancy_sum": occupancy_sum(m),
        "ratio_sum": ratio_sum(m),
        "K1": K1(m),
        "K2": K2(m),
        "C0": C0,
        "a": a,
        "b": b,
        "Psi1": first,
        "Psi2": second,
        "T_gap": max(first, second),
        "T_policy": max(Psi1(a, b, finer, m.delta), Psi2(C0, finer, m.delta)),
    }


def _simulator(problem: Simulator | MDP, lacking: str) -> Simulator:
    if not isinstance(problem, Simulator):
        raise ModelError(f"{lacking} is missing: a model has no behaviour; give zeta and beta_0, or a Simulator")
    return problem
