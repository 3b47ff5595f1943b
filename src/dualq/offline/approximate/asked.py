"""What is asked of a log whose state has numbers; light, since every log is asked whether it has any."""

from __future__ import annotations

from dataclasses import dataclass

from dualq.base import LogError
from dualq.logs import Start
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.stages import Read

APPROXIMATIONS = ("auto", "table", "partition", "linear", "neural")


def check_approximation(asked: str) -> None:
    """A LogError where there is no such approximation."""
    if asked not in APPROXIMATIONS:
        words = f"approximation is {asked!r}; it must be one of {', '.join(APPROXIMATIONS)}"
        raise LogError(words, argument="approximation", value=asked)


def is_of_numbers(opened: Read, asked: str) -> bool:
    """Whether what is asked of a log is learned as a function of numbers, and not as a table."""
    if asked == "table" or opened.log is None:
        return False
    return bool(opened.log.numbers) or asked != "auto"


def check_is_for_numbers(**asked: object) -> None:
    """A LogError where something was asked that only a table of states can do: {argument: value}, None if not."""
    for name, value in asked.items():
        if value is not None:
            right = "leave it out, or cut the numbers into bins"
            raise LogError(f"{name} is {value!r}, and needs a table of states; {right}", argument=name, value=value)


@dataclass(frozen=True)
class Asked:
    """What a user asks of a log of numbers."""

    approximation: str
    discount: float
    confidence: float
    start: Start
    limits: LimitsGiven | None
    certificate: str | None
    seed: int = 0
