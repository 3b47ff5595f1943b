"""`dualq learn` and `dualq explain`: the main job, and what people ask afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.columns import label_of, range_of
from dualq.app.cli.reading import Opening, reads_a_log
from dualq.app.cli.shared import Json, console, option, print_files, print_json, stages, working, written

if TYPE_CHECKING:
    from rich.console import Console

    from dualq.offline import Fit, NumberFacts, NumberFit


Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A folder that `dualq learn --out` wrote.", show_default=False)
]
State = Annotated[
    str,
    typer.Option(
        metavar="JSON",
        help="""The state: '{"stock": 3, "season": "winter"}', or a bare value, such as 3.""",
        show_default=False,
    ),
]


@reads_a_log
def learn(
    given: Opening,
    value_range: Annotated[
        str | None,
        option(
            "LO,HI", "The least and the most that a policy can earn in total, if you know more than the rewards say."
        ),
    ] = None,
    discount: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", help="How much a reward counts if it comes one step later. 0: only the next one counts."
        ),
    ] = 0.95,
    confidence: Annotated[float, typer.Option(metavar="NUMBER", help="How sure guarantees must be.")] = 0.95,
    looks: Annotated[
        int,
        typer.Option(metavar="NUMBER", help="How often you look at this log in all; guarantees allow for each look."),
    ] = 1,
    start: Annotated[
        str | None,
        option("WHERE", "Where to start counting rewards: episodes (where they begin), log (any row), or uniform."),
    ] = None,
    pessimism: Annotated[
        float | None, option("NUMBER", "How cautiously to judge rarely tried actions: 1 is the default, 0 not at all.")
    ] = None,
    certificate: Annotated[
        str, typer.Option(metavar="KIND", help="How to guarantee: proven, bootstrap (approximate) or none.")
    ] = "proven",
    limit: Annotated[
        list[str] | None,
        option(
            "LIMIT",
            'Keep a cost within a limit, on average per step (early steps count more): "stockout<=0.02", or >=; may be '
            "repeated.",
        ),
    ] = None,
    margin: Annotated[
        str, typer.Option(metavar="KIND", help="How to keep limits: certified (guaranteed, if possible) or none.")
    ] = "certified",
    approximation: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="How to learn if the state has numbers: auto, table (needs --bins), partition, linear or neural.",
        ),
    ] = "auto",
    features: Annotated[
        str | None,
        option("KIND", "Features of the linear learner: waves (the default) or splines; your own in Python only."),
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Use Algorithm 1 of the paper, row by row, instead of the exact solution.")
    ] = False,
    assume: Annotated[
        list[str] | None,
        option("WHAT", 'What you vouch for: "set aside" (rows set aside are like the others); may be repeated.'),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Write report.html, policy.csv (none if the state has numbers), fit.json and solution.npz to this folder.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a better policy from a log, and say how good it is.

    A log is a table with a row per decision: what was known (the state), what was decided (the action), what it earned
    (the reward), and when. Columns with common names (state, action, reward, next_state, done, episode, time) are
    recognised. It does not matter who decided, or how; that may even have changed over time.
    """
    with stages("Reading the log") as begin:
        log = given()
        from dualq.offline import learn as learn_from

        fit = learn_from(
            log.source,
            **log.told,
            discount=discount,
            confidence=confidence,
            looks=looks,
            start=start,
            pessimism=pessimism,
            certificate=None if certificate == "none" else certificate,
            solver="online" if online else "exact",
            limits=limit or None,
            margin=margin,
            value_range=range_of("--value-range", value_range),
            assume=assume or (),
            approximation=approximation,
            features=features,
            progress=begin,
        )
        files = [] if out is None else written(fit, out, begin)
    if as_json:
        print_json(fit.summary() | {"files": files})
        return
    page = console()
    print_fit_of(fit, page)
    if log.shipped:
        page.print(
            "\nThis log is an example that ships with dualq; it is simulated. For your own: `dualq look LOG`, then "
            "`dualq learn LOG --state A,B --action X --reward R --time T`."
        )
    aside = [fit.set_aside] if fit.set_aside else []
    print_files(page, [*files, *aside], "to keep the policy, a report and all numbers, add --out DIR.")


def print_fit_of(fit: Fit | NumberFit, page: Console) -> None:
    """Print a fit, of whatever kind."""
    from dualq.offline import Fit

    if isinstance(fit, Fit):
        from dualq.app.report.terminal import print_fit

        print_fit(fit, page)
    else:
        from dualq.app.report.number_pages import print_number_fit

        print_number_fit(fit, page)


def explain(run: Run, state: State, as_json: Json = False) -> None:
    """Explain one state: each action with its rows, what it is expected to earn, and what the new policy does."""
    with working("Loading"):
        from dualq.offline import Fit, IterateFit, load

        fit = load(run)
    if isinstance(fit, IterateFit):
        fit.explain(label_of(state))
    if not isinstance(fit, Fit):
        _explain_numbers(fit, fit.explain(label_of(state)), as_json)
        return
    facts = fit.explain(label_of(state))
    if as_json:
        print_json(facts)
        return
    from dualq.app.report.decision_words import explained
    from dualq.app.report.limit_words import chosen_under
    from dualq.app.report.terminal import columns
    from dualq.app.report.words import named, verdict

    page = console()
    if fit.verdict == "do not use":
        page.print(f"{verdict(fit)}\n", style="bold", markup=False)
    first, header, rows, below = explained(fit, facts)
    page.print(f"{named(facts['state'])}\n", style="bold", markup=False)
    page.print(f"{first}\n")
    page.print(columns(header, rows))
    page.print(f"\n{below}")
    if words := chosen_under(fit):
        page.print(words, markup=False)


def _explain_numbers(fit: NumberFit, facts: NumberFacts, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    from dualq.app.report.number_words import explained
    from dualq.app.report.terminal import columns
    from dualq.app.report.words import named

    page = console()
    first, header, rows, below = explained(fit, facts)
    page.print(f"{named(facts['state'])}\n", style="bold", markup=False)
    for line in first:
        page.print(line)
    page.print()
    page.print(columns(header, rows))
    page.print()
    for line in below:
        page.print(line, markup=False)
