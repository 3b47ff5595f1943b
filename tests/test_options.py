"""One list of options: `read_log`, `look`, `PolicyLearner` and the command line agree in names, defaults and help."""

from __future__ import annotations

import inspect
import re

import pytest
from typer.main import get_command

import dualq
from dualq.app.cli import app
from dualq.app.cli.columns import ranges_of
from dualq.base.errors import LogError
from dualq.logs.reading.options import READING


def arguments(function) -> dict[str, object]:
    """{keyword: default}, in order."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def of_command(name: str) -> dict[str, tuple]:
    """{option: (help, metavar, whether it is a switch)} of a command."""
    command = get_command(app).commands[name]
    return {p.opts[0]: (p.help, p.metavar, p.is_flag) for p in command.params if p.param_type_name == "option"}


def test_read_log_takes_what_is_listed():
    assert arguments(dualq.read_log) == {option.name: option.default for option in READING.values()}


def test_look_takes_those_that_say_what_is_in_a_file():
    assert arguments(dualq.look) == {option.name: option.default for option in READING.values() if option.looks}


def test_a_learner_takes_what_learn_and_read_log_take():
    learning = {name: default for name, default in arguments(dualq.learn).items() if name != "progress"}
    assert arguments(dualq.PolicyLearner.__init__) == learning | arguments(dualq.read_log)


def test_the_docstring_of_read_log_names_every_argument():
    section = dualq.read_log.__doc__.split("Parameters\n")[1].split("Returns\n")[0]
    named = [name for line in re.findall(r"^    ([a-z_, ]+) : ", section, re.M) for name in line.split(", ")]
    assert named == ["source", *READING]
    shared = inspect.getdoc(dualq.PolicyLearner).split("Attributes\n")[0]
    assert all(name in re.findall(r"\w+", shared) for name in arguments(dualq.PolicyLearner.__init__))


@pytest.mark.parametrize("command", ["learn", "look", "evaluate", "compare"])
def test_the_command_line_has_every_option_with_its_help(command):
    options = of_command(command)
    listed = [o for o in READING.values() if o.metavar is not None and (command != "look" or o.looks)]
    for option in listed:
        switch = option.metavar == ""
        assert options[option.flag.split("/")[0]] == (option.help, None if switch else option.metavar, switch)
    judging = {"--policy", "--otherwise", "--discount", "--confidence", "--start", "--certificate", "--limit"}
    judging |= {"--value-range", "--assume", "--out", "--json"}
    others = {
        "evaluate": judging,
        "compare": judging | {"--learned"},
        "learn": {"--value-range", "--discount", "--confidence", "--start", "--pessimism", "--certificate", "--limit"}
        | {"--margin", "--approximation", "--features", "--online", "--assume", "--looks", "--out", "--json"},
        "look": {"--json"},
    }[command]
    assert set(options) - {"--help"} == {option.flag.split("/")[0] for option in listed} | others


def test_ranges_of_costs_are_read_from_the_command_line():
    assert ranges_of([]) is None
    assert ranges_of(["late=0,1", "cost = of = it=-2,3.5"]) == {"late": (0.0, 1.0), "cost = of = it": (-2.0, 3.5)}
    for word in ("late", "late=1", "late=0,1,2", "=0,1", "late=a,b"):
        with pytest.raises(LogError, match=f"--cost-range {word}: cannot be understood; write COLUMN=LO,HI"):
            ranges_of([word])
