"""Models on disk: files written by hand or by NumPy alone; the expected values come from a plain loop over the rows."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
import scipy.sparse as sp

from dualq.base.errors import ModelError
from dualq.base.labels import Labels
from dualq.model.mdp import MDP
from dualq.model.models import read_model, write_model, write_policy
from dualq.model.policy import TablePolicy

HEADER = "state,action,next_state,probability,reward\n"
LAMP = (
    HEADER
    + """on,wait,on,0.9,2
on,wait,off,0.1,0
off,wait,off,1,0
off,fix,on,0.75,-1
off,fix,off,0.25,-1
"""
)


def write(tmp_path, text, name="model.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def naive(text):
    """{(s, a): {s': p}}, {(s, a): expected reward} and the rewards' range, by a loop over the rows."""
    transitions, sums, paid = {}, {}, []
    for row in csv.DictReader(text.splitlines()):
        pair, p, r = (row["state"], row["action"]), float(row["probability"]), float(row["reward"])
        successors = transitions.setdefault(pair, {})
        successors[row["next_state"]] = successors.get(row["next_state"], 0.0) + p
        sums[pair] = sums.get(pair, 0.0) + p * r
        paid += [r] if p > 0 else []
    return transitions, sums, (min(paid), max(paid))


def assert_agrees(mdp, text):
    """The model says what a loop over the rows says."""
    transitions, rewards, reward_range = naive(text)
    states, actions = ([str(label) for label in labels] for labels in (mdp.states, mdp.actions))
    assert mdp.reward_range == reward_range
    for s, state in enumerate(states):
        for a, action in enumerate(actions):
            assert mdp.available[s, a] == ((state, action) in transitions)
            if mdp.available[s, a]:
                successors, p = mdp.P(s, a)
                found = {states[s_next]: q for s_next, q in zip(successors, p, strict=True) if q > 0}
                wanted = {s_next: q for s_next, q in transitions[state, action].items() if q > 0}
                assert found == pytest.approx(wanted, abs=1e-15)
                assert mdp.rewards[s, a] == pytest.approx(rewards[state, action], abs=1e-14)


def assert_same(one, other):
    """Two models are equal, array by array."""
    assert (one.discount, one.reward_range) == (other.discount, other.reward_range)
    assert (one.states, one.actions) == (other.states, other.actions)
    assert [type(v) for v in one.states] == [type(v) for v in other.states]
    np.testing.assert_array_equal(one.available, other.available)
    np.testing.assert_array_equal(one.transitions.toarray(), other.transitions.toarray())
    np.testing.assert_array_equal(one.rewards, other.rewards)


# ---- CSV


def test_csv_says_what_its_rows_say(tmp_path):
    mdp = read_model(write(tmp_path, LAMP), discount=0.9)
    assert list(mdp.states) == ["on", "off"]  # text, as it first appears
    assert list(mdp.actions) == ["wait", "fix"]
    assert mdp.discount == 0.9
    assert not mdp.available[0, 1]
    assert_agrees(mdp, LAMP)


def test_repeated_rows_add_up_and_keep_the_range_of_the_rewards(tmp_path):
    text = HEADER + "a,x,b,0.25,4\na,x,b,0.25,-4\na,x,a,0.5,1\na,x,a,0,99\nb,x,b,1,0\n"
    mdp = read_model(write(tmp_path, text), discount=0.5)
    assert_agrees(mdp, text)
    assert mdp.rewards[0, 0] == 0.5
    assert mdp.reward_range == (-4.0, 4.0)  # the row of probability 0 pays nothing


def test_rounding_does_not_carry_a_mean_reward_out_of_its_range(tmp_path):
    rows = "".join(f"0,0,{s},{1 / 7!r},0.1\n" for s in range(7)) + "".join(f"{s},0,{s},1,0.1\n" for s in range(1, 7))
    mdp = read_model(write(tmp_path, HEADER + rows), discount=0.9)
    assert mdp.reward_range == (0.1, 0.1)


def test_columns_in_any_order_and_others_beside_them(tmp_path):
    order = ["note", "reward", "next_state", "probability", "action", "state"]
    rows = [{**row, "note": "x,y"} for row in csv.DictReader(LAMP.splitlines())]
    with (tmp_path / "model.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, order)
        writer.writeheader()
        writer.writerows(rows)
    assert_same(read_model(tmp_path / "model.csv", 0.9), read_model(write(tmp_path, LAMP, "lamp.csv"), 0.9))


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["2", "0", "1"], [0, 1, 2]),
        (["30", "-4", "7"], [-4, 7, 30]),
        (["0.5", "2", "1"], [0.5, 1.0, 2.0]),
        (["true", "false"], [False, True]),
        (["x", "3"], ["x", "3"]),
        (["2024-01-02", "2023-01-02"], ["2024-01-02", "2023-01-02"]),
        (["NA", "nan"], ["NA", "nan"]),
    ],
)
def test_labels_keep_their_types(tmp_path, cells, labels):
    # Every state leads to the last, so that the column next_state alone may look like another type.
    rows = "".join(f"{cell},go,{cells[-1]},1,0\n" for cell in cells)
    mdp = read_model(write(tmp_path, HEADER + rows), 0.9)
    assert list(mdp.states) == labels
    assert [type(v) for v in mdp.states] == [type(v) for v in labels]
    target = mdp.states.index(labels[cells.index(cells[-1])] if isinstance(labels[0], str) else mdp.states[0])
    for s in range(len(cells)):
        assert mdp.P(s, 0)[0].size == 1
    if isinstance(labels[0], str):
        assert all(mdp.P(s, 0)[0][0] == target for s in range(len(cells)))


def test_a_random_model_survives_csv(tmp_path):
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.ones(6), (6, 3))
    available = rng.random((6, 3)) < 0.7
    available[:, 0] = True
    P[~available] = 0.0
    mdp = MDP(sp.csr_array(P.reshape(18, 6)), rng.normal(size=(6, 3)), 0.8, available=available)
    write_model(tmp_path / "m.csv", mdp)
    back = read_model(tmp_path / "m.csv", 0.8)
    np.testing.assert_array_equal(back.available, available)
    np.testing.assert_allclose(back.transitions.toarray(), P.reshape(18, 6), rtol=0, atol=1e-15)
    np.testing.assert_allclose(back.rewards, mdp.rewards, rtol=1e-14)


BAD_CSV = {
    "missing column": (LAMP.replace("probability", "prob"), "no column 'probability' (did you mean 'prob'?)"),
    "capital": (LAMP.replace("reward", "Reward"), "no column 'reward' (did you mean 'Reward'?)"),
    "two of a name": (LAMP.replace("action", "state"), "2 columns are called 'state'; there must be one"),
    "text for a number": (LAMP.replace("0.75", "3/4"), "row 5: probability is '3/4'; it must be a number"),
    "text in the last row": (LAMP.replace("0.25,-1", "0.25,low"), "row 6: reward is 'low'; it must be a number"),
    "a truth value": (re.sub(r",[-\d]+\n", ",true\n", LAMP), "row 2: reward is 'true'; it must be a number"),
    "NaN probability": (LAMP.replace("0.75", "nan"), "row 5: probability is nan"),
    "NaN reward": (LAMP.replace("0.25,-1", "0.25,NaN"), "row 6: reward is nan"),
    "infinite reward": (LAMP.replace("0.25,-1", "0.25,-inf"), "row 6: reward is -inf"),
    "negative probability": (LAMP.replace("0.1,", "-0.1,"), "row 3: probability is -0.1; it must not be negative"),
    "row sum": (LAMP.replace("0.1,", "0.2,"), "row 2: the probabilities of (state='on', action='wait') sum to 1.1"),
    "all zero": (
        LAMP.replace("off,1,", "off,0,"),
        "row 4: the probabilities of (state='off', action='wait') sum to 0;",
    ),
    "empty cell": (LAMP.replace("0.75", ""), "row 5: probability is empty"),
    "empty label": (LAMP.replace("off,fix,on", "off,,on"), "row 5: action is empty"),
    "no row of its own": (
        LAMP.replace("on,wait,off,", "on,wait,dead,"),
        "row 3: next_state 'dead' has no row in which it is the state; "
        "if it is absorbing, add the row dead,wait,dead,1,0",
    ),
    "NaN label": (HEADER + "1.5,0,1.5,1,0\nnan,0,1.5,1,0\n", "row 3: state is nan"),
    "after a blank line": (LAMP.replace("off,wait", "\noff,wait").replace("0.75", "x"), "row 6: probability is 'x'"),
    "short row": (LAMP.replace("off,fix,on,0.75,-1", "off,fix"), "row 5 has 2 fields; the header has 5"),
    "short row after a blank line": (LAMP.replace("off,fix,on,0.75,-1", "\noff,fix"), "row 6 has 2 fields"),
    "semicolons": (LAMP.replace(",", ";"), "columns are separated by semicolons; they must be separated by commas"),
    "tabs": (LAMP.replace(",", "\t"), "columns are separated by tabs"),
    "empty": ("", "is empty; it must hold a header and rows state,action,next_state,probability,reward"),
    "blank": ("\n\n", "is empty"),
    "header only": (HEADER, "has a header and no rows"),
    "not UTF-8": (LAMP.replace("off", "été").encode("latin-1"), "is not text in UTF-8"),
    "header not UTF-8": (LAMP.replace("action", "é").encode("latin-1"), "is not text in UTF-8"),
    "UTF-16": (LAMP.encode("utf-16"), "is not text in UTF-8; save it as UTF-8"),
}


@pytest.mark.parametrize(("text", "message"), BAD_CSV.values(), ids=BAD_CSV)
def test_a_bad_csv_is_refused_in_one_line_with_file_and_row(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ModelError) as caught:
        read_model(path, discount=0.9)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize("discount", [1.0, -0.1, float("nan")])
def test_a_bad_discount_is_refused(tmp_path, discount):
    with pytest.raises(ModelError, match=r"model\.csv: discount is .*; it must be at least 0 and below 1"):
        read_model(write(tmp_path, LAMP), discount)


def test_what_cannot_be_a_model(tmp_path):
    for name, message in {
        "model.xlsx": "a model is an .npz or a .csv file, and this name ends in .xlsx",
        "model": "this name ends in neither",
        "missing.csv": "no such file",
        "missing.npz": "no such file",
    }.items():
        with pytest.raises(ModelError, match=re.escape(f"{tmp_path / name}: ") + ".*" + re.escape(message)):
            read_model(tmp_path / name, 0.9)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ModelError, match=r"folder\.csv: cannot be read"):
        read_model(tmp_path / "folder.csv", 0.9)
    with pytest.raises(ModelError, match=r"a \.csv model has no discount; give one, such as discount=0\.95"):
        read_model(write(tmp_path, LAMP))


# ---- .npz


P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
R = np.array([[1.0, -2.0], [0.0, 3.0]])


def test_a_dense_npz_that_somebody_else_wrote(tmp_path):
    np.savez(tmp_path / "m.npz", P=P, rewards=R, discount=0.9, states=["low", "high"], actions=[10, 20])
    mdp = read_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(mdp.transitions.toarray(), P.reshape(4, 2))
    np.testing.assert_array_equal(mdp.rewards, R)
    assert (mdp.discount, mdp.reward_range) == (0.9, (-2.0, 3.0))
    assert mdp.states == Labels(["low", "high"], "state")
    assert mdp.actions == Labels([10, 20], "action")
    assert read_model(tmp_path / "m.npz", discount=0.5).discount == 0.5  # the caller's comes first


def test_a_dense_npz_with_rewards_per_transition(tmp_path):
    rewards = np.arange(8.0).reshape(2, 2, 2)
    np.savez_compressed(tmp_path / "m.npz", P=P, rewards=rewards, discount=0.9)
    mdp = read_model(tmp_path / "m.npz")
    np.testing.assert_allclose(mdp.rewards, (P * rewards).sum(axis=2))
    assert mdp.reward_range == (0.0, 6.0)  # over the transitions that can happen


def test_a_sparse_npz_with_missing_actions(tmp_path):
    rows = sp.csr_array(np.array([[0.25, 0.75], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    available = np.array([[True, False], [True, True]])
    parts = {"indptr": rows.indptr, "indices": rows.indices, "probabilities": rows.data}
    np.savez(tmp_path / "m.npz", **parts, rewards=np.abs(R), available=available, reward_range=[0, 5], discount=0.9)
    mdp = read_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(mdp.transitions.toarray(), rows.toarray())
    np.testing.assert_array_equal(mdp.available, available)
    np.testing.assert_array_equal(mdp.rewards, [[1.0, 0.0], [0.0, 3.0]])
    assert mdp.reward_range == (0.0, 5.0)


def test_rows_of_actions_that_do_not_exist_are_not_read(tmp_path):
    filled, available = P.copy(), np.array([[True, False], [True, True]])
    filled[0, 1] = np.nan
    np.savez(tmp_path / "m.npz", P=filled, rewards=R, discount=0.9, available=available)
    mdp = read_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(mdp.available, available)
    np.testing.assert_array_equal(mdp.transitions.toarray(), np.where(available.reshape(4, 1), P.reshape(4, 2), 0.0))


def test_a_model_survives_npz(tmp_path):
    states = Labels([(0, "winter"), (1, "winter"), (0, "summer")], ("stock", "season"))
    P = np.random.default_rng(3).dirichlet(np.ones(3), (3, 2))
    P[1, 1] = 0.0
    available = np.array([[True, True], [True, False], [True, True]])
    rows = sp.csr_array(P.reshape(6, 3))
    mdp = MDP(rows, -np.ones((3, 2)), 0.95, (-4.0, 1.0), states=states, actions=["a", "b"], available=available)
    write_model(tmp_path / "m.npz", mdp)
    assert_same(read_model(tmp_path / "m.npz"), mdp)


def test_plain_numbers_are_not_written_as_labels(tmp_path):
    write_model(tmp_path / "m.npz", MDP(P, R, 0.9))
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        assert set(file.files) == {
            *("sha256", "discount", "indptr", "indices", "probabilities", "rewards", "reward_range")
        }
        assert file["discount"] == 0.9


CSR = {
    "indptr": [0, 1, 2, 3, 4],
    "indices": [0, 1, 1, 0],
    "probabilities": [1.0, 1, 1, 1],
    "rewards": R,
    "discount": 0.9,
}
DENSE = {"P": P, "rewards": R, "discount": 0.9}
BAD_NPZ = {
    "no discount": ({"P": P, "rewards": R}, "there is no array `discount`; give one, such as discount=0.95"),
    "no rewards": ({"P": P, "reward": R, "discount": 0.9}, "there is no array `rewards` (did you mean 'reward'?)"),
    "no transitions": (
        {"rewards": R, "discount": 0.9},
        "there is no array `P`; transitions are `P` (S, A, S), or all of",
    ),
    "part of CSR": ({**CSR, "indices": None}, "there is no array `indices`"),
    "text": ({**DENSE, "rewards": np.array([["a", "b"], ["c", "d"]])}, "`rewards` holds <U1; it must hold numbers"),
    "shape of P": ({**DENSE, "P": P[0]}, "P has shape (2, 2); it must be (S, A, S)"),
    "row sum": ({**DENSE, "P": 0.97 * P}, "(state=0, action=0) sums to 0.97"),
    "discounts": ({**DENSE, "discount": [0.9, 0.8]}, "`discount` has shape (2,); it must be one number"),
    "discount one": ({**DENSE, "discount": 1.0}, "discount is 1;"),
    "range": ({**DENSE, "reward_range": 3.0}, "`reward_range` has shape (); it must be (low, high)"),
    "narrow range": (
        {**DENSE, "reward_range": [0.0, 1.0]},
        "rewards lie in [-2, 3], outside of the bound given, [0, 1]",
    ),
    "label count": ({**DENSE, "states": ["a", "b", "c"]}, "3 state labels were given for 2 states"),
    "label twice": ({**DENSE, "states": ["a", "a"]}, "state label 'a' appears twice"),
    "label bytes": ({**DENSE, "states": np.frombuffer(b"nonsense", np.uint8)}, "`states` cannot be read"),
    "short indptr": ({**CSR, "indptr": [0, 1, 4]}, "`indptr` has shape (3,); it must be (5,), S*A + 1"),
    "falling indptr": ({**CSR, "indptr": [0, 3, 2, 3, 4]}, "`indptr` must begin with 0 and never fall"),
    "long indptr": ({**CSR, "indptr": [0, 1, 2, 3, 5]}, "shapes (4,) and (4,); `indptr` ends in 5"),
    "outside": ({**CSR, "indices": [0, 1, 2, 0]}, "`indices` holds the state 2; states are 0 to 1"),
    "negative index": ({**CSR, "indices": [0, -1, 1, 0]}, "`indices` holds the state -1; states are 0 to 1"),
    "fractions": ({**CSR, "indices": [0.0, 1, 1, 0]}, "`indices` holds float64; it must hold whole numbers"),
    "objects": ({**DENSE, "states": np.array(["a", None], object)}, "holds an array of Python objects"),
}


@pytest.mark.parametrize(("arrays", "message"), BAD_NPZ.values(), ids=BAD_NPZ)
def test_a_bad_npz_is_refused_in_one_line_with_the_file(tmp_path, arrays, message):
    path = tmp_path / "model.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ModelError) as caught:
        read_model(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kept", [0, 10, 300, -30])
def test_a_cut_off_npz_is_refused(tmp_path, compressed, kept):
    path = tmp_path / "model.npz"
    (np.savez_compressed if compressed else np.savez)(path, **DENSE)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"model\.npz: not a whole \.npz file"):
        read_model(path)


def test_a_changed_npz_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    write_model(path, MDP(P, R, 0.9))
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, "rewards": R + 1e-9})  # a whole file, but not the one that was written
    with pytest.raises(ModelError, match=r"model\.npz: the SHA-256 does not match"):
        read_model(path)


# ---- policies


def test_policy_csv_has_a_row_for_every_action_taken(tmp_path):
    states = Labels([(0, "summer"), (1, 'winter, "cold"')], ("stock", "season"))
    policy = TablePolicy([[0.0, 1.0, 0.0], [0.1, 0.0, 0.9]], states, Labels([0, 5, 10], "order"))
    write_policy(tmp_path / "policy.csv", policy)
    with (tmp_path / "policy.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["stock", "season", "order", "probability"],
        ["0", "summer", "5", "1.0"],
        ["1", 'winter, "cold"', "0", "0.1"],
        ["1", 'winter, "cold"', "10", "0.9"],
    ]
