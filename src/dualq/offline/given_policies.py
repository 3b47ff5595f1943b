"""Policies from outside, however they are given, as a table over the log's own states.

    Fit, Policy                        what was learned elsewhere, or anything that says {action: probability}
    {state: action}                    or {state: {action: probability}}
    a function of the state            called with a label, or with {column: value} where the state has several columns
    "mine.csv"                         the format that `learn` writes: the state's columns, the action's, probability
    "mine.json"                        {state: action}, {state: {action: probability}}, or a list of rows as in a .csv
    "run/"                             a folder that `learn` wrote
    "order = 6 if stock <= 1 else 0"   a rule (one_line_rules.py)

Text in a file finds the label that is written like it. Every state in which the log acted needs a decision: of the
policy, or `otherwise`, which is "logged" (what was done there) or an action. A state that only a file names is a
mistake and refused; one that a policy from elsewhere knows beside the log's is never asked, and not looked at.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from dualq.base import DualqError, Label, LabelError, LabelLike, Labels, LogError, count, few, nearest, unguarded
from dualq.logs import Bins, Counts
from dualq.model import Policy, TablePolicy
from dualq.offline.one_line_rules import EXAMPLE, OneLineRule, is_rule, parsed
from dualq.offline.saved.opening import NUMBERS, POLICY, Decider

Array = np.ndarray
Decision: TypeAlias = Label | Mapping[Label, float]  # an action, or the probability of each
PolicyGiven: TypeAlias = object  # one of the kinds above
Decide: TypeAlias = Callable[[int], Decision]  # of the place of a state; a LabelError where there is none

LOGGED = "logged"  # otherwise: what was done
PROBABILITY = "probability"
SUMS = 1e-6  # how far from one probabilities may add up, as rounding in a file
INSIDE = (0.0, 0.25, 0.5, 0.75, 1.0 - 1e-9)  # of a bin: where a rule is asked


@dataclass(frozen=True, eq=False)
class GivenPolicy:
    """A policy from outside over the states of a log."""

    table: TablePolicy = field(repr=False)  # in the log's states
    source: str  # where it came from, in a few words
    missing: tuple[int, ...] = ()  # places of states that it does not name, and that were filled
    otherwise: str | None = None  # with what, as it was said
    digest: str | None = None  # of the counts that it was learned from, where it says so


def given_policy(
    policy: PolicyGiven, counts: Counts, bins: Mapping[str, Bins] | None = None, otherwise: Label | None = None
) -> GivenPolicy:
    """Whatever a user gave, over the states of a log; one line says what is wrong with it."""
    words = Words(counts, bins or {})
    source, decide, digest = _decisions(policy, words)
    matrix, missing = _matrix(words, decide, source)
    seen: Array = counts.visits.sum(axis=1) > 0
    asked = missing[seen[missing]]
    if asked.size and otherwise is None:
        raise _missing(words, asked, source)
    matrix[missing] = _otherwise(words, otherwise)[missing]
    table = TablePolicy(matrix, counts.states, counts.actions, ~seen)
    said = None if otherwise is None or not asked.size else str(otherwise)
    return GivenPolicy(table, source, tuple(int(s) for s in asked), said, digest)


def _missing(words: Words, asked: Array, source: str) -> LogError:
    states = words.counts.states
    named = "; ".join(states.describe(int(s)) for s in asked[:3]) + ("; ..." if asked.size > 3 else "")
    wrong = f"{source}: no decision for {count(asked.size, 'state')} of the log: {named}"
    right = 'name them, or say what to do there: otherwise="logged" (--otherwise logged), or an action'
    return LogError(f"{wrong}; {right}", argument="otherwise", state=states[int(asked[0])])


def _otherwise(words: Words, otherwise: Label | None) -> Array:
    """(S, A) what is done where the policy says nothing; where the log never acted, its actions over all states."""
    n = words.counts.visits.astype(float)
    seen = n.any(axis=1, keepdims=True)
    if otherwise is None or otherwise == LOGGED:
        return np.where(seen, n / np.maximum(n.sum(axis=1, keepdims=True), 1.0), n.sum(axis=0) / n.sum())
    try:
        action = words.action(otherwise)
    except LabelError:
        known = few(words.counts.actions, 8)
        wrong = f'otherwise is {otherwise!r}; it must be "logged" or an action of the log: {known}'
        raise LogError(wrong, argument="otherwise", value=otherwise) from None
    return np.tile(np.eye(n.shape[1])[action], (n.shape[0], 1))


def _matrix(words: Words, decide: Decide, source: str) -> tuple[Array, Array]:
    """(S, A) what it does, and the places of the states of which it says nothing."""
    S, A = words.counts.shape
    matrix, missing = np.zeros((S, A)), np.zeros(S, bool)
    for s in range(S):
        try:
            decision = decide(s)
        except _Unnamed:
            missing[s] = True
            continue
        where = f"{source}: in {words.counts.states.describe(s)}"
        matrix[s] = words.row(decision, where)
    return matrix, np.flatnonzero(missing)


class _Unnamed(Exception):
    """A state of which a policy says nothing."""


# ---- words of a log


@dataclass(frozen=True, eq=False)
class Words:
    """The labels of a log, found by whatever stands for them in a file or in an answer."""

    counts: Counts
    bins: Mapping[str, Bins]

    def action(self, given: LabelLike) -> int:
        """The place of an action."""
        return self._place(self.counts.actions, given)

    def state(self, given: LabelLike) -> int:
        """The place of a state."""
        return self._place(self.counts.states, given)

    def _place(self, labels: Labels, given: LabelLike) -> int:
        key = labels.key(given)
        if key in labels:
            return labels.index(key)
        parts = key if isinstance(key, tuple) and len(labels.names) > 1 else (key,)
        if len(parts) == len(labels.names):
            found = tuple(self._part(labels, i, part) for i, part in enumerate(parts))
            key = found if len(labels.names) > 1 else found[0]
        return labels.index(key)

    def _part(self, labels: Labels, i: int, part: Label) -> Label:
        """The label of a column that is written like this, or that this number lies in."""
        name = labels.names[i]
        known = dict.fromkeys(labels.columns()[name])
        if part in known:
            return part
        written = {str(label): label for label in known}
        if str(part) in written:
            return written[str(part)]
        number = _number(part)
        if number is not None and name in self.bins:
            return self.bins[name].label(number)
        return next((label for label in known if number is not None and _number(label) == number), part)

    def row(self, decision: Decision, where: str) -> Array:
        """(A,) the probabilities of a decision."""
        if not isinstance(decision, Mapping) or set(decision) == set(self.counts.actions.names):
            try:
                return np.eye(len(self.counts.actions))[self.action(cast(LabelLike, decision))]
            except LabelError as error:
                raise LogError(f"{where} {_unknown(error)}", value=decision) from None
        row = np.zeros(len(self.counts.actions))
        for label, p in decision.items():
            row[self._taken(label, where)] += _probability(p, label, where)
        return _summed(row, where)

    def _taken(self, label: Label, where: str) -> int:
        try:
            return self.action(label)
        except LabelError as error:
            raise LogError(f"{where} {_unknown(error)}", value=label) from None


def _unknown(error: LabelError) -> str:
    return f"it takes an action that the log does not have: {error}"


def _number(part: Label) -> float | None:
    if isinstance(part, bool):
        return None
    try:
        return float(cast(str, part))
    except (TypeError, ValueError):
        return None


def _probability(p: object, label: Label, where: str) -> float:
    number = _number(cast(Label, p))
    if number is None or not 0.0 <= number <= 1.0:
        raise LogError(f"{where} the probability of {label!r} is {p!r}; it must be between 0 and 1", value=p)
    return number


def _summed(row: Array, where: str) -> Array:
    total = float(row.sum())
    if not abs(total - 1.0) <= SUMS:
        raise LogError(f"{where} the probabilities sum to {total:.6g}; they must sum to 1", value=total)
    return row / total


# ---- kinds


def _decisions(policy: PolicyGiven, words: Words) -> tuple[str, Decide, str | None]:
    """Where a policy came from, what it decides, and the digest of the counts it was learned from."""
    from dualq.offline.approximate.fit import NumberFit
    from dualq.offline.fit import Fit

    if isinstance(policy, Fit):
        return "the fit", _of_policy(policy.policy, words, "the fit"), policy.counts.digest()
    if isinstance(policy, NumberFit):
        raise LogError("a policy of numbers was given, and the log's states are labels; read the log with numbers=...")
    if isinstance(policy, Decider):
        return "the policy", _of_policy(policy.policy, words, "the policy"), None
    if isinstance(policy, Policy):
        return "the policy", _of_policy(policy, words, "the policy"), None
    if isinstance(policy, Mapping):
        return "the policy", _of_table(cast("Mapping[Label, Decision]", policy), words, "the policy"), None
    if isinstance(policy, str) and is_rule(policy) and not Path(policy).exists():
        return f'the rule "{policy.strip()}"', of_rule(policy, words), None
    if isinstance(policy, str | os.PathLike):
        return _of_path(Path(policy), words)
    if callable(policy):
        name = getattr(policy, "__name__", "function")
        return f"the function {name}", _of_function(policy, words), None
    right = "a Policy, {state: action}, a function, the path of a policy.csv, a .json or a run, or a rule"
    raise LogError(f"the policy is a {type(policy).__name__}; it must be {right}", argument="policy")


def _of_policy(policy: Policy, words: Words, source: str) -> Decide:
    """Anything that answers {action: probability}."""
    states = words.counts.states
    if isinstance(policy, TablePolicy) and policy.states.names != states.names:
        mine, theirs = ", ".join(policy.states.names), ", ".join(states.names)
        raise LogError(f"{source}: its states have the columns {mine}, and the log's {theirs}", argument="policy")
    if policy.actions.names != words.counts.actions.names:
        mine, theirs = ", ".join(policy.actions.names), ", ".join(words.counts.actions.names)
        raise LogError(f"{source}: its actions have the columns {mine}, and the log's {theirs}", argument="policy")

    def decide(s: int) -> Decision:
        label = states[s]
        try:
            if isinstance(policy, TablePolicy) and policy.undecided[policy.states.index(label)]:
                raise _Unnamed
            return policy.probabilities(label)
        except LabelError:
            raise _Unnamed from None

    return decide


def _of_table(policy: Mapping[Label, Decision], words: Words, source: str) -> Decide:
    """{state: decision}; a state that the log does not have is a mistake."""
    found: dict[int, Decision] = {}
    for label, decision in policy.items():
        try:
            place = words.state(label)
        except LabelError as error:
            raise LogError(f"{source}: {error}", value=label) from None
        if place in found:
            raise LogError(f"{source}: {words.counts.states.describe(place)} is named twice", value=label)
        found[place] = decision

    def decide(s: int) -> Decision:
        if s not in found:
            raise _Unnamed
        return found[s]

    return decide


def _of_function(policy: Callable[..., object], words: Words) -> Decide:
    """Called with a label, or with {column: value} where the state has several columns."""
    states = words.counts.states

    def decide(s: int) -> Decision:
        state = states[s] if len(states.names) == 1 else states.named(s)
        try:
            decision = policy(state)
        except DualqError:
            raise
        except Exception as error:
            where = f"the function failed in {states.describe(s)}"
            raise LogError(f"{where}: {type(error).__name__}: {error}", state=states[s]) from error
        if decision is None:
            raise _Unnamed
        return cast(Decision, decision)

    return decide


def of_rule(line: str, words: Words) -> Decide:
    """A rule in one line; where it asks for a number that was cut into bins, it must decide alike in the whole bin."""
    states, actions = words.counts.states, words.counts.actions
    labels = {name: tuple(dict.fromkeys(values)) for name, values in states.columns().items() if name not in words.bins}
    rule = parsed(line, states.names, actions.names, labels)
    cut = [name for name in rule.names if name in words.bins]
    columns = {name: _objects(values) for name, values in states.columns().items() if name in rule.names}
    answers = [_asked(rule, columns | numbers, len(states)) for numbers in _inside(columns, cut, words)]

    def decide(s: int) -> Decision:
        found = list(dict.fromkeys(answer[s] for answer in answers))
        if len(found) > 1:
            edges = f"--bins {cut[0]}=EDGE,EDGE,..."
            wrong = f"the rule decides both {found[0]!r} and {found[1]!r} in {states.describe(s)}"
            raise LogError(f"{wrong}; cut the bins where the rule does ({edges})", state=states[s])
        return found[0]

    return decide


def _objects(values: Iterable[Label]) -> Array:
    values = list(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _asked(rule: OneLineRule, columns: Mapping[str, Array], rows: int) -> list[Label]:
    return rule(columns or {"": np.empty(rows, object)}).tolist()


def _inside(columns: Mapping[str, Array], cut: list[str], words: Words) -> Iterable[dict[str, Array]]:
    """Numbers inside the bins of every column that was cut, place by place; nothing where none was."""
    if not cut:
        return [{}]
    return [{name: _objects(_within(words.bins[name], columns[name].tolist(), at)) for name in cut} for at in INSIDE]


def _within(bins: Bins, labels: list[Label], at: float) -> list[Label]:
    edges = bins.edges
    wide = (edges[-1] - edges[0]) or 1.0
    ends = [edges[0] - wide, *edges, edges[-1] + wide]  # the open bins, as wide as all others
    places = [bins.labels.index(str(label)) for label in labels]
    return [ends[i] + at * (ends[i + 1] - ends[i]) for i in places]


# ---- files


def _of_path(path: Path, words: Words) -> tuple[str, Decide, str | None]:
    if path.is_dir() and (path / NUMBERS).exists():
        return _of_run(path, words)
    if path.is_dir():  # that `evaluate` wrote, perhaps
        if not (path / POLICY).exists():
            right = f"no run; there is neither {NUMBERS} nor {POLICY} in it"
            raise LogError(f"{path}: {right}", path=str(path), argument="policy")
        path = path / POLICY
    if not path.exists():
        spaced = any(mark in str(path) for mark in "=<> ")
        rule = f"; a rule is written as {EXAMPLE}" if spaced else ""
        raise LogError(f"{path}: no such file or run{rule}", path=str(path), argument="policy")
    read = {".json": _read_json, ".csv": _read_csv}.get(path.suffix.lower())
    if read is None:
        right = "a policy is a .csv or .json file, or a folder that `dualq learn --out` wrote"
        raise LogError(f"{path}: {right}", path=str(path), argument="policy")
    return str(path), _of_table(read(path, words), words, str(path)), None


def _of_run(folder: Path, words: Words) -> tuple[str, Decide, str | None]:
    from dualq.offline.fit import Fit
    from dualq.offline.saved.loading import load

    fit = load(folder)
    if not isinstance(fit, Fit):
        raise LogError(f"{folder}: its policy is one of numbers, and the log's states are labels; read the log alike")
    return str(folder), _of_policy(fit.policy, words, str(folder)), fit.counts.digest()


def _read_json(path: Path, words: Words) -> Mapping[Label, Decision]:
    try:
        given = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, UnicodeDecodeError) as error:
        raise LogError(f"{path}: is not JSON ({error})", path=str(path)) from None
    if isinstance(given, list):
        rows = [{str(k): v for k, v in row.items()} for row in given if isinstance(row, dict)]
        if len(rows) == len(given) and rows:
            return _of_rows(path, rows, words, "entry", 0)
    if not isinstance(given, dict) or not given:
        right = '{"state": "action"}, {"state": {"action": 0.5, ...}}, or a list of {column: value}'
        raise LogError(f"{path}: must hold {right}", path=str(path))
    return {_json_state(str(key), words): decision for key, decision in given.items()}


def _json_state(key: str, words: Words) -> Label:
    """The key of an object is text: a state of several columns is written as JSON, [3, "winter"] or {"stock": 3}."""
    if len(words.counts.states.names) == 1:
        return key
    try:
        state = json.loads(key)
    except ValueError:
        return tuple(part.strip() for part in key.split(","))
    if isinstance(state, dict):
        return words.counts.states.key(state)
    return tuple(state) if isinstance(state, list) else (state,)


def _read_csv(path: Path, words: Words) -> Mapping[Label, Decision]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [{unguarded(name): unguarded(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise LogError(f"{path}: is not a CSV file in UTF-8 ({error})", path=str(path)) from None
    if not lines:
        raise LogError(f"{path}: has no rows; it must have {_header(words)}", path=str(path))
    return _of_rows(path, lines, words, "row", 1)


def _header(words: Words) -> str:
    return ",".join([*words.counts.states.names, *words.counts.actions.names, PROBABILITY])


def _of_rows(
    path: Path, rows: Sequence[Mapping[str, Label]], words: Words, called: str, first: int
) -> Mapping[Label, Decision]:
    """{state: {action: probability}} of rows with the columns of both; without a probability each is certain."""
    states, actions = words.counts.states, words.counts.actions
    for name in (*states.names, *actions.names):
        if name not in rows[0]:
            close = nearest(name, [str(key) for key in rows[0]])
            hint = f"did you mean {close!r}?" if close else f"the columns are {few(rows[0])}"
            wrong = f"{path}: no column {name!r}; {hint} It must have {_header(words)}"
            raise LogError(wrong, path=str(path), column=name)
    found: dict[int, dict[Label, float]] = {}
    for i, row in enumerate(rows):
        line = f" (line {i + 2})" if first else ""
        where = f"{path}: {called} {i + first}{line}"
        s, a = (_found(labels, row, where, find) for labels, find in ((states, words.state), (actions, words.action)))
        chances = found.setdefault(s, {})
        if actions[a] in chances:
            both = f"{states.describe(s)}, {actions.describe(a)}"
            raise LogError(f"{where} has {both} once more; each may stand once", path=str(path), row=i + first)
        p = row.get(PROBABILITY)
        chances[actions[a]] = 1.0 if p in (None, "") else _probability(p, actions[a], f"{where}:")
    return {states[s]: chances for s, chances in found.items()}


def _found(labels: Labels, row: Mapping[str, Label], where: str, find: Callable[[LabelLike], int]) -> int:
    given = {name: row.get(name) for name in labels.names}
    try:
        return find(given)
    except LabelError as error:
        raise LogError(f"{where}: {error}", value=tuple(given.values()), column=labels.names[0]) from None
