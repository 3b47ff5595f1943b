"""What every benchmark needs: CPU seconds, limits on peers that do not end, and the table in RESULTS.md."""

import multiprocessing
import os
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


def cpu_seconds(prepare, budget=2.0, most=15):
    """Median CPU seconds of `prepare()()`, prepared anew each time and unmeasured, and what the last call returned."""
    seconds = []
    begun = time.process_time()
    while not seconds or (time.process_time() - begun < budget and len(seconds) < most):
        function = prepare()
        start = time.process_time()
        answer = function()
        seconds.append(time.process_time() - start)
    return sorted(seconds)[len(seconds) // 2], answer


def _child(function, sender):
    try:
        sender.send((*function(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))
    except Exception as error:  # what a peer raises is a result too
        sender.send((type(error).__name__, None, None))


def in_child(function, limit):
    """Run `function() -> (seconds, answer)` in a forked process; (seconds, answer, peak GiB), or why there is none."""
    # The parent keeps the limit: a limit on CPU seconds in the child would make its CPU clock tick in milliseconds.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(function, sender))
    child.start()
    sender.close()
    outcome = receiver.recv() if receiver.poll(limit) else (f"> {limit} s", None, None)
    child.kill()
    child.join()
    return outcome


def markdown(header, rows):
    """A table as Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def publish(title, text):
    """Print a section and put it into RESULTS.md in place of the one with the same title."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    command = f"uv run --group bench python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {packages}"
    section = f"## {title}\n\n`{command}` ({where})\n\n{text}\n"
    print(section)
    old = RESULTS.read_text() if RESULTS.exists() else "# Measured\n"
    sections = [part for part in old.split("\n## ")[1:] if not part.startswith(title + "\n")]
    parts = [old.split("\n## ")[0].rstrip() + "\n", *("## " + part.rstrip() + "\n" for part in sections), section]
    RESULTS.write_text("\n".join(parts))
