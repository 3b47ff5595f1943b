"""What is asked of a log whose state has numbers; light, since every log is asked whether it has any."""

from __future__ import annotations

from dataclasses import dataclass

from dualq.base import LogError, checked_interval
from dualq.logs import Start
from dualq.offline.approximate.own_features import FeaturesGiven
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


def check_is_for_numbers(right: str = "cut the numbers into bins", /, **asked: object) -> None:
    """A LogError where something was asked that only a table of states can do: {argument: value}, None if not."""
    for name, value in asked.items():
        if value is not None:
            wrong = f"{name} is {value!r}, and needs a table of states"
            raise LogError(f"{wrong}; leave it out, or {right}", argument=name, value=value)


@dataclass(frozen=True)
class Known:
    """What a user knows beyond the rows: a proof of a table, such as one of cells, can use it, and nothing else can."""

    value_range: tuple[float, float] | None = None
    looks: int = 1
    assumed: tuple[str, ...] = ()

    def __post_init__(self):
        if self.value_range is not None:
            checked_interval("value_range", self.value_range, LogError, argument="value_range")


NOTHING = Known()


@dataclass(frozen=True)
class Asked:
    """What a user asks of a log of numbers."""

    approximation: str
    discount: float
    confidence: float
    start: Start
    limits: LimitsGiven | None
    certificate: str | None
    known: Known = NOTHING
    features: FeaturesGiven | None = None  # of the linear learner; None: random waves
    seed: int = 0

    @property
    def of_cells(self) -> bool:
        """Whether cells are among what is tried: limits are kept by the linear learner, unless cells are asked for."""
        return self.approximation == "partition" or (self.approximation == "auto" and self.limits is None)

    def check_features(self) -> None:
        """A LogError where features are given to learners that have none."""
        if self.features is not None and self.approximation not in ("auto", "linear"):
            right = f"with approximation {self.approximation} leave it out"
            raise LogError(f"features is for the linear learner; {right}", argument="features")

    def check_known(self, reward_range: object, cost_ranges: object) -> None:
        """A LogError where the user says what no learner that is tried can use."""
        if not self.of_cells:
            known = self.known
            check_is_for_numbers(
                "learn with approximation partition",
                reward_range=reward_range,
                cost_ranges=cost_ranges or None,
                value_range=known.value_range,
                looks=None if known.looks == 1 else known.looks,
                assume=" and ".join(known.assumed) or None,
            )
