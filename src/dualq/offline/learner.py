"""PolicyLearner: `learn` in the shape that users of scikit-learn know; scikit-learn itself is not needed.

It can be the last step of a Pipeline, and be searched over with GridSearchCV; where rows of an episode belong together,
with GroupKFold or PredefinedSplit, so that an episode is not torn apart.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dualq.base import Label, LogError, door
from dualq.logs import READING, ActionBins, BinsAsked, Columns, Moment, OneColumn, Start, read_log, start_weights
from dualq.model import TablePolicy
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.approximate.own_features import FeaturesGiven
from dualq.offline.fit import Fit
from dualq.offline.learning import learn

Array = np.ndarray
Params = dict[str, Any]  # {argument: its value}, as scikit-learn asks for them


@door
class PolicyLearner:
    """Learns a policy from a frame; the arguments are those of `learn` and of `read_log`.

    Parameters
    ----------
    discount, confidence, start, pessimism, certificate, solver, limits, margin, value_range, looks, assume, \
approximation, features
        What `learn` is told.
    state, action, reward, next_state, episode, time, terminal, truncated, costs, propensity, bins, \
action_bins, numbers, reward_range, cost_ranges, available, skip_bad, quarantine, table, delimiter, columns, since, \
until, clock, day_first
        What `read_log` is told of the columns.

    Attributes
    ----------
    fit_ : Fit
        What was learned: the policy, the certificate, the coverage.
    classes_ : array
        The labels of the actions, in the order of the columns of `predict_proba`.

    Examples
    --------
    >>> import dualq
    >>> frame = dualq.problems.two_state().record(steps=2000).table()
    >>> learner = dualq.PolicyLearner(discount=0.9, state="state", action="action", reward="reward", time="time")
    >>> learner.fit(frame).predict({"state": [0, 1]})
    array([0, 1])
    >>> learner.predict_proba({"state": [0, 1]})  # with limits, what is promised is promised of these
    array([[1., 0.],
           [0., 1.]])
    >>> learner
    PolicyLearner(discount=0.9, state='state', action='action', reward='reward', time='time')
    """

    fit_: Fit | NumberFit | None = None

    def __init__(
        self,
        *,
        discount: float = 0.95,
        confidence: float = 0.95,
        start: Start = None,
        pessimism: float | None = None,
        certificate: str | None = "proven",
        solver: str = "exact",
        limits: object = None,
        margin: str = "certified",
        value_range: tuple[float, float] | None = None,
        looks: int = 1,
        assume: str | Iterable[str] = (),
        approximation: str = "auto",
        features: FeaturesGiven | None = None,
        state: Columns = None,
        action: Columns = None,
        reward: str | None = None,
        next_state: Columns = None,
        episode: Columns = None,
        time: OneColumn = None,
        terminal: OneColumn = None,
        truncated: OneColumn = None,
        costs: Columns = None,
        propensity: str | None = None,
        bins: BinsAsked | None = None,
        action_bins: ActionBins | None = None,
        numbers: Columns = None,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Mapping[str, tuple[float, float]] | None = None,
        available: Mapping[Label, Iterable[Label]] | None = None,
        skip_bad: bool = False,
        quarantine: str | os.PathLike[str] | None = None,
        table: str | None = None,
        delimiter: str | None = None,
        columns: Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        clock: str | None = None,
        day_first: bool | None = None,
    ):
        given = locals()
        vars(self).update({name: given[name] for name in self._names()})

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = {name: (repr(value), repr(defaults[name].default)) for name, value in self.get_params().items()}
        given = [f"{name}={value}" for name, (value, default) in shown.items() if value != default]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> object:
        """What scikit-learn asks of a part of a Pipeline: neither a classifier nor a regressor, and it needs no y."""
        utils = import_module("sklearn.utils")
        return utils.Tags(estimator_type=None, target_tags=utils.TargetTags(required=False))

    def get_params(self, deep: bool = True) -> Params:
        """Every argument by name."""
        return {name: vars(self)[name] for name in self._names()}

    def set_params(self, **params: object) -> PolicyLearner:
        """Change arguments; a name that is none of them is refused."""
        for name, value in params.items():
            if name not in self._names():
                raise LogError(f"no argument {name!r}; there are {', '.join(self._names())}", argument=name)
            vars(self)[name] = value
        return self

    def _params(self) -> tuple[Params, Params]:
        """What `read_log` is told, and what `learn` is told."""
        params = self.get_params()
        return {name: params.pop(name) for name in READING}, params

    def fit(self, X: object, y: None = None) -> PolicyLearner:
        """Learn from a log.

        Parameters
        ----------
        X : frame, path, or anything else that `read_log` reads
        y : ignored

        Returns
        -------
        PolicyLearner
            Itself.
        """
        reading, learning = self._params()
        self.fit_ = learn(X, **reading, **learning)
        actions = self.fit_.policy.actions
        self.classes_ = _as_array(list(actions), len(actions.names))
        return self

    def score(self, X: object, y: None = None) -> float:
        """What the policy is expected to earn by the rows of another log: its value in that log's own model.

        An estimate from rows that had no say in the choice, so without the luck of choosing; no bound. Where the other
        log never was, or never did in a state what the policy does there, it does what that log did.
        """
        reading, learning = self._params()
        if isinstance(self._fitted, NumberFit):
            return self._fitted.score(X, **reading)
        log = read_log(X, **reading)
        counts, policy = log.counts(), self._fitted.policy
        mdp, visits = counts.mdp(learning["discount"]), counts.visits
        matrix = np.full(mdp.rewards.shape, 1.0 / len(counts.actions))
        for s, label in enumerate(counts.states):
            known = label in policy.states
            asked = policy.matrix[policy.states.index(label)] if known else np.zeros(len(policy.actions))
            chances = np.array([asked[policy.actions.index(a)] if a in policy.actions else 0.0 for a in counts.actions])
            chances = np.where(visits[s] > 0, chances, 0.0)
            chances = chances if chances.any() else visits[s]
            matrix[s] = chances / chances.sum() if chances.any() else matrix[s]
        start = start_weights(log, learning["start"])
        return float(start @ counts.support.to_log(TablePolicy(matrix, mdp.states, mdp.actions).value(mdp)))

    @property
    def _fitted(self) -> Fit | NumberFit:
        if self.fit_ is None:
            raise LogError("nothing was learned yet; call fit first")
        return self.fit_

    def predict(self, X: object) -> Array:
        """The action of highest probability for each row of a frame with the state's columns.

        With limits the policy may be random, and what is promised is promised of it: draw from `predict_proba`, or
        ask `fit_.act`. Always taking the most probable action is another policy, which may break the limits.
        """
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(axis=1)]

    def predict_proba(self, X: object) -> Array:
        """(n, actions) the probability of each action for each row, in the order of `classes_`."""
        fit = self._fitted
        if isinstance(fit, NumberFit):
            return fit.policy.rule(fit.columns.coded(_columns_of(X, fit.columns.names)))
        states = fit.policy.states
        places = [states.index(fit.label(row)) for row in _rows_of(X, states.names)]
        return fit.policy.matrix[np.array(places, int)]


def _as_array(labels: list[Label], columns: int) -> Array:
    """Labels of one column as an array of their type, of several as objects."""
    if columns == 1:
        return np.array(labels)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


@runtime_checkable
class _Frame(Protocol):
    """A pandas or Polars frame: names, and columns by name."""

    @property
    def columns(self) -> Iterable[str]: ...
    def __getitem__(self, name: str, /) -> object: ...


@runtime_checkable
class _ArrowTable(Protocol):
    @property
    def column_names(self) -> Iterable[str]: ...
    def __getitem__(self, name: str, /) -> object: ...


def _rows_of(frame: object, names: tuple[str, ...]) -> list[tuple[Label, ...]]:
    """The rows of a frame (anything with columns by name), in these columns."""
    return list(zip(*(column.tolist() for column in _columns_of(frame, names).values()), strict=True))


def _columns_of(frame: object, names: tuple[str, ...]) -> dict[str, Array]:
    """{column: values} of a frame."""
    if isinstance(frame, Mapping):
        columns, known = frame, list(frame)
    elif isinstance(frame, _ArrowTable):
        columns, known = frame, list(frame.column_names)
    elif isinstance(frame, _Frame):
        columns, known = frame, list(frame.columns)
    else:
        raise LogError(f"cannot read states from a {type(frame).__name__}; give a frame with the state's columns")
    missing = [name for name in names if name not in known]
    if missing:
        right = f"a state needs {', '.join(names)}"
        raise LogError(f"the frame has no column {missing[0]!r}; {right}", column=missing[0])
    return {name: np.asarray(columns[name]) for name in names}
