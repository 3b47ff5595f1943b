"""Problems with numbers in the state, whose truth is known by simulation.

    Inventory      stock, demand level, weekday           how much to order for tomorrow       cost: stockout
    Pricing        reference price, mood, segment         one of five prices
    Maintenance    wear, heat, load                       run, run slowly, repair              cost: failure
    Dosing         severity, concentration                one of four doses                    cost: side_effect

Value     v(pi) = E sum_k alpha^k r_k from `start`, with no end but those of the problem itself: recordings of `horizon`
          steps are cut off, not ended. A cost is an average per step, (1 - alpha) E sum_k alpha^k c_k.
Truth     the mean over many simulated episodes, until alpha^k < 1e-4; its standard error is the deviation of the
          episodes' sums over the root of their number.
Common    Whatever a policy does, the k-th step of the i-th episode has the same noise: a problem draws as many random
random    numbers in each state after each action, and policies draw from a generator of their own. Differences of two
numbers   policies are then known much better than their values.

In the descriptions x is a number of the state, x' the one after, xi a standard normal draw, u a uniform one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from dualq.base import Labels, ModelError, StateColumns, States
from dualq.logs import NumberRows
from dualq.model import FunctionPolicy, Rule

Array = np.ndarray
Acting = Rule | FunctionPolicy  # a learned policy (`fit.policy`) may have actions and columns in another order

NEGLIGIBLE = 1e-4  # the weight of a reward that comes too late to matter


class Step(NamedTuple):
    """What followed, (n,) each."""

    r: Array
    next_state: States
    ended: Array
    costs: dict[str, Array]


class Noise(Protocol):
    """What a step draws from: NumPy's generator, or numbers that were drawn before."""

    def random(self, size: int, /) -> Array:
        """Uniform on [0, 1)."""
        ...

    def standard_normal(self, size: int, /) -> Array:
        """Standard normal."""
        ...


class NumberProblem(Protocol):
    """A decision problem over states of numbers, for many episodes at once."""

    columns: StateColumns
    actions: Labels
    discount: float
    horizon: int  # steps after which a recording is cut off

    def start(self, rng: np.random.Generator, n: int, /) -> States:
        """The first states of n episodes."""
        ...

    def step(self, rng: Noise, states: States, a: Array, /) -> Step:
        """What follows these actions; as many draws whatever states and actions are."""
        ...

    def behaviour(self, states: States) -> Array:
        """(n, A) what left the log."""
        ...


# ---- what is done with each of them


class _Moment(NamedTuple):
    """Step k of all episodes, and which of them had not ended before."""

    state: States
    a: Array
    step: Step
    going: Array


def _walk(
    problem: NumberProblem,
    rule: Acting,
    seed: int | list[int],
    episodes: int,
    steps: int,
    start: States | None = None,
) -> Iterator[_Moment]:
    """Step after step of many episodes; those that have ended go on unseen, so that noise stays common."""
    rule = in_places_of(problem, rule)
    world, choice = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    state, going = problem.start(world, episodes), np.ones(episodes, bool)
    if start is not None:
        state = start.at(np.arange(episodes) % len(start))
    for _ in range(steps):
        a = _chosen(rule(state), choice.random((episodes, 1)))
        step = problem.step(world, state, a)
        yield _Moment(state, a, step, going)
        state, going = step.next_state, going & ~step.ended
        if not going.any():
            return


def in_places_of(problem: NumberProblem, rule: Acting) -> Rule:
    """What acts, as a rule over the problem's own states and actions."""
    if not isinstance(rule, FunctionPolicy):
        return rule
    policy, places = rule, [problem.actions.index(label) for label in rule.actions]

    def placed(states: States) -> Array:
        p = np.zeros((len(states), len(problem.actions)))
        p[:, places] = policy.rule(policy.columns.coded(columns_of(problem.columns, states)))
        return p

    return placed


def _chosen(probabilities: Array, u: Array) -> Array:
    """An action for each row, by inversion."""
    below = np.cumsum(probabilities[:, :-1], axis=1) <= u * probabilities.sum(axis=1, keepdims=True)
    return below.sum(axis=1)


def record(problem: NumberProblem, rows: int, seed: int, rule: Acting | None = None) -> NumberRows:
    """So many rows that the behaviour (or another rule) leaves, in episodes of at most `horizon` steps.

    Examples
    --------
    >>> from dualq.worlds import continuous
    >>> rows = continuous.record(continuous.Maintenance(), 1_000, seed=0)
    >>> len(rows), rows.columns.names, list(rows.actions)
    (1000, ('wear', 'heat', 'load'), ['run', 'slow', 'repair'])
    """
    if rows < 1:
        raise ModelError(f"rows is {rows}; it must be at least 1")
    parts: list[NumberRows] = []
    while (found := sum(map(len, parts))) < rows:
        episodes = math.ceil((rows - found) / problem.horizon)
        parts.append(_recorded(problem, episodes, [seed, len(parts)], rule or problem.behaviour))
    return joined(parts).at(np.arange(rows))


def _recorded(problem: NumberProblem, episodes: int, seed: list[int], rule: Acting) -> NumberRows:
    moments = list(_walk(problem, rule, seed, episodes, problem.horizon))
    going = np.stack([moment.going for moment in moments], axis=1)

    def column(values: list[Array]) -> Array:
        """(steps, episodes, ...) -> the rows of one episode after those of the other, as long as it goes on."""
        return np.stack(values, axis=1)[going]

    def states(found: list[States]) -> States:
        return States(column([s.numbers for s in found]), column([s.categories for s in found]))

    steps = [moment.step for moment in moments]
    return NumberRows(
        problem.columns,
        problem.actions,
        states([moment.state for moment in moments]),
        column([moment.a for moment in moments]),
        column([step.r for step in steps]),
        states([step.next_state for step in steps]),
        column([step.ended for step in steps]),
        np.repeat(np.arange(episodes), going.sum(axis=1)),
        {name: column([step.costs[name] for step in steps]) for name in steps[0].costs},
    )


def joined(parts: list[NumberRows]) -> NumberRows:
    """Several recordings of one problem as one; episodes are numbered on."""
    first = parts[0]
    before = np.cumsum([0, *(part.episode[-1] + 1 for part in parts[:-1])])

    def states(found: list[States]) -> States:
        return States(np.concatenate([s.numbers for s in found]), np.concatenate([s.categories for s in found]))

    return NumberRows(
        first.columns,
        first.actions,
        states([part.state for part in parts]),
        np.concatenate([part.a for part in parts]),
        np.concatenate([part.r for part in parts]),
        states([part.next_state for part in parts]),
        np.concatenate([part.ended for part in parts]),
        np.concatenate([part.episode + more for part, more in zip(parts, before, strict=True)]),
        {name: np.concatenate([part.costs[name] for part in parts]) for name in first.costs},
    )


def to_table(rows: NumberRows) -> dict[str, Array]:
    """The rows as a person would have them: episode, step, the state's columns, action, reward, costs, done.

    The state after the last row of a recording that was cut off is not in it.
    """
    begun = np.flatnonzero(rows.first)
    step = np.arange(len(rows)) - np.repeat(begun, np.diff(np.append(begun, len(rows))))
    taken = {"action": np.array(tuple(rows.actions))[rows.a], "reward": rows.r, **rows.costs, "done": rows.ended}
    return {"episode": rows.episode, "step": step} | columns_of(rows.columns, rows.state) | taken


def columns_of(columns: StateColumns, states: States) -> dict[str, Array]:
    """{column: values} of some states."""
    numbers = dict(zip(columns.numbers, states.numbers.T, strict=True))
    places = zip(columns.categories.items(), states.categories.T, strict=True)
    words = {name: np.array(labels)[place] for (name, labels), place in places}
    return {name: (numbers | words)[name] for name in columns.names}


def returns(
    problem: NumberProblem,
    rule: Acting,
    seed: int = 0,
    episodes: int = 4_000,
    cost: str | None = None,
    start: States | None = None,
) -> Array:
    """(episodes,) sum_k alpha^k r_k of each, or of a cost; those of two rules with one seed share their noise.

    `start` are the first states, where they are not the problem's own: each as often as the others.
    """
    alpha, total = problem.discount, np.zeros(episodes)
    late = math.ceil(math.log(NEGLIGIBLE) / math.log(alpha))
    for k, moment in enumerate(_walk(problem, rule, seed, episodes, late, start)):
        total += alpha**k * np.where(moment.going, moment.step.r if cost is None else moment.step.costs[cost], 0.0)
    return total


def true_value(problem: NumberProblem, rule: Acting, seed: int = 0, episodes: int = 4_000) -> tuple[float, float]:
    """v(rule) and its standard error, by simulation.

    Examples
    --------
    >>> from dualq.worlds import continuous
    >>> shop = continuous.Inventory()
    >>> value, standard_error = continuous.true_value(shop, shop.behaviour, seed=0, episodes=1_000)
    >>> bool(standard_error < 0.02 * value)
    True
    """
    return _mean(returns(problem, rule, seed, episodes))


def true_gain(
    problem: NumberProblem,
    rule: Acting,
    other: Acting,
    seed: int = 0,
    episodes: int = 4_000,
) -> tuple[float, float]:
    """v(rule) - v(other) and its standard error, with common noise."""
    return _mean(returns(problem, rule, seed, episodes) - returns(problem, other, seed, episodes))


def true_cost(
    problem: NumberProblem, rule: Acting, cost: str, seed: int = 0, episodes: int = 4_000
) -> tuple[float, float]:
    """The average of a cost per step, (1 - alpha) E sum_k alpha^k c_k, and its standard error."""
    return _mean((1.0 - problem.discount) * returns(problem, rule, seed, episodes, cost))


def _mean(x: Array) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(x.size))


# ---- the problems


def noisy(choice: Array, actions: int, noise: float) -> Array:
    """(n, A) this action, and any of them with a probability of `noise`."""
    probabilities = np.full((choice.size, actions), noise / actions)
    probabilities[np.arange(choice.size), choice] += 1.0 - noise
    return probabilities


def _states(*numbers: Array, category: Array | None = None) -> States:
    places = np.empty((numbers[0].size, 0), np.int64) if category is None else category[:, None]
    return States(np.stack(numbers, axis=1), places)


class Inventory:
    """A shop orders 0, 2, 4 or 8 for the next morning; what is not there cannot be sold.

    demand   d = level * f(weekday) * exp(.35 xi - .06), f = 1.7 on Saturdays, .4 on Sundays, else .9 to 1.2
    level    log level' = log level + .08 (log 3 - log level) + .14 xi
    stock'   min(.97 (stock - sold) + order, 30), sold = min(stock, d)
    reward   4 sold - 1.5 order - 1 if anything is ordered - .08 stock - 1 if some demand was lost

    The logged rule orders up to 7, whatever the level and the day; one time in four it does anything.
    """

    SIZES = np.array([0.0, 2.0, 4.0, 8.0])
    FACTOR = np.array([0.9, 0.9, 1.0, 1.0, 1.2, 1.7, 0.4])
    columns = StateColumns(
        ("stock", "level", "weekday"), {"weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")}
    )
    actions = Labels([0, 2, 4, 8], "action")
    discount = 0.95
    horizon = 100

    def start(self, rng: np.random.Generator, n: int) -> States:
        """Any stock up to 12, any day, the level as it is in the long run."""
        level = 3.0 * np.exp(0.35 * rng.standard_normal(n))
        return _states(12.0 * rng.random(n), level, category=rng.integers(7, size=n))

    def step(self, rng: Noise, states: States, a: Array) -> Step:
        """A day."""
        (stock, level), day, order = states.numbers.T, states.categories[:, 0], self.SIZES[a]
        demand = level * self.FACTOR[day] * np.exp(0.35 * rng.standard_normal(day.size) - 0.06)
        sold, lost = np.minimum(stock, demand), demand > stock
        r = 4.0 * sold - 1.5 * order - (order > 0.0) - 0.08 * stock - lost
        left = np.minimum(0.97 * (stock - sold) + order, 30.0)
        drift = 0.08 * (math.log(3.0) - np.log(level)) + 0.14 * rng.standard_normal(day.size)
        following = _states(left, level * np.exp(drift), category=(day + 1) % 7)
        return Step(r, following, np.zeros(day.size, bool), {"stockout": lost.astype(float)})

    def behaviour(self, states: States) -> Array:
        """Order up to 7."""
        missing = 7.0 - states.numbers[:, 0]
        return noisy(np.searchsorted(self.SIZES, missing, side="right").clip(1, 4) - 1, 4, 0.25)


class Pricing:
    """Customers remember what they paid: a high price sells less, a low one spoils what may be asked later.

    sold         exp(mood + 1.3 - k p + .22 (reference - p)^+ - .4 (p - reference)^+ + .3 xi), k by segment
    reference'   .88 reference + .12 p
    mood'        .92 mood + .18 xi;   the segment is drawn anew, students more often when the mood is low
    reward       sold (p - 1)

    The logged rule asks for 4 and lowers the price when the mood is low; one time in three it does anything.
    """

    PRICES = np.array([2.0, 3.0, 4.0, 5.0, 6.0])
    SENSITIVE = np.array([0.12, 0.30, 0.55])  # by segment
    columns = StateColumns(("reference", "mood", "segment"), {"segment": ("business", "private", "student")})
    actions = Labels([2, 3, 4, 5, 6], "action")
    discount = 0.95
    horizon = 80

    def start(self, rng: np.random.Generator, n: int) -> States:
        """A reference of 2.5 to 4.5."""
        mood = 0.45 * rng.standard_normal(n)
        return _states(2.5 + 2.0 * rng.random(n), mood, category=self._arriving(mood, rng.random(n)))

    def step(self, rng: Noise, states: States, a: Array) -> Step:
        """A customer."""
        (reference, mood), segment, price = states.numbers.T, states.categories[:, 0], self.PRICES[a]
        n, dearer = price.size, price - reference
        fairness = -0.22 * np.minimum(dearer, 0.0) - 0.4 * np.maximum(dearer, 0.0)
        wish = mood + 1.3 - self.SENSITIVE[segment] * price + fairness + 0.3 * rng.standard_normal(n)
        later = 0.92 * mood + 0.18 * rng.standard_normal(n)
        following = _states(0.88 * reference + 0.12 * price, later, category=self._arriving(later, rng.random(n)))
        return Step(np.exp(wish) * (price - 1.0), following, np.zeros(n, bool), {})

    def behaviour(self, states: States) -> Array:
        """4, and less when the mood is low."""
        mood = states.numbers[:, 1]
        return noisy(2 - (mood < -0.1).astype(int) - (mood < -0.6), 5, 0.33)

    @staticmethod
    def _arriving(mood: Array, u: Array) -> Array:
        student = 0.5 / (1.0 + np.exp(2.0 * mood))
        return np.where(u < student, 2, np.where(u < student + 0.4, 1, 0))


class Maintenance:
    """A machine wears, the faster the hotter it is; it seldom fails, but then the episode ends with a loss of 30.

    load'     .9 load + .1 + .07 xi, within [.4, 1.6]
    heat'     .8 heat + .35 load (run), + .12 load (slow), + 0 (repair), + .05 xi, at least 0
    wear'     wear + .02 (1 + heat^2) v + .02 u, v = 1 (run), .4 (slow);   .1 wear (repair)
    failure   with probability 1 / (1 + exp(10.5 - 3.2 wear sqrt(v) - 1.6 heat)), none when repaired
    reward    load (run), .55 load (slow), -2.5 (repair), and -30 at a failure

    The logged rule runs until wear is 1.7, whatever the heat, then repairs; one time in eight it does anything.
    """

    columns = StateColumns(("wear", "heat", "load"), {})
    actions = Labels(["run", "slow", "repair"], "action")
    discount = 0.97
    horizon = 150

    def start(self, rng: np.random.Generator, n: int) -> States:
        """Any wear up to 1, cold or warm."""
        return _states(rng.random(n), 1.5 * rng.random(n), np.clip(1.0 + 0.16 * rng.standard_normal(n), 0.4, 1.6))

    def step(self, rng: Noise, states: States, a: Array) -> Step:
        """A shift."""
        wear, heat, load = states.numbers.T
        n, speed = load.size, np.array([1.0, 0.4, 0.0])[a]
        hazard = np.where(a == 2, 0.0, 1.0 / (1.0 + np.exp(10.5 - 3.2 * wear * np.sqrt(speed) - 1.6 * heat)))
        failed = rng.random(n) < hazard
        r = np.array([1.0, 0.55, 0.0])[a] * load - 2.5 * (a == 2) - 30.0 * failed
        worn = wear + 0.02 * (1.0 + heat**2) * speed + 0.02 * rng.random(n)
        hot = 0.8 * heat + np.array([0.35, 0.12, 0.0])[a] * load + 0.05 * rng.standard_normal(n)
        load = np.clip(0.9 * load + 0.1 + 0.07 * rng.standard_normal(n), 0.4, 1.6)
        following = _states(np.where(a == 2, 0.1 * wear, worn), np.maximum(hot, 0.0), load)
        return Step(r, following, failed, {"failure": failed.astype(float)})

    def behaviour(self, states: States) -> Array:
        """Repair when worn."""
        return noisy(np.where(states.numbers[:, 0] > 1.7, 2, 0), 3, 0.125)


class Dosing:
    """An illness that grows by itself, a drug that accumulates, and too much of it harms.

    concentration'   .75 concentration + dose (1 + .15 xi), doses 0, 1, 2, 3
    severity'        1.03 severity + .1 - .7 c / (1 + c) + .2 xi, c = concentration'; recovered, and ended, below 0;
                     at most 10
    side effect      with probability 1 / (1 + exp(5.2 - c))
    reward           -.2 severity - 1.5 at a side effect - .05 dose, and 2 at the recovery

    The logged rule gives more the worse the illness is, and does not look at the concentration; one time in four it
    does anything.
    """

    columns = StateColumns(("severity", "concentration"), {})
    actions = Labels([0, 1, 2, 3], "action")
    discount = 0.95
    horizon = 60

    def start(self, rng: np.random.Generator, n: int) -> States:
        """Ill, and not treated yet."""
        return _states(2.0 + 5.0 * rng.random(n), 0.5 * rng.random(n))

    def step(self, rng: Noise, states: States, a: Array) -> Step:
        """A day."""
        severity, concentration = states.numbers.T
        n = severity.size
        c = 0.75 * concentration + a * np.maximum(1.0 + 0.15 * rng.standard_normal(n), 0.0)
        later = np.minimum(1.03 * severity + 0.1 - 0.7 * c / (1.0 + c) + 0.2 * rng.standard_normal(n), 10.0)
        harmed, recovered = rng.random(n) < 1.0 / (1.0 + np.exp(5.2 - c)), later < 0.0
        r = -0.2 * severity - 1.5 * harmed - 0.05 * a + 2.0 * recovered
        return Step(r, _states(np.maximum(later, 0.0), c), recovered, {"side_effect": harmed.astype(float)})

    def behaviour(self, states: States) -> Array:
        """More the worse the illness is."""
        return noisy(np.digitize(states.numbers[:, 0], [1.5, 3.5, 5.5]), 4, 0.25)


PROBLEMS: dict[str, type[NumberProblem]] = {
    "inventory": Inventory,
    "pricing": Pricing,
    "maintenance": Maintenance,
    "dosing": Dosing,
}
