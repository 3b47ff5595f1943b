"""Every kind of file that dualq writes and reads, with one bit flipped, or a part of it gone.

`python tests/campaign/damaged_files.py 10000 [seed]` damages so many, and prints how each kind answered. Right is: one
line of ours, or what the whole file says. Some kinds are somebody's data, in which any bit may be meant: a policy.csv
must then be refused or read as what it says, by a reader of its own; of the others, such as logs, it is only asked that
nothing but a line of ours comes out.
"""

from __future__ import annotations

import csv
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import strange_files
from dualq.errors import CheckpointError, DualqError

import dualq
from dualq.base import load_arrays
from dualq.model.solution import load_solution
from dualq.offline import Plan
from dualq.offline.saved.opening import doubt_of

TWO = dualq.problems.two_state()


@dataclass(frozen=True)
class Kind:
    """A file, and what is read from it."""

    path: Path
    opened: Callable[[], object]  # something to compare
    differs: Callable[[object], bool] | None = None  # whether what is read may not be; None: from what it was


def model(folder: Path) -> Kind:
    path = folder / "model.npz"
    dualq.models.write_model(path, TWO.mdp)

    def read() -> object:
        mdp = dualq.models.read_model(path)
        parts = (mdp.indptr, mdp.indices, mdp.probabilities, mdp.rewards)
        return b"".join(part.tobytes() for part in parts), mdp.discount, list(mdp.states), list(mdp.actions)

    return Kind(path, read)


def checkpoint(folder: Path) -> Kind:
    path = folder / "run.ckpt"

    def resumed() -> bytes:
        run = dualq.train(dualq.SPDQ(weights=1.5, zeta=0.08), TWO, steps=40, seed=0, checkpoint=path)
        return run.solution.Q.tobytes()

    resumed()
    return Kind(path, resumed)


def _fit(folder: Path) -> Path:
    if not (folder / "run").exists():
        dualq.learn(TWO.record(steps=200, seed=0), discount=0.9).save(folder / "run")
    return folder / "run"


def _opened(folder: Path) -> object:
    back = dualq.load(folder)
    return back.policy.matrix.tobytes(), back.expected, back.certificate.lower, doubt_of(folder)


def saved_fit(folder: Path) -> Kind:
    run = _fit(folder)
    return Kind(run / "solution.npz", lambda: _opened(run))


def numbers_of_a_fit(folder: Path) -> Kind:
    run = _fit(folder)
    return Kind(run / "fit.json", lambda: _opened(run))


def fit_of_numbers(folder: Path) -> Kind:
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(300), "action": rng.integers(0, 2, 300), "reward": rng.random(300), "time": np.arange(300)}
    told = {"state": ["x"], "action": "action", "reward": "reward", "time": "time", "numbers": ["x"]}
    dualq.learn(rows, **told, approximation="linear", certificate=None).save(folder / "numbers")

    def opened() -> object:
        back = dualq.load(folder / "numbers")
        return back.expected, back.act_many({"x": [0.1, 0.5, 0.9]}, seed=0)

    return Kind(folder / "numbers" / "solution.npz", opened)


def solution(folder: Path) -> Kind:
    path = folder / "solved.npz"
    dualq.solve(TWO.mdp).save(path)

    def opened() -> object:
        arrays, facts = load_solution(path)
        return {name: array.tobytes() for name, array in arrays.items()}, str(facts)

    return Kind(path, opened)


def state_of_an_agent(folder: Path) -> Kind:
    from dualq.offline.together.agents import CountingAgent
    from dualq.offline.together.agreement import common_of
    from dualq.offline.together.tables import House

    plan, log = _plan(folder), TWO.record(steps=50, seed=0)
    path = folder / "agent.state.npz"
    made = CountingAgent(0, House.of(log), common_of(log), plan.task, b"0" * 32, 0)
    made.give(1, [1])
    dualq.base.save_arrays(path, made.state())

    def restored() -> object:
        again = CountingAgent(0, House.of(log), common_of(log), plan.task, b"1" * 32, 0)
        again.restore(load_arrays(path))
        return {name: np.asarray(array).tobytes() for name, array in again.state().items()}

    return Kind(path, restored)


def _plan(folder: Path) -> Plan:
    (folder / "net.json").write_text(json.dumps({"run": "test", "edges": [[0, 1]], "discount": 0.9, "share": "counts"}))
    return Plan.read(folder / "net.json", None)


def policy(folder: Path) -> Kind:
    """Of somebody's own: what it says is read, or it is refused."""
    path, log = _fit(folder) / "policy.csv", TWO.record(steps=200, seed=0)

    def read() -> object:
        return dualq.evaluate(log, path, discount=0.9, certificate=None).policy.matrix

    def differs(found: object) -> bool:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        said = np.zeros((2, 2))
        for row in rows:
            said[int(float(row["state"])), int(float(row["action"]))] = float(row.get("probability") or 1.0)
        return not np.allclose(found, said / said.sum(axis=1, keepdims=True), atol=1e-9)

    return Kind(path, read, differs)


def log(folder: Path) -> Kind:
    path = folder / "log.parquet"
    TWO.record(steps=200, seed=0).to_parquet(path)
    return _own(path, lambda: dualq.read_log(path).counts().digest())


def numbers_of_a_fit_of_numbers(folder: Path) -> Kind:
    whole = fit_of_numbers(folder)
    return Kind(folder / "numbers" / "fit.json", lambda: (whole.opened(), doubt_of(folder / "numbers")))


def updated_fit(folder: Path) -> Kind:
    log, more = TWO.record(steps=200, seed=0), TWO.record(steps=100, seed=1)
    dualq.update(dualq.learn(log, discount=0.9), more).save(folder / "updated")
    return Kind(folder / "updated" / "solution.npz", lambda: _opened(folder / "updated"))


def fit_of_pooled_counts(folder: Path) -> Kind:
    _together("counts").save(folder / "pooled")
    return Kind(folder / "pooled" / "solution.npz", lambda: _opened(folder / "pooled"))


def fit_of_iterates(folder: Path) -> Kind:
    _together("iterates").save(folder / "iterates")

    def opened() -> object:
        back = dualq.load(folder / "iterates")
        return back.policy.matrix.tobytes(), back.expected

    return Kind(folder / "iterates" / "solution.npz", opened)


def _together(share: str) -> dualq.Fit | dualq.IterateFit:
    logs = [TWO.record(steps=100, seed=seed) for seed in (0, 1)]
    return dualq.learn_together(logs, dualq.Network.complete(2), share=share, discount=0.9, seed=0).fits[0]


def message(folder: Path) -> Kind:
    """From one agent to another, as a file."""
    from dualq.offline.together.agents import CountingAgent
    from dualq.offline.together.agreement import common_of
    from dualq.offline.together.mail import Post
    from dualq.offline.together.messages import unpacked_message
    from dualq.offline.together.tables import House

    plan, log = _plan(folder), TWO.record(steps=50, seed=0)
    made = CountingAgent(0, House.of(log), common_of(log), plan.task, b"0" * 32, 0)
    ((to, data),) = made.give(1, [1])
    Post(folder / "mail", 0).send(to, data)

    def arrived() -> object:
        (found,) = Post(folder / "mail", 1).arrived()
        said = unpacked_message(found, plan.task.run, 1, plan.task.size, plan.task.key)
        return said._replace(parts={}), {name: part.tobytes() for name, part in said.parts.items()}

    return Kind(folder / "mail" / "1" / "0.msg", arrived)


def kept_curve(folder: Path) -> Kind:
    """Of `reproduce`: a bad one is measured again."""
    from dualq.paper.experiments.curves import Curve, Measured

    curve = Curve("x", "x", {"a": 1}, lambda seed: {"step": np.arange(3), "error": np.ones(3)})
    curve.save(folder, 2, Measured.of([curve.measure(seed) for seed in range(2)]))

    def opened() -> object:
        found = curve.load(folder, 2)
        if found is None:
            raise CheckpointError("measured again")
        return found.steps.tobytes(), {name: array.tobytes() for name, array in found.values.items()}

    return Kind(curve.file(folder, 2), opened)


def machine_code(folder: Path) -> Kind:
    """In the cache of kernels: bad code is compiled again, and never run."""
    from dualq.base import kernel_cache, kernels

    place = folder / "cache"
    place.mkdir(mode=0o700)
    known: Any = kernels.advance
    kernel: Any = kernels.kernel(known.py_func)
    with mock.patch.object(kernel_cache, "cache_folder", return_value=place):
        kernel(np.uint64(1))
    (sig,), (path,) = kernel.signatures, place.glob("*.code")

    def opened() -> object:
        with mock.patch.object(kernel_cache, "cache_folder", return_value=place):
            found = kernel._cache.load_overload(sig, kernel.targetctx)
        if found is None:
            raise CheckpointError("compiled again")
        return found.entry_point(np.uint64(5))

    return Kind(path, opened)


# ---- somebody's own: what it says is read, or it is refused


def _own(path: Path, opened: Callable[[], object]) -> Kind:
    return Kind(path, opened, lambda found: False)


def model_in_text(folder: Path) -> Kind:
    path = folder / "model.csv"
    dualq.models.write_model(path, TWO.mdp)
    return _own(path, lambda: dualq.models.read_model(path, discount=0.9).rewards.tobytes())


def given_policy(folder: Path) -> Kind:
    path, log = folder / "given.json", TWO.record(steps=200, seed=0)
    path.write_text('{"0": "1", "1": {"0": 0.25, "1": 0.75}}')
    return _own(path, lambda: dualq.evaluate(log, path, discount=0.9, certificate=None).policy.matrix.tobytes())


def plan_of_agents(folder: Path) -> Kind:
    _plan(folder)
    return _own(folder / "net.json", lambda: Plan.read(folder / "net.json", None).task.words())


def files_of_the_studio(folder: Path) -> Kind:
    """Which log a name stands for, and what was chosen of it: what cannot be read is not there."""
    from dualq.app.studio.workspace import Workspace

    space = Workspace.at(folder / "studio")
    part = space.part("log.csv")
    part.write_text("state,action,reward\n1,a,2\n")
    kept = space.keep_log(part, "my log.csv")
    space.choose(kept, {"state": ["state"]})
    return _own(
        space.logs / kept.id / "log.json",
        lambda: [(log.name, space.chosen(log)) for log in Workspace.at(folder / "studio").all_logs()],
    )


def _log_in(name: str) -> Callable[[Path], Kind]:
    def make(folder: Path) -> Kind:
        rows = TWO.record(steps=200, seed=0).table()
        columns = {column: rows[column].to_pylist() for column in rows.column_names}
        source = getattr(strange_files, name)(columns, folder, random.Random(0))
        path = Path(str(source).split("::")[0])
        return _own(path, lambda: dualq.read_log(source).counts().digest())

    make.__name__ = f"log_in_{name}"
    return make


OWN = (
    *(policy, model_in_text, given_policy, plan_of_agents, files_of_the_studio, log),
    *map(_log_in, ("packed_csv", "json_list", "workbook", "arrow", "database")),
)
CHECKED = (
    *(model, checkpoint, saved_fit, numbers_of_a_fit, fit_of_numbers, numbers_of_a_fit_of_numbers, updated_fit),
    *(fit_of_pooled_counts, fit_of_iterates, solution, state_of_an_agent, message, kept_curve, machine_code),
)
KINDS = {make.__name__: make for make in (*CHECKED, *OWN)}


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """A flipped bit; one time in twenty a byte of any value, or the end cut off."""
    place = rng.randrange(len(whole))
    if rng.random() < 0.9:
        return whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
    return whole[:place] if rng.random() < 0.5 else whole[:place] + bytes([rng.randrange(256)]) + whole[place + 1 :]


@dataclass
class Answers:
    """How one kind of file answered."""

    damaged: int = 0
    refused: int = 0
    same: int = 0  # the damage changed nothing that is read
    other: int = 0  # somebody's data, which now says something else
    wrong: tuple[str, ...] = ()

    def __str__(self) -> str:
        other = f", {self.other} read as what they now say" if self.other else ""
        counts = f"{self.refused} refused, {self.same} read as before{other}, {len(self.wrong)} wrong"
        return f"{self.damaged} damaged, {counts}"


def answers(kind: Kind, number: int, seed: int) -> Answers:
    """Damage a file so many times, each time anew."""
    whole, right, rng, found = kind.path.read_bytes(), kind.opened(), random.Random(seed), Answers()
    for _ in range(number):
        content = damaged(whole, rng)
        kind.path.write_bytes(content)
        found.damaged += 1
        try:
            read = kind.opened()
        except DualqError as error:
            found.refused += 1
            found.wrong += (f"several lines: {error}",) if len(str(error).splitlines()) != 1 else ()
        except Exception as error:
            found.wrong += (f"{type(error).__name__}: {error}",)
        else:
            _judge(kind, read, right, found)
    kind.path.write_bytes(whole)
    return found


def _judge(kind: Kind, read: object, right: object, found: Answers) -> None:
    if np.array_equal(read, right) if isinstance(read, np.ndarray) else read == right:
        found.same += 1
    elif kind.differs is None or kind.differs(read):
        found.wrong += ("read as something else, and nothing was said",)
    else:
        found.other += 1


def all_answers(number: int, seed: int, folder: Path) -> Iterator[tuple[str, Answers]]:
    """Every kind of file, damaged equally often."""
    for name, make in KINDS.items():
        yield name, answers(make(folder), -(-number // len(KINDS)), seed)


if __name__ == "__main__":
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found: dict[str, Answers] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, one in all_answers(number, seed, Path(place)):
            found[name] = one
            print(f"{name}: {one}", flush=True)
            for words in sorted(set(one.wrong)):
                print(f"    {one.wrong.count(words)} times {words[:300]}", flush=True)
    print(
        f"{sum(one.damaged for one in found.values()):,} files, {sum(len(one.wrong) for one in found.values())} wrong"
    )
