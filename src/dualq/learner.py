"""PolicyLearner: `learn` in the shape that users of scikit-learn know; scikit-learn itself is not needed.

learner = PolicyLearner(discount=0.9, state=["stock", "season"], action="order", reward="profit", time="day")
learner.fit(frame)
learner.predict(frame[["stock", "season"]])        an action for each row
learner.predict_proba(frame[["stock", "season"]])  the probability of each action: with limits, what is promised

It can be the last step of a Pipeline, and be searched over: GridSearchCV with a `scoring` of one's own, since there is
no score without a simulator.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualq.errors import LogError
from dualq.learning import learn
from dualq.logs.tables import read_log

LEARNING = (
    "discount",
    "confidence",
    "start",
    "pessimism",
    "certificate",
    "solver",
    "limits",
    "margin",
)  # what `learn` is told


class PolicyLearner:
    """Learns a policy from a frame; the arguments are those of `learn` and the columns of `read_log`.

    After `fit`, `fit_` is the Fit: the policy, the certificate, the coverage.
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
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The action of highest probability for each row of a frame with the state's columns.

        With limits the policy may be random, and what is promised is promised of it: draw from `predict_proba`, or
        ask `fit_.act`. Always taking the most probable action is another policy, which may break the limits.
        """
        chosen = self.predict_proba(X).argmax(axis=1)
        actions = self.fit_.policy.actions
        found = np.empty(len(chosen), object)
        for i, a in enumerate(chosen):
            found[i] = actions[int(a)]
        return np.array(found.tolist()) if len(actions.names) == 1 else found

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, actions) the probability of each action for each row, in the order of `fit_.policy.actions`."""
        if not hasattr(self, "fit_"):
            raise LogError("nothing was learned yet; call fit first")
        policy = self.fit_.policy
        places = [policy.states.index(self.fit_.label(row)) for row in _columns(X, policy.states.names)]
        return policy.matrix[np.array(places, int)]


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
