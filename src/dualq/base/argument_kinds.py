"""Which argument of a call is not of the kind that its annotation asks for, and that in words; for front_door.py."""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import ArgumentError
from dualq.base.faces import names_of

Hint: TypeAlias = Any  # what an annotation may stand for
_ARRAY_LIKE = typing.get_args(ArrayLike)
_LARGEST = 2**62  # whole numbers beyond it are no sizes, places or seeds
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    np.ndarray: "an array",
    os.PathLike: "a path",
    typing.SupportsFloat: "a number",
}


def misfits(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Iterator[ArgumentError]:
    """The arguments that are not of the kind that the function asks for."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # unknown or missing arguments: Python's own words are clear
        return
    hints = _hints(function, args)
    for name, parameter in signature.parameters.items():
        if name not in given or name in ("self", "cls"):
            continue
        hint, value = hints.get(name, object), given[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from _misfits_among(hint, typing.cast(Mapping[str, object], value))
        elif parameter.kind is not parameter.VAR_POSITIONAL and not fits(value, hint):
            yield _refusal(name, value, hint)


def _misfits_among(hint: object, given: Mapping[str, object]) -> Iterator[ArgumentError]:
    """Of **kwargs: Unpack[...]."""
    fields = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Unpack else None
    hints = typing.get_type_hints(fields) if fields is not None else {}
    for name, value in given.items():
        if not fits(value, hints.get(name, object)):
            yield _refusal(name, value, hints[name])


def _refusal(name: str, value: object, hint: object) -> ArgumentError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    right = "smaller" if isinstance(value, int) and abs(value) >= _LARGEST else in_words(hint)
    return ArgumentError(f"{name} is {shown}; it must be {right}", argument=name, value=value)


# ---- annotations


class _Names(dict[str, object]):
    """The names that an annotation may use: of its modules, what these import for type checkers only, and the usual."""

    def __init__(self, homes: Iterable[types.ModuleType]) -> None:
        super().__init__()
        self.later: dict[str, tuple[str, str]] = {}
        for module in homes:
            self.update(vars(module))
            self.later |= names_of(Path(str(module.__file__)).read_text(encoding="utf-8"))

    def __missing__(self, name: str) -> object:
        if name in self.later:
            home, there = self.later[name]
            return getattr(import_module(home), there)
        for usual in (collections.abc, typing, sys.modules["dualq"]):  # of an alias that was written elsewhere
            if name in dir(usual):
                return getattr(usual, name)
        raise KeyError(name)


def _hints(function: Callable[..., object], args: tuple[object, ...]) -> dict[str, object]:
    """What the annotations of a function stand for, without those that name what is not there."""
    kinds = type(args[0]).__mro__ if function.__name__ == "__init__" else ()  # fields of a dataclass may be inherited
    homes = dict.fromkeys([*(kind.__module__ for kind in reversed(kinds)), function.__module__])
    names = _Names(sys.modules[home] for home in homes if home.startswith("dualq"))
    return {name: hint for name, one in inspect.get_annotations(function).items() for hint in _read(one, names)}


def _read(annotation: object, names: _Names) -> Iterator[object]:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    with contextlib.suppress(NameError, KeyError, AttributeError, ImportError, TypeError):
        yield typing.get_type_hints(holder, localns=names)["it"]


def fits(value: object, hint: Hint) -> bool:
    """Whether a value is of the kind that an annotation says; in doubt it is."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in (object, Any) or isinstance(hint, TypeVar | str | typing.ForwardRef):
        return True
    if _has_arrays(inner):
        return _is_array(value) or fits(value, _without_arrays(inner))
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is typing.Literal:
        return any(isinstance(value, type(one)) and value == one for one in inner)
    if hint is None:
        return value is None
    if origin is None:
        return _is(value, hint)
    return _is(value, origin) and _fits_inside(value, origin, inner)


def _has_arrays(inner: tuple[object, ...]) -> bool:
    return all(one in inner for one in _ARRAY_LIKE)


def _without_arrays(inner: tuple[object, ...]) -> object:
    rest = [one for one in inner if one not in _ARRAY_LIKE]
    return typing.Union[tuple(rest)] if rest else typing.Never  # noqa: UP007


def _is_array(value: object) -> bool:
    try:
        return np.asarray(value, dtype=float).size >= 0
    except (TypeError, ValueError, OverflowError):
        return False


def _is(value: object, kind: Hint) -> bool:
    if kind is float:
        return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < _LARGEST
    if kind is typing.Never or not isinstance(kind, type):
        return kind is not typing.Never
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return all(hasattr(value, name) for name in _members(kind))
    return isinstance(value, kind)


def _members(protocol: type) -> set[str]:
    """The public names that a protocol asks for."""
    own = [one for one in protocol.__mro__ if getattr(one, "_is_protocol", False)]
    names = {name for one in own for name in (*vars(one), *vars(one).get("__annotations__", {}))}
    return {name for name in names if not name.startswith("_")}


def _fits_inside(value: Hint, origin: Hint, inner: tuple[Hint, ...]) -> bool:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if origin is tuple and Ellipsis not in inner:
        return len(value) == len(inner) and all(map(fits, value, inner))
    if isinstance(value, str | bytes):  # no list of anything else, even when it is empty
        return fits("", inner[0])
    if isinstance(origin, type) and issubclass(origin, Iterable) and isinstance(value, Sequence | Set | Mapping):
        return all(fits(one, inner[0]) for one in value)
    return True


def in_words(hint: Hint) -> str:
    """What an annotation asks for, for people."""
    return " or ".join(dict.fromkeys(_alternatives(hint)))


def _alternatives(hint: Hint) -> Iterator[str]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if _has_arrays(inner):
        yield "numbers, or an array of them"
        yield from _alternatives(_without_arrays(inner)) if len(inner) > len(_ARRAY_LIKE) else ()
    elif origin in (typing.Union, types.UnionType):
        for one in inner:
            yield from _alternatives(one)
    elif origin is typing.Literal:
        yield from map(repr, inner)
    elif hint is None:
        yield "None"
    else:
        yield _WORDS.get(origin or hint) or _of_kind(origin or hint)


def _of_kind(kind: Hint) -> str:
    if kind is Callable or getattr(kind, "__name__", "") == "Callable":
        return "a function"
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping {name: value}"
    if isinstance(kind, type) and issubclass(kind, Iterable):
        return "a list"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOU' or name == 'MDP' else 'a'} {name}"
