"""A policy in one line: `order = 6 if stock <= 1 else 0`, read safely, and asked for many states at once.

    rule         COLUMN = expression                         COLUMN is the action's
    expression   numbers, text in quotes, columns of the state;  + - * / // %;  < <= == != >= > in not in;
                 and or not;  A if condition else B
    column       its name; in backticks where that has spaces or signs: `stock level`

Nothing is evaluated as Python: the line is parsed (`ast`), every node must be one of these, and each is computed on
columns. There are no calls, no attributes, no indices and no powers, and nothing is counted with text, so that no line
can take long or do harm.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import numpy as np

from dualq.base import Label, LogError, few, nearest

Array = np.ndarray
Done: TypeAlias = Callable[[Array, Array], Array]

LONGEST, DEEPEST = 1_000, 50  # letters of a rule, and how far its parts are nested
EXAMPLE = "order = 6 if stock <= 1 else 0"
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`([^`]+)`")  # text, and names in backticks
SLIPS = {  # what other languages write
    r"&&|(?<!&)&(?!&)": "write `and`",
    r"\|": "write `or`",
    r"<>": "write !=",
    r"(?<![<>=!:])=(?!=)": "compare with ==",
    r"!(?!=)": "write `not`",
    r"\belif\b|;|\?|:": "write A if CONDITION else B, and for more cases: A if C else B if D else E",
}
PARTS = "columns of the state, numbers, text in quotes, + - * / // %, comparisons, in, and, or, not, A if C else B"
HINTS = {
    "Call": "functions cannot be called; write max(a, b) as: a if a > b else b",
    "Attribute": "a dot is only for decimals; name the column alone",
    "Subscript": "there are no indices; name the column alone",
    "Pow": "there are no powers; multiply",
    "Lambda": "write the expression itself",
    "NamedExpr": "compare with == ",
}
SUMS: dict[type[ast.operator], Done] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
ORDERS: dict[type[ast.cmpop], Done] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, eq=False)
class OneLineRule:
    """A rule that was parsed: which column it decides, and the expression."""

    text: str
    column: str  # of the action
    tree: ast.expr = field(repr=False)
    names: tuple[str, ...]  # columns of the state that it asks for

    def __call__(self, columns: Mapping[str, Array]) -> Array:
        """What it decides in each state, from the columns that it names."""
        given = {name: np.asarray(columns[name], dtype=object) for name in self.names}
        rows = next(iter(columns.values())).size
        return _Answer(self.text, given, rows).of(self.tree)


def is_rule(words: str) -> bool:
    """Whether a text reads as a rule, and not as the path of a file."""
    head, equals, rest = _with_plain_names(words)[0].partition("=")
    return bool(equals) and bool(rest.strip()) and not rest.startswith("=") and "/" not in head and "\n" not in words


def parsed(
    words: str, state: tuple[str, ...], action: tuple[str, ...], known: Mapping[str, Collection[Label]] | None = None
) -> OneLineRule:
    """The rule of a line, for a log with these columns; a LogError names the place and what would be right.

    known   {column: its labels in the log}, of columns that hold labels: text that is none of them is a slip
    """
    if len(words) > LONGEST:
        raise LogError(
            f"the rule has {len(words):,} letters; {LONGEST:,} are the most: give a file of states and actions"
        )
    given = words.strip()
    words, odd = _with_plain_names(given)
    name, _, rest = words.partition("=")
    target = odd.get(name.strip(), name.strip())
    if len(action) != 1:
        raise LogError(f"the log's action has the columns {', '.join(action)}; a rule decides one: give a file")
    if target != action[0]:
        equals = " (with one =, and no colon)" if target.endswith(":") else ""
        wrong = f"the rule decides {target!r}; the log's action is {action[0]!r}"
        raise LogError(f"{wrong}: write {_written(action[0])} = ...{equals}", value=target)
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(rest.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        wrong = f"the rule {_place(given, rest, error, state)}; write it as {EXAMPLE}"
        raise LogError(f"{wrong}. It may have {PARTS}", value=given) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = odd.get(node.id, node.id)
    asked = _Checked(given, rest, state, known or {})
    asked.check(tree, DEEPEST)
    return OneLineRule(given, target, tree, tuple(dict.fromkeys(asked.names)))


def _with_plain_names(words: str) -> tuple[str, dict[str, str]]:
    """The line with a name for each in backticks, as long as it was, of a letter that it lacks; what they stand for."""
    found = dict.fromkeys(name for name in QUOTED.findall(words) if name)
    letter = next(letter for letter in map(chr, range(0x4E00, 0x9FFF)) if letter not in words[:LONGEST])
    plain = {name: f"{letter}{np.base_repr(i, 36):0>{len(name) + 1}}" for i, name in enumerate(found)}

    def replaced(match: re.Match[str]) -> str:
        return plain[match[1]] if match[1] else match[0]

    return QUOTED.sub(replaced, words), {one: name for name, one in plain.items()}


def _written(column: str) -> str:
    """A column's name as a rule writes it."""
    return column if column.isidentifier() and not keyword.iskeyword(column) else f"`{column}`"


def _place(words: str, rest: str, error: Exception, state: tuple[str, ...]) -> str:
    if isinstance(error, SyntaxError) and error.offset:
        before = len(words) - len(rest) + len(rest) - len(rest.lstrip()) + error.offset - 1
        slip = next((right for wrong, right in SLIPS.items() if re.search(wrong, _outside_quotes(rest))), "")
        half = "an `if` needs its `else`" if " if " in rest and " else " not in rest else ""
        odd = next((f"`{one}`" for one in state if one in rest and not one.isidentifier()), "")
        hint = f"write {odd}, in backticks" if odd else half or slip
        return f"cannot be read at letter {before + 1}, {words[before : before + 12]!r}{f' ({hint})' if hint else ''}"
    return "cannot be read"


def _outside_quotes(rest: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "''", rest)


class _Checked:
    """Every node is one that a rule may have."""

    def __init__(self, words: str, rest: str, state: tuple[str, ...], known: Mapping[str, Collection[Label]]):
        self.words, self.state, self.known = words, state, known
        self.parsed = rest.strip().encode()  # places in it are counted in bytes
        self.before = len(words) - len(rest.lstrip())
        self.names: list[str] = []

    def check(self, node: ast.AST, deep: int) -> None:
        """A LogError where it is none, or is nested deeper than this."""
        if deep == 0:
            self._refuse(node, "deep", f"its parts are nested more than {DEEPEST} deep")
        match node:
            case ast.Name(id=name):
                self._column(node, name)
            case ast.Constant(value=value) if isinstance(value, int | float | str | bool):
                pass
            case ast.BinOp(left=left, op=op, right=right):
                if type(op) not in SUMS:
                    self._refuse(node, type(op).__name__)
                self._all(deep, left, right)
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
                self.check(operand, deep - 1)
            case ast.BoolOp(values=values):
                self._all(deep, *values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._all(deep, test, body, orelse)
            case ast.Compare(left=left, ops=ops, comparators=others):
                self.check(left, deep - 1)
                for one, op, other in zip((left, *others), ops, others, strict=False):
                    self._compared(deep, op, other)
                    self._alike(one, op, other)
            case _:
                self._refuse(node, type(node).__name__)

    def _all(self, deep: int, *nodes: ast.AST) -> None:
        for node in nodes:
            self.check(node, deep - 1)

    def _compared(self, deep: int, op: ast.cmpop, other: ast.expr) -> None:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(other, ast.Tuple | ast.List | ast.Set):
                self._refuse(other, "in", 'after `in` a list is needed, such as ("winter", "autumn")')
            self._all(deep, *other.elts)
        elif type(op) in ORDERS:
            self.check(other, deep - 1)
        else:
            self._refuse(other, type(op).__name__, "compare with == or !=")

    def _alike(self, one: ast.expr, op: ast.cmpop, other: ast.expr) -> None:
        """A column is compared with what it can be: text with a label of it, numbers with numbers."""
        if isinstance(other, ast.Tuple | ast.List | ast.Set):
            for value in other.elts:
                self._alike(one, ast.Eq(), value)
        elif isinstance(one, ast.Name) and isinstance(other, ast.Constant):
            self._label(one.id, op, other)
        elif isinstance(other, ast.Name) and isinstance(one, ast.Constant):
            self._label(other.id, op, one)

    def _label(self, column: str, op: ast.cmpop, node: ast.Constant) -> None:
        labels, value = self.known.get(column, ()), node.value
        texts = [label for label in labels if isinstance(label, str)]
        wrong = f"the rule compares {column} with {value!r} at letter {self._at(node)}"
        if isinstance(value, str) and labels and not texts:
            some = next(iter(labels))
            raise LogError(f"{wrong}, and it holds values such as {some}, no text; leave out the quotes", value=value)
        if not isinstance(value, str) and labels and len(texts) == len(labels):
            raise LogError(f"{wrong}, and it holds text, such as {texts[0]!r}; put text in quotes", value=value)
        if isinstance(value, str) and labels and value not in texts and isinstance(op, ast.Eq | ast.NotEq):
            close = nearest(value, texts)
            hint = f"did you mean {close!r}?" if close else f"known are {few(texts)}"
            raise LogError(f"{wrong}, which the log never has; {hint}", value=value)

    def _column(self, node: ast.AST, name: str) -> None:
        if name not in self.state:
            close = nearest(name, self.state)
            odd = close is not None and _written(close) != close
            meant = f"{_written(close)}, in backticks" if close and odd else repr(close)
            hint = f"did you mean {meant}?" if close else f"the state's columns are {few(self.state)}"
            wrong = f"the rule names {name!r} at letter {self._at(node)}, which is no column of the state; {hint}"
            raise LogError(wrong if close else f'{wrong}; text stands in quotes, "{name}"', value=name)
        self.names.append(name)

    def _at(self, node: ast.AST) -> int:
        return self.before + len(self.parsed[: getattr(node, "col_offset", 0)].decode()) + 1

    def _refuse(self, node: ast.AST, kind: str, hint: str | None = None) -> NoReturn:
        at = self._at(node) - 1
        part = self.words[at : at + 20].strip()
        right = hint or HINTS.get(kind) or f"a rule is made of {PARTS}"
        raise LogError(f"the rule has {part!r} at letter {at + 1}, which is not allowed: {right}", value=self.words)


class _Answer:
    """The value of a node for many states; a part is computed only where it is asked for, as Python does."""

    def __init__(self, text: str, columns: Mapping[str, Array], rows: int):
        self.text, self.columns, self.rows = text, columns, rows

    def _where(self, holds: Array) -> _Answer:
        return _Answer(self.text, {name: column[holds] for name, column in self.columns.items()}, int(holds.sum()))

    def of(self, node: ast.expr) -> Array:
        """(rows,) objects."""
        match node:
            case ast.Name(id=name):
                return self.columns[name]
            case ast.Constant(value=value):
                return self._filled(value)
            case ast.BinOp(left=left, op=op, right=right):
                return self._added(SUMS[type(op)], node, left, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~_held(self.of(operand))
            case ast.UnaryOp(op=op, operand=operand):
                return self._added(ast_sign(op), node, ast.Constant(0), operand)
            case ast.BoolOp(op=op, values=values):
                return self._joined(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = _held(self.of(test))
                return self._put((holds, body), (~holds, orelse))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(node, left, ops, others)
        raise AssertionError(ast.dump(node))

    def _filled(self, value: object) -> Array:
        column = np.empty(self.rows, object)
        column[:] = value
        return column

    def _put(self, *parts: tuple[Array, ast.expr]) -> Array:
        column = np.empty(self.rows, object)
        for holds, node in parts:
            if holds.any():
                column[holds] = self._where(holds).of(node)
        return column

    def _joined(self, every: bool, values: list[ast.expr]) -> Array:
        """and, or: what is decided already is asked no further."""
        found = np.full(self.rows, every)
        for value in values:
            going = found if every else ~found
            found[going] = _held(self._where(going).of(value))
        return found

    def _compared(self, node: ast.expr, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> Array:
        holds, first = np.ones(self.rows, bool), self.of(left)
        for op, other in zip(ops, others, strict=True):
            if isinstance(other, ast.Tuple | ast.List | ast.Set):
                found = [_held(first == self.of(one)) for one in other.elts]
                among = np.logical_or.reduce([np.zeros(self.rows, bool), *found])
                holds &= ~among if isinstance(op, ast.NotIn) else among
                continue
            second = self.of(other)
            holds &= _held(self._done(ORDERS[type(op)], node, first, second))
            first = second
        return holds

    def _added(self, what: Done, node: ast.expr, left: ast.expr, right: ast.expr) -> Array:
        """Of numbers alone: text that is multiplied, or filled in, could grow without end."""
        one, other = self.of(left), self.of(right)
        if not all(isinstance(x, int | float) for column in (one, other) for x in column.tolist()):
            raise self._wrong(node, "counts with text")
        return self._done(what, node, one, other)

    def _done(self, what: Done, node: ast.expr, one: Array, other: Array) -> Array:
        try:
            return np.asarray(what(one, other), dtype=object)
        except ZeroDivisionError:
            raise self._wrong(node, "divides by zero") from None
        except (TypeError, ValueError, OverflowError):
            raise self._wrong(node, "puts text and numbers together") from None

    def _wrong(self, node: ast.expr, why: str) -> LogError:
        return LogError(f"the rule {why}: {ast.unparse(node)}; check the columns it names", value=self.text)


def ast_sign(op: ast.unaryop) -> Done:
    """0 - x or 0 + x."""
    return operator.sub if isinstance(op, ast.USub) else operator.add


def _held(value: Array) -> Array:
    """Whether it holds, as Python has it: 0, "" and False do not."""
    return np.asarray(value, dtype=object).astype(bool)
