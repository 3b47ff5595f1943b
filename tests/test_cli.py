"""The command line, as a person and as a script meet it."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import dualq
from dualq.app import cli
from dualq.app.cli import shared
from dualq.model.models import read_model, write_model
from dualq.model.solution import load_solution
from dualq.worlds import sample_log as shipped

MACHINE = """state,action,next_state,probability,reward
working,run,working,0.9,10
working,run,broken,0.1,10
working,oil,working,0.98,7
working,oil,broken,0.02,7
broken,run,broken,1,0
broken,repair,working,1,-30
"""
ROWS = list(csv.DictReader(MACHINE.splitlines()))
DUALQ = [sys.executable, "-c", "from dualq.app.cli import main; main()"]


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text(MACHINE)
    return path


def enumerated(discount):
    """Values of the best policy and the policy, by trying every one: {state: value}, {state: action}."""
    states = ["working", "broken"]
    choices = [sorted({row["action"] for row in ROWS if row["state"] == state}) for state in states]
    best = None
    for actions in itertools.product(*choices):
        P, R = np.zeros((2, 2)), np.zeros(2)
        for row in ROWS:
            s, p = states.index(row["state"]), float(row["probability"])
            if actions[s] == row["action"]:
                P[s, states.index(row["next_state"])] += p
                R[s] += p * float(row["reward"])
        V = np.linalg.solve(np.eye(2) - discount * P, R)
        if best is None or V.sum() > best[0].sum():
            best = V, dict(zip(states, actions, strict=True))
    assert best is not None
    return dict(zip(states, best[0], strict=True)), best[1]


# ---- solve


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95])
def test_solve_finds_the_policy_that_enumeration_finds(machine, tmp_path, capsys, discount):
    values, actions = enumerated(discount)
    out = tmp_path / "new" / "answer"
    assert cli.run(["solve", str(machine), "--discount", str(discount), "--out", str(out), "--json"]) == 0
    said, err = capsys.readouterr()
    facts = json.loads(said)
    assert err == ""

    assert {row["state"]: row["action"] for row in facts["first_states"]} == actions
    assert {row["state"]: row["value"] for row in facts["first_states"]} == pytest.approx(values, abs=1e-7)
    assert facts["mean_value"] == pytest.approx(sum(values.values()) / 2, abs=1e-7)
    assert facts["weight"] == (30 + 10) / 2
    assert facts["weighted_value"] == pytest.approx(sum(values.values()) * (30 + 10) / 2, abs=1e-5)  # range [-30, 10]
    assert (facts["states"], facts["actions"], facts["discount"]) == (2, 3, discount)
    assert 0.0 <= facts["error_bound"] <= 1e-6
    for row in facts["first_states"]:
        assert abs(row["value"] - values[row["state"]]) <= facts["error_bound"] + 1e-12
    assert facts["files"] == [str(out / "solution.npz"), str(out / "policy.csv")]

    with (out / "policy.csv").open(newline="") as file:
        assert {row["state"]: row["action"] for row in csv.DictReader(file)} == actions
    arrays, kept = load_solution(out / "solution.npz")
    assert list(kept["states"]) == ["working", "broken"]
    np.testing.assert_allclose(arrays["V"], list(values.values()), atol=1e-7)
    flow = arrays["occupancy"].sum(axis=1)  # discounted visits of all states add up to weights / (1 - discount)
    assert flow.sum() == pytest.approx(arrays["weights"].sum() / (1 - discount))


def test_solve_reads_the_npz_that_was_written(machine, tmp_path, capsys):
    write_model(tmp_path / "machine.npz", read_model(machine, 0.95))
    assert cli.run(["solve", str(tmp_path / "machine.npz"), "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert cli.run(["solve", str(machine), "--discount", "0.95", "--json"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert one["first_states"] == other["first_states"]
    assert one["files"] == []


def test_every_method_gives_the_same_answer(machine, capsys):
    from dualq.solvers.exact import METHODS

    values, actions = enumerated(0.9)
    for method in METHODS:
        assert cli.run(["solve", str(machine), "--discount", "0.9", "--method", method, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert {row["state"]: row["action"] for row in facts["first_states"]} == actions, method
        assert {row["state"]: row["value"] for row in facts["first_states"]} == pytest.approx(values, abs=1e-6), method


def test_solve_says_to_people_what_it_says_in_json(machine, monkeypatch):
    values, actions = enumerated(0.95)
    for width in ("80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        result = CliRunner().invoke(cli.app, ["solve", str(machine), "--discount", "0.95"])
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert max(len(line) for line in lines if str(machine) not in line) <= int(width)
        cells = [line.split() for line in lines]
        for state, action in actions.items():
            assert [state, action, f"{values[state]:.6g}"] in cells
        for name in (
            "states",
            "actions",
            "discount",
            "method",
            "seconds",
            "proven error",
            "mean value",
            "weighted value",
        ):
            assert sum(line.strip().startswith(name + "  ") for line in lines) == 1, name


def test_a_long_policy_is_cut_and_says_so(tmp_path, capsys):
    S = 25
    P = np.zeros((S, 1, S))
    P[np.arange(S), 0, (np.arange(S) + 1) % S] = 1.0
    write_model(tmp_path / "ring.npz", dualq.MDP(P, np.arange(S)[:, None], 0.5))
    assert cli.run(["solve", str(tmp_path / "ring.npz")]) == 0
    assert "(first 10 of 25 states)" in capsys.readouterr().out


def test_labels_that_look_like_markup_are_printed_as_they_are(tmp_path, capsys):
    path = tmp_path / "[bold]m.csv"
    path.write_text("state,action,next_state,probability,reward\n[red]s[/],[/x],[red]s[/],1,1\n")
    assert cli.run(["solve", str(path), "--discount", "0.5"]) == 0
    said = capsys.readouterr().out
    assert ["[red]s[/]", "[/x]", "2"] in [line.split() for line in said.splitlines()]
    assert "[bold]m.csv" in said


# ---- learn


def test_learn_without_a_log_learns_from_the_shipped_one(tmp_path, capsys):
    # The true model is known: the policy must be better than what was logged, and the estimate near the truth.
    assert cli.run(["learn", "--json", "--out", str(tmp_path)]) == 0
    said, err = capsys.readouterr()
    assert err == ""
    facts = json.loads(said)
    shop = shipped.truth()
    fit = dualq.load(tmp_path)
    order = [fit.counts.states.index(label) for label in shop.mdp.states]
    V = dualq.TablePolicy(fit.policy.matrix[order], shop.mdp.states, shop.mdp.actions).value(shop.mdp)
    start = fit.start[order]
    logged = dualq.TablePolicy(fit.behaviour.matrix[order], shop.mdp.states, shop.mdp.actions).value(shop.mdp)
    true, before, best = start @ V, start @ logged, start @ dualq.solve(shop.mdp).V
    assert before + 0.6 * (best - before) < true <= best + 1e-6
    assert abs(facts["expected"]["value"] - true) < 4 * facts["expected"]["standard_error"]
    assert abs(facts["logged"]["value"] - before) < 4 * facts["logged"]["standard_error"]
    assert facts["certificate"]["lower"] <= true
    assert best <= facts["certificate"]["upper"]
    assert facts["rows"] == 49_572  # the last day of each shop has no successor
    assert sorted(Path(name).name for name in facts["files"]) == [
        "fit.json",
        "policy.csv",
        "report.html",
        "solution.npz",
    ]


SIDES = "side,do,pay,when\nleft,go,1,1\nright,go,2,2\nleft,wait,0,3\nleft,go,1,4\n"
SIDES += "right,wait,0,5\nright,go,2,6\nleft,go,1,7\n"
SIDE_COLUMNS = ["--state", "side", "--action", "do", "--reward", "pay", "--time", "when"]


def test_learn_explain_and_act_on_a_log_of_ones_own(tmp_path, capsys):
    path, run = tmp_path / "sides.csv", tmp_path / "run"
    path.write_text(SIDES)
    columns = [*SIDE_COLUMNS, "--discount", "0.5"]
    assert cli.run(["learn", str(path), *columns, "--out", str(run)]) == 0
    said = capsys.readouterr().out
    assert "sides.csv" in said
    assert "1 row left out, because the log does not show what came next" in said
    assert cli.run(["act", str(run), "--state", '{"side": "right"}']) == 0
    assert json.loads(capsys.readouterr().out) == "go"
    assert cli.run(["act", str(run), "--state", "left"]) == 0
    action, err = capsys.readouterr()
    assert (json.loads(action), err) == ("go", "")
    assert cli.run(["act", str(run), "--state", "up", "--default", "wait"]) == 0
    assert json.loads(capsys.readouterr().out) == "wait"
    assert cli.run(["explain", str(run), "--state", "left", "--json"]) == 0
    assert [row["rows"] for row in json.loads(capsys.readouterr().out)["actions"]] == [2, 1]
    assert cli.run(["explain", str(run), "--state", "left"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("side left\n")
    assert "3 rows in the log" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "{path}", "--state", "sid"], "did you mean 'side'?"),
        (["learn", "{path}", *SIDE_COLUMNS[:-2]], 'time="row"'),
        (["learn", "{path}", *SIDE_COLUMNS, "--bins", "when"], "write COLUMN=8 for 8 bins"),
        (["learn", "{path}", *SIDE_COLUMNS, "--discount", "1"], "discount"),
        (["learn", "{path}", *SIDE_COLUMNS, "--certificate", "magic"], "magic"),
        (["learn", "{path}", *SIDE_COLUMNS, "--start", "here"], "start is 'here'"),
        (["learn", "nowhere.parquet"], "nowhere.parquet: no such file"),
        (["learn", "{path}", *SIDE_COLUMNS, "--reward-range", "0;2"], "--reward-range 0;2: must be two numbers, LO,HI"),
        (["learn", "{path}", *SIDE_COLUMNS, "--reward-range", "0,1"], "pay is 2; the known range is [0, 1]"),
        (["learn", "{path}", *SIDE_COLUMNS, "--quarantine", "bad.csv"], "without --skip-bad"),
        (["act", "{folder}", "--state", "3"], "no fit was saved here"),
        (["explain", "{folder}", "--state", "3"], "no fit was saved here"),
    ],
)
def test_learn_refuses_in_one_line(arguments, message, tmp_path, capsys):
    path = tmp_path / "sides.csv"
    path.write_text(SIDES)
    assert cli.run([word.format(path=path, folder=tmp_path) for word in arguments]) == 2
    said, err = capsys.readouterr()
    assert said == ""
    assert message in err
    assert err.count("\n") == 1


def test_learn_takes_a_range_and_sets_bad_rows_aside(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sides.csv").write_text(SIDES + "left,go,nan,8\n")
    columns = ["learn", "sides.csv", *SIDE_COLUMNS, "--json", "--skip-bad"]
    assert cli.run([*columns, "--reward-range=-1,3", "--quarantine", "aside.csv"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["set_aside"], facts["coverage"]["skipped"]) == ("aside.csv", 1)
    assert "rewards must be finite" in (tmp_path / "aside.csv").read_text()
    assert any("rewards are in [-1, 3] (known)" in words for words in facts["certificate"]["assumptions"])
    assert cli.run(columns) == 0
    assert json.loads(capsys.readouterr().out)["set_aside"] == "sides.csv.bad"
    assert (tmp_path / "sides.csv.bad").read_text() == (tmp_path / "aside.csv").read_text()


def test_learn_leaves_columns_alone_that_are_called_like_others(tmp_path, capsys):
    lines = [f"{k % 2},{k},{k},{k % 3},a,{k % 5},{k % 2},{k % 2},{k}" for k in range(60)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["id,step,t,state,action,reward,done,truncated,next_state", *lines, ""]))
    words = [x for part in ("episode", "terminal", "truncated", "next-state") for x in (f"--{part}", "none")]
    assert cli.run(["learn", str(log), "--time", "step", *words, "--certificate", "none", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    log = dualq.read_log(log, time="step", episode=False, terminal=False, truncated=False, next_state=False)
    assert facts["coverage"]["rows"] == len(log) == 59
    assert cli.run(["learn", str(tmp_path / "log.csv"), "--time", "none", "--certificate", "none", "--json"]) == 0
    assert "no time column" in capsys.readouterr().out


def test_a_page_in_a_file_is_not_cut(tmp_path):
    """Piped, without a terminal: labels of 150 letters are whole, and no line is cut."""
    long = "x" * 150
    rows = [f"{'ab'[k % 2]}{long},{'cd'[(k // 2) % 2]}{long},{k % 3},{k}" for k in range(200)]
    (tmp_path / "log.csv").write_text("\n".join(["state,action,reward,time", *rows, ""]))
    quiet = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [*DUALQ, "learn", "log.csv", "--out", "run"],
        cwd=tmp_path,
        env=quiet,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert not [line for line in lines if "…" in line or line != line.rstrip()]
    for label in ("a", "b", "c", "d"):
        assert any(label + long in line.split() for line in lines), label
    said = subprocess.run(
        [*DUALQ, "explain", "run", "--state", f"a{long}"],
        cwd=tmp_path,
        env=quiet,
        capture_output=True,
        text=True,
        check=True,
    )
    assert any("c" + long in line.split() for line in said.stdout.splitlines())


# ---- simulate and example


def test_example_writes_the_shipped_log(tmp_path, capsys):
    path = tmp_path / "new" / "orders.parquet"
    assert cli.run(["example", "--out", str(path)]) == 0
    assert path.read_bytes() == shipped.path().read_bytes()
    assert f"dualq look {path}" in capsys.readouterr().out
    assert cli.run(["example", "--out", str(tmp_path / "orders.csv")]) == 2
    assert "ends in .parquet" in capsys.readouterr().err


def test_simulate_writes_the_log_that_record_gives(tmp_path, capsys):
    from pyarrow import parquet

    path = tmp_path / "new" / "log.parquet"
    assert cli.run(["simulate", "inventory", "--steps", "5000", "--seed", "3", "--out", str(path), "--json"]) == 0
    said, err = capsys.readouterr()
    facts = json.loads(said)
    assert err == ""
    log = dualq.problems.inventory().record(5000, seed=3)
    table = parquet.read_table(path)
    assert table.equals(log.table())
    assert (facts["rows"], facts["states"], facts["actions"], facts["seed"]) == (5000, 84, 5, 3)
    assert facts["simulated"] is True
    assert facts["states_seen"] == len({(row["stock"], row["season"]) for row in table.to_pylist()})
    assert facts["pairs_seen"] == len({(row["stock"], row["season"], row["action"]) for row in table.to_pylist()})
    assert facts["mean_reward"] == pytest.approx(np.mean(table["reward"].to_pylist()))
    assert facts["reward_range"] == list(log.reward_range)
    assert facts["columns"]["next_state"] == ["next_stock", "next_season"]
    assert facts["files"] == [str(path)]


def test_simulate_says_to_people_that_the_log_is_simulated(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "log.parquet"
    assert cli.run(["simulate", "two_state", "--steps", "1000", "--out", str(path)]) == 0
    said, err = capsys.readouterr()
    assert err == ""
    assert said.startswith("two_state, a simulated log\n")
    assert f"Written: {path}" in said
    for name in ("rows", "states", "actions", "pairs", "mean reward", "columns", "source"):
        assert sum(line.strip().startswith(name + "  ") for line in said.splitlines()) == 1, name


def test_simulate_begins_anew_where_an_episode_ends(tmp_path, capsys):
    arguments = ["simulate", "maze", "--steps", "20000", "--out", str(tmp_path / "log.parquet")]
    assert cli.run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    log = dualq.problems.maze().record(20_000)
    assert facts["absorbed_at"] is None
    assert facts["episodes_ended"] == log.ended.sum() > 0
    assert cli.run(arguments) == 0
    said = capsys.readouterr().out
    assert f"{log.ended.sum():,} ended; the next one begins at the start" in said
    assert "reward, time, episode, ended" in " ".join(said.split())


def test_simulate_says_when_the_walk_can_go_nowhere(tmp_path, capsys, monkeypatch):
    stays = dataclasses.replace(dualq.problems.maze(), episodic=False)
    monkeypatch.setitem(dualq.problems.BY_NAME, "maze", lambda: stays)
    arguments = ["simulate", "maze", "--steps", "20000", "--out", str(tmp_path / "log.parquet")]
    assert cli.run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    log = stays.record(20_000)
    at = facts["absorbed_at"]
    assert facts["episodes_ended"] is None
    assert (log.state[at:] == log.state[at]).all()
    assert log.state[at - 1] != log.state[at]
    assert not stays.mdp.rewards[log.state[at]].any()
    assert cli.run(arguments) == 0
    assert f"From row {at:,} on, the walk is in a state that no action leaves." in capsys.readouterr().out


def test_a_wrong_problem_is_answered_with_the_right_ones(tmp_path, capsys):
    assert cli.run(["simulate", "two_states", "--out", str(tmp_path / "log.parquet")]) == 2
    said, err = capsys.readouterr()
    assert said == ""
    assert err == f"dualq: no problem 'two_states'; known are {', '.join(dualq.problems.BY_NAME)}\n"
    assert list(tmp_path.iterdir()) == []


# ---- what is wrong is said in one line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve"], "Missing argument"),
        (["solve", "none.csv", "--discount", "0.9"], "none.csv: no such file"),
        (["solve", "machine.csv"], "machine.csv: a .csv model has no discount; give one"),
        (["solve", "machine.csv", "--discount", "1"], "discount is 1; it must be at least 0 and below 1"),
        (["solve", "machine.csv", "--discount", "much"], "'--discount'"),
        (["solve", "machine.csv", "--discount", "0.9", "--method", "magic"], "magic"),
        (["solve", "machine.csv", "--discount", "0.9", "--out", "machine.csv/x"], "machine.csv"),
        (
            ["solve", "bad.csv", "--discount", "0.9"],
            "bad.csv: row 2: the probabilities of (state='working', action='run')",
        ),
        (["solve", "machine.csv", "--nonsense"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
        (["learn", "a", "b"], "extra argument"),
        (["simulate", "two_state"], "'--out'"),
        (["simulate", "two_state", "--out", "log.csv"], "log.csv: a log is written as Parquet; give a name that ends"),
        (["simulate", "two_state", "--steps", "0", "--out", "log.parquet"], "'--steps'"),
        (["simulate", "two_state", "--seed", "-1", "--out", "log.parquet"], "'--seed'"),
        (["simulate", "two_state", "--steps", "9", "--out", "machine.csv/log.parquet"], "machine.csv"),
    ],
)
def test_bad_input_gives_code_2_and_one_line(machine, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text(MACHINE.replace("0.9,", "0.8,"))
    assert cli.run(arguments) == 2
    said, err = capsys.readouterr()
    assert said == ""
    assert err.startswith("dualq: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_bug_is_not_dressed_up_as_bad_input(machine, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dualq.model.models.read_model", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli.run(["solve", str(machine), "--discount", "0.9"])


def test_help_names_every_method(capsys):
    from dualq.solvers.exact import METHODS

    assert cli.run(["solve", "--help"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "--method" in line)
    assert {word.strip(".,") for word in line.split()} >= set(METHODS)


def test_help_names_every_command_and_no_arguments_mean_help(capsys):
    assert cli.run(["--help"]) == 0
    help_text = capsys.readouterr().out
    commands = help_text[help_text.index("Commands:") :].splitlines()[1:]
    assert {line.split()[0] for line in commands if line.strip()} == {
        "act",
        "agent",
        "check",
        "compare",
        "evaluate",
        "example",
        "explain",
        "export",
        "frontier",
        "learn",
        "look",
        "reproduce",
        "serve",
        "simulate",
        "solve",
        "studio",
        "update",
    }
    assert "..." not in "".join(commands)  # no short help is cut
    assert cli.run([]) == 0
    assert capsys.readouterr().out == help_text


def test_stages_that_last_are_named_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(shared, "SHOW_AFTER", 0.0)
    printed = threading.Event()
    monkeypatch.setattr(shared, "print", lambda *a, **k: (print(*a, **k), printed.set()), raising=False)
    with shared.stages("Reading") as begin:
        assert printed.wait(60.0)
        printed.clear()
        monkeypatch.setattr(shared, "SHOW_AFTER", 3600.0)
        begin("Counting")  # this one is short
        monkeypatch.setattr(shared, "SHOW_AFTER", 0.0)
        begin("Proving")
        assert printed.wait(60.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "dualq: Reading ...\ndualq: Proving ...\n"


# ---- real processes


def test_the_version_is_that_of_the_package():
    done = subprocess.run([*DUALQ, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dualq {dualq.__version__}\n"


def test_a_process_answers_in_json_and_refuses_in_one_line(machine):
    done = subprocess.run([*DUALQ, "solve", machine, "--discount", "0.95", "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    values, _ = enumerated(0.95)
    assert json.loads(done.stdout)["first_states"][0]["value"] == pytest.approx(values["working"], abs=1e-7)
    done = subprocess.run([*DUALQ, "solve", machine, "--discount", "2"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_control_c_gives_code_130(tmp_path):
    pipe = tmp_path / "slow.csv"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*DUALQ, "solve", pipe, "--discount", "0.9"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may have had it ignored
    )
    with pipe.open("wb"):  # waits until dualq has opened it too, and then dualq waits for what never comes
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == "dualq: interrupted\n"


@pytest.mark.parametrize(
    "code", ["import dualq", "import dualq.app.cli", "from dualq.app import cli; cli.run(['--help'])"]
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    heavy = {"numpy", "scipy", "numba", "highspy", "pyarrow"}
    check = f"{code}\nimport sys\nprint('heavy:', sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_a_command_that_is_named_is_prepared_alone():
    every = typer.main.get_command(cli.app)
    for name in every.commands:
        alone = typer.main.get_command(cli._asked([name, "--help"]))
        assert list(alone.commands) == [name]
        assert [p.opts for p in alone.commands[name].params] == [p.opts for p in every.commands[name].params]
    for words in ([], ["--help"], ["lern"], ["--version", "learn"]):
        assert cli._asked(words).registered_commands == cli.app.registered_commands


@pytest.mark.parametrize(("said", "known"), [(None, "4"), ("20", "20")])
def test_idle_threads_of_openblas_sleep_and_it_hears_of_that_before_it_is_loaded(said, known, monkeypatch):
    code = """
        import os, sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "numpy":
                    print(os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
        sys.meta_path.insert(0, Finder())
        from dualq.app.cli import main
        sys.argv = ["dualq", "learn", "missing.csv"]
        main()
    """
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if said is not None:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", said)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (2, [known])


def test_ibis_loads_the_compiler_of_duckdb_alone_and_any_other_when_it_is_asked_for():
    code = """
        import ast, sys
        from importlib import import_module
        from pathlib import Path
        from dualq.app.cli import one_engine
        one_engine.load_what_is_asked()
        import ibis
        print(ibis.duckdb.connect().sql("SELECT 6 * 7 AS x").to_pyarrow().column("x").to_pylist())
        package = sys.modules[one_engine.COMPILERS]
        there = {name.removeprefix(package.__name__ + ".") for name in sys.modules if name.startswith(package.__name__)}
        print(sorted(there & {"athena", "bigquery", "duckdb", "postgres", "pyspark", "snowflake"}))
        source = Path(package.__path__[0], "__init__.py").read_text()
        named = [(line.module, one.name) for line in ast.walk(ast.parse(source)) if isinstance(line, ast.ImportFrom)
                 for one in line.names if one.name.endswith("Compiler")]
        others = [name for home, name in named if getattr(package, name) is not vars(import_module(home))[name]]
        print(len(named) > 15, others, hasattr(package, "odd"))
        print(package.postgres is import_module("ibis.backends.sql.compilers.postgres"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[42]", "['duckdb']", "True [] False", "True"]


def test_asking_a_saved_policy_imports_little_more_than_numpy(tmp_path):
    dualq.learn(dualq.problems.machine_replacement(4).record(500, seed=0), certificate=None).save(tmp_path / "run")
    state = json.dumps(dualq.load(tmp_path / "run").policy.states[0])
    code = f"""
        import sys
        from dualq.app.cli import run
        assert run(["act", "run", "--state", {state!r}]) == 0
        print(sorted({{"scipy", "numba", "highspy", "pyarrow", "ibis", "duckdb", "altair", "rich"}} & set(sys.modules)))
    """
    lines = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(lines, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_ctrl_c_while_a_compiled_kernel_is_called_is_no_mistake_of_ours(monkeypatch, capsys):
    """Python's words where C gives a result and an exception: a SystemError, because of a KeyboardInterrupt."""

    def called(*_: object, **__: object) -> None:
        raise SystemError("a kernel returned a result with an exception set") from cause

    monkeypatch.setattr(cli, "_asked", lambda _: called)
    cause: BaseException = KeyboardInterrupt()
    assert cli.run(["learn"]) == 130
    assert capsys.readouterr().err == "dualq: interrupted\n"
    cause = ValueError("a mistake of ours")
    with pytest.raises(SystemError):
        cli.run(["learn"])


def test_ctrl_c_while_an_object_goes_is_not_lost(monkeypatch, capsys):
    class Going:
        def __init__(self, last: BaseException):
            self.last = last

        def __del__(self):
            raise self.last

    monkeypatch.setattr(sys, "unraisablehook", cli.not_lost)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs this in the background ignores it

    def gone(what: list[Going], seconds: float = 0.0) -> None:
        what.clear()
        time.sleep(seconds)

    try:
        with pytest.raises(KeyboardInterrupt):
            gone([Going(KeyboardInterrupt())], 60.0)
    finally:
        signal.signal(signal.SIGINT, before)
    gone([Going(ValueError("something else"))])
    assert "something else" in capsys.readouterr().err
