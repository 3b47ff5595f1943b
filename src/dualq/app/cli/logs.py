"""`dualq learn`, `dualq explain` and `dualq act`: the main job, and what people ask afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dualq.app.cli.columns import bins_of, listed, or_none
from dualq.app.cli.shared import Json, console, option, print_files, print_json, stages, working
from dualq.base import LogError

if TYPE_CHECKING:
    from typer.models import OptionInfo

    from dualq.base import Label
    from dualq.offline import Fit


def _columns(what: str) -> OptionInfo:
    return option("COLUMNS", what, panel="Columns")


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
    state: Annotated[str | None, _columns("What was known when deciding; several columns: stock,season.")] = None,
    action: Annotated[str | None, _columns("What was decided.")] = None,
    reward: Annotated[str | None, _columns("What was earned.")] = None,
    next_state: Annotated[
        str | None, _columns("The state afterwards. Without it: the next row of the episode. `none`: no such column.")
    ] = None,
    episode: Annotated[
        str | None, _columns("Which rows belong together, such as shop or patient. `none`: no such column.")
    ] = None,
    time: Annotated[
        str | None, _columns("The order of the rows. `row`: as in the file. `none`: no order is known.")
    ] = None,
    terminal: Annotated[
        str | None,
        _columns("True where an episode ended. `last`: every last row ended its episode. `none`: no such column."),
    ] = None,
    truncated: Annotated[
        str | None,
        _columns("True where a recording stopped. `last`: every last row is such a stop. `none`: no such column."),
    ] = None,
    cost: Annotated[
        list[str] | None,
        option("COLUMN", "A cost to count beside the reward, for --limit and frontier; may be repeated."),
    ] = None,
    bins: Annotated[
        list[str] | None,
        option(
            "COLUMN=N",
            "Cut numbers into N bins with equally many rows, or at edges: COLUMN=0,10,50. `auto` finds bins.",
        ),
    ] = None,
    columns: Annotated[str | None, option("A,B,C", "The names of the columns, if the file has no header.")] = None,
    delimiter: Annotated[str | None, option("MARK", "What separates the fields of a CSV, if it is unusual.")] = None,
    table: Annotated[str | None, option("NAME", "The table, if LOG is a database.")] = None,
    since: Annotated[str | None, option("TIME", "Use only rows from this time on, for example after a change.")] = None,
    until: Annotated[str | None, option("TIME", "Use only rows before this time.")] = None,
    clock: Annotated[
        str | None,
        option("KIND", "Whether the time column is `shared` by all episodes, or counts the steps of each `episode`."),
    ] = None,
    day_first: Annotated[
        bool | None,
        typer.Option(
            "--day-first/--month-first", help="Which stands first in dates such as 03/04/2024.", show_default=False
        ),
    ] = None,
    reward_range: Annotated[
        str | None,
        option("LO,HI", "What rewards can be, such as --reward-range=-10,50. Without it: the range in the log."),
    ] = None,
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
    online: Annotated[
        bool, typer.Option("--online", help="Use Algorithm 1 of the paper, row by row, instead of the exact solution.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Write bad rows to a file and go on, instead of stopping at the first.")
    ] = False,
    assume: Annotated[
        list[str] | None,
        option("WHAT", 'What you vouch for: "set aside" (rows set aside are like the others); may be repeated.'),
    ] = None,
    quarantine: Annotated[
        Path | None, option("FILE", "Where --skip-bad writes bad rows. Without it: the log's name with .bad.")
    ] = None,
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
            table,
            delimiter,
            columns,
        )
        if log is None and any((*given, reward_range, quarantine, since, until, clock)):
            raise LogError("options say how to read a log, but no LOG is given; give the file, or leave them out")
        if quarantine is not None and not skip_bad:
            raise LogError("--quarantine says where bad rows go, but without --skip-bad the first of them stops")
        reading: dict[str, Any]
        if log is None:
            from dualq.worlds import sample_log as shipped

            source, reading = shipped.path(), shipped.COLUMNS
        else:
            source, reading = (
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
                    "columns": listed(columns),
                    "table": table,
                    "delimiter": delimiter,
                    "since": since,
                    "until": until,
                    "clock": clock,
                    "day_first": day_first,
                    "reward_range": _range("--reward-range", reward_range),
                    "skip_bad": skip_bad,
                    "quarantine": quarantine,
                },
            )
        from dualq.offline import learn as learn_from

        fit = learn_from(
            source,
            **reading,
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
            progress=begin,
        )
        files = [] if out is None else _written(fit, out, begin)
    if as_json:
        print_json(fit.summary() | {"files": files})
        return
    from dualq.app.report.terminal import print_fit

    page = console()
    print_fit(fit, page)
    if log is None:
        page.print(
            "\nThis log is an example that ships with dualq; it is simulated. For your own: `dualq look LOG`, then "
            "`dualq learn LOG --state A,B --action X --reward R --time T`."
        )
    aside = [fit.settings["set_aside"]] if fit.settings["set_aside"] else []
    print_files(page, [*files, *aside], "to keep the policy, a report and all numbers, add --out DIR.")


def _written(fit: Fit, out: Path, begin: Callable[[str], None]) -> list[str]:
    begin("Writing")
    files = fit.save(out)
    fit.report(out / "report.html")
    return [str(out / "report.html"), *files]


def explain(run: Run, state: State, as_json: Json = False) -> None:
    """Explain one state: each action with its rows, what it is expected to earn, and what the new policy does."""
    with working("Loading"):
        from dualq.offline import load

        fit = load(run)
    facts = fit.explain(_label(state))
    if as_json:
        print_json(facts)
        return
    from dualq.app.report.limit_words import chosen_under
    from dualq.app.report.terminal import columns
    from dualq.app.report.words import explained, named

    page = console()
    first, header, rows, below = explained(fit, facts)
    page.print(f"{named(facts['state'])}\n", style="bold", markup=False)
    page.print(f"{first}\n")
    page.print(columns(header, rows))
    page.print(f"\n{below}")
    if words := chosen_under(fit):
        page.print(words, markup=False)


def act(
    run: Run,
    state: State,
    seed: Annotated[int | None, option("S", "The same seed draws the same action, if the policy is random.")] = None,
    default: Annotated[str | None, option("JSON", "What to answer for a state that is not in the log.")] = None,
) -> None:
    """Say what to do in one state: an action, as JSON."""
    from dualq.offline import decider_of

    action = decider_of(run).act(_label(state), seed, None if default is None else _label(default))
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
