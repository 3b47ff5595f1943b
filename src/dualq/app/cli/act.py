"""`dualq act`: what to do in one state, or in every row of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.columns import label_of
from dualq.app.cli.logs import Run
from dualq.app.cli.shared import option, print_json, stages
from dualq.base import LabelError, LogError, count

if TYPE_CHECKING:
    from dualq.base import Label, Labels

FAR = "the log hardly knows states like this one: do not rely on this action; `dualq explain` says more"


def act(
    run: Run,
    state: Annotated[
        str | None,
        option("JSON", """The state: '{"stock": 3, "season": "winter"}', or a bare value, such as 3."""),
    ] = None,
    log: Annotated[
        str | None, option("FILE", "Instead of --state: a file with a state in every row. Needs --out.")
    ] = None,
    out: Annotated[
        Path | None,
        option("FILE", "With --log: write its rows and what to do in each of them, to a .csv or .parquet file."),
    ] = None,
    case: Annotated[
        str | None,
        option(
            "CASE",
            "If the policy is random: the number of the case. The same case always gets the same action. With --log: "
            "the column that has it; by default, the number of the row.",
        ),
    ] = None,
    seed: Annotated[int | None, option("S", "The same seed draws the same action, if the policy is random.")] = None,
    default: Annotated[
        str | None, option("JSON", "The action to answer with for a state that is not in the log.")
    ] = None,
    table: Annotated[str | None, option("NAME", "The table, if --log is a database.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --log: print one JSON object.")] = False,
) -> None:
    """Say what to do in one state (an action, as JSON), or in every row of a file.

    If the policy should not be used, standard error says so, and where the log hardly knows states made of numbers.
    A state that the log never had gets no action, unless --default says what to do: a single state is refused, and in
    a file the cell stays empty (the column `undecided` says why).
    """
    from dualq.offline import decider_of, doubt_of, surroundings_of

    if (state is None) == (log is None) or (log is None) != (out is None):
        raise LogError("say what to decide: --state JSON for one state, or --log FILE --out FILE for many")
    policy = decider_of(run)
    otherwise = None if default is None else _action(default, policy.actions)
    if doubt := doubt_of(run):
        print(f"dualq: {doubt}", file=sys.stderr)
    if state is not None:
        try:
            action = policy.act(label_of(state), seed, otherwise, None if case is None else _number(case))
        except LabelError as error:
            unknown = default is None and str(error).startswith("no ")
            advice = ". To have an answer all the same, add --default ACTION" if unknown else ""
            raise LogError(f"{error}{advice}", value=error.value) from None
        around = surroundings_of(run)
        if around is not None and around.is_far(label_of(state)):
            print(f"dualq: {FAR}", file=sys.stderr)
        print(json.dumps(action, ensure_ascii=False, default=str))
        return
    if seed is not None:
        raise LogError("--seed is for --state; rows of a file are drawn by their case (--case COLUMN)")
    _decide(run, log or "", out or Path(), case, otherwise, table, as_json)


def _decide(run: Path, log: str, out: Path, case: str | None, default: Label, table: str | None, as_json: bool) -> None:
    from dualq.offline import decide_file, decider_of, surroundings_of

    with stages("Deciding"):
        found = decide_file(decider_of(run), log, out, case, default, table, surroundings_of(run))
    if found.far:
        print(
            f"dualq: rows in states that the log hardly knows: {found.far:,} of {found.rows:,} (one in a hundred is "
            "usual); do not rely on their actions",
            file=sys.stderr,
        )
    if as_json:
        facts = {"rows": found.rows, "unknown": found.unknown, "missing": found.missing}
        facts |= {"first_unknown": found.first_unknown}
        print_json({**facts, "columns": list(found.columns), "files": [str(out)]})
        return
    print(f"{_decided(found.rows, found.unknown + found.missing)}, in {', '.join(found.columns)}. Written: {out}")
    there = "they have the --default" if default is not None else "the field is empty there (--default fills it)"
    if found.unknown:
        example = json.dumps(found.first_unknown, ensure_ascii=False, default=str)
        print(f"{count(found.unknown, 'row')} with a state that the log never had, such as {example}: {there}.")
    if found.missing:
        print(f"{count(found.missing, 'row')} without some value of the state: {there}.")
    if found.unknown or found.missing:
        print("The column `undecided` says which is which.")


def _decided(rows: int, unknown: int) -> str:
    """How many rows have a decision of the policy."""
    if not unknown:
        return f"{count(rows, 'row')} decided"
    return f"{rows - unknown:,} of {count(rows, 'row')} decided"


def _action(words: str, actions: Labels) -> Label:
    """The action of --default, which must be one that the log has."""
    action = label_of(words)
    try:
        return actions[actions.index(action)]
    except LabelError as error:
        raise LogError(f"--default {words}: {error}", value=words) from None


def _number(case: str) -> int:
    try:
        return int(case)
    except ValueError:
        raise LogError(f"--case {case}: must be a whole number, such as the number of an order") from None
