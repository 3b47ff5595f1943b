"""`dualq agent`: real processes with files between them, kills among them, against the pooled log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dualq
from dualq.base import load_arrays
from dualq.offline import Plan, run_agent


@pytest.fixture
def started():
    """Starts agents; those that still run in the end are stopped."""
    running: list[subprocess.Popen] = []

    def start(folder: Path, agent: int, *more: str) -> subprocess.Popen:
        running.append(process_of(folder, agent, *more))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()


def process_of(folder: Path, agent: int, *more: str) -> subprocess.Popen:
    words = ["agent", *more, "--log", f"{agent}.parquet", "--id", str(agent), "--network", "net.json", "--mail", "mail"]
    words += ["--every", "0.05", "--out", f"run{agent}"]
    command = [sys.executable, "-m", "dualq", *words]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def agreed(folder: Path, share: str, discount: float = 0.9) -> list[dualq.ArrayLog]:
    plan = {"run": "test", "edges": [[0, 1], [1, 2], [2, 0]], "discount": discount, "share": share}
    (folder / "net.json").write_text(json.dumps(plan))
    logs = [dualq.problems.two_state().record(steps=200, seed=seed) for seed in range(3)]
    for k, log in enumerate(logs):
        log.to_parquet(folder / f"{k}.parquet")
    return logs


def pooled(logs: list[dualq.ArrayLog]) -> dualq.ArrayLog:
    names = ("state", "action", "reward", "next_state")
    join = [np.concatenate([getattr(log, name) for log in logs]) for name in names]
    return dualq.ArrayLog(*join, logs[0].states, logs[0].actions, reward_range=logs[0].reward_range)


@pytest.mark.parametrize("share", ["masked counts", "iterates"])
def test_agents_with_files_between_them_that_stop_and_go_on(share: str, tmp_path: Path):
    """Threads in the place of processes; agent 2 stops after every few rounds and is made again from its state."""
    (tmp_path / "key").write_bytes(b"what only the houses know")
    logs, plan = agreed(tmp_path, share), Plan.read(tmp_path / "net.json", tmp_path / "key")

    def house(agent: int) -> object:
        for most in range(3, 1000, 3) if agent == 2 else [None]:
            state, mail = tmp_path / f"{agent}.npz", tmp_path / "mail"
            try:
                return run_agent(agent, plan, logs[agent], mail, state, every=0.01, most_rounds=most)
            except dualq.LogError:
                continue  # it has done its rounds
        raise AssertionError

    with ThreadPoolExecutor(3) as threads:
        fits = list(threads.map(house, range(3)))
    pool = pooled(logs)
    for fit in fits:
        if isinstance(fit, dualq.IterateFit):
            exact = dualq.solve(pool.counts().mdp(0.9)).Q
            assert np.abs(fit.Q - exact).max() <= fit.error_bound + 1e-9
            assert np.array_equal(fit.Q, fits[0].Q)
        else:
            assert np.array_equal(fit.solution.Q, dualq.learn(pool, discount=0.9, certificate=None).solution.Q)


@pytest.mark.slow
@pytest.mark.parametrize("share", ["masked counts", "iterates"])
def test_three_houses_one_of_which_is_killed_again_and_again(share: str, tmp_path: Path, started):
    logs = agreed(tmp_path, share)
    houses = [started(tmp_path, k) for k in range(2)]
    state = tmp_path / "agent-2.state.npz"
    kills = 0
    while kills < 2:  # once its state has changed, it is killed in the middle of whatever it does
        victim = started(tmp_path, 2)
        before, deadline = state.stat().st_mtime_ns if state.exists() else 0, time.monotonic() + 60
        while victim.poll() is None and time.monotonic() < deadline:
            if state.exists() and state.stat().st_mtime_ns > before:
                victim.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        victim.communicate()
        kills += 1
    if share == "iterates":  # and once, when others have its visits, its state is lost
        victim, deadline = started(tmp_path, 2), time.monotonic() + 60
        other = tmp_path / "agent-0.state.npz"
        while "z" not in load_arrays(other) and victim.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        state.unlink()
        houses.append(started(tmp_path, 2, "--again"))
    else:
        houses.append(started(tmp_path, 2))
    said = [house.communicate(timeout=120) for house in reversed(houses)]
    assert [house.returncode for house in houses] == [0, 0, 0], said
    pool = pooled(logs)
    policies = [(tmp_path / f"run{k}" / "policy.csv").read_bytes() for k in range(3)]
    assert policies[0] == policies[1] == policies[2]
    if share == "masked counts":
        wanted = dualq.learn(pool, discount=0.9)
        for k in range(3):
            fit = dualq.load(tmp_path / f"run{k}")
            assert np.array_equal(fit.solution.Q, wanted.solution.Q)
            assert fit.counts.total == 600
    else:
        exact = dualq.solve(pool.counts().mdp(0.9)).Q
        for k in range(3):
            fit = dualq.load(tmp_path / f"run{k}")
            assert np.abs(fit.Q - exact).max() <= fit.error_bound + 1e-9


def test_bad_plans_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from dualq.app.cli import run

    agreed(tmp_path, "masked counts")
    words = ["agent", "--log", str(tmp_path / "0.parquet"), "--mail", str(tmp_path / "mail"), "--id", "0", "--network"]
    for text, said in (
        ("{", "cannot be read"),
        ('{"edges": [[0, 1], [2, 3]], "discount": 0.9}', "never connected"),
        ('{"edges": [[0, 1]], "discount": 0.9, "share": "rows"}', "share is 'rows'"),
        ('{"edges": [[0, 1]]}', "discount"),
    ):
        (tmp_path / "bad.json").write_text(text)
        assert run([*words, str(tmp_path / "bad.json")]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "key").write_bytes(b"short")
    assert run([*words, str(tmp_path / "net.json"), "--key", str(tmp_path / "key")]) == 2
    assert "a key of 5 bytes; it must have 16 or more" in capsys.readouterr().err
    assert run([*words, str(tmp_path / "net.json"), "--key", str(tmp_path / "nowhere")]) == 2
    assert "the key cannot be read" in capsys.readouterr().err
    words[words.index("0")] = "7"
    assert run([*words, str(tmp_path / "net.json")]) == 2
    assert "there is no agent 7" in capsys.readouterr().err


def test_what_iterates_give_is_saved_loaded_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from dualq.app.cli import run

    rng = np.random.default_rng(0)
    frames = [
        {name: rng.uniform(0, 4, size=100) for name in ("load", "load2")}
        | {"act": rng.choice(["go", "stay"], size=100), "pay": rng.integers(4, size=100) / 4}
        for _ in range(2)
    ]
    how = {"state": "load", "next_state": "load2", "action": "act", "reward": "pay", "bins": {"load": [1.0, 2.0]}}
    logs = [dualq.read_log(frame, reward_range=(0, 1), **how) for frame in frames]
    fit = dualq.learn_together(logs, dualq.Network.ring(2), share="iterates", discount=0.9).fits[0]
    files = fit.save(tmp_path / "run")
    again = dualq.load(tmp_path / "run")
    assert [Path(file).name for file in files] == ["policy.csv", "fit.json", "solution.npz"]
    for name in ("Q", "V", "start"):
        assert np.array_equal(getattr(again, name), getattr(fit, name))
    assert np.array_equal(again.policy.matrix, fit.policy.matrix)
    assert (again.expected, again.error_bound, again.residual) == (fit.expected, fit.error_bound, fit.residual)
    assert again.act(1.5) == fit.policy.act("[1, 2)")
    assert run(["act", str(tmp_path / "run"), "--state", "1.5"]) == 0
    assert json.loads(capsys.readouterr().out) == again.act(1.5)
    for command in (
        ["explain", str(tmp_path / "run"), "--state", "1.5"],
        ["frontier", str(tmp_path / "run"), "--limit", "x"],
    ):
        assert run(command) == 2
        assert "agents that share iterates have no table" in capsys.readouterr().err


def test_a_house_without_rows_has_the_answer_of_the_others(tmp_path: Path):
    logs, plan = agreed(tmp_path, "masked counts"), Plan.read(tmp_path / "net.json")

    def house(agent: int) -> object:
        log = logs[agent] if agent else None
        return run_agent(agent, plan, log, tmp_path / "mail", tmp_path / f"{agent}.npz", every=0.01)

    with ThreadPoolExecutor(3) as threads:
        fits = list(threads.map(house, range(3)))
    wanted = dualq.learn(pooled(logs[1:]), discount=0.9, certificate=None)
    assert all(np.array_equal(fit.solution.Q, wanted.solution.Q) for fit in fits)
