"""Work on several threads: kernels and NumPy hold no lock on large arrays, so Python's threads will do."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import TypeVar, cast

T = TypeVar("T")
Begin = Callable[[str], None]  # told what begins; what it raises stops the work


def silent(_: str) -> None:
    """Nobody listens."""


class Left(Exception):
    """Nobody waits any more for what a thread was doing."""


def threads() -> int:
    """How many may be used: as OMP_NUM_THREADS says, or one for each core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    return os.cpu_count() or 1


def one_by_one(tasks: Sequence[Callable[[Begin], T]], begin: Begin) -> list[T]:
    """What each task gives, where threads are not worth their while."""
    return [task(begin) for task in tasks]


def together(tasks: Sequence[Callable[[Begin], T]], begin: Begin) -> list[T]:
    """What each task gives, in their order; as many at a time as there are threads.

    A task is given a `begin` of its own, and the caller's is called in the caller's thread. The caller only waits, so
    that Ctrl-C is answered at once, with one thread too; what runs on then ends when it next begins something.
    """
    heard: SimpleQueue[tuple[int, object, BaseException | None] | str] = SimpleQueue()
    left, waiting = Event(), list(enumerate(tasks))[::-1]

    def tell(stage: str) -> None:
        if left.is_set():
            raise Left
        heard.put(stage)

    def work() -> None:
        while not left.is_set():
            try:
                i, task = waiting.pop()
            except IndexError:  # another thread has taken the last one
                return
            try:
                heard.put((i, task(tell), None))
            except BaseException as error:  # it is raised where somebody waits for it
                heard.put((i, None, error))

    found: dict[int, object] = {}
    try:
        for _ in range(min(threads(), len(tasks))):
            Thread(target=work).start()
        while len(found) < len(tasks):
            news = heard.get()
            if isinstance(news, str):
                begin(news)
                continue
            i, answer, error = news
            if error is not None:
                raise error
            found[i] = answer
    finally:
        left.set()
    return [cast(T, found[i]) for i in range(len(tasks))]
