"""`dualq learn`, `dualq explain` and `dualq act`: the main job, and what people ask afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dualq.app.cli.columns import action_bins_of, bins_of, listed, numbers_of, or_none, ranges_of, reading
from dualq.app.cli.shared import Json, console, option, print_files, print_json, stages, working
from dualq.base import LogError

if TYPE_CHECKING:
    from rich.console import Console

    from dualq.base import Label
    from dualq.offline import Fit, NumberFacts, NumberFit


Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A folder that `dualq learn --out` wrote.", show_default=False)
]
State = Annotated[
    str,
    typer.Option(
        metavar="JSON",
        help="""The state: '{"stock": 3, "season": "winter"}', or bare, such as 3.""",
        show_default=False,
    ),
]


def learn(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOG]",
            help="A file, folder, glob or database. Without one: the example that ships with dualq.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[str | None, reading("state")] = None,
    action: Annotated[str | None, reading("action")] = None,
    reward: Annotated[str | None, reading("reward")] = None,
    next_state: Annotated[str | None, reading("next_state")] = None,
    episode: Annotated[str | None, reading("episode")] = None,
    time: Annotated[str | None, reading("time")] = None,
    terminal: Annotated[str | None, reading("terminal")] = None,
    truncated: Annotated[str | None, reading("truncated")] = None,
    cost: Annotated[list[str] | None, reading("costs")] = None,
    bins: Annotated[list[str] | None, reading("bins")] = None,
    action_bins: Annotated[str | None, reading("action_bins")] = None,
    numbers: Annotated[str | None, reading("numbers")] = None,
    columns: Annotated[str | None, reading("columns")] = None,
    delimiter: Annotated[str | None, reading("delimiter")] = None,
    table: Annotated[str | None, reading("table")] = None,
    since: Annotated[str | None, reading("since")] = None,
    until: Annotated[str | None, reading("until")] = None,
    clock: Annotated[str | None, reading("clock")] = None,
    day_first: Annotated[bool | None, reading("day_first")] = None,
    reward_range: Annotated[str | None, reading("reward_range")] = None,
    cost_range: Annotated[list[str] | None, reading("cost_ranges")] = None,
    value_range: Annotated[
        str | None, option("LO,HI", "What a policy can earn in total, if you know more than the rewards say.")
    ] = None,
    discount: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", help="How much a reward counts if it comes one step later. 0: only the next one counts."
        ),
    ] = 0.95,
    confidence: Annotated[float, typer.Option(metavar="NUMBER", help="How sure guarantees must be.")] = 0.95,
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
        option("LIMIT", 'Keep a cost within a limit, on average: "stockout<=0.02", or >=; may be repeated.'),
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
    online: Annotated[
        bool, typer.Option("--online", help="Use Algorithm 1 of the paper, row by row, instead of the exact solution.")
    ] = False,
    skip_bad: Annotated[bool, reading("skip_bad")] = False,
    assume: Annotated[
        list[str] | None,
        option("WHAT", 'What you vouch for: "set aside" (rows set aside are like the others); may be repeated.'),
    ] = None,
    quarantine: Annotated[Path | None, reading("quarantine")] = None,
    out: Annotated[
        Path | None,
        option("DIR", "Write report.html, policy.csv, fit.json and solution.npz to this folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a better policy from a log, and say how good it is.

    A log is a table with a row per decision: what was known (the state), what was decided (the action), what it earned
    (the reward), and when. Columns with common names (state, action, reward, next_state, done, episode, time) are
    recognised. It does not matter who decided, or how; that may even have changed over time.
    """
    with stages("Reading the log") as begin:
        given = (
            state,
            action,
            reward,
            next_state,
            episode,
            time,
            terminal,
            truncated,
            cost,
            bins,
            action_bins,
            numbers,
            table,
            delimiter,
            columns,
        )
        if log is None and any((*given, reward_range, cost_range, quarantine, since, until, clock)):
            raise LogError("options say how to read a log, but no LOG is given; give the file, or leave them out")
        if quarantine is not None and not skip_bad:
            raise LogError("--quarantine says where bad rows go, but without --skip-bad the first of them stops")
        told: dict[str, Any]
        if log is None:
            from dualq.worlds import sample_log as shipped

            source, told = shipped.path(), shipped.COLUMNS
        else:
            source, told = (
                log,
                {
                    "state": listed(state),
                    "action": listed(action),
                    "reward": reward,
                    "next_state": or_none(listed(next_state)),
                    "episode": or_none(listed(episode)),
                    "time": or_none(time),
                    "terminal": or_none(terminal),
                    "truncated": or_none(truncated),
                    "costs": cost or (),
                    "bins": bins_of(bins or []),
                    "action_bins": action_bins_of(action_bins),
                    "numbers": numbers_of(numbers),
                    "columns": listed(columns),
                    "table": table,
                    "delimiter": delimiter,
                    "since": since,
                    "until": until,
                    "clock": clock,
                    "day_first": day_first,
                    "reward_range": _range("--reward-range", reward_range),
                    "cost_ranges": ranges_of(cost_range or []),
                    "skip_bad": skip_bad,
                    "quarantine": quarantine,
                },
            )
        from dualq.offline import learn as learn_from

        fit = learn_from(
            source,
            **told,
            discount=discount,
            confidence=confidence,
            start=start,
            pessimism=pessimism,
            certificate=None if certificate == "none" else certificate,
            solver="online" if online else "exact",
            limits=limit or None,
            margin=margin,
            value_range=_range("--value-range", value_range),
            assume=assume or (),
            approximation=approximation,
            progress=begin,
        )
        files = [] if out is None else _written(fit, out, begin)
    if as_json:
        print_json(fit.summary() | {"files": files})
        return
    page = console()
    _print(fit, page)
    if log is None:
        page.print(
            "\nThis log is an example that ships with dualq; it is simulated. For your own: `dualq look LOG`, then "
            "`dualq learn LOG --state A,B --action X --reward R --time T`."
        )
    aside = [fit.set_aside] if fit.set_aside else []
    print_files(page, [*files, *aside], "to keep the policy, a report and all numbers, add --out DIR.")


def _print(fit: Fit | NumberFit, page: Console) -> None:
    from dualq.offline import Fit

    if isinstance(fit, Fit):
        from dualq.app.report.terminal import print_fit

        print_fit(fit, page)
    else:
        from dualq.app.report.number_pages import print_number_fit

        print_number_fit(fit, page)


def _written(fit: Fit | NumberFit, out: Path, begin: Callable[[str], None]) -> list[str]:
    begin("Writing")
    files = fit.save(out)
    fit.report(out / "report.html")
    return [str(out / "report.html"), *files]


def explain(run: Run, state: State, as_json: Json = False) -> None:
    """Explain one state: each action with its rows, what it is expected to earn, and what the new policy does."""
    with working("Loading"):
        from dualq.offline import Fit, IterateFit, load

        fit = load(run)
    if isinstance(fit, IterateFit):
        fit.explain(_label(state))
    if not isinstance(fit, Fit):
        _explain_numbers(fit, fit.explain(_label(state)), as_json)
        return
    facts = fit.explain(_label(state))
    if as_json:
        print_json(facts)
        return
    from dualq.app.report.limit_words import chosen_under
    from dualq.app.report.terminal import columns
    from dualq.app.report.words import explained, named, verdict

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


def act(
    run: Run,
    state: State,
    seed: Annotated[int | None, option("S", "The same seed draws the same action, if the policy is random.")] = None,
    default: Annotated[str | None, option("JSON", "What to answer for a state that is not in the log.")] = None,
) -> None:
    """Say what to do in one state: an action, as JSON; on standard error, whether the policy should not be used."""
    from dualq.offline import decider_of, doubt_of

    action = decider_of(run).act(_label(state), seed, None if default is None else _label(default))
    if doubt := doubt_of(run):
        print(f"dualq: {doubt}", file=sys.stderr)
    print(json.dumps(action, ensure_ascii=False, default=str))


def _label(words: str) -> Label:
    """A label as JSON, or a bare word."""
    try:
        label = json.loads(words)
    except ValueError:
        if words.lstrip().startswith(("{", "[", '"')):
            raise LogError(f"the state {words} is not JSON; write it as '{{\"stock\": 3}}'") from None
        return words
    return tuple(cast("list[Label]", label)) if isinstance(label, list) else label


def _range(option: str, words: str | None) -> tuple[float, float] | None:
    """Two numbers from LO,HI."""
    if words is None:
        return None
    try:
        low, high = map(float, words.split(","))
    except ValueError:
        raise LogError(
            f"{option} {words}: must be two numbers, LO,HI, such as {option}=-10,50", argument=option, value=words
        ) from None
    return low, high
