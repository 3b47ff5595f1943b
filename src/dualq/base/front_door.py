"""The door: a call with an argument of the wrong kind is refused in one line that names it.

Functions check what their arguments must *be* (between 0 and 1, one weight per state). What *kind* of thing an argument
must be stands in its annotation, and is not written a second time: where a call fails, `door` looks which argument does
not fit its annotation, and says so. A call that succeeds costs nothing more. A failure with arguments that all fit is a
mistake of ours, and is left to be seen.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from dualq.base.errors import ArgumentError, DualqError

T = TypeVar("T")


def door(what: T) -> T:
    """A function that users call, or a class: its public methods, and how it is made."""
    if not isinstance(what, type):
        return typing.cast(T, _watched(typing.cast(Callable[..., object], what)))
    for name, member in list(vars(what).items()):
        if isinstance(member, classmethod | staticmethod) and not name.startswith("_"):
            setattr(what, name, type(member)(_watched(member.__func__)))
        elif isinstance(member, types.FunctionType) and (not name.startswith("_") or name == "__init__"):
            setattr(what, name, _watched(member))
    return what


def _watched(function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def called(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except DualqError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            from dualq.base.argument_kinds import misfits

            wrong = next(misfits(function, args, kwargs), None)
            if wrong is None and not isinstance(error, OverflowError):
                raise
            raise wrong or ArgumentError(f"a number that was given is too large to compute with ({error})") from error

    return called
