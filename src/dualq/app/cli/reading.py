"""The options that say how to read a log, for every command that reads one.

`reads_a_log` gives a command LOG and an option for each argument of `read_log` (logs/reading/options.py) beside its
own. The command is called with a function that says what was given; it complains of what cannot be understood.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dualq.app.cli.columns import action_bins_of, bins_of, listed, numbers_of, or_none, range_of, ranges_of, reading
from dualq.base import LogError
from dualq.logs import READING

Words = dict[str, Any]  # {argument: its value}, before and after it is understood
KINDS: dict[str, object] = {  # of the options that are not one text
    "costs": list[str] | None,
    "bins": list[str] | None,
    "cost_ranges": list[str] | None,
    "skip_bad": bool,
    "day_first": bool | None,
    "quarantine": Path | None,
}
NAMES = {"costs": "cost", "cost_ranges": "cost_range"}  # as a command has them
AS_THEY_ARE = ("reward", "propensity", "table", "delimiter", "since", "until", "clock", "day_first", "quarantine")
ABOUT_IT = ("skip_bad", "day_first")  # options that say nothing of a log by themselves


@dataclass(frozen=True)
class Given:
    """A log as the command line names it."""

    source: str | Path
    told: Words  # for read_log
    shipped: bool  # whether it is the log that ships with dualq


Opening = Callable[[], Given]  # a LogError where the options do not fit together


def given_log(log: str | None, words: Words) -> Given:
    """What `read_log` is to be told; without LOG, the log that ships with dualq."""
    if words["quarantine"] is not None and not words["skip_bad"]:
        raise LogError("--quarantine says where bad rows go, but without --skip-bad the first of them stops")
    if log is not None:
        return Given(log, told(words), False)
    if any(value for name, value in words.items() if name not in ABOUT_IT):
        raise LogError("options say how to read a log, but no LOG is given; give the file, or leave them out")
    from dualq.worlds import sample_log as shipped

    return Given(shipped.path(), dict(shipped.COLUMNS), True)


def told(words: Words) -> Words:
    """The arguments of `read_log` from the words of the command line."""
    return {
        **{name: words[name] for name in AS_THEY_ARE},
        **{name: listed(words[name]) for name in ("state", "action", "columns")},
        **{name: or_none(listed(words[name])) for name in ("next_state", "episode")},
        **{name: or_none(words[name]) for name in ("time", "terminal", "truncated")},
        "costs": words["costs"] or (),
        "bins": bins_of(words["bins"] or []),
        "action_bins": action_bins_of(words["action_bins"]),
        "numbers": numbers_of(words["numbers"]),
        "reward_range": range_of("--reward-range", words["reward_range"]),
        "cost_ranges": ranges_of(words["cost_ranges"] or []),
        "skip_bad": words["skip_bad"],
    }


def reads_a_log(command: Callable[..., None], log: inspect.Parameter | None = None) -> Callable[..., None]:
    """The command with LOG and every option of `read_log` beside its own; it is called with (Opening, **own).

    log: how LOG is given, where not as an argument that may be left out
    """
    _, *given = inspect.signature(command, eval_str=True).parameters.values()
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in given]
    options = {name: _parameter(name) for name, option in READING.items() if option.metavar is not None}

    @functools.wraps(command)
    def with_log(**words: Any) -> None:
        source = words.pop("log")
        asked = {name: words.pop(parameter.name) for name, parameter in options.items()}
        command(lambda: given_log(source, asked), **words)

    must = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
    may = [parameter for parameter in own if parameter not in must]
    every = [_log() if log is None else log, *must, *options.values(), *may]
    with_log.__signature__ = inspect.Signature(every)  # pyright: ignore[reportAttributeAccessIssue]
    with_log.__annotations__ = {p.name: p.annotation for p in every}
    return with_log


def _log() -> inspect.Parameter:
    words = "A file, folder, glob or database. Without one: the example that ships with dualq."
    kind = Annotated[str | None, typer.Argument(metavar="[LOG]", help=words, show_default=False)]
    return inspect.Parameter("log", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def as_option(words: str) -> inspect.Parameter:
    """LOG as --log, which must be given."""
    kind = Annotated[str, typer.Option("--log", metavar="LOG", help=words, show_default=False)]
    return inspect.Parameter("log", inspect.Parameter.KEYWORD_ONLY, annotation=kind)


def _parameter(name: str) -> inspect.Parameter:
    kind = Annotated[KINDS.get(name, str | None), reading(name)]
    default = False if name == "skip_bad" else None
    return inspect.Parameter(NAMES.get(name, name), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
