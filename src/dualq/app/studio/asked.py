"""What the page may ask for, as typed values: what is not named here is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(max_length=20_000)]
Names = Annotated[list[Name], Field(max_length=500)]
Edges = Annotated[list[float], Field(min_length=1, max_length=500)]
BinsOfColumn = Annotated[int, Field(ge=2, le=1000)] | Literal["auto"] | Edges
Unit = Annotated[float, Field(ge=0.0, lt=1.0)]
Text = Annotated[str, Field(max_length=2_000)]


class Strict(BaseModel):
    """Nothing but what is named."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Columns(Strict):
    """The arguments of `read_log`: which part each column plays. False: there is none; None: look for it."""

    state: Names | Name | None = None
    action: Names | Name | None = None
    reward: Name | None = None
    next_state: Names | Name | Literal[False] | None = None
    episode: Names | Name | Literal[False] | None = None
    time: Name | Literal[False] | None = None
    terminal: Name | Literal[False] | None = None
    truncated: Name | Literal[False] | None = None
    costs: Names | Name | Literal[False] | None = None
    propensity: Name | Literal[False] | None = None
    bins: dict[Name, BinsOfColumn] | Literal["auto"] | None = None
    action_bins: Annotated[int, Field(ge=2, le=1000)] | Edges | None = None
    numbers: Names | Literal["auto"] | None = None
    reward_range: tuple[float, float] | None = None
    cost_ranges: dict[Name, tuple[float, float]] | None = None
    skip_bad: bool | None = None
    table: Name | None = None
    delimiter: Annotated[str, Field(max_length=4)] | None = None
    columns: Names | None = None
    since: Text | None = None
    until: Text | None = None
    clock: Literal["shared", "episode"] | None = None
    day_first: bool | None = None

    def said(self) -> dict[str, object]:
        """What was said; the rest is found by dualq."""
        told = self.model_dump(exclude_none=True)
        return {name: value for name, value in told.items() if (name, value) != ("propensity", False)}


class Learning(Strict):
    """The arguments of `learn`."""

    discount: Unit | None = None
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    start: Literal["episodes", "log", "uniform"] | None = None
    pessimism: Annotated[float, Field(ge=0.0)] | None = None
    limits: Annotated[list[Text], Field(max_length=50)] | None = None
    margin: Literal["certified", "none"] | None = None
    approximation: Literal["auto", "table", "partition", "linear", "neural"] | None = None
    assume: list[Text] | None = None
    reward_range: tuple[float, float] | None = None  # what rewards can be, where somebody knows

    def said(self) -> dict[str, object]:
        """What was said; the rest is as `learn` has it."""
        return self.model_dump(exclude_none=True)


class Chosen(Strict):
    """What was chosen of a log on its pages: which part columns play, how they are read, how to learn."""

    edited: bool = False
    parts: Annotated[dict[Name, Names], Field(max_length=20)] = Field(default_factory=dict)
    bins: dict[Name, BinsOfColumn] | Literal["auto"] | None = None
    numbers: Names | None = None
    more: Columns = Columns()
    learning: Learning = Learning()

    def said(self) -> dict[str, object]:
        """As the page has it."""
        return {**self.model_dump(), "more": self.more.said(), "learning": self.learning.said()}


class OfLog(Strict):
    """A question about a log, as its columns are understood."""

    columns: Columns = Columns()


class NewJob(Strict):
    """A run to be learned."""

    log: Name
    name: Text = ""
    columns: Columns = Columns()
    learning: Learning = Learning()


class Place(Strict):
    """A state of a run: its place, or its columns."""

    place: int | None = None
    state: dict[Name, str | float | int | bool] | None = None


class Behind(Strict):
    """Rows of the log behind a decision."""

    state: dict[Name, str | float | int | bool]
    action: dict[Name, str | float | int | bool] | None = None


class Limits(Strict):
    """Other limits for a run."""

    limits: dict[Name, float]
    margin: Literal["certified", "none"] = "certified"


class Export(Strict):
    """A policy for another system."""

    to: Literal["json", "sql", "python"]
    dialect: Literal["duckdb", "postgres", "sqlite"] = "duckdb"
    approximate: bool = False


class Judge(Strict):
    """Policies to be judged by a log: rules, and runs of the workspace."""

    log: Name
    columns: Columns = Columns()
    rules: Annotated[dict[Text, Text], Field(max_length=20)] = Field(default_factory=dict)
    runs: Annotated[list[Name], Field(max_length=20)] = Field(default_factory=list)


class Compare(Strict):
    """Runs, side by side."""

    runs: Annotated[list[Name], Field(min_length=1, max_length=20)]
