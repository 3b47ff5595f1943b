"""Tables and columns of an engine: what dualq asks of whatever holds a log.

A log may lie in DuckDB, SQLite, PostgreSQL, Spark or a warehouse. Ibis speaks to all of them; here is the part of it
that dualq needs, so that whoever brings another engine knows what must work, and so that nothing else depends on Ibis.

    Table, Grouped   rows: chosen, filtered, sorted, grouped, added up
    Expression       a column, or what is computed from columns
    Kind             the type of a column
    Backend          who answers
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa


class Kind(Protocol):
    """The type of a column."""

    def is_boolean(self) -> bool:
        """Flags."""
        ...

    def is_integer(self) -> bool:
        """Whole numbers."""
        ...

    def is_floating(self) -> bool:
        """Numbers that may be NaN or infinite."""
        ...

    def is_decimal(self) -> bool:
        """Numbers with a fixed number of digits."""
        ...

    def is_numeric(self) -> bool:
        """Numbers; flags too."""
        ...

    def is_string(self) -> bool:
        """Text."""
        ...

    def is_date(self) -> bool:
        """Days."""
        ...

    def is_timestamp(self) -> bool:
        """Moments."""
        ...

    def is_time(self) -> bool:
        """Times of the day."""
        ...

    def is_temporal(self) -> bool:
        """Days, moments, or times of the day."""
        ...

    def is_interval(self) -> bool:
        """How long something lasted."""
        ...

    def is_nested(self) -> bool:
        """Lists and structs: several values in a cell."""
        ...

    def is_binary(self) -> bool:
        """Bytes."""
        ...

    def is_json(self) -> bool:
        """Values of several types."""
        ...

    def is_unknown(self) -> bool:
        """What Ibis has no name for."""
        ...


class Backend(Protocol):
    """Who answers."""

    @property
    def name(self) -> str:
        """ "duckdb", "sqlite", "postgres", "pyspark", ..."""
        ...

    def has_operation(self, operation: type, /) -> bool:
        """Whether the engine has a word for it."""
        ...


class Expression(Protocol):
    """A column, or what is computed from columns: an expression, which the engine evaluates when it is asked.

    Arithmetic and comparisons are those of Python, but for `same` and `differ`: == must give a bool.
    """

    def __add__(self, other: object, /) -> Expression: ...
    def __sub__(self, other: object, /) -> Expression: ...
    def __mul__(self, other: object, /) -> Expression: ...
    def __truediv__(self, other: object, /) -> Expression: ...
    def __mod__(self, other: object, /) -> Expression: ...
    def __lt__(self, other: object, /) -> Expression: ...
    def __le__(self, other: object, /) -> Expression: ...
    def __gt__(self, other: object, /) -> Expression: ...
    def __ge__(self, other: object, /) -> Expression: ...
    def __and__(self, other: object, /) -> Expression: ...
    def __or__(self, other: object, /) -> Expression: ...
    def __invert__(self) -> Expression: ...

    def type(self) -> Kind:
        """What it holds."""
        ...

    def cast(self, kind: str, /) -> Expression:
        """As another type; an error where a value cannot be."""
        ...

    def try_cast(self, kind: str, /) -> Expression:
        """As another type; NULL where a value cannot be."""
        ...

    def isnull(self) -> Expression:
        """Whether there is no value."""
        ...

    def notnull(self) -> Expression:
        """Whether there is a value."""
        ...

    def fill_null(self, value: object, /) -> Expression:
        """With a value where there is none."""
        ...

    def ifelse(self, true: object, false: object, /) -> Expression:
        """One where a flag holds, the other where it does not."""
        ...

    def isin(self, values: Sequence[object], /) -> Expression:
        """Whether it is one of these."""
        ...

    def abs(self) -> Expression:
        """Without its sign."""
        ...

    def floor(self) -> Expression:
        """The whole number below."""
        ...

    def round(self, digits: int, /) -> Expression:
        """With so many digits after the point."""
        ...

    def epoch_seconds(self) -> Expression:
        """The seconds of a moment since 1970."""
        ...

    def hash(self) -> Expression:
        """A whole number that depends on the value alone."""
        ...

    def strip(self) -> Expression:
        """Text without spaces at its ends."""
        ...

    def lower(self) -> Expression:
        """Text in small letters."""
        ...

    def length(self) -> Expression:
        """How long a text is."""
        ...

    def nullif(self, value: object, /) -> Expression:
        """NULL where it is this value."""
        ...

    def re_search(self, pattern: str, /) -> Expression:
        """Whether a text matches."""
        ...

    def re_replace(self, pattern: str, replacement: str, /) -> Expression:
        """Text with what matches replaced; \\1 stands for what is in the first brackets."""
        ...

    def re_extract(self, pattern: str, group: int, /) -> Expression:
        """The part of a text that a group of the pattern matches."""
        ...

    def typeof(self) -> Expression:
        """The engine's own word for the type of each value."""
        ...

    def count(self, *, where: object = None) -> Expression:
        """How many values there are."""
        ...

    def nunique(self) -> Expression:
        """How many different ones."""
        ...

    def approx_nunique(self) -> Expression:
        """The same, estimated."""
        ...

    def sum(self) -> Expression:
        """Their sum."""
        ...

    def min(self, *, where: object = None) -> Expression:
        """The least."""
        ...

    def max(self, *, where: object = None) -> Expression:
        """The greatest."""
        ...

    def quantile(self, level: float, /) -> Expression:
        """A quantile."""
        ...

    def over(self, window: object, /) -> Expression:
        """Computed within a window."""
        ...

    def lead(self, offset: int = 1, /) -> Expression:
        """The value of a later row of the window."""
        ...

    def lag(self, offset: int = 1, /) -> Expression:
        """The value of an earlier row of the window."""
        ...

    def desc(self) -> Expression:
        """In falling order."""
        ...

    def as_scalar(self) -> Expression:
        """One value, to be compared with every row of another table."""
        ...

    def get_backend(self) -> Backend:
        """Who answers."""
        ...

    def to_pyarrow(self) -> pa.Scalar:
        """Ask for one value."""
        ...


class Grouped(Protocol):
    """Rows in groups."""

    def agg(self, **made: Expression) -> Table:
        """A row per group."""
        ...


class Table(Protocol):
    """Rows, as an expression; a column is `table["name"]`, or `table.name` where no method has that name."""

    @property
    def columns(self) -> Sequence[str]:
        """The names."""
        ...

    def __getitem__(self, name: str, /) -> Expression: ...
    def __getattr__(self, name: str, /) -> Expression: ...

    def schema(self) -> Mapping[str, Kind]:
        """{column: what it holds}."""
        ...

    def select(self, *columns: object, **made: object) -> Table:
        """These columns, and no others."""
        ...

    def mutate(self, **made: object) -> Table:
        """With more columns, or others of the same names."""
        ...

    def drop(self, *columns: str) -> Table:
        """Without these columns."""
        ...

    def filter(self, *conditions: object) -> Table:
        """The rows where all of these hold."""
        ...

    def order_by(self, *columns: object) -> Table:
        """Sorted."""
        ...

    def limit(self, rows: int | None, *, offset: int = 0) -> Table:
        """The first rows after so many."""
        ...

    def distinct(self) -> Table:
        """Each different row once."""
        ...

    def union(self, other: Table, /) -> Table:
        """The rows of both."""
        ...

    def group_by(self, *columns: object) -> Grouped:
        """In groups of rows that have the same values in these columns."""
        ...

    def aggregate(self, **made: Expression) -> Table:
        """One row for all."""
        ...

    def count(self, *, where: object = None) -> Expression:
        """How many rows there are."""
        ...

    def get_name(self) -> str:
        """The name of a table that the engine holds."""
        ...

    def get_backend(self) -> Backend:
        """Who answers."""
        ...

    def op(self) -> Hashable:
        """What is asked, as a key: equal for equal questions."""
        ...

    def to_pyarrow(self) -> pa.Table:
        """Ask for all of it."""
        ...

    def to_pyarrow_batches(self, *, chunk_size: int) -> pa.RecordBatchReader:
        """Ask for all of it, a part at a time."""
        ...


# ---- expressions that begin without a column


def same(one: Expression, other: object) -> Expression:
    """Whether two values are equal."""
    return cast(Expression, one == other)


def differ(one: Expression, other: object) -> Expression:
    """Whether two values are not equal."""
    return cast(Expression, one != other)


def as_table(table: ir.Table) -> Table:
    """A table of Ibis, of which no more is asked than what stands here."""
    return cast(Table, table)


def zone_of(moments: Expression) -> str | None:
    """The time zone of moments; None where they are local."""
    import ibis.expr.datatypes as dt

    kind = moments.type()
    return kind.timezone if isinstance(kind, dt.Timestamp) else None


def arrow_schema(table: Table) -> pa.Schema:
    """The types of a table's columns, in Arrow's words."""
    return cast("ir.Table", table).schema().to_pyarrow()


def literal(value: object) -> Expression:
    """A value, the same in every row."""
    import ibis

    return cast(Expression, ibis.literal(value))


def null(kind: object) -> Expression:
    """No value, of a type."""
    import ibis

    return cast(Expression, ibis.null(kind))


def row_number() -> Expression:
    """0, 1, 2, ... in the order of the rows, or of the window it is put over."""
    import ibis

    return cast(Expression, ibis.row_number())


def cases(*branches: tuple[Expression, object], otherwise: object) -> Expression:
    """The value of the first branch whose condition holds."""
    import ibis

    return cast(Expression, ibis.cases(*branches, else_=otherwise))


def window(group_by: object = None, order_by: object = None) -> object:
    """The rows that have the same values in some columns, in the order of others."""
    import ibis

    return ibis.window(group_by=group_by, order_by=order_by)


def rows_up_to(order_by: object) -> object:
    """All rows up to this one, in the order of some columns."""
    import ibis

    return ibis.cumulative_window(order_by=order_by)
