"""How numbers and names are written in sentences; under everything that speaks to people."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

ALIKE = 0.75  # the share of letters that two names have in common, for one to be taken for a slip of the other
MOST_DIGITS = 10  # of a value, however small its error is
LEAST_P = 1e-16  # below this a probability is rounding


def count(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def number(x: float) -> str:
    """Four digits, as people write them."""
    x = 0.0 if x == 0.0 else x  # no minus before it
    return f"{x:,.4g}" if abs(x) < 1e4 else f"{x:,.0f}"


def small(x: float) -> str:
    """Two digits, for errors."""
    rounded = float(f"{x:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100.0 else f"{rounded:g}"


def with_error(value: float, error: float | None) -> str:
    """A value and its standard error, which has two digits; the value alone where no error can be given.

    Four digits of the value, or all in front of the point; more where the error is less than the last of these.
    """
    if error is None:
        return number(value)
    value = 0.0 if abs(value) < 1e-9 * error else value  # rounding
    if value and error > 0.0:
        digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2  # up to the error's second
        shown = max(4, 1 + math.floor(math.log10(abs(value))))
        if digits > shown + 1:
            return f"{value:,.{min(digits, MOST_DIGITS)}g} ± {small(error)}"
    return f"{number(value)} ± {small(error)}"


def sentence(words: str, names: Iterable[str] = ()) -> str:
    """With a capital letter and a full stop; one of the names that it begins with stays as it is written."""
    own = next((name for name in names if words.startswith((f"{name} ", f"{name}:"))), "")
    words = words if own else words[:1].upper() + words[1:]
    return words if words.endswith((".", "?", "!")) else f"{words}."


def outwards(low: float, high: float) -> str:
    """LO,HI: a range that holds another one, with ends as people would name them."""
    step = 10.0 ** math.floor(math.log10((high - low) or abs(high) or 1.0)) / 2.0
    return f"{math.floor(low / step + 1e-9) * step:.6g},{math.ceil(high / step - 1e-9) * step:.6g}"


def visible(value: object) -> str:
    """A label as it is written; in quotes where it begins or ends with spaces, or is empty, which nobody would see."""
    word = str(value)
    return word if word.strip() == word != "" else repr(value)


def pip_install(extra: str) -> str:
    """How to add an extra, as it works from a clone."""
    return f'pip install ".[{extra}]" in the folder of dualq'


def p_value(p: float) -> str:
    """`p = 0.02`; a probability is never written as 0."""
    return f"p = {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:.0e}"


def few(values: Iterable[object], most: int = 12) -> str:
    """The first of them, in quotes where they are text, and dots where there are more."""
    values = list(values)
    return ", ".join(repr(value) for value in values[:most]) + (", ..." if len(values) > most else "")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant: nearly the same letters, whatever their case, or one within the other."""
    names = {name.lower(): name for name in reversed(list(known))}
    word = word.lower()
    close = difflib.get_close_matches(word, list(names), n=1, cutoff=ALIKE)
    within = [name for name in names if min(len(name), len(word)) >= 3 and (word in name or name in word)]
    found = close or sorted(within, key=len)
    return names[found[0]] if found else None
