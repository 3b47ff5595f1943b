"""What is asked of a run: the decision, one state, the trade-off of a cost, other limits.

Words, tables and charts are those of the report (app/report): here they are only put into plain values. Runs that were
asked lately stay loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from dualq.app.report import charts, decision_words, html, limit_words, number_words, words
from dualq.app.report.guarantee_words import guarantee
from dualq.app.report.number_pages import number_rules
from dualq.app.report.number_pages import worth as number_worth
from dualq.app.report.pages import frontier_spec
from dualq.app.studio.page_words import all_on_page, on_page
from dualq.base import InfeasibleError, LogError, visible
from dualq.offline import Estimate, Fit, IterateFit, NumberFit, load

if TYPE_CHECKING:
    from dualq.app.studio.worker import Begin

MOST_STATES = 5_000  # rows of the policy's table that are sent
MOST_CHANGES = 200
SUCCESSORS = 6
POINTS = 41  # of a trade-off
WANTED = 20  # pairs whose rows would help most
GRID = 12  # values of each column of numbers in a map of two

Facts = dict[str, object]
Arguments = Mapping[str, object]


@lru_cache(maxsize=6)
def _loaded(folder: str, written: float) -> Fit | NumberFit:
    fit = load(folder)
    if isinstance(fit, IterateFit):
        raise LogError("this run was learned from iterates, which have no counts: the studio has nothing to show of it")
    return fit


def loaded(folder: str) -> Fit | NumberFit:
    """The fit of a run; loaded once, until it is written anew."""
    return _loaded(folder, (Path(folder) / "fit.json").stat().st_mtime)


def do_ready(begin: Begin, given: Arguments) -> Facts:
    """Load what the first question would have to wait for."""
    charts.bars_spec([charts.Bar("", 1)])
    return {}


def do_open(begin: Begin, given: Arguments) -> Facts:
    """The decision: all that its page shows."""
    fit = loaded(str(given["run"]))
    return table_facts(fit) if isinstance(fit, Fit) else number_facts(fit)


def do_state(begin: Begin, given: Arguments) -> Facts:
    """One state: every action with its rows, value and interval, and what came after it."""
    fit = loaded(str(given["run"]))
    if not isinstance(fit, Fit):
        return _number_state(fit, cast("dict[str, str]", given["state"]))
    s = int(cast("int", given["place"]))
    if not 0 <= s < len(fit.counts.states):
        raise LogError(f"there is no state {s}; the run has {len(fit.counts.states)}")
    label = fit.counts.states.named(s)
    facts = fit.explain(label)
    first, header, rows, below = decision_words.explained(fit, facts)
    names = fit.counts.actions.names
    taken = [{name: row[name] for name in names} for row in facts["actions"]]
    places = [fit.counts.actions.index(action) for action in taken]
    return {
        "title": words.named(label),
        "state": label,
        "first": first,
        "header": header,
        "rows": rows,
        "below": [below, *filter(None, [limit_words.chosen_under(fit)])],
        "actions": [{"label": action, "said": words.said(action)} for action in taken],
        "successors": [_successors(fit, s, a) for a in places],
        "intervals": [[row["low"], row["value"], row["high"]] for row in facts["actions"]],
        "share": [row["recommended"] for row in facts["actions"]],
    }


def do_curve(begin: Begin, given: Arguments) -> Facts:
    """The trade-off of a cost: every computed limit, and the chart of it."""
    fit, cost = loaded(str(given["run"])), str(given["cost"])
    if not isinstance(fit, Fit):
        return fit.frontier(cost)
    curve = fit.frontier(cost, POINTS)
    band = fit.certificate is not None and fit.certificate.informative and not limit_words.doubtful(fit)
    return {
        "cost": curve.name,
        "sense": curve.sense,
        "points": curve.rows(),
        "chosen": curve.chosen,
        "band": band,
        "confidence": words.percent(curve.confidence),
        "blocks": curve.blocks,
        "spec": frontier_spec(curve, band, None, None),
        "narrow": frontier_spec(curve, band, None, charts.NARROW),
        "each": "decision" if words.one_shot(fit) else "step",
        "doubt": on_page(guarantee(fit)[0]) if limit_words.doubtful(fit) else "",
    }


def do_limits(begin: Begin, given: Arguments) -> Facts:
    """The run with other limits, solved exactly; where they cannot be kept, what can."""
    fit = loaded(str(given["run"]))
    if not isinstance(fit, Fit):
        raise LogError("limits are moved where states are labels or bins; learn again with the limit")
    try:
        other = fit.with_limits(cast("dict[str, float]", given["limits"]), str(given["margin"]))
    except InfeasibleError as error:
        return {"infeasible": str(error), "nearest": error.nearest}
    moved = 0.5 * np.abs(other.policy.matrix - fit.policy.matrix).sum(axis=1)
    return table_facts(other) | {"moved": float(other.time_share @ moved)}


# ---- a fit over a table of states


def table_facts(fit: Fit) -> Facts:
    """The decision of a fit whose states are labels or bins."""
    promise, rows = words.relied_on(fit), fit.changes(MOST_CHANGES)
    return {
        "kind": "table",
        "source": fit.settings["source"],
        "decisions": fit.counts.total,
        "confidence": words.percent(fit.confidence),
        **_headline(fit.verdict, words.verdict(fit), limit_words.guarantees(fit), promise is not None),
        "warnings": all_on_page(words.warnings(fit)),
        "expected": _estimate(fit.expected),
        "logged": _estimate(fit.logged),
        "difference": _estimate(_difference(fit.expected, fit.logged)),
        "promised": None if promise is None else _ends(promise.lower, promise.policy_upper),
        "gain": None if promise is None else words.number(promise.proven_more),
        "worth": charts.intervals_spec(html.worth(fit)),
        "worth_narrow": charts.intervals_spec(html.worth(fit), charts.NARROW),
        "caption": html.worth_caption(fit),
        "heading": words.changes_heading(fit),
        "changed": words.changed(fit, len(rows)),
        "changes": {
            "header": [*fit.counts.states.names, *words.CHANGES],
            "rows": [[*map(visible, row["state"].values()), *words.change_cells(row)] for row in rows],
            "places": [fit.counts.states.index(row["state"]) for row in rows],
            "below": words.changes_explained(fit),
        },
        "policy": _policy(fit),
        "rules": _rules(fit),
        "why": {"table": words.worth_table(fit), "lines": all_on_page(words.why(fit))},
        "limits": {
            "asked": {limit.name: limit.bound for limit in fit.limits},
            "kept": fit.limits_kept,
            "margin": fit.settings["margin"],
            "table": limit_words.limit_table(fit),
            "lines": [*limit_words.limit_words(fit), limit_words.bounds_words(fit)] if fit.limits else [],
        },
        "costs": {
            "names": list(fit.costs),
            "table": limit_words.cost_table(fit),
            "words": on_page(limit_words.cost_words(fit)),
        },
        "coverage": charts.bars_spec(html.coverage_bars(fit)),
        "coverage_narrow": charts.bars_spec(html.coverage_bars(fit), charts.NARROW),
        "details": [
            ["What was read", words.read(fit)],
            ["What the log covers", [(name, on_page(fact)) for name, fact in words.covered(fit)]],
            ["How it was done", html.how(fit)],
        ],
        "lists": [
            ["What was tested", all_on_page(words.tests(fit))],
            ["Bounds", [*words.ceilings(fit), *words.more_rows(fit)]],
            [words.RESTS, words.assumptions(fit)],
        ],
        "data": _data(fit),
    }


def _policy(fit: Fit) -> Facts:
    """What is done in each state, beside what was done most often, those first where most decisions are made."""
    visits, matrix, states = fit.counts.visits, fit.policy.matrix, fit.counts.states
    usual, chosen = visits.argmax(axis=1), matrix.argmax(axis=1)
    acted = np.flatnonzero(visits.any(axis=1))
    order = acted[np.argsort(-fit.time_share[acted], kind="stable")][:MOST_STATES]
    actions = [words.said(fit.counts.actions.named(a)) for a in range(len(fit.counts.actions))]
    return {
        "names": list(states.names),
        "numeric": [_numeric(values) for values in states.columns().values()],
        "actions": actions,
        "colours": charts.palette(len(actions)),
        "of": int(acted.size),
        "states": [
            {
                "place": int(s),
                "label": [_cell(value) for value in states.named(s).values()],
                "do": int(chosen[s]),
                "probability": float(matrix[s, chosen[s]]),
                "rows": int(visits[s, chosen[s]]),
                "usual": int(usual[s]),
                "usual_rows": int(visits[s, usual[s]]),
                "share": float(fit.time_share[s]),
            }
            for s in order
        ],
    }


def _rules(fit: Fit) -> Facts | None:
    """The policy as a few rules, where a map would not show it."""
    if len(fit.counts.states.names) <= 2:
        return None
    found = html.policy_rules(fit)
    share = "all" if found.fidelity > 1.0 - 1e-9 else f"{100.0 * found.fidelity:.1f}%"
    return {
        "rules": [
            [list(rule.conditions), words.said(fit.counts.actions.named(rule.action)), words.percent(rule.share)]
            for rule in found.rules
        ],
        "below": f"A summary: it gives the new policy's action in {share} of its decisions.",
    }


def _successors(fit: Fit, s: int, a: int) -> list[Facts]:
    """Where a pair led, and how often."""
    counts = fit.counts
    here = np.flatnonzero((counts.s == s) & (counts.a == a))
    order = here[np.argsort(-counts.n[here], kind="stable")]
    total = int(counts.n[here].sum())
    found: list[Facts] = []
    for i in order[:SUCCESSORS]:
        ended = bool(counts.ended[i])
        found.append(
            {
                "place": None if ended else int(counts.s_next[i]),
                "words": "the episode ended" if ended else words.said(counts.states.named(counts.s_next[i])),
                "rows": int(counts.n[i]),
                "share": words.percent(float(counts.n[i]) / total),
                "reward": words.number(float(counts.reward_sum[i] / counts.n[i])),
            }
        )
    return found


def _data(fit: Fit) -> Facts:
    """Which rows would help most, and why more is not guaranteed."""
    promise, counts = fit.certificate, fit.counts
    wanted = [] if promise is None or fit.withheld else promise.wanted(WANTED)
    return {
        "lines": all_on_page([*words.ceilings(fit), *([] if wanted else limit_words.guarantees(fit))]),
        "header": ["state", "action", "rows so far", "more rows", "raises the lower bound by"],
        "rows": [
            [
                words.named(counts.states.named(counts.states.index(one.state))),
                words.said(counts.actions.named(counts.actions.index(one.action))),
                f"{one.visits:,}",
                words.about(one.rows),
                f"{one.raises:.2g}",
            ]
            for one in wanted
        ],
        "limits": [words.pair(fit, one) for one in fit.limits_wanted[:WANTED]],
        "needed": None if promise is None or not promise.rows_needed else words.about(promise.rows_needed),
    }


# ---- a fit over states of numbers


def number_facts(fit: NumberFit) -> Facts:
    """The decision of a fit whose states are made of numbers."""
    header, rows = number_words.cost_rows(fit)
    promise = fit.certificate if fit.promised else None
    return {
        "kind": "numbers",
        "source": fit.read.source,
        "decisions": fit.rows,
        "confidence": words.percent(fit.confidence),
        **_headline(fit.verdict, number_words.verdict(fit), number_words.guarantees(fit), fit.promised),
        "warnings": [on_page(words.sentence(line)) for line in fit.warnings],
        "expected": _estimate(fit.expected),
        "logged": _estimate(fit.logged),
        "difference": _estimate(fit.gain),
        "promised": None if promise is None else _ends(promise.lower, promise.policy_upper),
        "gain": None,
        "worth": charts.intervals_spec(number_worth(fit)),
        "worth_narrow": charts.intervals_spec(number_worth(fit), charts.NARROW),
        "caption": "What each policy is expected to earn. Lines: two standard errors on both sides.",
        "heading": number_words.heading(fit),
        "changed": number_words.summary_words(fit),
        "rules": {
            "rules": [[list(conditions), action, ""] for conditions, action in number_rules(fit)],
            "below": number_words.summary_words(fit),
        },
        "why": {
            "table": (number_words.CANDIDATES, number_words.candidate_rows(fit)),
            "lines": all_on_page([*number_words.candidates_words(fit), number_words.earned(fit)]),
        },
        "limits": {
            "asked": {limit.name: limit.bound for limit in fit.limits},
            "kept": fit.limits_kept,
            "margin": None,
            "table": number_words.limit_rows(fit),
            "lines": number_words.limit_words(fit) if fit.limits else [],
        },
        "costs": {"names": [], "table": (header, rows), "words": ""},
        "details": [["What was read", number_words.read(fit)]],
        "lists": [["What was tested", all_on_page(number_words.tests(fit))]],
        "plots": _plots(fit),
        "grid": _grid(fit),
        "columns": list(fit.columns.names),
        "usual": _usual(fit),
    }


def _plots(fit: NumberFit) -> list[Facts]:
    """How the decision depends on each column."""
    actions = [words.said(fit.actions.named(a)) for a in range(len(fit.actions))]
    found: list[Facts] = []
    for name, share in list(fit.importance.items())[:6]:
        if share < 0.005:
            continue
        at = fit.dependence(name)
        specs = [charts.shares_spec(at.at, at.shares.tolist(), actions, name, w) for w in (charts.WIDE, charts.NARROW)]
        caption = f"How often each action is taken as {name} varies, all other columns as logged: "
        caption += f"{words.percent(share)} of decisions rest on it."
        found.append({"name": name, "spec": specs[0], "narrow": specs[1], "caption": caption})
    return found


def _grid(fit: NumberFit) -> Facts | None:
    """The action over the two columns of numbers that matter most."""
    names = [name for name, x in fit.importance.items() if name in fit.columns.numbers and x >= 0.005][:2]
    if len(names) < 2:
        return None
    actions = [words.said(fit.actions.named(a)) for a in range(len(fit.actions))]
    x, y = names
    cells = [[f"{c.x:.3g}", f"{c.y:.3g}", c.action, int(c.rows)] for c in fit.grid(x, y, GRID)]
    return {"names": names, "actions": actions, "colours": charts.palette(len(actions)), "cells": cells}


def _usual(fit: NumberFit) -> Facts:
    """A state to begin with: the middle of every column of numbers, the commonest label of every other."""
    state = fit.sample.state
    found: Facts = {name: float(f"{np.median(state.numbers[:, j]):.4g}") for j, name in enumerate(fit.columns.numbers)}
    for j, (name, labels) in enumerate(fit.columns.categories.items()):
        column = state.categories[:, j]
        found[name] = _cell(labels[int(np.bincount(column[column >= 0]).argmax())])
    return found


def _number_state(fit: NumberFit, state: Mapping[str, str]) -> Facts:
    facts = fit.explain(state)
    first, header, rows, below = number_words.explained(fit, facts)
    return {
        "title": words.named(facts["state"]),
        "state": facts["state"],
        "first": " ".join(first),
        "header": header,
        "rows": rows,
        "below": below,
        "actions": [{"label": row["action"], "said": words.said(row["action"])} for row in facts["actions"]],
        "successors": [],
        "intervals": [],
        "share": [row["recommended"] for row in facts["actions"]],
    }


# ---- plain values


def _headline(kind: str, said: str, below: Sequence[str], sure: bool) -> Facts:
    word, _, rest = said.partition(". ")
    return {"verdict": kind, "word": word, "rest": rest, "guarantees": all_on_page(below), "sure": sure}


def _difference(mine: Estimate, other: Estimate) -> Estimate:
    """As the verdict says it: errors of the two are taken for independent."""
    both = mine.standard_error, other.standard_error
    error = None if both[0] is None or both[1] is None else math.hypot(both[0], both[1])
    return Estimate(mine.value - other.value, error)


def _estimate(e: Estimate) -> Facts:
    return {
        "value": e.value,
        "error": e.standard_error,
        "words": words.number(e.value),
        "plus": "" if e.standard_error is None else f"± {words.small(e.standard_error)}",
    }


def _ends(low: float, high: float) -> Facts:
    return {"low": words.number(low), "high": words.number(high)}


def _cell(value: object) -> object:
    return value if isinstance(value, bool | int | float) else visible(value)


def _numeric(values: Sequence[object]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
