"""Command lines that nobody should type: commands, options and values drawn at random.

`python tests/campaign/command_lines.py 3000 [seed]` runs so many in one process, and prints what was answered wrongly.
Right is: the exit code 0, 3 or (where something waits) 130; or 2 with one line on standard error and nothing else; with
--json one JSON object on standard output; never a traceback, a warning, or a wait of more than a minute.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import typer

import dualq
from dualq.app import cli

LIMIT = 60  # seconds
STAGE = re.compile(r"dualq: [^:']* \.\.\.")  # one that lasts is named

ODD = [
    *("", " ", "x", "nan", "inf", "-inf", "1e308", "-1", "0", "3", "0.5", "10" * 20, "=1+1", "a\nb", "ö€😀"),
    *("null", "true", "[]", "{}", "[[]]", '{"state": {}}', '{"state": [1, 2]}', '"x"', "[1", "{'a': 1}", "x" * 3000),
    *("log.csv", "run", "nothing.csv", "empty.csv", "junk.bin", "folder", "/dev/null", "/proc/self/mem", "\x1b[31m"),
    *("log.csv::x", "sqlite:///x", "postgresql://user:secret@127.0.0.1:1/x", "https://127.0.0.1:1/x.csv", "["),
    *("; DROP TABLE log", "' OR 1=1", "%s", "{0}", "-", "state=3", "x=1,2", "row", "logged", "1,2", ",", "="),
]  # fmt: skip
# What an option asks for, by the word that its help has for it.
RIGHT = {
    "[LOG]": ["log.csv", "log.csv", "log.parquet", "numbers.csv"],
    "LOG": ["log.csv", "log.parquet", "none"],
    "RUN": ["run", "run", "limited", "numbers"],
    "MODEL": ["model.npz", "model.csv"],
    "PROBLEM": ["two_state", "queue", "grid_world"],
    "[NAME]...": ["nothing"],
    "COLUMNS": ["state", "action", "reward", "time", "stock", "state,stock", "row"],
    "COLUMN": ["state", "cost", "reward", "stock"],
    "COLUMN=N": ["stock=3", "stock=auto", "state=2"],
    "COLUMN=LO,HI": ["cost=0,1", "cost=1,0"],
    "LO,HI": ["0,10", "-5,5", "10,0"],
    "NUMBER": ["0.9", "0.5", "0", "1", "2"],
    "N": ["0", "1", "3", "100"],
    "S": ["0", "7"],
    "SECONDS": ["0.1", "0"],
    "GB": ["1"],
    "KIND": ["certified", "none", "proven", "auto", "table", "linear", "step", "clock"],
    "WHERE": ["log", "uniform", "episodes"],
    "WHAT": ["set aside"],
    "LIMIT": ["cost<=0.5", "cost>=0.1", "cost<=0", "action=a<=0.5"],
    "COST": ["cost<=0.5", "cost"],
    "JSON": ["0", "1", '{"state": 1}', '{"stock": 3.5}', '"a"'],
    "FILE": ["out.csv", "out.parquet", "out.svg", "out.json", "network.json"],
    "DIR": ["out", "out/deeper", "mail"],
    "CASE": ["time", "row"],
    "TIME": ["3", "2024-01-01"],
    "MARK": [",", ";"],
    "A,B,C": ["state,action,reward,cost,time,stock"],
    "NAME": ["lp", "pdhg", "log", "policy_iteration"],
    "POLICY": ["run", "run/policy.csv", "action = 'a' if state <= 1 else 'b'", "given.json"],
    "ACTION": ["a", "logged"],
    "FORM": ["json", "sql", "python"],
    "ENGINE": ["duckdb", "postgres", "sqlite"],
    "ADDRESS": ["127.0.0.1"],
}
WAIT = ("serve", "studio", "agent")  # until somebody stops them


@dataclass(frozen=True)
class Fault:
    """A command line, and what was wrong with the answer."""

    line: list[str]
    what: str

    def __str__(self) -> str:
        return f"dualq {shlex.join(self.line)}\n    {self.what}"


def prepare(folder: Path) -> None:
    """The files that command lines name."""
    rng = random.Random(0)
    rows = [(i % 3, rng.choice("ab"), rng.randrange(5), rng.randrange(2), i, rng.random() * 10) for i in range(200)]
    text = "state,action,reward,cost,time,stock\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "log.csv").write_text(text)
    (folder / "numbers.csv").write_text(text)
    log = dualq.read_log(folder / "log.csv", state="state", action="action", time="time", costs=["cost"])
    dualq.problems.two_state().record(100, seed=0).to_parquet(folder / "log.parquet")
    dualq.learn(log, discount=0.9).save(folder / "run")
    dualq.learn(log, discount=0.9, limits="cost<=0.9", margin="none").save(folder / "limited")
    told = {"state": ["stock"], "action": "action", "time": "time", "numbers": "stock"}
    dualq.learn(folder / "log.csv", **told, approximation="linear").save(folder / "numbers")
    mdp = dualq.problems.machine_replacement().mdp
    dualq.models.write_model(folder / "model.npz", mdp)
    dualq.models.write_model(folder / "model.csv", mdp)
    (folder / "empty.csv").write_text("")
    (folder / "junk.bin").write_bytes(bytes(rng.randrange(256) for _ in range(999)))
    (folder / "given.json").write_text('{"0": "a", "1": "b", "2": "a"}')
    (folder / "network.json").write_text('{"run": "x", "edges": [[0, 1]], "discount": 0.9}')
    (folder / "folder").mkdir()


def drawn(rng: random.Random) -> list[str]:
    """A command with its arguments: mostly right, some odd, some left out."""
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    name = rng.choice([*commands, *["learn", "act", "evaluate", "explain"]])
    line = [name]
    for one in commands[name].params:
        is_option = one.param_type_name == "option"
        must = name == "reproduce" and not is_option  # without a name it measures all, for hours
        if must or rng.random() < (0.08 if is_option else 0.95) or (is_option and one.required and rng.random() < 0.9):
            flags = [rng.choice([*one.opts, *one.secondary_opts])] if is_option else []
            value = [] if is_option and one.is_flag else [_value(getattr(one, "metavar", None), rng)]
            line += [f"{flags[0]}={value[0]}"] if flags and value and rng.random() < 0.5 else [*flags, *value]
    if rng.random() < 0.03:
        line.insert(rng.randrange(len(line) + 1), rng.choice(["--help", "-h", "--nothing", "--version", *ODD]))
    return line


def _value(kind: str | None, rng: random.Random) -> str:
    return rng.choice(RIGHT.get(kind or "", ODD) if rng.random() < 0.7 else ODD)


def answered(line: list[str]) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of one command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always")
        for quiet in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):  # as Python has it
            warnings.simplefilter("ignore", quiet)
        code = cli.run(line)
    return code, out.getvalue(), err.getvalue()


def wrong_with(line: list[str]) -> str | None:
    """What is wrong with the answer to a command line; None: nothing."""
    try:
        code, out, err = answered(line)
    except _TooLong:
        return f"no answer in {LIMIT} seconds"
    except BaseException as error:
        return "".join(traceback.format_exception(error)[-3:]).strip().replace("\n", "\n    ")
    said = [text for text in err.splitlines() if text and not STAGE.fullmatch(text)]
    if code not in (0, 2, 3) and not (code == 130 and line[0] in WAIT):
        return f"exit code {code}: {err}"
    if code == 2 and (len(said) != 1 or not said[0].startswith("dualq: ") or out):
        return f"exit code 2 with {len(said)} lines on standard error, {len(out)} characters of output: {err[:300]}"
    if any("Traceback" in text or "Warning" in text for text in said):
        return f"a warning: {err[:500]}"
    asks_help = {"--help", "-h", "--version"} & set(line)
    if code in (0, 3) and "--json" in line and not asks_help and line[0] not in WAIT:
        try:
            json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            return f"--json, and no JSON ({error}): {out[:200]!r}"
    return None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


class _TooLong(BaseException):
    pass


def _stop(*_: object) -> None:
    raise _TooLong


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def faults(number: int, seed: int) -> Iterator[Fault]:
    """All command lines, of so many, that are answered wrongly; in the present folder, which `prepare` has filled."""
    rng = random.Random(seed)
    before = signal.signal(signal.SIGALRM, _stop)
    with (
        mock.patch("uvicorn.run", _interrupt),
        mock.patch("uvicorn.Server.run", _interrupt),
        mock.patch("time.sleep", _interrupt),  # agents wait for each other
        mock.patch("webbrowser.open"),
    ):
        for _ in range(number):
            line = drawn(rng)
            signal.alarm(LIMIT)
            what = wrong_with(line)
            signal.alarm(0)
            if what is not None:
                yield Fault(line, what)
    signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        prepare(Path(name))
        found = []
        for fault in faults(number, seed):
            print(fault, flush=True)
            found.append(fault)
    print(f"{number:,} command lines, {len(found)} of them answered wrongly")
