"""The service answers as the run does, refuses in one line, and takes a run that is replaced whole or not at all."""

from __future__ import annotations

import json
import re
import shutil

import jsonschema
import numpy as np
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.offline.exported.json_form import SCHEMA

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from dualq.app.service import application


def saved(folder, seed: int, flip: bool = False):
    two = dualq.problems.two_state()
    log = two.record(400, seed=seed)
    if flip:  # the other action is the better one
        log = dualq.ArrayLog(log.state, 1 - log.action, log.reward, log.next_state, 2, 2)
    fit = dualq.learn(log, discount=0.9, certificate=None)
    fit.save(folder)
    return fit


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run", saved(tmp_path / "run", 0)


@pytest.fixture
def client(run):
    return TestClient(application(run[0]))


def test_it_answers_as_the_fit_does(run, client):
    _, fit = run
    for state in (0, 1):
        assert client.post("/act", json={"state": {"state": state}}).json() == {"action": fit.act(state)}
    answer = client.post("/act_many", json={"states": {"state": [0, 1, 7, 0, None]}}).json()
    assert answer == {"actions": fit.act_many({"state": [0, 1, 7, 0, None]}), "unknown": 2}
    assert client.post("/act_many", json={"states": {"state": [7]}, "default": 1}).json()["actions"] == [1]
    value = client.get("/policy").json()
    jsonschema.validate(value, SCHEMA)
    assert client.get("/health").json()["status"] == "ok"


@pytest.mark.parametrize(
    ("where", "body", "said"),
    [
        ("act", {"state": {"state": 7}}, "no state 7; known are 0, 1"),
        ("act", {"state": {"stock": 1}}, "give state, and nothing else; got stock"),
        ("act", {"state": {"state": [1]}}, "body.state.state"),
        ("act", {}, "body.state: Field required"),
        ("act_many", {"states": {"x": [1]}}, "the state needs the columns state; state is missing"),
        ("act_many", {"states": {"state": [1], "x": [1, 2]}}, "different numbers of rows"),
        ("act_many", {"states": {"state": [1]}, "case": [1, 2]}, "2 cases were given for 1 rows"),
    ],
)
def test_what_it_cannot_answer_it_refuses_in_one_line(client, where, body, said):
    answer = client.post(f"/{where}", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


def test_a_body_that_is_not_named_json_is_told_how(client):
    answer = client.post("/act", content='{"state": {"state": 0}}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("send JSON, with the header Content-Type: application/json")


def test_a_run_that_is_replaced_is_taken_whole_or_not_at_all(run, client, tmp_path):
    folder, fit = run
    other = saved(tmp_path / "other", 1, flip=True)
    assert not np.array_equal(other.policy.matrix, fit.policy.matrix)
    shutil.copy(tmp_path / "other" / "solution.npz", folder / "solution.npz")  # half of it
    (folder / "fit.json").touch()
    assert [client.post("/act", json={"state": {"state": s}}).json()["action"] for s in (0, 1)] == [
        fit.act(0),
        fit.act(1),
    ]
    shutil.copy(tmp_path / "other" / "fit.json", folder / "fit.json")
    said = [client.post("/act", json={"state": {"state": s}}).json()["action"] for s in (0, 1)]
    assert said == [other.act(0), other.act(1)]
    (folder / "fit.json").unlink()
    assert client.post("/act", json={"state": {"state": 0}}).json() == {"action": other.act(0)}


def test_the_page_needs_nothing_from_elsewhere(client):
    for path in ("/", "/docs"):
        shown = client.get(path).text
        assert not re.search(r"(src|href)\s*=|@import|url\(", shown)
        assert "POST /act_many" in shown
    described = client.get("/openapi.json").json()
    assert {"/act", "/act_many", "/policy", "/health"} == set(described["paths"])


def test_the_command_says_what_is_missing(tmp_path, capsys, monkeypatch):
    assert command(["serve", str(tmp_path / "nothing")]) == 2
    assert "no fit was saved here" in capsys.readouterr().err
    monkeypatch.setattr("dualq.app.cli.serve.find_spec", lambda name: None)
    assert command(["serve", str(tmp_path / "nothing")]) == 2
    error = capsys.readouterr().err
    assert error == (
        'dualq: this needs the package fastapi; install it with: pip install ".[studio]" in the folder of dualq\n'
    )


def test_it_listens_on_this_computer_only_unless_told(run, monkeypatch, capsys):
    heard = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **words: heard.update(words))
    assert command(["serve", str(run[0])]) == 0
    assert heard["host"] == "127.0.0.1"
    assert json.dumps(capsys.readouterr().err) == '""'
    assert command(["serve", str(run[0]), "--host", "0.0.0.0"]) == 0
    assert "there is no password" in capsys.readouterr().err
