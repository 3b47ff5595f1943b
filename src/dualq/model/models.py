"""Models on disk, and policies written for people. `docs/models.md` describes the two formats.

    .npz   the arrays of an `MDP`, dense or sparse, with its discount, reward range and labels: nothing is lost
    .csv   rows `state,action,next_state,probability,reward`; the discount comes from the caller

A file is checked here once, and an error names the file, the row and what would be right.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import (
    CheckpointError,
    ErrorParts,
    Labels,
    LabelsLike,
    ModelError,
    about,
    arrays_in,
    as_json_array,
    count,
    csv_text,
    door,
    from_json_array,
    nearest,
    save_arrays,
    unguarded,
    verified,
    write_whole,
)
from dualq.model.mdp import MDP, ROW_SUM_TOLERANCE, Sparse
from dualq.model.policy import TablePolicy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as pa_csv

Array = np.ndarray
How = TypeVar("How")

COLUMNS = ("state", "action", "next_state", "probability", "reward")


@door
def read_model(path: str | os.PathLike[str], discount: float | None = None) -> MDP:
    """The model in an .npz or .csv file; a discount given here comes before the one in the file."""
    path = Path(path)
    with about(path=str(path)):
        read = _format(path, {".npz": _read_npz, ".csv": _read_csv})
        if not path.exists():
            raise ModelError(f"{path}: no such file")
        try:
            return read(path, discount)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from None


@door
def write_model(path: str | os.PathLike[str], mdp: MDP) -> None:
    """Write a model that `read_model` reads back.

    An .npz keeps everything. A .csv keeps transitions and expected rewards: not the discount, the reward range, or the
    difference between the labels 3 and "3"; and its states and actions have one column each.
    """
    path = Path(path)
    with about(path=str(path)):
        _format(path, {".npz": _write_npz, ".csv": _write_csv})(path, mdp)


@door
def write_policy(path: str | os.PathLike[str], policy: TablePolicy) -> None:
    """Write a CSV with a row (state, action, probability) for every action of positive probability, in the labels."""
    columns = policy.columns()
    write_whole(path, csv_text(columns, zip(*columns.values(), strict=True)).encode())


def _format(path: Path, formats: dict[str, How]) -> How:
    if path.suffix.lower() not in formats:
        raise ModelError(f"{path}: a model is an .npz or a .csv file, and this name ends in {path.suffix or 'neither'}")
    return formats[path.suffix.lower()]


def _need_discount(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path}: {why}; give one, such as discount=0.95 (on the command line, --discount 0.95)", argument="discount"
    )


def _mdp(
    path: Path,
    P: ArrayLike | Sparse,
    rewards: Array,
    discount: float,
    reward_range: tuple[float, float] | None,
    states: LabelsLike,
    actions: LabelsLike,
    available: Array | None,
) -> MDP:
    """The MDP, with the file's name before whatever is wrong with it."""
    try:
        return MDP(P, rewards, discount, reward_range, states=states, actions=actions, available=available)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", **error.parts) from None


# ---- .npz


def _read_npz(path: Path, discount: float | None) -> MDP:
    arrays = _npz_arrays(path)
    if discount is None and "discount" not in arrays:
        raise _need_discount(path, "there is no array `discount`")
    if "rewards" not in arrays:
        raise ModelError(f"{path}: there is no array `rewards`{_near('rewards', arrays)}; it must be (S, A)")
    for name in ("discount", "rewards", "P", "probabilities", "reward_range"):
        if name in arrays and arrays[name].dtype.kind not in "biuf":
            raise ModelError(f"{path}: the array `{name}` holds {arrays[name].dtype}; it must hold numbers")
    if "discount" in arrays and arrays["discount"].size != 1:
        raise ModelError(f"{path}: `discount` has shape {arrays['discount'].shape}; it must be one number")
    if "reward_range" in arrays and arrays["reward_range"].shape != (2,):
        raise ModelError(f"{path}: `reward_range` has shape {arrays['reward_range'].shape}; it must be (low, high)")
    return _mdp(
        path,
        _transitions(path, arrays),
        arrays["rewards"],
        arrays["discount"].item() if discount is None else discount,
        _ends(arrays["reward_range"]) if "reward_range" in arrays else None,
        states=_labels(path, arrays, "states"),
        actions=_labels(path, arrays, "actions"),
        available=arrays.get("available"),
    )


def _ends(reward_range: Array) -> tuple[float, float]:
    low, high = reward_range.tolist()
    return low, high


def _npz_arrays(path: Path) -> dict[str, Array]:
    """The arrays of any .npz file; the SHA-256 is checked where there is one."""
    try:
        arrays = arrays_in(path)
        return verified(path, arrays) if "sha256" in arrays else arrays
    except CheckpointError as error:
        if "allow_pickle" not in str(error):
            raise ModelError(str(error), **error.parts) from None
        advice = "save numbers, or labels with a text type such as np.array(labels, dtype=str)"
        raise ModelError(f"{path}: holds an array of Python objects, which dualq does not unpickle; {advice}") from None


def _transitions(path: Path, arrays: dict[str, Array]) -> Array | sp.csr_array:
    """The array `P`, or the matrix whose CSR parts are there."""
    if "P" in arrays:
        return arrays["P"]
    parts = [name for name in ("indptr", "indices", "probabilities") if name not in arrays]
    if parts:
        wanted = "`P` (S, A, S), or all of `indptr`, `indices` and `probabilities`"
        raise ModelError(f"{path}: there is no array `{parts[0] if len(parts) < 3 else 'P'}`; transitions are {wanted}")
    indptr, indices, probabilities = (arrays[name] for name in ("indptr", "indices", "probabilities"))
    shape = arrays["rewards"].shape
    if len(shape) != 2 or 0 in shape:
        raise ModelError(f"{path}: `rewards` has shape {shape}; beside `indptr` it must be (S, A)")
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.dtype.kind not in "iu":
            raise ModelError(f"{path}: `{name}` holds {array.dtype}; it must hold whole numbers")
    rows = shape[0] * shape[1]
    if indptr.shape != (rows + 1,):
        raise ModelError(f"{path}: `indptr` has shape {indptr.shape}; it must be ({rows + 1},), S*A + 1")
    nonzeros = int(indptr[-1])
    if indptr[0] != 0 or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ModelError(f"{path}: `indptr` must begin with 0 and never fall")
    if not indices.shape == probabilities.shape == (nonzeros,):
        shapes = f"{indices.shape} and {probabilities.shape}"
        raise ModelError(f"{path}: `indices` and `probabilities` have shapes {shapes}; `indptr` ends in {nonzeros}")
    wrong = (indices < 0) | (indices >= shape[0])
    if wrong.any():
        value = indices[wrong.argmax()]
        raise ModelError(f"{path}: `indices` holds the state {value}; states are 0 to {shape[0] - 1}")
    return sp.csr_array((probabilities.astype(float, copy=False), indices, indptr), shape=(rows, shape[0]))


def _labels(path: Path, arrays: dict[str, Array], name: str) -> Labels | None:
    """Labels, from an array of numbers or text or from JSON bytes {"names": [...], "values": [...]}; None if absent."""
    array = arrays.get(name)
    if array is None:
        return None
    try:
        if array.dtype != np.uint8:
            return Labels(array.tolist(), name[:-1])
        saved = from_json_array(array)
        return Labels([tuple(v) if isinstance(v, list) else v for v in saved["values"]], tuple(saved["names"]))
    except ModelError as error:
        raise ModelError(f"{path}: {error}", **error.parts) from None
    except (ValueError, TypeError, KeyError):
        right = 'a list of labels, or JSON bytes {"names": [...], "values": [...]}'
        raise ModelError(f"{path}: `{name}` cannot be read; it must be {right}") from None


def _write_npz(path: Path, mdp: MDP) -> None:
    arrays = {"indptr": mdp.indptr, "indices": mdp.indices, "probabilities": mdp.probabilities}
    arrays |= {"rewards": mdp.rewards, "discount": np.array(mdp.discount)}
    arrays["reward_range"] = np.array(mdp.reward_range)
    if not mdp.available.all():
        arrays["available"] = mdp.available
    for name, labels in (("states", mdp.states), ("actions", mdp.actions)):
        if labels != Labels(len(labels), name[:-1]):
            try:
                arrays[name] = as_json_array({"names": labels.names, "values": list(labels)})
            except TypeError as error:
                raise ModelError(f"{path}: {name} have labels that a file cannot keep ({error})") from None
    save_arrays(path, arrays)


# ---- .csv


def _read_csv(path: Path, discount: float | None) -> MDP:
    if discount is None:
        raise _need_discount(path, "a .csv model has no discount")
    table = _csv_table(path)
    p, r = (_numbers(path, table, name) for name in ("probability", "reward"))
    if (p < 0.0).any():
        i = int((p < 0.0).argmax())
        wrong = f"probability is {p[i]:g}; it must not be negative"
        raise _row_error(path, i, wrong, column="probability", value=float(p[i]))
    (s, s_next), states = _encoded(path, table, "state", "next_state")
    (a,), actions = _encoded(path, table, "action")

    pair = s.astype(np.int64) * len(actions) + a
    shape = (len(states), len(actions))
    sums = np.bincount(pair, p, shape[0] * shape[1])
    wrong = np.abs(sums[pair] - 1.0) > ROW_SUM_TOLERANCE
    if wrong.any():
        i = int(wrong.argmax())
        place = f"({states.describe(int(s[i]))}, {actions.describe(int(a[i]))})"
        raise _row_error(
            path,
            i,
            f"the probabilities of {place} sum to {sums[pair[i]]:.10g}; they must sum to 1",
            column="probability",
            value=float(sums[pair[i]]),
            state=states[int(s[i])],
            action=actions[int(a[i])],
        )

    # Rows may repeat (s, a, s') with another reward: probabilities add, the expected reward is their weighted mean, and
    # the range is that of the rewards in the file. Rounding must not carry a mean out of the range.
    possible = p > 0.0
    pair, s_next, p, r = pair[possible], s_next[possible], p[possible] / sums[pair[possible]], r[possible]
    low, high = float(r.min()), float(r.max())
    rewards = np.clip(np.bincount(pair, p * r, sums.size).reshape(shape), low, high)
    transitions = sp.csr_array((p, (pair, s_next)), shape=(sums.size, len(states)))
    available = (np.diff(transitions.indptr) > 0).reshape(shape)
    return _mdp(path, transitions, rewards, discount, (low, high), states=states, actions=actions, available=available)


def _check_utf8(path: Path) -> None:
    """Before Arrow reads it: of a row that is no text, and has fields too many, Arrow prints a traceback of its own."""
    letters = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            for part in iter(lambda: file.read(1 << 20), b""):
                letters.decode(part)
        letters.decode(b"", final=True)
    except UnicodeDecodeError:
        raise ModelError(f"{path}: is not text in UTF-8; save it as UTF-8") from None


def _csv_table(path: Path, as_text: Iterable[str] = ()) -> pa.Table:
    """The five columns as a pyarrow table with no empty cell, types as pyarrow finds them (text where asked for)."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    _check_utf8(path)
    broken = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        broken.append(row)
        return "error"

    def read(use_threads: bool) -> pa.Table:
        return pa_csv.read_csv(
            path,
            read_options=pa_csv.ReadOptions(use_threads=use_threads),
            parse_options=pa_csv.ParseOptions(invalid_row_handler=refuse),
            # Only an empty cell is missing: "NA" may be somebody's label, and a NaN gets a message of its own.
            convert_options=pa_csv.ConvertOptions(
                null_values=[""], strings_can_be_null=True, column_types={name: pa.string() for name in as_text}
            ),
        )

    try:
        table = read(use_threads=True)
        header = table.column_names
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise ModelError(f"{path}: is empty; it must hold a header and rows {','.join(COLUMNS)}") from None
        if not broken:
            raise ModelError(f"{path}: cannot be read as CSV ({_first_line(error)})") from None
        broken.clear()  # one thread knows the number of the row
        with suppress(pa.ArrowInvalid):
            read(use_threads=False)
        row = broken[0]
        place, fields = _row(path, row.number - 2), count(row.actual_columns, "field")
        raise ModelError(
            f"{path}: row {place} has {fields}; the header has {row.expected_columns}", row=place
        ) from None

    _check_header(path, header)
    if table.num_rows == 0:
        raise ModelError(f"{path}: has a header and no rows; it must have rows {','.join(COLUMNS)}")
    table = table.select(list(COLUMNS))
    for name, column in zip(COLUMNS, table.columns, strict=True):
        if column.null_count:
            i = int(column.is_null().to_numpy().argmax())
            raise _row_error(path, i, f"{name} is empty; a row must have {','.join(COLUMNS)}", column=name)
    return table


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1:
        for delimiter, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if delimiter in header[0]:
                raise ModelError(f"{path}: columns are separated by {word}; they must be separated by commas")
    for name in COLUMNS:
        if name not in header:
            others = [column for column in header if column not in COLUMNS]
            raise ModelError(
                f"{path}: no column {name!r}{_near(name, others)}; the header must have {','.join(COLUMNS)}",
                column=name,
            )
        if header.count(name) > 1:
            times = header.count(name)
            raise ModelError(f"{path}: {times} columns are called {name!r}; there must be one", column=name)


def _numbers(path: Path, table: pa.Table, name: str) -> Array:
    """A column of finite numbers."""
    import pyarrow as pa

    column = table[name]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        i, text = _first_text(_csv_table(path, as_text=[name])[name])
        raise _row_error(path, i, f"{name} is {text!r}; it must be a number such as 0.25", column=name, value=text)
    numbers = _array(column).astype(float)
    bad = ~np.isfinite(numbers)
    if bad.any():
        i = int(bad.argmax())
        value = float(numbers[i])
        raise _row_error(path, i, f"{name} is {value:g}; it must be a finite number", column=name, value=value)
    return numbers


def _first_text(column: pa.ChunkedArray) -> tuple[int, str]:
    """The first cell of a column of text that is not a number, found by halving."""
    import pyarrow as pa
    from pyarrow import compute as pc

    good, bad = 0, len(column)  # the first such cell is in column[good:bad]
    trimmed = pc.utf8_trim_whitespace(column)  # pyright: ignore[reportAttributeAccessIssue]
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            trimmed[good:middle].cast(pa.float64())
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good, column[good].as_py()


def _encoded(path: Path, table: pa.Table, own: str, *others: str) -> tuple[list[Array], Labels]:
    """Columns of labels as places, and the labels: numbers in their order, text as it first appears in column `own`."""
    import pyarrow as pa
    from pyarrow import compute as pc

    columns = [table[name] for name in (own, *others)]
    types = {column.type for column in columns}
    if types == {pa.int64(), pa.float64()}:
        columns = [column.cast(pa.float64()) for column in columns]
    elif types not in ({pa.int64()}, {pa.float64()}, {pa.bool_()}, {pa.string()}):
        # Dates, and columns of which one has text and the other numbers: all are text.
        again = _csv_table(path, as_text=(own, *others))
        columns = [again[name] for name in (own, *others)]
    for name, column in zip((own, *others), columns, strict=True):
        if pa.types.is_floating(column.type) and np.isnan(_array(column)).any():
            i = int(np.isnan(_array(column)).argmax())
            raise _row_error(path, i, f"{name} is nan; it must be a label", column=name, value=float("nan"))

    values = columns[0].unique()
    if not pa.types.is_string(values.type):
        values = values.sort()
    index_in = pc.index_in  # pyright: ignore[reportAttributeAccessIssue]
    places = [index_in(column, value_set=values) for column in columns]
    for name, column, place in zip((own, *others), columns, places, strict=True):
        if place.null_count:
            i = int(place.is_null().to_numpy().argmax())
            label = column[i].as_py()
            raise _row_error(
                path,
                i,
                f"{name} {label!r} has no row in which it is the {own}; "
                f"if it is absorbing, add the row {label},{table['action'][0].as_py()},{label},1,0",
                column=name,
                value=label,
            )
    counted = pa.types.is_integer(values.type) and np.array_equal(_array(values), np.arange(len(values)))
    labels = Labels(len(values) if counted else [unguarded(label) for label in values.to_pylist()], own)
    return [_array(place) for place in places], labels


def _array(column: pa.Array | pa.ChunkedArray) -> Array:
    """A pyarrow column of numbers, with no empty cell, in NumPy; by DLPack, since to_numpy() would import pandas."""
    import pyarrow as pa

    return np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def _write_csv(path: Path, mdp: MDP) -> None:
    for labels in (mdp.states, mdp.actions):
        if len(labels.names) > 1:
            names = ", ".join(labels.names)
            raise ModelError(f"{path}: labels with the columns {names} do not fit a .csv; write an .npz")
    s, a = np.divmod(np.repeat(np.arange(mdp.indptr.size - 1), np.diff(mdp.indptr)), mdp.num_actions)
    picked = chain.from_iterable(
        labels.picked(places).values()
        for labels, places in ((mdp.states, s), (mdp.actions, a), (mdp.states, mdp.indices))
    )
    rows = zip(*picked, mdp.probabilities.tolist(), mdp.rewards[s, a].tolist(), strict=True)
    write_whole(path, csv_text(COLUMNS, rows).encode())


# ---- words for messages


def _row_error(path: Path, i: int, wrong: str, /, **parts: Unpack[ErrorParts]) -> ModelError:
    """What is wrong with the i-th row of data."""
    row = _row(path, i)
    error = ModelError(f"{path}: row {row}: {wrong}", **parts)
    error.row = row
    return error


def _row(path: Path, i: int) -> int:
    """Where the i-th row of data stands in the file, the header being row 1; blank lines count, as in an editor."""
    with path.open("rb") as file:
        filled = (number for number, line in enumerate(file, 1) if line.strip(b"\r\n"))
        return next(islice(filled, i + 1, None), i + 2)


def _near(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?`, where a name is near."""
    near = nearest(name, [other.strip() for other in names])
    return f" (did you mean {near!r}?)" if near is not None else ""


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
