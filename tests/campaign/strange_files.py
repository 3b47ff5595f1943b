"""One table as every kind of file and frame that a log may be, tidy and untidy.

A tidy one says what the columns say: whatever is counted in it must be what is counted in them. Of an untidy one it is
only asked that the answer is an answer or one line.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import gzip
import io
import json
import os
import random
import runpy
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, list[object]]
Writer = Callable[[Columns, Path, random.Random], object]  # gives what read_log is given
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".json", ".jsonl", ".xlsx", ".parquet", ".arrow", ".duckdb", ".sqlite", "")


def as_text(columns: Columns, mark: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    file = io.StringIO(newline="")
    table = csv.writer(file, delimiter=mark, quoting=quoting)  # pyright: ignore[reportArgumentType]
    table.writerow(columns)
    table.writerows(zip(*columns.values(), strict=True))
    return file.getvalue().encode("utf-8", errors="surrogatepass")


def rows_of(columns: Columns) -> list[dict[str, object]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def as_arrow(columns: Columns, types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Columns of several kinds become text."""
    import pyarrow as pa

    made = []
    for name, values in columns.items():
        kind = (types or {}).get(name)
        try:
            if kind is not None and pa.types.is_decimal(kind):
                values = [None if value is None else decimal.Decimal(str(value)) for value in values]
            if kind is not None and pa.types.is_timestamp(kind):  # a second is a second, in every unit
                made.append(pa.array(values, pa.timestamp("s", kind.tz)).cast(kind))
            else:
                made.append(pa.array(values, kind))
        except (pa.ArrowException, TypeError, ValueError, decimal.InvalidOperation):
            text = [None if value is None else str(value).encode(errors="replace").decode() for value in values]
            made.append(pa.array(text, pa.string()))
    return pa.table(made, names=[name.encode(errors="replace").decode() for name in columns])


# ---- tidy: they say what the columns say


def csv_file(columns: Columns, folder: Path, rng: random.Random) -> object:
    path = folder / rng.choice(["log.csv", "log.CSV", "log[1].csv", "a b'\".csv", "päth.csv", "-.csv", "log.2024.csv"])
    path.write_bytes(as_text(columns))
    return str(path) if rng.random() < 0.5 else path


def csv_of_other_marks(columns: Columns, folder: Path, rng: random.Random) -> object:
    path = folder / "log.txt"
    text = as_text(columns, rng.choice(";\t|"), rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    path.write_bytes(rng.choice([b"", b"\xef\xbb\xbf"]) + text.replace(b"\r\n", rng.choice([b"\n", b"\r\n"])))
    return path


def packed_csv(columns: Columns, folder: Path, rng: random.Random) -> object:
    path = folder / "log.csv.gz"
    text = as_text(columns)
    cut = len(text) // 2
    path.write_bytes(rng.choice([gzip.compress(text), gzip.compress(text[:cut]) + gzip.compress(text[cut:])]))
    return path


def parts_of_csv(columns: Columns, folder: Path, rng: random.Random) -> object:
    """A folder, or a glob, of files one after another."""
    place, half = folder / "parts.csv", len(next(iter(columns.values()), [])) // 2
    (place / "deeper").mkdir(parents=True)
    (place / "1.csv").write_bytes(as_text({name: values[:half] for name, values in columns.items()}))
    (place / "deeper" / "2.csv").write_bytes(as_text({name: values[half:] for name, values in columns.items()}))
    (place / "_SUCCESS").write_bytes(b"")
    (place / ".hidden.csv").write_bytes(b"nothing")
    return rng.choice([place, f"{place}/**/*.csv", f"{place}/"])


def json_lines(columns: Columns, folder: Path, rng: random.Random) -> object:
    lines = []
    for row in rows_of(columns):
        names = list(row)
        rng.shuffle(names)
        lines.append(json.dumps({name: row[name] for name in names}, ensure_ascii=rng.random() < 0.5))
    text = rng.choice(["\n", "\r\n", "\n\n"]).join(lines).encode("utf-8", "surrogatepass") + b"\n"
    packed = rng.random() < 0.3
    path = folder / (rng.choice(["log.jsonl", "log.ndjson"]) + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


def json_list(columns: Columns, folder: Path, rng: random.Random) -> object:
    path = folder / "log.json"
    path.write_text(json.dumps(rows_of(columns), indent=rng.choice([None, 1])))
    return path


def workbook(columns: Columns, folder: Path, rng: random.Random) -> object:
    write = runpy.run_path(str(Path(__file__).parents[1] / "workbooks.py"))["workbook"]
    table = [list(columns), *map(list, zip(*columns.values(), strict=True)), *([[None]] * rng.choice([0, 3]))]
    more = rng.random() < 0.3
    write(folder / "log.xlsx", {"notes": [["read me"]], "log": table} if more else {"log": table})
    return f"{folder / 'log.xlsx'}::log" if more else folder / "log.xlsx"


def parquet(columns: Columns, folder: Path, rng: random.Random) -> object:
    """Types that only columns have: decimals, dictionaries, moments with a zone, lists, structs, nothing but nulls."""
    from pyarrow import parquet

    table = with_types(columns, rng)
    path = folder / rng.choice(["log.parquet", "log.pq"])
    parquet.write_table(table, path, row_group_size=rng.choice([None, 7]), compression=rng.choice(["snappy", "zstd"]))
    return path


def arrow(columns: Columns, folder: Path, rng: random.Random) -> object:
    import pyarrow as pa
    from pyarrow import feather

    table, path = with_types(columns, rng), folder / rng.choice(["log.arrow", "log.feather", "log.arrows"])
    if path.suffix == ".feather":
        feather.write_feather(table, str(path))
        return path
    opened = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with opened(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rng.choice([None, 7]))
    return path


def with_types(columns: Columns, rng: random.Random) -> pa.Table:
    import pyarrow as pa

    choices: dict[str, Sequence[pa.DataType]] = {
        "state": (pa.int64(), pa.uint8(), pa.int32(), pa.dictionary(pa.int8(), pa.int64())),
        "action": (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())),
        "reward": (pa.float64(), pa.float32(), pa.float16(), pa.decimal128(10, 3), pa.decimal256(50, 2), pa.int8()),
        "time": (pa.int64(), pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("s"), pa.date32(),
                 pa.uint64(), pa.float64(), pa.decimal128(12, 0)),
    }  # fmt: skip
    types = {name: rng.choice(choices[name]) for name in columns if name in choices and rng.random() < 0.7}
    if columns.get("reward") and types.get("reward") == pa.int8():
        types.pop("reward")  # Arrow takes no 1.0 for a whole number
    table, n = as_arrow(columns, types), len(next(iter(columns.values()), []))
    more = {
        "lists": pa.array([[i] * (i % 3) for i in range(n)], pa.list_(pa.int64())),
        "structs": pa.array([{"a": i, "b": {"c": "x"}} for i in range(n)]) if n else pa.array([], pa.null()),
        "maps": pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        "nulls": pa.nulls(n),
        "no_text": pa.nulls(n, pa.string()),
        "bytes": pa.array([b"\x00\xff"] * n, pa.binary()),
        "times": pa.array([datetime.time(i % 24) for i in range(n)], pa.time64("ns")),
    }
    for name in rng.sample(list(more), rng.choice([0, 2, 7])):
        table = table.append_column(name, more[name])
    return table


def frame(columns: Columns, folder: Path, rng: random.Random) -> object:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    table = with_types(columns, rng)
    kind = rng.choice(["arrow", "pandas", "polars", "objects"])
    if kind == "arrow" or (kind == "polars" and any(map(pa.types.is_decimal256, table.schema.types))):  # Polars panics
        return table
    if kind == "polars":
        with contextlib.suppress(Exception):  # what Polars does not take is not ours to judge
            made = pl.from_arrow(table)
            assert isinstance(made, pl.DataFrame)
            return made.lazy() if rng.random() < 0.3 else made
    if kind == "pandas":
        made = table.to_pandas()
        return made.set_index("time", drop=False) if "time" in made and rng.random() < 0.3 else made.convert_dtypes()
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def database(columns: Columns, folder: Path, rng: random.Random) -> object:
    import duckdb

    table, kind = as_arrow(columns), rng.choice(["duckdb", "ddb"])
    with contextlib.closing(duckdb.connect(str(folder / f"log.{kind}"))) as con:
        con.register("given", table)
        con.execute('CREATE TABLE "the log" AS FROM given')
    return f"{folder}/log.{kind}::the log"


TIDY: tuple[Writer, ...] = (
    *(csv_file, csv_of_other_marks, packed_csv, parts_of_csv, json_lines, json_list, workbook, parquet, arrow, frame),
    database,
)


# ---- untidy


def nothing(columns: Columns, folder: Path, rng: random.Random) -> object:
    """A file of no bytes, a folder, a link to nowhere, a pipe, a name that is none."""
    path = folder / f"log{rng.choice(SUFFIXES)}"
    kind = rng.choice(["empty", "folder", "full folder", "link", "loop", "pipe", "none", "blank", "one byte"])
    if kind in ("folder", "full folder"):
        path.mkdir()
        if kind == "full folder":
            (path / "a.csv").write_bytes(as_text(columns))
            (path / "b.json").write_text(json.dumps(rows_of(columns)))
    elif kind in ("link", "loop"):
        path.symlink_to(path if kind == "loop" else folder / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "none":
        path.write_bytes({"empty": b"", "blank": b"\n \n", "one byte": b"x"}[kind])
    return rng.choice([path, str(path), f"{path}::log", f"{path}/", f"{path}/*", f"{folder}/[", f"~{path}"])


def misnamed(columns: Columns, folder: Path, rng: random.Random) -> object:
    """The bytes of one kind under the name of another, or cut off, or packed as nobody expects."""
    source = rng.choice([csv_file, packed_csv, json_lines, workbook, parquet, arrow, database])(columns, folder, rng)
    content = Path(str(source).split("::")[0]).read_bytes()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("log.csv", content)
    cut = content[: rng.randrange(len(content) + 1)]
    path = folder / f"misnamed{rng.choice([*SUFFIXES, '.csv.zip', '.zip', '.parquet.gz', '.csv.zst', '.jsonl.gz'])}"
    path.write_bytes(rng.choice([content, cut, zipped.getvalue(), gzip.compress(content), content + content]))
    return path


def odd_json(columns: Columns, folder: Path, rng: random.Random) -> object:
    rows = rows_of(columns)
    some = rows[:1] or [{}]
    texts = [
        json.dumps(columns),  # a column on each line, not a row
        json.dumps({"data": rows}),
        "\n".join(map(json.dumps, [{**row, "state": {"x": row.get("state"), "y": [1]}} for row in rows])),
        "\n".join(map(json.dumps, [row if i % 3 else {"state": 1} for i, row in enumerate(rows)])),
        "\n".join(map(json.dumps, [{**row, "State": i} for i, row in enumerate(rows)])),
        "\n".join([*map(json.dumps, rows), rng.choice(['{"state": NaN}', "3", "null", "[]", "{", '"x"', "\x00"])]),
        "\n".join(map(json.dumps, map(list, zip(*columns.values(), strict=True)))),
        '{"state": 1, "state": 2, "action": "a", "reward": 1, "time": 0}\n' * 3,
        "\ufeff" + "\n".join(map(json.dumps, rows)),
        "[" * 3000 + "]" * 3000,
        json.dumps(some[0]),
        "[]",
        "{}",
    ]
    path = folder / rng.choice(["log.json", "log.jsonl", "log.ndjson"])
    path.write_text(rng.choice(texts))
    return path


def odd_parquet(columns: Columns, folder: Path, rng: random.Random) -> object:
    """Names twice, no columns, structs as states, bytes as actions; or two files that differ in their columns."""
    import pyarrow as pa
    from pyarrow import parquet

    table, n = as_arrow(columns), len(next(iter(columns.values()), []))
    odd = [
        pa.nulls(n),
        pa.array([b"\xff", b"a"][i % 2] for i in range(n)),
        pa.array([{"x": i % 3} for i in range(n)], pa.struct([("x", pa.int64())])),
        pa.array([[i % 2] for i in range(n)], pa.list_(pa.int64())),
        pa.array([decimal.Decimal(i % 3) / 10 for i in range(n)], pa.decimal128(30, 10)),
        pa.array([datetime.timedelta(days=i % 3) for i in range(n)], pa.duration("s")),
        pa.array([2**64 - 1 - i % 3 for i in range(n)], pa.uint64()),
        pa.array([datetime.datetime(1700 + i % 3, 1, 1) for i in range(n)], pa.timestamp("ns")),
        pa.array([i % 2 == 0 for i in range(n)]),
        pa.array([["a", "b"][i % 2] for i in range(n)]).dictionary_encode(),
    ]
    place = rng.choice(table.column_names) if table.num_columns else None
    if place is not None and rng.random() < 0.7:
        at = table.column_names.index(place)
        table = table.set_column(at, place, rng.choice(odd))
    elif table.num_columns and rng.random() < 0.5:
        table = table.append_column(rng.choice(table.column_names), rng.choice(odd))  # a name twice
    else:
        table = table.select([])
    path = folder / "log.parquet"
    parquet.write_table(table, path)
    if rng.random() < 0.2:
        (folder / "many").mkdir()
        shutil.copy(path, folder / "many" / "1.parquet")
        parquet.write_table(as_arrow(columns), folder / "many" / "2.parquet")
        return folder / "many"
    return path


def odd_workbook(columns: Columns, folder: Path, rng: random.Random) -> object:
    """Titles above the names, names that are missing or twice, cells beside the table."""
    write = runpy.run_path(str(Path(__file__).parents[1] / "workbooks.py"))["workbook"]
    table = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    above: list[list[object]] = [["Orders of 2024"], []]
    odd = [
        above + table,
        [[*row, None, "note"] for row in table],
        [[None, *row] for row in table],
        [table[0][:1] * len(table[0]), *table[1:]],
        [*table, ["total", None, 12.0]],
        [table[0]],
        [],
        [[1.5, True, None, "x"], *table[1:]],
    ]
    write(folder / "log.xlsx", {"log": rng.choice(odd)})
    return f"{folder / 'log.xlsx'}{rng.choice(['', '::log', '::nothing', '::'])}"


UNTIDY: tuple[Writer, ...] = (nothing, misnamed, odd_json, odd_parquet, odd_workbook)
