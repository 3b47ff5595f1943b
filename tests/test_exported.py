"""Exported policies decide as `act` does: JSON read by its own rules, SQL run by three engines, Python run alone."""

from __future__ import annotations

import datetime
import json
import sqlite3
import subprocess
import sys

import duckdb
import jsonschema
import numpy as np
import postgres_server
import pyarrow as pa
import pyarrow.csv
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.base import Labels, LogError, StateColumns, States
from dualq.model import FunctionPolicy, TablePolicy
from dualq.offline.approximate.rules import CellRule, LogisticRule
from dualq.offline.approximate.trees import tree_of
from dualq.offline.deciding import Decider
from dualq.offline.exported import branches as module
from dualq.offline.exported.json_form import SCHEMA, as_json
from dualq.offline.exported.python_form import as_python
from dualq.offline.exported.sql_form import DIALECTS, as_sql

HOSTILE = ["it's", 'say "hi"', "a;--", "naïve ☃", "back\\slash", "$1 %s {x}", "", " x ", "null", "two\nlines"]
DAY = datetime.date(2024, 2, 29)


def table_policy(many: bool, random: bool) -> Decider:
    """States of text that is hard to quote, a number in bins, a flag and a date; some rows drawn."""
    rng = np.random.default_rng(0)
    days = [DAY + datetime.timedelta(d) for d in range(20 if many else 1)]
    bins = ["< -0.5", "[-0.5, 2)", ">= 2"]
    labels = [(t, b, f, d) for t in HOSTILE for b in bins for f in (True, False) for d in days]
    labels = [label for i, label in enumerate(labels) if i % 5]  # some combinations are unknown
    P = rng.dirichlet(np.full(3, 0.4), len(labels)) if random else np.eye(3)[rng.integers(0, 3, len(labels))]
    P[::3] = np.eye(3)[rng.integers(0, 3, len(P[::3]))]
    actions = Labels([("go", 1), ("it's", 2), ('a "b"', 3)], ("what's", "how many"))
    return Decider(TablePolicy(P, Labels(labels, ("te'xt", 'we"ar', "flag", "day")), actions), {'we"ar': [-0.5, 2.0]})


def cases(decider: Decider, n: int = 300) -> dict[str, list]:
    rng = np.random.default_rng(1)
    numbers = [-1e308, -0.5, 0.0, 1.999, 2.0, 7.0, None]
    table = {
        "te'xt": rng.choice(np.array([*HOSTILE, "unknown"], object), n).tolist(),
        'we"ar': [numbers[i] for i in rng.integers(0, len(numbers), n)],
        "flag": rng.integers(0, 2, n).astype(bool).tolist(),
        "day": [DAY + datetime.timedelta(int(d)) for d in rng.integers(0, 3, n)],
    }
    return table | {"id": rng.integers(-(10**15), 10**15, n).tolist()}


@pytest.fixture(scope="module", params=[(False, False), (False, True), (True, True)], ids=["few", "random", "many"])
def both(request) -> tuple[Decider, module.Branches, dict[str, list], list]:
    decider = table_policy(*request.param)
    found = module._of_table(decider, "a log; -- '\n DROP TABLE x", "", None)
    table = cases(decider)
    decided = decider.act_many(table, case="id")
    assert 0 < decided.count(None) < 300
    assert found.random == request.param[1]
    return decider, found, table, decided


def answered(rows: list[tuple], order: list[int]) -> list[tuple | None]:
    """Decisions by their id, in the order of the cases."""
    by_id = {row[0]: tuple(row[1:]) for row in rows}
    return [None if by_id[i][0] is None else by_id[i] for i in order]


SELECT = """SELECT id, "decided_what's", "decided_how many" FROM cases_decided"""


def test_duckdb_decides_alike(both):
    _, found, table, decided = both
    con = duckdb.connect()
    con.register("given", pa.table(table))
    con.execute("CREATE TABLE cases AS SELECT * FROM given")
    con.execute(as_sql(found, DIALECTS["duckdb"], case="id"))
    assert answered(con.execute(SELECT).fetchall(), table["id"]) == decided


def test_sqlite_decides_alike(both):
    _, found, table, decided = both
    con = sqlite3.connect(":memory:")
    con.execute("""CREATE TABLE cases ("te'xt" TEXT, "we""ar" REAL, flag BOOLEAN, day TEXT, id INTEGER)""")
    rows = zip(*(map(str, x) if name == "day" else x for name, x in table.items()), strict=True)
    con.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", rows)
    con.executescript(as_sql(found, DIALECTS["sqlite"], case="id"))
    assert answered(con.execute(SELECT).fetchall(), table["id"]) == decided


@pytest.fixture(scope="module")
def postgres():
    if postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    psycopg = pytest.importorskip("psycopg")
    with postgres_server.server() as url, psycopg.connect(url, autocommit=True) as con:
        yield con


def test_postgres_decides_alike(both, postgres):
    _, found, table, decided = both
    postgres.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    postgres.execute('CREATE TABLE cases ("te\'xt" TEXT, "we""ar" FLOAT8, flag BOOLEAN, day DATE, id BIGINT)')
    with postgres.cursor() as cursor:
        rows = list(zip(*table.values(), strict=True))
        cursor.executemany("INSERT INTO cases VALUES (%s, %s, %s, %s, %s)", rows)
    postgres.execute("INSERT INTO cases SELECT \"te'xt\", 'NaN', flag, day, 7 FROM cases LIMIT 1")
    postgres.execute(as_sql(found, DIALECTS["postgres"], case="id").encode())
    said = postgres.execute(SELECT).fetchall()
    assert answered(said, table["id"]) == decided
    assert answered(said, [7]) == [None]  # NaN is above all numbers there, and in no bin


def test_the_python_file_decides_alike_and_imports_nothing(both, tmp_path):
    decider, found, table, decided = both
    (tmp_path / "policy.py").write_text(as_python(found))
    assert "import" not in as_python(found)
    names = decider.names
    rows = [
        [x.isoformat() if isinstance(x, datetime.date) else x for x in row] for row in zip(*table.values(), strict=True)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    code = (
        "import json, policy\n"
        "def one(row):\n"
        f"    state = dict(zip({names!r}, row))\n"
        "    state = {n: float('nan') if v is None else v for n, v in state.items()}\n"
        "    try: return policy.act(state, case=row[-1])\n"
        "    except LookupError: return None\n"
        "print(json.dumps([one(row) for row in json.load(open('rows.json'))]))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [None if action is None else tuple(action) for action in json.loads(said)] == decided


def test_a_file_says_which_log_it_was_learned_from(tmp_path):
    rows = {"stock": [3, 4] * 40, "do": ["go", "stay", "stay", "go"] * 20, "paid": [1.0, 2.0, 0.0, 1.0] * 20}
    pa.csv.write_csv(pa.table(rows), tmp_path / "orders.csv")
    words = {"state": "stock", "action": "do", "reward": "paid", "terminal": "row", "discount": 0.0}
    dualq.learn(tmp_path / "orders.csv", **words, certificate=None).save(tmp_path / "run")
    for form in ("json", "sql", "python"):
        assert "orders.csv" in dualq.export(tmp_path / "run", form)


def test_the_python_file_says_what_a_state_is(tmp_path):
    one = TablePolicy(np.eye(2), Labels([3, 4], ("stock",)), Labels(["go", "stay"], ("do",)))
    two = TablePolicy(np.eye(2), Labels([(3, "a"), (4, "b")], ("stock", "season")), Labels(["go", "stay"], ("do",)))
    made = []
    for policy in (one, two):
        space: dict = {}
        exec(as_python(module._of_table(Decider(policy, {}), "a log", "", None)), space)
        made.append(space["act"])
    assert made[0](3) == made[0]({"stock": 3}) == "go"  # as fit.act(3)
    for wrong in (3, "3", None, {"stock": 3}, [3, "a"]):
        with pytest.raises(ValueError, match=r"a state is \{column: value\} with the columns stock, season; not "):
            made[1](wrong)


def read_json(value: dict, state: dict, case: int) -> list | None:
    """What the JSON says, by its own words."""
    for branch in value["branches"]:
        for name, c in branch["when"].items():
            x = state[name]
            if "in" in c:
                holds = any(x == y and isinstance(x, bool) == isinstance(y, bool) for y in c["in"])
            else:
                holds = (
                    x is not None and (c["from"] is None or x >= c["from"]) and (c["below"] is None or x < c["below"])
                )
            if not holds:
                break
        else:
            if "do" in branch:
                return value["actions"][branch["do"]]
            x = case % value["draw"]["prime"]
            for shift in value["draw"]["shifts"]:
                x = pow(x + shift, 5, value["draw"]["prime"])
            return value["actions"][next(a for a, t in branch["draw"] if x < t)]
    return None


def test_the_json_fits_its_schema_and_decides_alike(both):
    _, found, table, decided = both
    value = json.loads(as_json(found))
    jsonschema.validate(value, SCHEMA)
    for i in range(0, 300, 7):
        state = {n: str(x[i]) if n == "day" else x[i] for n, x in table.items() if n != "id"}
        said = read_json(value, state, table["id"][i])
        assert (None if said is None else tuple(said)) == decided[i]


def test_a_default_stands_where_the_state_is_unknown():
    decider = table_policy(False, False)
    found = module._of_table(decider, "log", "do not use", ("go", 1))
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE cases AS SELECT 'x' AS "te'xt", 0.0 AS "we""ar", TRUE AS flag, DATE '2024-02-29' AS day"""
    )
    con.execute(as_sql(found, DIALECTS["duckdb"]))
    assert con.execute("""SELECT "decided_what's", "decided_how many" FROM cases_decided""").fetchall() == [("go", 1)]
    space: dict = {}
    exec(as_python(found), space)
    assert space["act"](dict(zip(decider.names, ("x", 0.0, True, "2024-02-29"), strict=True))) == ("go", 1)
    assert "NOTE: do not use." in as_python(found)
    with pytest.raises(LogError, match="no what's and how many"):
        module._of_table(decider, "log", "", "fly")


def cells() -> FunctionPolicy:
    """x < 1: by shift; else x >= 1, y < 0: drawn."""
    columns = StateColumns(("x", "shift", "y"), {"shift": ("day", "it's")})
    feature, threshold = np.array([0, 2, 1, -1, -1, -1, -1]), np.array([1.0, 1.0, 0.0, 0, 0, 0, 0])
    equal = np.array([False, True, False, False, False, False, False])
    left, right = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
    P = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7], [1.0, 0.0]])
    return FunctionPolicy(
        columns, Labels(["stay", "go"], "a"), CellRule(tree_of(feature, threshold, equal, left, right), P)
    )


def test_cells_of_numbers_are_written_exactly():
    policy, rng = cells(), np.random.default_rng(2)
    numbers = [0.999, 1.0, -3.0, 5.5]
    table = {"x": rng.choice(numbers, 200).tolist(), "y": rng.choice([0.0, -1e-9, 2.0], 200).tolist()}
    table |= {"shift": rng.choice(["day", "it's", "night"], 200).tolist(), "id": list(range(200))}
    decided = policy.act_many(table, case="id")
    assert {*decided} == {"stay", "go", None}
    found = module._of_numbers(policy, None, "log", "", None, False)
    con = duckdb.connect()
    con.register("cases", pa.table(table))
    con.execute(as_sql(found, DIALECTS["duckdb"], case="id").replace("CREATE VIEW", "CREATE TEMP VIEW"))
    assert [row[0] for row in con.execute("SELECT decided_a FROM cases_decided ORDER BY id").fetchall()] == decided
    space: dict = {}
    exec(as_python(found), space)
    for i in range(0, 200, 9):
        state = {name: table[name][i] for name in policy.columns.names}
        assert (space["act"](state, case=i) if decided[i] else None) == decided[i]


def test_what_cannot_be_written_is_said_in_a_line(tmp_path, capsys):
    columns = StateColumns(("x",), {})
    smooth = LogisticRule(lambda states: states.numbers, np.ones((1, 2)))
    assert smooth(States(np.ones((1, 1)), np.ones((1, 0), int))).shape == (1, 2)
    with pytest.raises(LogError, match="it cannot be written this way; --approximate writes the rules"):
        module._of_numbers(FunctionPolicy(columns, Labels(2, "a"), smooth), None, "log", "", None, False)
    with pytest.raises(LogError, match="say which column has the number of the case"):
        as_sql(module._of_table(table_policy(False, True), "log", "", None), DIALECTS["duckdb"])
    dualq.learn(dualq.problems.two_state().record(500), discount=0.9, certificate=None).save(tmp_path / "run")
    for words, said in (
        (["--to", "onnx"], "to is 'onnx'; it must be one of json, sql, python, schema"),
        (["--to", "sql", "--dialect", "oracle"], "dialect is 'oracle'"),
        (["--to", "json", "--default", "9"], "no action 9"),
    ):
        assert command(["export", str(tmp_path / "run"), *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert command(["export", str(tmp_path / "run"), "--to", "json", "--out", str(tmp_path / "p.json")]) == 0
    value = json.loads((tmp_path / "p.json").read_text())
    fit = dualq.load(tmp_path / "run")
    assert [read_json(value, {"state": s}, 0) for s in (0, 1, 5)] == [[fit.act(0)], [fit.act(1)], None]
