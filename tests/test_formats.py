"""JSON lines, Excel and text files without a header: read as the same rows of a CSV file are."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from workbooks import workbook

import dualq
from dualq.app import cli

NAMES = ["shop", "day", "stock", "order", "profit"]
WORDS = {"state": "stock", "action": "order", "reward": "profit", "episode": "shop", "time": "day"}


def rows(n=60, seed=3):
    rng = np.random.default_rng(seed)
    drawn = zip(rng.integers(0, 4, n).tolist(), rng.choice(["none", "one"], n).tolist(), strict=True)
    pay = rng.integers(0, 9, n)
    return [[1 + i // 20, i % 20, s, a, float(r)] for i, ((s, a), r) in enumerate(zip(drawn, pay, strict=True))]


def as_csv(table, header=True):
    lines = [*([NAMES] if header else []), *table]
    return "".join(",".join(map(str, line)) + "\n" for line in lines)


def as_json(table):
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in table)


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "plain.csv").write_text(as_csv(rows()))
    return dualq.read_log(tmp_path / "plain.csv", **WORDS)


def same(log, expected):
    assert log.digest() == expected.digest()
    assert list(log.states) == list(expected.states) == [0, 1, 2, 3]
    assert list(log.actions) == ["none", "one"]


# ---- JSON


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.json", "list.json", "log.jsonl.gz"])
def test_json_is_read_as_csv_is(name, tmp_path, expected):
    text = as_json(rows())
    if name == "list.json":
        text = json.dumps([json.loads(line) for line in text.splitlines()])
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(data)
    same(dualq.read_log(tmp_path / name, **WORDS), expected)


def test_several_json_files_are_one_log_and_a_bad_row_is_named_by_its_place(tmp_path, expected):
    for i, part in enumerate((rows()[:20], rows()[20:])):
        (tmp_path / f"part{i}.jsonl").write_text(as_json(part))
    same(dualq.read_log(str(tmp_path / "*.jsonl"), **WORDS), expected)
    wrong = rows()
    wrong[32][4] = None
    for i, part in enumerate((wrong[:20], wrong[20:])):
        (tmp_path / f"part{i}.jsonl").write_text(as_json(part))
    with pytest.raises(dualq.LogError, match=r"part1.jsonl: row 13: profit is missing; rewards must be numbers"):
        dualq.read_log(str(tmp_path / "*.jsonl"), **WORDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.replace('"profit": 4.0', '"profit": "n/a"', 1),
            "the reward column 'profit' is text: row .* 'n/a'",
        ),
        (
            lambda t: t.replace('"stock": 2', '"stock": "2"', 1),
            "the state column 'stock' holds values of several types",
        ),
        (lambda t: t.replace('"stock": 2', '"stock": {"a": 2}'), "the state column 'stock' holds"),
        (lambda t: t[:-30], "cannot be read; it may be cut off in the middle"),
        (lambda t: "[1, 2]\n[3, 4]\n", "the rows are not objects; a row must look like"),
        (lambda t: "[" * 3000 + "]" * 3000, "the rows are not objects; a row must look like"),
        (lambda t: t.replace('"stock": 2', '"stock": ' + "[" * 900 + "]" * 900), "the state column 'stock' holds"),
    ],
)
def test_json_that_is_no_log_is_refused(change, message, tmp_path):
    (tmp_path / "log.jsonl").write_text(change(as_json(rows())))
    with pytest.raises(dualq.LogError, match=f"log.jsonl: .*{message}"):
        dualq.read_log(tmp_path / "log.jsonl", **WORDS)


def test_labels_in_json_keep_their_types(tmp_path):
    table = [[shop, day, f"00{stock}", order, profit] for shop, day, stock, order, profit in rows()]
    (tmp_path / "log.jsonl").write_text(as_json(table))
    assert list(dualq.read_log(tmp_path / "log.jsonl", **WORDS).states) == ["000", "001", "002", "003"]


# ---- text without a header


def test_a_text_file_without_a_header(tmp_path, expected):
    (tmp_path / "bare.csv").write_text(as_csv(rows(), header=False))
    same(dualq.read_log(tmp_path / "bare.csv", columns=NAMES, **WORDS), expected)


def test_rows_of_a_file_without_a_header_are_counted_from_its_first_line(tmp_path):
    wrong = rows()
    wrong[6][4] = "nan"
    (tmp_path / "bare.csv").write_text(as_csv(wrong, header=False))
    with pytest.raises(dualq.LogError, match=r"bare.csv: row 7: profit is nan"):
        dualq.read_log(tmp_path / "bare.csv", columns=NAMES, **WORDS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (NAMES[:4], "the first line has 5 fields, '1,0,.*', and columns has 4 names; give a name for each field"),
        ([*NAMES[:4], "Day"], "columns names 'day' twice"),
        ("shop,day", "columns is 'shop,day'; it must be a list of names"),
    ],
)
def test_names_that_do_not_fit_are_refused(columns, message, tmp_path):
    (tmp_path / "bare.csv").write_text(as_csv(rows(), header=False))
    with pytest.raises(dualq.LogError, match=message):
        dualq.read_log(tmp_path / "bare.csv", columns=columns, **WORDS)


def test_names_are_for_files_that_have_none(tmp_path):
    (tmp_path / "log.jsonl").write_text(as_json(rows()))
    for source in (tmp_path / "log.jsonl", dict(zip(NAMES, zip(*rows(), strict=True), strict=True))):
        with pytest.raises(dualq.LogError, match="without a header"):
            dualq.read_log(source, columns=NAMES, **WORDS)


def test_the_command_line_names_the_columns(tmp_path, capsys):
    (tmp_path / "bare.csv").write_text(as_csv(rows(), header=False))
    options = ["--state", "stock", "--action", "order", "--reward", "profit", "--episode", "shop", "--time", "day"]
    assert cli.run(["learn", str(tmp_path / "bare.csv"), *options, "--certificate", "none"]) == 2
    assert "Then name the columns with --columns A,B,C" in capsys.readouterr().err
    bare = ["learn", str(tmp_path / "bare.csv"), "--columns", ",".join(NAMES), *options, "--certificate", "none"]
    assert cli.run([*bare, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coverage"]["rows"] == len(rows()) - 3  # three episodes that go on


# ---- Excel


def test_a_sheet_is_read_as_csv_is(tmp_path, expected):
    pytest.importorskip("python_calamine")
    workbook(tmp_path / "log.xlsx", {"orders": [NAMES, *rows()]})
    same(dualq.read_log(tmp_path / "log.xlsx", **WORDS), expected)
    workbook(tmp_path / "bare.xlsx", {"orders": rows()})
    same(dualq.read_log(tmp_path / "bare.xlsx", columns=NAMES, **WORDS), expected)
    workbook(tmp_path / "two.xlsx", {"notes": [["read me"]], "orders": [NAMES, *rows(), [None] * 5]})
    same(dualq.read_log(f"{tmp_path / 'two.xlsx'}::orders", **WORDS), expected)
    with pytest.raises(dualq.LogError, match=r"two.xlsx: which sheet is the log[?] There are notes, orders"):
        dualq.read_log(tmp_path / "two.xlsx", **WORDS)
    with pytest.raises(dualq.LogError, match=r"two.xlsx: there is no sheet 'order'; did you mean 'orders'"):
        dualq.read_log(tmp_path / "two.xlsx", table="order", **WORDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[4].__setitem__(4, None), r"log.xlsx: row 4 \(line 5\): profit is missing"),
        (lambda t: t[4].__setitem__(4, "n/a"), "the reward column 'profit' is text: row 4 has 'n/a'"),
        (lambda t: t[4].__setitem__(2, "2"), "the state column 'stock' holds values of several types"),
        (lambda t: t[0].__setitem__(1, None), "column B has no name in the first row"),
        (lambda t: t[0].__setitem__(1, "Shop"), "several columns have the name 'shop'"),
        (lambda t: t.clear(), "the sheet is empty"),
    ],
)
def test_a_sheet_that_is_no_log_is_refused(change, message, tmp_path):
    pytest.importorskip("python_calamine")
    table = [list(NAMES), *rows()]
    change(table)
    workbook(tmp_path / "log.xlsx", {"orders": table})
    with pytest.raises(dualq.LogError, match=f"(?i){message}"):
        dualq.read_log(tmp_path / "log.xlsx", **WORDS)


def test_a_damaged_workbook_is_refused(tmp_path):
    pytest.importorskip("python_calamine")
    workbook(tmp_path / "log.xlsx", {"orders": [NAMES, *rows()]})
    (tmp_path / "log.xlsx").write_bytes((tmp_path / "log.xlsx").read_bytes()[:300])
    with pytest.raises(dualq.LogError, match=r"log.xlsx: cannot be read"):
        dualq.read_log(tmp_path / "log.xlsx", **WORDS)


def test_without_the_reader_of_workbooks_its_name_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "log.xlsx").write_bytes(b"PK")
    with pytest.raises(dualq.LogError, match=r'needs the package python-calamine; .* pip install "\.\[excel\]"'):
        dualq.read_log(tmp_path / "log.xlsx", **WORDS)


# ---- tab completion


@pytest.mark.parametrize(
    ("words", "place", "wanted"), [("dualq le", 1, "learn"), ("dualq learn log.csv --trunc", 3, "--truncated")]
)
def test_the_shell_completes_commands_and_options(words, place, wanted, monkeypatch, capsys):
    for name, value in {"_DUALQ_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:  # the shell reads what was printed, and no command runs
        cli.run([])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.split() == [wanted]
