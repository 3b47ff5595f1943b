"""The loop: the same bits however it is chunked, recorded, killed and resumed; metrics against their definitions."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from naive import Paper, SplitMix64, algorithm_1, dense_transitions, policy_value

import dualq
from dualq import problems
from dualq.base.errors import CheckpointError, LogError, ModelError
from dualq.base.files import load_arrays
from dualq.base.kernels import generator_state
from dualq.online import training
from dualq.worlds.streams import Played, Recorded, Rows

TWO = problems.two_state()
SPDQ = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=0.08)
FOUND = ("Q", "V", "occupancy", "ratio")


def same(one, other):
    for name in FOUND:
        np.testing.assert_array_equal(getattr(one.solution, name), getattr(other.solution, name))
        np.testing.assert_array_equal(getattr(one.last, name), getattr(other.last, name))
    assert one.history.equals(other.history)
    assert (one.steps, one.seed) == (other.steps, other.seed)


ALGORITHMS = {
    "SPDQ": SPDQ,
    "Q-learning": dualq.QLearning(),
    "double Q-learning": dualq.QLearning(double=True, step_size=dualq.constant(0.1)),
    "weighted": dualq.SPDQ(weights=1.5, zeta=0.08, average_power=1.5, average_from=500),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("sampling", ["trajectory", "iid"])
def test_chunks_records_and_checkpoints_do_not_change_a_bit(name, sampling, tmp_path, monkeypatch):
    algorithm = ALGORITHMS[name]
    words = {"steps": 5000, "seed": 3, "sampling": sampling}
    whole = dualq.train(algorithm, TWO, **words)
    recorded = dualq.train(algorithm, TWO, record=[1, 7, 1000, 4999, 5000], **words)
    monkeypatch.setattr(training, "CHUNK", 13)
    small = dualq.train(algorithm, TWO, record=[1, 7, 1000, 4999, 5000], checkpoint=tmp_path / "a", every=77, **words)
    same(small, recorded)
    np.testing.assert_array_equal(whole.solution.Q, recorded.solution.Q)
    np.testing.assert_array_equal(whole.last.Q, recorded.last.Q)


def test_going_on_equals_having_gone_on(tmp_path):
    record = [500, 2500, 9000]
    whole = dualq.train(SPDQ, TWO, 10_000, record=record)
    path = tmp_path / "run.ckpt"
    for steps in (9000, 9001, 10_000):
        part = dualq.train(SPDQ, TWO, steps, record=record, checkpoint=path, every=1000)
    same(part, whole)


def test_seeds_in_parallel_equal_seeds_one_at_a_time():
    together = dualq.train(SPDQ, TWO, 3000, seeds=range(6), record=[3000])
    for seed, run in enumerate(together):
        same(run, dualq.train(SPDQ, TWO, 3000, seed=seed, record=[3000]))
    assert len({run.solution.Q[0, 0] for run in together}) == 6


# ---- killed and resumed


def _go_on(path, steps):
    dualq.train(SPDQ, TWO, steps, seed=5, record=[steps // 3, steps], checkpoint=path, every=20_000)


def _kill_at_random_moments(folder, kills, steps):
    """Fork, kill with SIGKILL after a random time, and go on, until a run is whole; again until enough were killed."""
    rng = np.random.default_rng(0)
    whole = dualq.train(SPDQ, TWO, steps, seed=5, record=[steps // 3, steps])
    context, killed, runs = multiprocessing.get_context("fork"), 0, 0
    while killed < kills:
        path, done = folder / f"run{runs}.ckpt", False
        while not done:
            child = context.Process(target=_go_on, args=(path, steps))
            child.start()
            child.join(rng.uniform(0.0, 0.12))
            done = child.exitcode is not None
            if not done:
                os.kill(child.pid, signal.SIGKILL)
                child.join()
                killed += 1
            else:
                assert child.exitcode == 0
        same(dualq.train(SPDQ, TWO, steps, seed=5, record=[steps // 3, steps], checkpoint=path, every=20_000), whole)
        runs += 1


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    _kill_at_random_moments(tmp_path, kills=5, steps=1_000_000)


@pytest.mark.slow
def test_a_run_killed_fifty_times_goes_on_as_if_nothing_had_happened(tmp_path):
    _kill_at_random_moments(tmp_path, kills=50, steps=2_000_000)


def test_control_c_leaves_a_checkpoint_and_says_how_to_resume(tmp_path):
    path = tmp_path / "run.ckpt"
    script = (
        "import dualq\n"
        "words = dualq.SPDQ(zeta=0.08), dualq.problems.two_state()\n"
        "dualq.train(*words, 10)\n"  # compiles
        "print('ready', flush=True)\n"
        f"dualq.train(*words, 10**11, checkpoint={str(path)!r}, every=10**10)"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"saved in {path}; call train again with the same words to go on" in errors
    steps = int(load_arrays(path)["state.k"][0])
    assert steps > 0
    run = dualq.train(dualq.SPDQ(zeta=0.08), TWO, steps + 10, checkpoint=path, every=10**10)
    np.testing.assert_array_equal(run.solution.Q, dualq.train(dualq.SPDQ(zeta=0.08), TWO, steps + 10).solution.Q)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 9}, "written with seed = 0, asked to go on with 9"),
        ({"record": [10]}, r"written with record = \[\], asked to go on with \[10\]"),
        ({"source": problems.grid_world()}, "written on another source of rows"),
        ({"sampling": "iid"}, "written on another source of rows"),
        ({"steps": 50}, "stands at step 100, beyond the 50 asked for"),
        ({"algorithm": dualq.SPDQ(weights=1.0, zeta=0.08)}, r"written with (step_size|weights) = "),
        ({"algorithm": dualq.QLearning()}, "written with algorithm = 'SPDQ', asked to go on with 'QLearning'"),
    ],
)
@pytest.mark.filterwarnings("ignore:zeta is")
def test_other_words_are_refused_and_the_difference_named(change, message, tmp_path):
    words = {"algorithm": SPDQ, "source": TWO, "steps": 100, "checkpoint": tmp_path / "run.ckpt"}
    dualq.train(**words)
    before = (tmp_path / "run.ckpt").read_bytes()
    with pytest.raises(CheckpointError, match=message):
        dualq.train(**{**words, **change})
    assert (tmp_path / "run.ckpt").read_bytes() == before


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    dualq.train(SPDQ, TWO, 100, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(CheckpointError, match=r"run\.ckpt: not a whole"):
        dualq.train(SPDQ, TWO, 200, checkpoint=path)


# ---- metrics


def test_metrics_are_what_they_are_called():
    run = dualq.train(SPDQ, TWO, 2000, record=[2000])
    row, mdp = run.history.to_pylist()[0], TWO.mdp
    Q_star, V_star = np.array([[20.0690, 19.4414], [18.1931, 18.6897]]), np.array([20.0690, 18.6897])
    Q = run.solution.Q
    errors = [max(abs(Q_star[s, a] - Q[s, a]) for s in range(2)) for a in range(2)]
    assert row["q_error"] == pytest.approx(sum(errors), abs=2e-4)
    primal = np.eye(2)[Q.argmax(axis=1)]
    dual = run.solution.occupancy / run.solution.occupancy.sum(axis=1, keepdims=True)
    for name, policy in (("primal", primal), ("dual", dual)):
        assert row[f"{name}_policy_error"] == pytest.approx(np.abs(policy - np.eye(2)).max(axis=1).sum(), abs=1e-9)
        assert row[f"{name}_value_loss"] == pytest.approx((V_star - policy_value(mdp, policy)).max(), abs=2e-4)
    V = Q.max(axis=1)
    P = dense_transitions(mdp)
    residual = [abs(mdp.rewards[s, a] + 0.9 * P[s, a] @ V - Q[s, a]) for s in (0, 1) for a in (0, 1)]
    assert row["bellman_residual"] == pytest.approx(max(residual), abs=1e-9)
    # D = lambda'(V* - Q*), whatever the primal iterates are
    assert row["pseudo_gap"] == pytest.approx((run.solution.occupancy * (V_star[:, None] - Q_star)).sum(), abs=2e-3)
    assert row["true_gap"] >= row["pseudo_gap"] >= 0.0


def test_average_reward_is_that_of_eight_simulated_steps():
    # 20,000 walks of eight steps: five standard errors, a false alarm of 6e-7
    run = dualq.train(SPDQ, TWO, 1000, record=[1000])
    policy, rng, rewards = run.solution.primal_policy, np.random.default_rng(0), np.zeros(20_000)
    for i in range(rewards.size):
        s = TWO.reset(rng)
        for _ in range(8):
            r, s = TWO.step(s, int(policy.matrix[s].argmax()), rng)
            rewards[i] += r / 8
    measured = run.history.to_pylist()[0]["average_reward"]
    assert abs(rewards.mean() - measured) <= 5 * rewards.std() / np.sqrt(rewards.size)


def test_early_stop_at_a_target_gap(tmp_path):
    record = list(range(1000, 100_001, 1000))
    run = dualq.train(SPDQ, TWO, 100_000, record=record, target_gap=100.0)
    gaps = run.history.column("true_gap").to_pylist()
    assert run.reason == "target gap"
    assert gaps[-1] <= 100.0 < min(gaps[:-1])
    assert run.steps == len(gaps) * 1000
    words = {"record": record, "target_gap": 100.0, "checkpoint": tmp_path / "run.ckpt"}
    for _ in range(2):  # the second finds the target met
        same(dualq.train(SPDQ, TWO, 100_000, **words), run)


# ---- what is refused


def test_a_reward_that_is_not_a_number_is_named_with_its_step_and_the_checkpoint_stays(tmp_path):
    rewards = np.ones(50_000)
    rewards[41_234] = np.nan
    zeros = np.zeros(50_000, int)
    mdp = dualq.MDP(np.ones((1, 1, 1)), [[1.0]], 0.9, reward_bound=2.0)
    task = training.Task(Recorded(zeros, zeros, rewards, zeros), mdp, False, 1.0, np.ones(1), "rows")
    path = tmp_path / "run.ckpt"
    with pytest.raises(LogError, match=r"the reward at step 41234 is nan; rewards must lie in \[0, 2\]"):
        dualq.train(dualq.SPDQ(), task, 50_000, checkpoint=path, every=10_000)
    assert int(load_arrays(path)["state.k"][0]) == 40_000
    rewards[41_234] = 2.5
    task = training.Task(Recorded(zeros, zeros, rewards, zeros), mdp, False, 1.0, np.ones(1), "rows")
    with pytest.raises(LogError, match=r"the reward at step 41234 is 2\.5"):
        dualq.train(dualq.SPDQ(), task, 50_000)


def test_training_on_a_recorded_log_equals_training_on_the_simulator():
    log = TWO.record(20_000, seed=4)
    words = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=0.08)
    from_log, simulated = dualq.train(words, log, 20_000, seed=4, discount=0.9), dualq.train(words, TWO, 20_000, seed=4)
    # The log's model has another bound on the rewards only if it does not know it; record does.
    np.testing.assert_array_equal(from_log.last.Q, simulated.last.Q)
    np.testing.assert_array_equal(from_log.solution.occupancy, simulated.solution.occupancy)
    with pytest.raises(ModelError, match="does not know its discount"):
        dualq.train(words, log, 100)


def dead_end(rows=20_000):
    """A log of 0 <-> 1 that also leads to 2, which no row leaves; all rewards are negative, so that 0 is the best."""
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    s_next = np.where(a == 1, 2 * s, 1 - s)  # action 1: from 0 stay, from 1 to the dead end
    return dualq.ArrayLog(s, a, -1.0 - s - 0.5 * a, s_next, 3, 2)


@pytest.mark.parametrize("double", [False, True])
def test_rows_into_states_that_are_never_left_are_worth_what_the_model_says(double):
    log = dead_end()
    exact = dualq.solve(log.counts().mdp(0.9))
    run = dualq.train(dualq.QLearning(0.5, start=50.0, double=double), log, 20_000, discount=0.9)
    np.testing.assert_allclose(run.solution.Q, exact.Q, atol=1e-9)  # all is sure, so Q-learning gets there
    np.testing.assert_allclose(exact.V, [-1.0 - 0.9 * 2.5, -2.5, 0.0], atol=1e-12)


def test_algorithm_1_counts_states_that_are_never_left_as_the_model_does():
    log, steps = dead_end(3000), 3000
    mdp = log.counts().mdp(0.9)
    run = dualq.train(dualq.SPDQ(weights=0.5, zeta=0.2), log, steps, discount=0.9)
    paper = Paper(mdp, 0.5, 0.2)
    rows = log.rows._replace(ended=log.next_state == 2)
    generator = SplitMix64(generator_state(0, 1)[0])
    twin = algorithm_1(paper, rows, [1.0 / np.sqrt(k + 1) for k in range(steps)], generator)
    shift = paper.shift / (1 - mdp.discount)
    for name, found in (("Q", run.last.Q), ("V", run.last.V)):
        np.testing.assert_allclose(found[:2] + shift, twin[name][-1][:2], atol=1e-12 * paper.value_bound)
        assert not found[2].any()
    np.testing.assert_allclose(run.last.ratio, twin["mu"][-1], atol=1e-12 * paper.ratio_bound)


def test_episodes_are_learned_from():
    """A maze whose floor is dry: all is sure, so Q-learning finds Q* of all pairs, from the walk and from its log."""
    sim = problems.maze(4, slip=0.0, discount=0.9, seed=1)
    exact = dualq.solve(sim.mdp)
    q_learning = dualq.QLearning(0.5, start=1.0)
    for sampling in ("trajectory", "iid", "uniform"):
        run = dualq.train(q_learning, sim, 200_000, sampling=sampling, record=[200_000])
        np.testing.assert_allclose(run.solution.Q, exact.Q, atol=1e-6)
        assert run.history.column("q_error").to_pylist()[0] < 1e-5
    log = sim.record(200_000)
    from_log = dualq.train(q_learning, log, 200_000, discount=sim.mdp.discount)
    np.testing.assert_allclose(from_log.solution.Q[:-1][~sim.ends], exact.Q[~sim.ends], atol=1e-6)
    spd_rl = dualq.train(dualq.SPDRL(zeta=0.001), sim, 100)  # Q is read off V, in which the ends count nothing
    assert not spd_rl.solution.V[sim.ends].any()
    np.testing.assert_array_equal(spd_rl.solution.Q, sim.mdp.q_values(spd_rl.solution.V))


def lake():
    gymnasium = pytest.importorskip("gymnasium")
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


def test_an_environment_is_learned_from_while_it_is_played(tmp_path):
    env, q_learning = lake(), dualq.QLearning(step_size=0.5)
    words = {"steps": 60_000, "seed": 1, "discount": 0.9}
    run = dualq.train(q_learning, env, **words)
    # A deterministic lake: from the start the goal is six steps away, the last of which pays 1.
    assert run.solution.V[0] == pytest.approx(0.9**5, abs=1e-6)
    again = dualq.train(q_learning, env, **words, record=[7, 50_000])
    np.testing.assert_array_equal(again.solution.Q, run.solution.Q)
    assert again.history.column("step").to_pylist() == [7, 50_000]
    with pytest.raises(CheckpointError, match="an environment cannot be put back, so its run cannot be resumed"):
        dualq.train(q_learning, env, **words, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(ModelError, match="does not know its discount"):
        dualq.train(q_learning, env, 10)


def played(env, steps, seed):
    """A log of all that was played, as the streams tests play it."""
    stream, rows = Played(env), Rows.empty(steps)
    stream.fill(stream.init(seed), rows)
    return dualq.ArrayLog.from_rows(rows, stream.states, stream.actions, (0.0, 1.0))


@pytest.mark.parametrize("algorithm", [dualq.QLearning(), dualq.SPDQ(weights=0.1, zeta=0.001)])
def test_playing_learns_the_model_of_the_log_that_it_would_leave(algorithm):
    """The same rows, learned from as a log and as they are played: the same model at the end, and the same bits."""
    env, steps = lake(), 70_000
    bounds = {} if isinstance(algorithm, dualq.QLearning) else {"reward_range": (0, 1)}
    run = dualq.train(algorithm, env, steps, seed=3, discount=0.9, **bounds)
    log = played(env, steps, 3)
    mdp, seen = log.counts().mdp(0.9), run.solution.mdp
    for name in ("indptr", "indices", "probabilities", "rewards", "available"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(mdp, name))
    assert seen.states == mdp.states
    assert (log.counts().visits.sum(axis=1) > 0).sum() == 11  # every state but holes and goal, so all is alike
    same(run, dualq.train(algorithm, log, steps, seed=3, discount=0.9))


def test_an_environment_that_never_ends_has_a_model_too():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1", max_episode_steps=1), lambda r: r - 1.0)
    run = dualq.train(dualq.QLearning(), env, 50, discount=0.5)
    np.testing.assert_array_equal(run.solution.Q[0], dualq.train(dualq.QLearning(), env, 50, discount=0.5).last.Q[0])
    assert run.solution.mdp.num_states == 17
    assert not run.solution.V[-1]
    assert (run.solution.V[0] < 0.0).all()


def test_seeds_play_an_environment_one_after_the_other():
    env = lake()
    together = dualq.train(dualq.QLearning(), env, 3000, seeds=[1, 2], discount=0.9)
    for seed, run in zip((1, 2), together, strict=True):
        alone = dualq.train(dualq.QLearning(), env, 3000, seed=seed, discount=0.9)
        np.testing.assert_array_equal(run.solution.Q, alone.solution.Q)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, r"SPDQ must know what rewards can be before the first; give reward_range=\(low, high\)"),
        ({"reward_range": (0, 1)}, "SPDQ must know how rare a pair can be before the first row; give zeta"),
        ({"reward_range": (1, 0), "zeta": 0.1}, r"reward_range is \(1, 0\); it must be two finite numbers"),
        ({"reward_range": 3, "zeta": 0.1}, "reward_range is 3; it must be two finite numbers"),
    ],
)
def test_what_an_environment_cannot_know_must_be_given(words, message):
    algorithm = dualq.SPDQ(zeta=words.pop("zeta", None))
    with pytest.raises(ModelError, match=message):
        dualq.train(algorithm, lake(), 10, discount=0.9, **words)


def test_a_reward_out_of_the_range_given_is_named_with_its_step():
    with pytest.raises(LogError, match=r"the reward at step 0 is 0; rewards must lie in \[0\.5, 1\]"):
        dualq.train(dualq.QLearning(), lake(), 10, discount=0.9, reward_range=(0.5, 1.0))
    with pytest.raises(ModelError, match="reward_range is for an environment; Simulator has its own"):
        dualq.train(dualq.QLearning(), TWO, 10, reward_range=(0.5, 1.0))


def test_uniform_sampling_is_uniform_whatever_the_behaviour():
    # 1e5 rows, four pairs: five standard errors of a share, a false alarm below 4 * 6e-7
    run = dualq.train(dualq.QLearning(), TWO, 100_000, sampling="uniform")
    walk = dualq.train(dualq.SPDRL(weights=1.5, zeta=0.2), TWO, 100_000, sampling="uniform")
    share = walk.solution.distribution
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 100_000)
    assert np.abs(run.solution.Q - dualq.solve(TWO.mdp).Q).max() < 0.5


def test_the_deterministic_iteration_needs_the_model_alone(tmp_path):
    algorithm = dualq.PrimalDual(step_size=dualq.inverse_sqrt(10.0), weights=0.1, distribution=TWO.stationary())
    record = [100, 1000, 5000]
    whole = dualq.train(algorithm, TWO.mdp, 5000, record=record)
    gaps = whole.history.column("true_gap").to_pylist()
    assert gaps[0] > gaps[1] > gaps[2] > 0.0
    assert whole.history.column("q_error").to_pylist()[-1] < 3.5  # with a box that leaves mu* out it is 5.0
    with pytest.warns(UserWarning, match=r"zeta is 0\.9, but some pair is seen with probability 0\.08571"):
        dualq.train(dualq.PrimalDual(zeta=0.9, distribution=TWO.stationary()), TWO.mdp, 10)
    for steps in (1500, 5000):
        part = dualq.train(algorithm, TWO.mdp, steps, record=[100, 1000], checkpoint=tmp_path / "run.ckpt", every=700)
    np.testing.assert_array_equal(part.solution.Q, whole.solution.Q)
    with pytest.raises(ModelError, match="SPDQ learns from transitions"):
        dualq.train(SPDQ, TWO.mdp, 10)


def test_rows_that_end_end_the_run():
    zeros = np.zeros(70, int)
    mdp = dualq.MDP(np.ones((1, 1, 1)), [[1.0]], 0.9)
    task = training.Task(Recorded(zeros, zeros, np.ones(70), zeros), mdp, False, 1.0, np.ones(1), "rows")
    run = dualq.train(dualq.QLearning(step_size=0.5), task, 100)
    assert (run.steps, run.reason) == (70, "end of the rows")
    # Q <- Q + (1 + .9 Q - Q) / 2 from zero, seventy times
    assert run.solution.Q[0, 0] == pytest.approx(10 * (1 - 0.95**70), rel=1e-12)


def test_pairs_that_are_never_seen_are_named():
    lazy = dualq.Simulator(TWO.mdp, dualq.TablePolicy([[1.0, 0.0], [0.5, 0.5]]), TWO.start, "test")
    with pytest.warns(UserWarning, match=r"1 pairs .* the first of them \(state=0, action=1\); nothing is learned"):
        dualq.train(SPDQ, lazy, 10)


def test_what_is_wrong_with_zeta_is_said_once_for_all_seeds():
    with pytest.warns(UserWarning, match=r"zeta is 0.5") as said:
        dualq.train(dualq.SPDQ(zeta=0.5), TWO, 10, seeds=range(3))
    assert len(said) == 1


def test_a_list_of_step_sizes_need_be_no_longer_than_the_log():
    log = TWO.record(5)
    assert dualq.train(dualq.QLearning([0.5] * 5), log, 100, discount=0.9).steps == 5
    with pytest.raises(ModelError, match="given for 4 steps; 5 are to be taken"):
        dualq.train(dualq.QLearning([0.5] * 4), log, 100, discount=0.9)


def test_a_zeta_that_excludes_the_solution_is_warned_of():
    with pytest.warns(UserWarning, match=r"zeta is 0.5, but some pair is seen with probability 0.08571"):
        dualq.train(dualq.SPDQ(zeta=0.5), TWO, 10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dualq.SPDQ(zeta=0.0), "zeta is 0; it must be above 0 and at most 1"),
        (lambda: dualq.SPDQ(zeta=1.5), "zeta is 1.5"),
        (lambda: dualq.SPDQ(step_size=dualq.inverse_sqrt(-1.0)), "scale -1; it must be positive"),
        (lambda: dualq.SPDQ(step_size=[1.0, -1.0]), "step size 1 is -1; step sizes must be positive"),
        (lambda: dualq.SPDQ(start="ones"), "start is 'ones'"),
        (lambda: dualq.train(SPDQ, TWO, 0), "steps is 0; it must be a whole number, at least 1"),
        (lambda: dualq.train(SPDQ, TWO, 10, record=[11]), "record has the steps 11 to 11; they must lie in 1 to 10"),
        (
            lambda: dualq.train(SPDQ, TWO, 10, sampling="all"),
            "sampling is 'all'; it must be one of trajectory, iid, uniform",
        ),
        (lambda: dualq.train(SPDQ, 7, 10), "cannot train on int"),
        (lambda: dualq.train(dualq.SPDQ, TWO, 10), "is not an algorithm; give one with its choices"),
        (lambda: dualq.train(SPDQ, TWO, 10, every=-1), "every is -1; it must be a whole number, at least 1"),
        (lambda: dualq.train(SPDQ, TWO, 10, seed=1.5), r"seed is 1\.5; it must be a whole number, at least 0"),
        (lambda: dualq.train(SPDQ, TWO, 10, seeds=[3, 3]), "a seed was given twice"),
        (lambda: dualq.train(SPDQ, TWO, 10, record=1000), "record is 1000; it must list the steps"),
        (lambda: dualq.train(SPDQ, TWO, 10, discount=0.5), r"discount is 0\.5, but the model has its own, 0\.9"),
        (
            lambda: dualq.train(SPDQ, TWO, 10, target_gap=1.0),
            "target_gap needs an algorithm with a dual and no limits, and steps",
        ),
        (lambda: dualq.train(dualq.QLearning(), TWO, 10, record=[10], target_gap=1.0), "target_gap needs"),
        (lambda: dualq.train(dualq.SPDRLUniform(), TWO, 10, sampling="iid"), "SPDRLUniform needs a Simulator"),
        (lambda: dualq.train(dualq.SPDRLUniform(), TWO.record(10), 10, discount=0.9), "SPDRLUniform needs"),
        (lambda: dualq.QLearning(step_size=3.0), "the step size is 3 for ever; it must be at most 1"),
        (lambda: dualq.QLearning(start=np.nan), "start has values that are not finite"),
        (lambda: dualq.SPDQ(step_size="a"), "the step size is 'a'; it must be inverse_sqrt"),
        (lambda: dualq.SPDQ(start=np.zeros(3)), "start is array"),
        (
            lambda: dualq.train(dualq.SPDQ(step_size=[1.0, 1.0], zeta=0.08), TWO, 3),
            "given for 2 steps; 3 are to be taken",
        ),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ModelError, match=message):
        make()
