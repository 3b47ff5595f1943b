"""A process that works for the studio: a task a line in, stages and an answer a line out, both as JSON.

    in    {"do": "look", "with": {...}}
    out   {"stage": "Counting the log's rows"}        as often as one begins
          {"answer": {...}}                           or {"error": "..."}: they end the task

It ends when its input does: with the server, however that ended. What tasks print goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TextIO, cast

from dualq.base import DualqError

Begin = Callable[[str], None]
Task = Callable[[Begin, Mapping[str, object]], Mapping[str, object]]

HOMES = {
    "warm": "log_tasks",
    "preview": "log_tasks",
    "look": "log_tasks",
    "tell": "log_tasks",
    "rows": "log_tasks",
    "ready": "fit_tasks",
    "open": "fit_tasks",
    "state": "fit_tasks",
    "curve": "fit_tasks",
    "limits": "fit_tasks",
    "learn": "learn_task",
    "keep": "learn_task",
    "export": "handed_task",
    "judge": "handed_task",
}


def task_of(name: str) -> Task:
    """The function that does it: `do_look` of log_tasks, for "look"."""
    return getattr(import_module(f"dualq.app.studio.{HOMES[name]}"), f"do_{name}")


def plain(value: object) -> object:
    """As JSON has it: no number that is not finite, and everything else that it does not know as text."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple | set):
        return [plain(each) for each in cast("Iterable[object]", value)]
    return str(value)


def answered(line: str, begin: Begin) -> dict[str, object]:
    """What one task answers."""
    asked = json.loads(line)
    try:
        return {"answer": plain(task_of(asked["do"])(begin, asked["with"]))}
    except (DualqError, OSError) as error:
        return {"error": " ".join(str(error).split())}


def main() -> None:
    """Work until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what others print must not get between the lines
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        say(out, answered(lines.get(), lambda stage: say(out, {"stage": stage})))


def say(out: TextIO, words: Mapping[str, object]) -> None:
    """A line."""
    out.write(json.dumps(words, ensure_ascii=False, allow_nan=False) + "\n")
    out.flush()


def _listen(lines: queue.SimpleQueue[str]) -> None:
    """Put tasks into the queue; end the process with its input, whatever it is doing."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
