"""The report of a fit: one HTML page, in the order in which a person asks.

what is recommended and what it is worth; what can be promised; costs and limits; what changes; the policy; what was
read; what the log cannot tell; how it was done
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from dualq._version import __version__
from dualq.report import charts
from dualq.report.page import facts, figure, listed, note, note_below, page, section, table, text, tiles, title
from dualq.report.words import (
    COSTS,
    basis,
    changed,
    cost_table,
    evidence,
    found_against,
    limit_assumptions,
    limit_table,
    limit_words,
    not_promised,
    number,
    percent,
    promises,
    read,
    recommended,
    said,
    unknown,
)

SHOWN_STATES = 200  # rows of the policy's table; the rest is in policy.csv
MOST_CELLS = 3000  # of a heat map
MOST_CURVES = 3  # trade-offs that are drawn
SAYS_NOTHING = 0.01  # of the value range: a ceiling as near to its end as this is not worth a tile


MARGINS = {
    "certified": "certified: proven bounds within the limits where the log allows it, else a margin of standard errors",
    "none": "none: the estimates are kept within the limits, and nothing is promised",
}


def report_html(fit: Any) -> str:
    """The whole page."""
    return page(
        "What to do, learned from a log",
        title("What to do, learned from a log", fit.settings["source"]),
        *(note(words, warn=True) for words in _warnings(fit)),
        tiles(_tiles(fit)),
        text(fit.reason),
        section("What it is worth", *_worth(fit)),
        *([section("Costs", *_costs(fit))] if cost_table(fit)[1] else []),
        *([section("Limits", *_limits(fit))] if fit.limits else []),
        section("What changes", *_changes(fit)),
        section("The policy", *_policy(fit)),
        section("What was read", facts(read(fit))),
        section("What the log cannot tell", *_coverage(fit)),
        section("How it was done", facts(_how(fit))),
        f'<p class="muted">Written by dualq {__version__}.</p>',
    )


def _warnings(fit: Any) -> list[str]:
    """What must be read before any number."""
    return [*fit.coverage.warnings, *([not_promised(fit)] if fit.contradicted else [])]


def _tiles(fit: Any) -> list[tuple[str, str, str]]:
    expected, logged = fit.expected, fit.logged
    cells = [
        ("recommended policy", number(expected.value), f"expected value, standard error {number(expected.error)}"),
        ("what was logged", number(logged.value), f"expected value, standard error {number(logged.error)}"),
    ]
    for kept in fit.limits:
        error = f"estimate, standard error {kept.error:.2g}; " if kept.low is not None else ""
        cells.append((kept.text, f"{kept.estimate:.3g}", error + basis(fit, kept)))
    if fit.certificate is not None and fit.certificate.informative:
        promise, sure = fit.certificate, f"{percent(fit.confidence)} sure"
        floor, ceiling = "the policy is worth at least this", "no policy is worth more"
        if fit.contradicted:
            floor = ceiling = f"would be {sure}, but {found_against(fit)}"
            sure = "not promised"
        cells.append((f"floor, {sure}", number(promise.lower), floor))
        low, high = promise.value_range
        if high - promise.upper > SAYS_NOTHING * (high - low):
            cells.append((f"ceiling, {sure}", number(promise.upper), ceiling))
    return cells


def _worth(fit: Any) -> list[str]:
    z = float(ndtri(0.5 + fit.confidence / 2.0))
    rows = [
        {"name": f"{name}: {e}", "low": e.value - z * e.error, "high": e.value + z * e.error, "value": e.value}
        for name, e in (("logged, estimate", fit.logged), ("recommended, estimate", fit.expected))
    ]
    caption = f"Discounted reward from the start. Estimates: the dot, and {z:.3g} standard errors on both sides."
    if fit.certificate is not None and fit.certificate.informative:
        low, high = fit.certificate.behaviour
        proven = "not promised" if fit.contradicted else "proven"
        rows.append({"name": f"logged, {proven}", "low": low, "high": high})
        low, high = fit.certificate.lower, max(high, fit.expected.value + 3.0 * fit.expected.error)
        rows.append({"name": f"recommended, {proven}", "low": low, "high": high, "open": True})
        caption += (
            f" {proven.capitalize()}: the logged behaviour between its bounds, the recommended policy from its floor "
            "on; that bar is open to the right."
        )
    parts = [figure(charts.intervals(rows, "discounted reward from the start"), caption), *map(text, promises(fit))]
    if fit.certificate is None:
        return parts
    parts += [
        text("What would be promised rests on:" if fit.contradicted else "What is proven rests on:"),
        listed(fit.certificate.assumptions),
    ]
    return [*parts, text("What the log itself says of that:"), listed(evidence(fit))]


def _costs(fit: Any) -> list[str]:
    return [text(COSTS), table(*cost_table(fit), stack=True)]


def _limits(fit: Any) -> list[str]:
    header, rows = limit_table(fit)
    warning = "Not every limit is promised; the table says what each rests on."
    words = "" if fit.limits_kept else note(warning, warn=True)
    caption = (
        f"{limit_assumptions(fit)} argmax Q: the greedy policy of the same Q. Without limits: the best policy of the "
        "same model when nothing is limited."
    )
    parts = [words, table(header, rows, stack=True), note_below(caption), *map(text, limit_words(fit))]
    curves = [kept for kept in fit.limits if kept.low is not None][:MOST_CURVES]
    return [*parts, *(_curve(fit, kept) for kept in curves)]


def _curve(fit: Any, kept: Any) -> str:
    """The trade-off, with what is proven behind it where that says something."""
    frontier = fit.frontier(kept.name)
    informative = fit.certificate is not None and fit.certificate.informative
    proven = "would be proven if nothing spoke against it" if fit.contradicted else "is proven"
    behind = f"The pale band {proven}" if informative else "What is proven is too wide to be shown"
    caption = (
        f"What a limit on {kept.name} costs: the best value for every limit, as estimated, with a standard error on "
        f"both sides; the dashed line is the limit that was asked for. Every point keeps its limit by estimate alone. "
        f"The diamond is the recommended policy, estimated at {kept.estimate:.3g}. {behind}."
    )
    return figure(frontier.chart(band=informative, marked=kept.bound), caption)


def _changes(fit: Any) -> list[str]:
    rows = fit.changes()
    if not rows:
        return [text(changed(fit, 0))]
    header = [*fit.counts.states.names, "time", "logged most", "its share", "recommended", "its rows", "gain", "error"]
    body = [
        [
            *row["state"].values(),
            percent(row["time_share"]),
            said(row["logged"]),
            percent(row["logged_share"]),
            recommended(row),
            row["recommended_rows"],
            row["gain"],
            row["gain_error"],
        ]
        for row in rows
    ]
    return [text(changed(fit, len(rows))), table(header, body, stack=True)]


def _policy(fit: Any) -> list[str]:
    if len(fit.counts.states.names) <= 2 and len(fit.counts.states) <= MOST_CELLS:
        caption = "What is recommended, and what the log did most often. Darker is later in the list of actions."
        return [figure(_heat_map(fit), caption)]
    columns = fit.policy.columns()
    body = list(zip(*columns.values(), strict=True))
    words = "What to do in each state, and with which probability where that is random."
    more = (
        f" The first {SHOWN_STATES} of {len(body):,} rows; all are in policy.csv." if len(body) > SHOWN_STATES else ""
    )
    return [text(words + more), table(list(columns), body[:SHOWN_STATES])]


def _heat_map(fit: Any) -> str:
    """States of one or two columns: what is recommended beside what was logged most often."""
    labels = fit.counts.states.columns()
    names = sorted(labels, key=lambda name: -len(set(labels[name])))  # the longer column goes down the page
    usual, chosen = fit.counts.visits.argmax(axis=1), fit.policy.matrix.argmax(axis=1)
    acted = fit.counts.visits.any(axis=1)
    actions = [said(fit.counts.actions.named(a)) for a in range(len(fit.counts.actions))]
    rows = [
        {**_cell(labels, names, s, policy), "action": actions[int(choice[s])]}
        for policy, choice in (("recommended", chosen), ("logged most often", usual))
        for s in np.flatnonzero(acted)
    ]
    return charts.heat_map(rows, "" if len(names) == 1 else names[1], names[0], actions)


def _cell(labels: Any, names: list[str], s: Any, policy: str) -> dict[str, Any]:
    """Where a state stands in the picture: one column goes down the page, and the two policies stand side by side."""
    if len(names) == 1:
        return {"y": labels[names[0]][s], "x": policy, "panel": ""}
    return {"y": labels[names[0]][s], "x": labels[names[1]][s], "panel": policy}


def _coverage(fit: Any) -> list[str]:
    names = ("never", "1 to 9", "10 to 99", "100 to 999", "1,000 or more")
    place = np.searchsorted([1, 10, 100, 1000], fit.counts.visits.ravel(), side="right")
    rows = [{"name": name, "number": int((place == i).sum())} for i, name in enumerate(names)]
    chart = charts.bars(rows, "pairs of state and action", "rows in the log")
    caption = "How often the log has each pair of a state and an action. Nothing is made up about pairs it never has."
    return [figure(chart, caption), facts(unknown(fit))]


def _how(fit: Any) -> list[tuple[str, str]]:
    settings = fit.settings
    gap = "" if settings["gap"] is None else f"; duality gap {settings['gap']:.2g}"
    return [
        ("discount", f"{settings['discount']:g}: what a reward one step later is worth"),
        ("value is measured", settings["start"]),
        ("pessimism", f"{settings['pessimism']:g} (1 is the default, 0 trusts the log blindly)"),
        ("solved by", fit.solution.method + gap),
        *([("margin of the limits", MARGINS[settings["margin"]])] if fit.limits else []),
        ("confidence", percent(fit.confidence)),
    ]
