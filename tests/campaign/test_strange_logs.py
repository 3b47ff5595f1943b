"""Logs that nobody tidied: an answer, or one line that names the row."""

from __future__ import annotations

import datetime
import decimal
import gzip

import pyarrow as pa
import pytest
from dualq.errors import LogError
from pyarrow import parquet

import dualq
from dualq.app.cli import run
from dualq.logs.reading import profile

DAYS = [(datetime.date(2024, 1, 1) + datetime.timedelta(i)).isoformat() for i in range(60)]


def table(**columns):
    return {
        "state": [i % 3 for i in range(60)],
        "action": ["a", "b"] * 30,
        "reward": [float(i % 5) for i in range(60)],
    } | columns


@pytest.mark.parametrize(
    "impossible", ["2024-02-30", "2023-02-29", "2024-13-01", "2024-02-08 10:00:60", "2024-02-08 24:30"]
)
def test_a_moment_that_does_not_exist_is_named_with_its_row(tmp_path, impossible):
    days = [*DAYS[:30], impossible, *DAYS[31:]]
    columns = table(day=days)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path = tmp_path / "days.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(LogError, match=rf"days\.csv: row 31 \(line 32\): day is '{impossible}'") as refused:
        dualq.read_log(path, time="day")
    assert refused.value.row == 31


def test_a_state_may_be_a_time_of_day(tmp_path):
    log = dualq.read_log(table(state=[datetime.time(8 + i % 4) for i in range(60)], day=list(range(60))), time="day")
    fit = dualq.learn(log)
    fit.report(tmp_path / "report.html")
    assert "08:00:00" in (tmp_path / "report.html").read_text()
    fit.save(tmp_path / "run")
    assert dualq.load(tmp_path / "run").policy.probabilities(datetime.time(9)) == fit.policy.probabilities(
        datetime.time(9)
    )


def as_text(columns, end="\n"):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "".join(f"{line}{end}" for line in lines)


def in_files(folder, columns):
    """An Arrow table, and the same as a file and as a stream."""
    found = pa.table(columns)
    yield found
    for name, opened in (("log.arrow", pa.ipc.new_file), ("log.arrows", pa.ipc.new_stream)):
        with opened(str(folder / name), found.schema) as writer:
            writer.write_table(found)
        yield folder / name


def test_numbers_for_which_the_engine_has_no_type_are_numbers(tmp_path):
    right = dualq.read_log(table(time=list(range(60)))).counts().digest()
    for kind in (pa.float16(), pa.decimal256(50, 2), pa.decimal128(20, 2)):
        rewards = [float(i % 5) if kind == pa.float16() else decimal.Decimal(i % 5) for i in range(60)]
        columns = table(reward=pa.array(rewards, kind), time=list(range(60)))
        parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
        for source in (*in_files(tmp_path, columns), tmp_path / "log.parquet"):
            assert dualq.read_log(source).counts().digest() == right


LASTED = pa.array([datetime.timedelta(seconds=i % 4) for i in range(60)], pa.duration("ms"))


def test_durations_are_shown_and_play_no_part(tmp_path):
    for source in in_files(tmp_path, table(time=list(range(60)), lasted=LASTED)):
        (held,) = (column for column in dualq.look(source).columns if column.name == "lasted")
        assert (held.kind, held.missing) == ("duration", 0)
        fit = dualq.learn(source)
    fit.save(tmp_path / "run")
    assert (
        run(["act", str(tmp_path / "run"), "--log", str(tmp_path / "log.arrow"), "--out", str(tmp_path / "a.csv")]) == 0
    )
    assert "00:00:03" in (tmp_path / "a.csv").read_text()


@pytest.mark.parametrize("part", ["state", "action", "time", "episode"])
def test_durations_are_refused_where_they_would_have_to_be_labels_or_moments(part):
    with pytest.raises(
        LogError, match=rf"the {part} column '{part}' holds durations; (it must hold|give them as) numbers"
    ):
        dualq.read_log(table(**{"time": list(range(60)), part: LASTED}), **{part: part})


def test_a_cell_that_is_too_long_is_named_with_its_line(tmp_path):
    lines = as_text(table(time=list(range(60))), "\r\n").splitlines(keepends=True)
    lines[7] = f'"{"x" * 200_000}",a,1,6\n'
    (tmp_path / "long.csv").write_text("".join(lines), newline="")
    with pytest.raises(LogError, match=r"^long\.csv: line 8 is no row of the table \(field larger") as refused:
        dualq.read_log(tmp_path / "long.csv")
    assert refused.value.line == 8


def test_a_value_of_a_million_letters_leaves_a_message_that_can_be_read():
    reward = [1.0] * 59 + ["ab," * 10**6]
    with pytest.raises(LogError, match=r"the reward column 'reward' is text: row 59 .*must hold numbers") as refused:
        dualq.read_log(table(reward=reward, time=list(range(60))))
    assert len(str(refused.value)) <= 1000


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
def test_a_packed_file_that_was_damaged_inside_is_refused(tmp_path, name):
    content = bytearray(gzip.compress(as_text(table(time=list(range(60)))).encode()))
    content[20] ^= 0xFF
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=rf"^{name}: the file is cut off in the middle, or damaged"):
        dualq.read_log(tmp_path / name)


def test_a_wide_table_is_asked_in_parts(monkeypatch):
    """Five hundred columns in one question would take the engine as long as a million rows."""
    wide = table(time=list(range(60)), **{f"c{i}": [j % (i + 1) for j in range(60)] for i in range(40)})
    whole = dualq.look(wide)
    monkeypatch.setattr(profile, "AT_ONCE", 7)
    assert dualq.look(wide).columns == whole.columns
    assert [column.different for column in whole.columns if column.name.startswith("c")] == list(range(1, 41))


def test_of_many_columns_with_slips_those_that_play_a_part_are_named():
    others = {f"c{i}": ["x" if j == 7 else str(j % 7) for j in range(60)] for i in range(13)}
    slipped = ["oops" if j == 9 else str(j % 3) for j in range(60)]
    columns = table(time=list(range(60)))
    del columns["state"]
    assert "'oops'" in str(dualq.look({**columns, **others, "state": slipped}))


def test_one_decision_per_case_with_a_time_names_its_bad_row(tmp_path):
    """Cases may share a moment, so no row of them is asked whether its time comes again."""
    table = {"time": [0, 0, 1, 1], "state": ["a", "b"] * 2, "action": ["x"] * 4, "reward": [1.0, None, 0.0, 2.0]}
    roles = {"state": "state", "action": "action", "reward": "reward", "time": "time", "terminal": "row"}
    with pytest.raises(LogError, match=r"row 1 \(counted from 0\): reward is missing; rewards must be numbers"):
        dualq.read_log(table, **roles)
    left = dualq.read_log(table, **roles, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert left.counts().visits.sum() == 3


def test_a_field_that_is_too_long_for_python_keeps_no_bad_row_from_being_named(tmp_path):
    """DuckDB reads 200,000 letters; Python's own reader, which finds lines, does not."""
    rows = ["0,a,x,1.0", f"1,{'b' * 200_000},x,1.0", "2,a,x", "3,a,x,none", "4,a,x,2.0"]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["time,state,action,reward", *rows]) + "\n")
    roles = {"state": "state", "action": "action", "reward": "reward", "time": "time", "terminal": "row"}
    left = dualq.read_log(str(log), **roles, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert left.counts().visits.sum() == 3
    reasons = [line.split(",")[3] for line in (tmp_path / "bad.csv").read_text().splitlines()]
    assert reasons == [
        "reason",
        "reward is 'none'; rewards must be numbers",
        "it has 3 fields and not 4; the file may be cut off",
    ]
