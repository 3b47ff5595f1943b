"""export: a policy as text that other systems run: JSON, SQL or Python."""

from __future__ import annotations

from dualq.base import Label, LogError, door
from dualq.offline.exported.branches import Exportable, branches_of
from dualq.offline.exported.json_form import SCHEMA, as_json, json_text
from dualq.offline.exported.python_form import as_python
from dualq.offline.exported.sql_form import DIALECTS, as_sql

FORMS = ("json", "sql", "python", "schema")


@door
def export(
    fit: Exportable,
    to: str,
    *,
    dialect: str = "duckdb",
    table: str = "cases",
    case: str | None = None,
    otherwise: Label = None,
    approximate: bool = False,
) -> str:
    """A policy as text that other systems run without dualq.

    Parameters
    ----------
    fit : Fit, NumberFit or path
        What was learned, or the folder in which it was saved.
    to : {"json", "sql", "python", "schema"}
        JSON; a script that makes a view of decisions; a Python file without imports; the JSON Schema of the JSON.
    dialect : {"duckdb", "postgres", "sqlite"}
        Of the SQL.
    table : str
        In SQL, the table with a state in each row; the view is called like it, with `_decided` at the end.
    case : str, optional
        In SQL, the column with the number of each case, by which a random policy draws (`docs/howto/in-use.md`).
    otherwise : label, optional
        The action in a state that the log never had. Without it: NULL in SQL, an error in Python.
    approximate : bool
        For a policy over numbers that is neither a table nor a tree: the rules that sum it up.

    Returns
    -------
    str

    Examples
    --------
    >>> import dualq
    >>> fit = dualq.learn(dualq.problems.two_state().record(steps=1000, seed=0), discount=0.9)
    >>> print(dualq.export(fit, "sql", table="rows").splitlines()[-1])
    FROM "rows" AS c;
    """
    if to not in FORMS:
        raise LogError(f"to is {to!r}; it must be one of {', '.join(FORMS)}", argument="to", value=to)
    if to == "schema":
        return json_text(SCHEMA)
    found = branches_of(fit, otherwise, approximate)
    if to == "json":
        return as_json(found)
    if to == "python":
        return as_python(found)
    if dialect not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise LogError(f"dialect is {dialect!r}; it must be one of {known}", argument="dialect", value=dialect)
    return as_sql(found, DIALECTS[dialect], table, case)
