"""PolicyLearner: `learn` in the shape that users of scikit-learn know; scikit-learn itself is not needed.

learner = PolicyLearner(discount=0.9, state=["stock", "season"], action="order", reward="profit", time="day")
learner.fit(frame)
learner.predict(frame[["stock", "season"]])        an action for each row
learner.predict_proba(frame[["stock", "season"]])  the probability of each action: with limits, what is promised

learner.score(other)                               what the policy is expected to earn by the rows of another log

It can be the last step of a Pipeline, and be searched over with GridSearchCV; where rows of an episode belong together,
with GroupKFold or PredefinedSplit, so that an episode is not torn apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualq.base import LogError
from dualq.logs import read_log, start_weights
from dualq.model import TablePolicy
from dualq.offline.fit import Fit
from dualq.offline.learning import learn

LEARNING = (
    "discount",
    "confidence",
    "start",
    "pessimism",
    "certificate",
    "solver",
    "limits",
    "margin",
    "value_range",
    "assume",
)  # what `learn` is told


class PolicyLearner:
    """Learns a policy from a frame; the arguments are those of `learn` and the columns of `read_log`.

    After `fit`, `fit_` is the Fit: the policy, the certificate, the coverage; `classes_` are the actions' labels.
    """

    def __init__(
        self,
        *,
        discount: float = 0.95,
        confidence: float = 0.95,
        start: Any = None,
        pessimism: float | None = None,
        certificate: str | None = "proven",
        solver: str = "exact",
        limits: Any = None,
        margin: str = "certified",
        value_range: Any = None,
        assume: Any = (),
        state: Any = None,
        action: Any = None,
        reward: Any = None,
        next_state: Any = None,
        episode: Any = None,
        time: Any = None,
        terminal: Any = None,
        truncated: Any = None,
        costs: Any = None,
        bins: Any = None,
        reward_range: Any = None,
        cost_ranges: Any = None,
        clock: Any = None,
        day_first: Any = None,
        skip_bad: bool = False,
        quarantine: Any = None,
    ):
        given = locals()
        for name in self._names():
            setattr(self, name, given[name])

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = {name: (repr(value), repr(defaults[name].default)) for name, value in self.get_params().items()}
        given = [f"{name}={value}" for name, (value, default) in shown.items() if value != default]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of a part of a Pipeline: neither a classifier nor a regressor, and it needs no y."""
        from sklearn.utils import Tags, TargetTags  # pyright: ignore[reportMissingImports]

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every argument by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> PolicyLearner:
        """Change arguments; a name that is none of them is refused."""
        for name, value in params.items():
            if name not in self._names():
                raise LogError(f"no argument {name!r}; there are {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: None = None) -> PolicyLearner:
        """Learn from a log: a frame, a path, or anything that `read_log` reads."""
        params = self.get_params()
        learning = {name: params.pop(name) for name in LEARNING}
        self.fit_ = learn(read_log(X, **params), **learning)
        actions = self.fit_.policy.actions
        self.classes_ = _as_array(list(actions), len(actions.names))
        return self

    def score(self, X: Any, y: None = None) -> float:
        """What the policy is expected to earn by the rows of another log: its value in that log's own model.

        An estimate from rows that had no say in the choice, so without the luck of choosing; no bound. Where the other
        log never was, or never did in a state what the policy does there, it does what that log did.
        """
        params = self.get_params()
        log = read_log(X, **{name: value for name, value in params.items() if name not in LEARNING})
        counts, policy = log.counts(), self._fitted.policy
        mdp, visits = counts.mdp(params["discount"]), counts.visits
        matrix = np.full(mdp.rewards.shape, 1.0 / len(counts.actions))
        for s, label in enumerate(counts.states):
            known = label in policy.states
            asked = policy.matrix[policy.states.index(label)] if known else np.zeros(len(policy.actions))
            chances = np.array([asked[policy.actions.index(a)] if a in policy.actions else 0.0 for a in counts.actions])
            chances = np.where(visits[s] > 0, chances, 0.0)
            chances = chances if chances.any() else visits[s]
            matrix[s] = chances / chances.sum() if chances.any() else matrix[s]
        start = start_weights(log, params["start"])
        return float(start @ counts.support.to_log(TablePolicy(matrix, mdp.states, mdp.actions).value(mdp)))

    @property
    def _fitted(self) -> Fit:
        if not hasattr(self, "fit_"):
            raise LogError("nothing was learned yet; call fit first")
        return self.fit_

    def predict(self, X: Any) -> np.ndarray:
        """The action of highest probability for each row of a frame with the state's columns.

        With limits the policy may be random, and what is promised is promised of it: draw from `predict_proba`, or
        ask `fit_.act`. Always taking the most probable action is another policy, which may break the limits.
        """
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, actions) the probability of each action for each row, in the order of `classes_`."""
        policy = self._fitted.policy
        places = [policy.states.index(self.fit_.label(row)) for row in _columns(X, policy.states.names)]
        return policy.matrix[np.array(places, int)]


def _as_array(labels: list[Any], columns: int) -> np.ndarray:
    """Labels of one column as an array of their type, of several as objects."""
    if columns == 1:
        return np.array(labels)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


def _columns(frame: Any, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The rows of a frame (anything with columns by name), in these columns."""
    missing = [name for name in names if name not in _names_of(frame)]
    if missing:
        raise LogError(f"the frame has no column {missing[0]!r}; a state needs {', '.join(names)}")
    columns = [np.asarray(frame[name]).tolist() for name in names]
    return list(zip(*columns, strict=True))


def _names_of(frame: Any) -> list[str]:
    names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or callable(names):
        raise LogError(f"cannot read states from a {type(frame).__name__}; give a frame with the state's columns")
    return list(names)
