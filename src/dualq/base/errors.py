"""One family of exceptions. Every message names the value, where it stands, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict, Unpack, cast

LONGEST, WORD = 1000, 60  # letters of a message; of a word in one that would be longer


class ErrorParts(TypedDict, total=False):
    """What an error is about; `DualqError` says what each is."""

    path: str
    row: int
    line: int
    column: str
    value: object
    argument: str
    state: object
    action: object


class DualqError(Exception):
    """Anything that dualq refuses to do, with the reason in one line.

    The sentence (`str(error)`) is for people. Programs read the same from fields, each None where it does not apply:

        path       the file, folder or database it is about, as the user named it
        row        the row of the log or table, counted as in the sentence
        line       the line of a text file
        column     the column
        value      what was found there, or given for the argument
        argument   the argument, or option of the command line, that is at fault
        state      the state, by its label
        action     the action, by its label
    """

    path: str | None = None
    row: int | None = None
    line: int | None = None
    column: str | None = None
    value: object = None
    argument: str | None = None
    state: object = None
    action: object = None

    def __init__(self, message: str, **parts: Unpack[ErrorParts]) -> None:
        super().__init__(_one_line(message))
        vars(self).update(parts)

    @property
    def parts(self) -> ErrorParts:
        """The fields that apply, by name: for an error that says more about the same."""
        return cast(ErrorParts, {name: vars(self)[name] for name in ErrorParts.__annotations__ if name in vars(self)})


def _one_line(message: str) -> str:
    """One line that can be read, whatever stands in it: a value of the user's may be a page, or a million letters."""
    line = " ".join(message.splitlines())
    if len(line) > LONGEST:
        line = re.sub(rf"(\S{{{WORD}}})\S+", r"\1...", line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 3 :]}"


@contextmanager
def about(**parts: Unpack[ErrorParts]) -> Iterator[None]:
    """Errors raised inside are about these parts, where they do not say otherwise themselves."""
    try:
        yield
    except DualqError as error:
        vars(error).update({**parts, **error.parts})
        raise


class ModelError(DualqError, ValueError):
    """A model that is not a Markov decision process, or an argument that does not fit it."""


class LogError(DualqError, ValueError):
    """A log, or a row of it, that cannot be used as it is."""


class LabelError(LogError, ModelError):
    """A state or an action that the log, or the model, does not have."""


class ArgumentError(LogError, ModelError, TypeError):
    """An argument that is not of the kind that a function asks for."""


class InfeasibleError(DualqError, ValueError):
    """Limits that no policy can keep.

    conflict   the names of limits that cannot be kept together, none of them to spare
    least      {name: the best value that each of them can reach alone}: the smallest for <=, the largest for >=
    nearest    {name: bound} for every limit: the bounds given, loosened as little as it takes
    """

    def __init__(
        self,
        message: str,
        *,
        conflict: tuple[str, ...] = (),
        least: dict[str, float] | None = None,
        nearest: dict[str, float] | None = None,
        **parts: Unpack[ErrorParts],
    ):
        super().__init__(message, **parts)
        self.conflict, self.least, self.nearest = conflict, least or {}, nearest or {}


class CheckpointError(DualqError):
    """A file written by dualq that is damaged, or that belongs to other settings."""
