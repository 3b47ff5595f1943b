"""Jobs that are ended at a random moment: what they were writing is whole or absent, and the next run works.

`python tests/campaign/kills.py 200 [seed [job ...]]` ends so many, by SIGKILL, SIGTERM and SIGINT in turn, and
prints what was wrong. After each, what was being written is looked at: it is as before, or as after; of a part of it
there must be nothing but files whose names say so. Then the same job runs to its end, and what the dead left behind is
gone.

Jobs run in forks of one process that has everything imported, so that their moments are those of their own work. That
process itself reads no log: engines have threads, which no fork has.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from dualq.errors import CheckpointError

import dualq
from dualq.app import cli
from dualq.app.studio import learn_task
from dualq.app.studio.workspace import Workspace, given_log, plain_task
from dualq.base import files

for module in ("ibis.backends.duckdb", "duckdb", "pyarrow.parquet", "scipy.optimize", "scipy.stats", "dualq.offline"):
    import_module(module)
for module in ("learning", "updating", "evaluating", "comparison", "exported"):
    import_module(f"dualq.offline.{module}")
for module in ("charts", "html", "terminal", "page"):
    import_module(f"dualq.app.report.{module}")
import_module("dualq.paper.experiments.fig1")

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LIMIT = 60.0  # seconds that anything may take
PART = re.compile(r"\.(.+)\.\d+\.\w+")  # what is being written: of which file, by which process
TOLD = ["--state", "state", "--action", "action", "--time", "time", "--discount", "0.9"]


@dataclass(frozen=True)
class Job:
    """Something that writes."""

    name: str
    run: Callable[[], object]  # in a child
    seen: Callable[[], object]  # what is there: None, or something to compare; an exception: a part of it
    before: Callable[[], object]  # puts in place what there was


@dataclass(frozen=True)
class Fault:
    """What a killed job left behind, and should not have."""

    job: str
    how: str
    what: str

    def __str__(self) -> str:
        return f"{self.job}, {self.how}: {self.what}"


def write_log(path: Path, seed: int, first: int = 0) -> Path:
    rng = random.Random(seed)
    rows = [f"{rng.randrange(12)},{rng.choice('abc')},{rng.randrange(5)},{first + i}\n" for i in range(2000)]
    path.write_text("state,action,reward,time\n" + "".join(rows))
    return path


def saved_fit(folder: Path) -> object:
    """A fit in a folder, in numbers; None: there is none."""
    names = {path.name for path in folder.iterdir() if not PART.fullmatch(path.name)} if folder.exists() else set()
    if not names:
        return None
    fit = dualq.load(folder)
    said = json.loads((folder / "fit.json").read_text())
    return fit.policy.matrix.tobytes(), fit.expected, said["sha256"]


def contents(folder: Path) -> object:
    """What files hold; None: not all of them are there, and those that are there can be read."""
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not PART.fullmatch(path.name)}
    for name, content in found.items():
        if name.endswith(".json"):
            json.loads(content)
        assert content.endswith((b"\n", b">")), f"{name} is cut off"
    numbers = [name for name in found if name.endswith((".json", ".csv"))]
    return {name: found[name] for name in numbers} or None


def jobs(folder: Path) -> list[Job]:
    """All that writes, in this folder."""
    one, two = write_log(folder / "one.csv", 1), write_log(folder / "two.csv", 2, first=2000)
    old, run, more = folder / "old", folder / "run", folder / "more"
    first = Job("first", lambda: cli.run(["learn", str(one), *TOLD, "--out", str(old)]), lambda: None, lambda: None)
    status, _ = ended(first, None, 0, folder / "said.txt")
    assert status == 0, (folder / "said.txt").read_text()

    def again(place: Path) -> Callable[[], object]:
        def put() -> None:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(old, place)

        return put

    def into(name: str, *words: str) -> Job:
        """A command that writes into a folder, of which every file is whole and all are of one writing."""
        place = folder / name
        line = [
            *words,
            "--out",
            str(place / "out.csv" if name == "act" else place / "p.json" if name == "export" else place),
        ]

        def put() -> None:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()

        return Job(name, lambda: cli.run(line), lambda: contents(place), put)

    judged = [str(two), *TOLD, "--policy"]
    learn, update = ["learn", str(two), *TOLD, "--out", str(run)], ["update", str(old), str(two), "--out", str(more)]
    return [
        Job("learn", lambda: cli.run(learn), lambda: saved_fit(run), again(run)),
        Job("update", lambda: cli.run(update), lambda: saved_fit(more), again(more)),
        into("evaluate", "evaluate", *judged, str(old)),
        into("compare", "compare", *judged, str(old), "--policy", "action = 'b' if state <= 1 else 'a'"),
        into("act", "act", str(old), "--log", str(two)),
        into("export", "export", str(old), "--to", "json"),
        training(folder / "train.ckpt"),
        reproducing(folder / "paper"),
        in_studio(folder / "studio", two),
    ]


def training(path: Path) -> Job:
    two = dualq.problems.two_state()

    def train(steps: int = 400_000) -> object:
        algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=0.08)
        return dualq.train(algorithm, two, steps=steps, seed=0, checkpoint=path, every=2_000)

    whole = train().solution.Q.tobytes()

    def seen() -> object:
        """A run that goes on from whatever is there ends as one that was never stopped."""
        if not path.exists():
            return None
        return train().solution.Q.tobytes() == whole or "another end"

    return Job("train", train, seen, lambda: path.unlink(missing_ok=True))


def reproducing(folder: Path) -> Job:
    def seen() -> object:
        """Tables and plots of which the summary speaks are there; kept curves are whole, or made again."""
        summary = folder / "summary.json"
        if not summary.exists():
            return None
        said = json.loads(summary.read_text())["experiments"]["fig1"]
        return [(folder / name).read_bytes() for name in said["files"]]

    run = ["reproduce", "fig1", "--seeds", "1", "--out", str(folder)]
    return Job("reproduce", lambda: cli.run(run), seen, lambda: shutil.rmtree(folder, ignore_errors=True))


def in_studio(folder: Path, log: Path) -> Job:
    given = given_log(str(log), "two.csv", "given")
    columns = {"state": "state", "action": "action", "time": "time"}

    def learn() -> object:
        space = Workspace.at(folder)
        if (space.runs / "one").exists():  # the signal came too late
            return 0
        task = {"path": str(log), "columns": columns, "learning": {"discount": 0.9}}
        task |= {
            "task": plain_task(given, columns, {}),
            "part": str(space.part("one")),
            "folder": str(space.runs / "one"),
        }
        return learn_task.do_learn(lambda stage: None, task)

    def seen() -> object:
        return saved_fit(folder / "runs" / "one")

    return Job("studio", learn, seen, lambda: shutil.rmtree(folder, ignore_errors=True))


def ended(job: Job, after: float | None, sign: int, said: Path) -> tuple[int, float]:
    """Run a job in a fork, and end it after so many seconds (None: let it end); its status, and how long it took."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = 70
        try:
            code = job.run()
            code = code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(child, sign)
    while time.monotonic() - began < LIMIT:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, time.monotonic() - began
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1, LIMIT


def faults(number: int, seed: int, folder: Path, which: tuple[str, ...] | None = None) -> Iterator[Fault]:
    """What was wrong after so many kills."""
    rng, said = random.Random(seed), folder / "said.txt"
    known = [job for job in jobs(folder) if which is None or job.name in which]
    files.LEFT_OVER_AFTER = -1.0  # of the minute that the dead are given, for processes of other machines, wait none
    ends, lasts = {}, {}
    for job in known:
        job.before()
        status, lasts[job.name] = ended(job, None, 0, said)
        assert status == 0, said.read_text()
        ends[job.name] = job.seen()
        assert ends[job.name] is not None
    for i in range(number):
        job, sign = known[i % len(known)], SIGNALS[i // len(known) % len(SIGNALS)]
        job.before()
        first, after = job.seen(), rng.random() * lasts[job.name]
        status, lasted = ended(job, after, sign, said)
        how = f"{signal.Signals(sign).name} after {after:.3f} of {lasts[job.name]:.3f} s (status {status})"
        if lasted - after > LIMIT / 2:
            yield Fault(job.name, how, f"ended {lasted - after:.0f} s later")
        if "Traceback" in said.read_text(errors="replace"):
            yield Fault(job.name, how, said.read_text(errors="replace")[-500:])
        try:
            found = job.seen()
        except (CheckpointError, OSError, ValueError, KeyError, AssertionError) as error:
            yield Fault(job.name, how, f"a part is there: {type(error).__name__}: {error}")
            continue
        if found not in (None, first, ends[job.name]):
            yield Fault(job.name, how, "neither as before nor as after")
        status, lasted = ended(job, None, 0, said)
        lasts[job.name] = max(0.2, min(lasts[job.name], lasted))
        if status != 0 or job.seen() != ends[job.name]:
            yield Fault(job.name, how, f"the next run: {said.read_text(errors='replace')[-500:]}")
        left = [str(path.relative_to(folder)) for path in folder.rglob(".*") if PART.fullmatch(path.name)]
        if left:
            yield Fault(job.name, how, f"left behind: {left}")


if __name__ == "__main__":
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as name:
        found = []
        for fault in faults(number, seed, Path(name), tuple(sys.argv[3:]) or None):
            print(fault, flush=True)
            found.append(fault)
    print(f"{number} kills, {len(found)} of them did harm")
    sys.exit(bool(found))
