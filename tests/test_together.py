"""Learning together: sums against exact fractions, answers against the pooled log, drop-outs, forgeries, restarts."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import dualq
from dualq.base import load_arrays, save_arrays
from dualq.offline.together.agents import CountingAgent, Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.exact_sums import common_unit, floats, from_words, to_words, unit_of, whole_numbers
from dualq.offline.together.masks import PRIME, mask, masked, public_word, shared_seed
from dualq.offline.together.pooled import PooledLog
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House

RINGS = {
    "ring": dualq.Network.ring(6, loss=0.3, away={2: [(2, 25)]}),
    "star": dualq.Network.star(6, loss=0.3, away={2: [(2, 25)]}, delay=3, reordering=True, duplication=0.2),
    "grid": dualq.Network.grid(2, 3, loss=0.3, away={0: [(2, 25)]}, seed=1),
    "complete": dualq.Network.complete(6, loss=0.3, away={5: [(1, 25)]}),
    "changing": dualq.Network.changing([[(0, 1), (2, 3)], [(1, 2)], [(3, 4), (4, 5)]], 6, loss=0.3, away={3: [(4, 9)]}),
}


def some_log(rows: int, seed: int, unit: float = 0.25, known: bool = True, states: int = 4) -> dualq.ArrayLog:
    """A log with ends, episodes and two costs; numbers are multiples of a unit."""
    rng = np.random.default_rng(seed)
    s, a, s_next = rng.integers(states, size=rows), rng.integers(3, size=rows), rng.integers(states, size=rows)
    ended = rng.random(rows) < 0.05
    r, wait, harm = (rng.integers(-40, 40, size=rows) * unit for _ in range(3))
    said = {"reward_range": (-40 * unit, 40 * unit), "cost_ranges": {"wait": (-40 * unit, 40 * unit)}} if known else {}
    episode = np.concatenate([[0], np.cumsum(ended)[:-1]]) if rows else np.zeros(0, int)
    return dualq.ArrayLog(
        s, a, r, s_next, states, 3, ended, episode=episode, costs={"wait": wait, "harm": np.abs(harm)}, **said
    )


def pooled(logs: list[dualq.ArrayLog]) -> dualq.ArrayLog:
    """All rows in one log, episodes numbered on."""
    join = [
        np.concatenate([getattr(log, name) for log in logs]) for name in ("state", "action", "reward", "next_state")
    ]
    ended = np.concatenate([log.ended for log in logs])
    offsets = np.cumsum([0, *(int(log.episode.max(initial=-1)) + 1 for log in logs[:-1])])
    episode = np.concatenate([log.episode + k for log, k in zip(logs, offsets, strict=True)])
    costs = {name: np.concatenate([log.costs[name] for log in logs]) for name in logs[0].costs}
    first = logs[0]
    said = {"reward_range": first.reward_range} if first.range_known else {}
    ranges = {name: first.cost_ranges[name] for name in first.cost_ranges_known}
    return dualq.ArrayLog(
        *join, first.states, first.actions, ended, episode=episode, costs=costs, cost_ranges=ranges, **said
    )


def assert_same_counts(found: dualq.logs.Counts, wanted: dualq.logs.Counts) -> None:
    for name in ("s", "a", "s_next", "ended", "n", "reward_sum", "reward_square_sum"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    for cost in wanted.cost_sums:
        assert np.array_equal(found.cost_sums[cost], wanted.cost_sums[cost])
        assert np.array_equal(found.cost_square_sums[cost], wanted.cost_square_sums[cost])
    assert (found.reward_range, found.range_known) == (wanted.reward_range, wanted.range_known)
    assert (found.cost_ranges, found.cost_ranges_known) == (dict(wanted.cost_ranges), wanted.cost_ranges_known)


# ---- sums


@pytest.mark.parametrize("spread", [0, 10, 300])
def test_sums_are_those_of_fractions_rounded_once(spread: int):
    rng = np.random.default_rng(spread)
    tables = [np.ldexp(rng.normal(size=50), rng.integers(-spread, spread + 1, size=50)) for _ in range(7)]
    tables[3][:5] = 0.0
    unit = common_unit(unit_of(table) for table in tables)
    words = [to_words(whole_numbers(table, unit.exponent), unit.limbs) for table in tables]
    for order in (range(7), reversed(range(7))):
        total = np.zeros_like(words[0])
        for i in order:
            total += words[i]
        found = floats(from_words(total), unit.exponent)
        wanted = [float(sum(Fraction(float(x)) for x in column)) for column in zip(*tables, strict=True)]
        assert found.tolist() == wanted


def test_the_largest_sums_fit():
    """A million agents, each with the largest number that the unit was made for."""
    for value in (2.0**31, -(2.0**31), 2.0**62 - 2.0**10, 1.0):
        unit = unit_of(np.array([value]))
        words = to_words(whole_numbers(np.array([value]), unit.exponent), unit.limbs) * np.uint64(10**6)
        assert floats(from_words(words), unit.exponent)[0] == value * 1e6


# ---- masks


def test_the_prime_is_that_of_rfc_3526():
    """2^2048 - 2^1984 - 1 + 2^64 (floor(2^1918 pi) + 124476), pi by Machin's formula."""

    def arctan_inverse(x: int, one: int) -> int:
        term = total = one // x
        for k in range(1, 10_000):
            term = -term // (x * x)
            total += term // (2 * k + 1)
            if abs(term) <= 1:
                break
        return total

    one = 1 << 2100
    pi = 4 * (4 * arctan_inverse(5, one) - arctan_inverse(239, one))
    assert 2**2048 - 2**1984 - 1 + 2**64 * ((pi >> (2100 - 1918)) + 124476) == PRIME


def test_masks_vanish_in_the_sum_and_only_there():
    secrets = [bytes([k]) * 32 for k in range(1, 5)]
    words = [public_word(secret) for secret in secrets]
    seeds = [{j: shared_seed(secrets[i], words[j]) for j in range(4) if j != i} for i in range(4)]
    assert all(seeds[i][j] == seeds[j][i] for i in range(4) for j in range(4) if i != j)
    tables = np.random.default_rng(0).integers(0, 2**63, size=(4, 1000), dtype=np.uint64)
    hidden = [masked(tables[i], i, seeds[i], "x") for i in range(4)]
    assert np.array_equal(np.sum(hidden, axis=0, dtype=np.uint64), tables.sum(axis=0, dtype=np.uint64))
    for left_out in range(4):  # the sum of some of them is not the sum of their tables in any word
        some = [i for i in range(4) if i != left_out]
        partial = np.sum([hidden[i] for i in some], axis=0, dtype=np.uint64)
        assert (partial != tables[some].sum(axis=0, dtype=np.uint64)).all()
    assert (mask(seeds[0][1], "x", 1000) != mask(seeds[0][1], "y", 1000)).all()
    # bits of masks of a table of zeros are fair: 64,000 of them, 5 standard deviations, false alarm below 1e-6
    ones = np.unpackbits(masked(np.zeros(1000, np.uint64), 0, seeds[0], "z").view(np.uint8)).sum()
    assert abs(int(ones) - 32_000) < 5 * 0.5 * 64_000**0.5


def test_a_public_word_that_makes_secrets_known_is_refused():
    for word in (0, 1, PRIME - 1, PRIME):
        with pytest.raises(ValueError, match="public word"):
            shared_seed(b"\x05" * 32, word.to_bytes(257, "big"))


# ---- equal to the pooled log


@pytest.mark.parametrize("share", ["counts", "masked counts"])
@pytest.mark.parametrize("graph", RINGS)
def test_all_agents_have_the_counts_of_the_pooled_log(graph: str, share: str):
    logs = [some_log(200 + 50 * k, seed=k) for k in range(5)]
    together = dualq.learn_together(
        [*logs, None], RINGS[graph], share=share, discount=0.9, certificate=None, start="log"
    )
    wanted = dualq.learn(pooled(logs), discount=0.9, certificate=None, start="log")
    assert len(together.fits) == 6
    for fit in together.fits:
        assert fit is not None
        assert_same_counts(fit.counts, wanted.counts)
        assert np.array_equal(fit.solution.Q, wanted.solution.Q)
        assert np.array_equal(fit.policy.matrix, wanted.policy.matrix)
    assert together.disagreement == 0.0
    assert together.left_out == ()


def test_the_certificate_is_that_of_the_pooled_log_without_order(tmp_path):
    logs = [some_log(300, seed=k) for k in range(4)]
    table = pooled(logs).table().drop_columns(["time", "episode"])
    alone = dualq.read_log(table, state="state", action="action", reward="reward", next_state="next_state",
                           terminal="ended", costs=["wait", "harm"])  # fmt: skip
    wanted = dualq.learn(alone, discount=0.9, limits={"harm": 6.0})
    found = dualq.learn_together(logs, dualq.Network.ring(4), discount=0.9, limits={"harm": 6.0}, start="log").fits[1]
    assert found is not None
    assert found.certificate is not None
    assert wanted.certificate is not None
    assert (found.certificate.lower, found.certificate.upper) == (wanted.certificate.lower, wanted.certificate.upper)
    assert found.expected == wanted.expected
    assert found.limits[0].estimate == wanted.limits[0].estimate
    found.save(tmp_path / "run")
    assert np.array_equal(dualq.load(tmp_path / "run").policy.matrix, found.policy.matrix)


def test_first_states_of_episodes_add_up():
    logs = [some_log(200, seed=k) for k in range(3)]
    found = dualq.learn_together(logs, dualq.Network.ring(3), discount=0.9, certificate=None).fits[0]
    wanted = dualq.learn(pooled(logs), discount=0.9, certificate=None)
    assert found is not None
    assert found.settings["start"] == "episodes"
    assert np.array_equal(found.start, wanted.start)


def test_rewards_that_no_float_holds_exactly():
    """Of such sums every engine has its own last digit: ours is the nearest to the sum of what the houses counted."""
    logs = [some_log(300, seed=k, unit=0.1, known=False) for k in range(4)]
    found = dualq.learn_together(logs, dualq.Network.star(4, loss=0.3), discount=0.9, certificate=None).fits[2]
    merged = pooled(logs).counts()
    tables = [House.of(log) for log in logs]
    exact = {}
    for house in tables:
        for key, r in zip(house.keys.tolist(), house.sums(())[0].tolist(), strict=True):
            exact[key] = exact.get(key, Fraction(0)) + Fraction(r)
    assert found is not None
    assert found.counts.reward_sum.tolist() == [float(exact[key]) for key in sorted(exact)]
    assert found.counts.reward_range == merged.reward_range
    assert not found.counts.range_known
    np.testing.assert_allclose(found.counts.reward_sum, merged.reward_sum, rtol=1e-13, atol=1e-12)
    alone = PooledLog(found.counts, logs[0].columns, pooled(logs).starts())
    assert np.array_equal(found.solution.Q, dualq.learn(alone, discount=0.9, certificate=None).solution.Q)


def test_a_pattern_that_must_be_agreed_on(monkeypatch):
    monkeypatch.setattr("dualq.offline.together.agents.MOST_DENSE", 10)
    monkeypatch.setattr("dualq.offline.together.reveal.MOST_DENSE", 10)
    logs = [some_log(40, seed=k) for k in range(3)]
    together = dualq.learn_together(logs, dualq.Network.ring(3), reward="mean", discount=0.9)
    wide = naive_mean(logs)
    assert together.fits[0] is not None
    np.testing.assert_allclose(together.fits[0].counts.mdp(0.9).rewards[:4], wide, atol=1e-12)
    assert "which" in together.revealed[0]


# ---- two rewards


def naive_mean(logs: list[dualq.ArrayLog]) -> np.ndarray:
    """(S, A) the average over the houses that have a pair of the mean reward of their rows, one row after another."""
    means: dict[tuple[int, int], list[float]] = {}
    for log in logs:
        rows: dict[tuple[int, int], list[float]] = {}
        for s, a, r in zip(log.state.tolist(), log.action.tolist(), log.reward.tolist(), strict=True):
            rows.setdefault((s, a), []).append(r)
        for pair, values in rows.items():
            means.setdefault(pair, []).append(sum(values) / len(values))
    table = np.zeros((len(logs[0].states), len(logs[0].actions)))
    for pair, values in means.items():
        table[pair] = sum(values) / len(values)
    return table


@pytest.mark.parametrize("share", ["counts", "masked counts"])
def test_the_mean_of_agents_rewards_is_not_the_pooled_reward(share: str):
    logs = [some_log(rows, seed=k) for k, rows in enumerate((30, 300, 3000))]
    fits = {
        reward: dualq.learn_together(
            logs, dualq.Network.ring(3, loss=0.2), share=share, reward=reward, discount=0.9, certificate=None
        ).fits
        for reward in ("pooled", "mean")
    }
    mean, pool = (fits[reward][0].counts.mdp(0.9).rewards[:4] for reward in ("mean", "pooled"))
    np.testing.assert_allclose(mean, naive_mean(logs), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(pool, pooled(logs).counts().mdp(0.9).rewards[:4])
    assert np.abs(mean - pool).max() > 0.5
    assert len({fit.counts.reward_sum.tobytes() for fit in fits["mean"]}) == 1  # every agent has the same bits
    with pytest.raises(dualq.LogError, match="count alike"):
        dualq.learn_together(logs, dualq.Network.ring(3), reward="mean", certificate="proven")


# ---- drop-outs


@pytest.mark.parametrize("share", ["counts", "masked counts"])
def test_a_round_is_repeated_without_an_agent_that_was_lost(share: str):
    logs = [some_log(100, seed=k) for k in range(5)]
    net = dualq.Network.complete(5, loss=0.1, away={3: [(1, None)]})
    together = dualq.learn_together(logs, net, share=share, discount=0.9, patience=20, certificate=None)
    assert together.left_out == (3,)
    assert together.fits[3] is None
    rest = pooled([logs[k] for k in (0, 1, 2, 4)])
    for k in (0, 1, 2, 4):
        assert_same_counts(together.fits[k].counts, rest.counts())


def test_an_agent_that_leaves_after_its_table_was_heard_is_not_left_out():
    logs = [some_log(100, seed=k) for k in range(4)]
    net = dualq.Network.complete(4, away={3: [(2, None)]})
    together = dualq.learn_together(logs, net, discount=0.9, patience=20, certificate=None)
    assert together.left_out == ()
    assert together.fits[3] is None
    assert_same_counts(together.fits[0].counts, pooled(logs).counts())


def test_an_agent_that_comes_back_too_late_has_the_answer_of_the_others():
    logs = [some_log(100, seed=k) for k in range(4)]
    net = dualq.Network.complete(4, away={1: [(1, 60)]})
    together = dualq.learn_together(logs, net, discount=0.9, patience=20, certificate=None)
    assert together.left_out == (1,)
    rest = pooled([logs[k] for k in (0, 2, 3)])
    for fit in together.fits:
        assert_same_counts(fit.counts, rest.counts())


# ---- messages and states


def agents_of(logs: list[dualq.ArrayLog], share: str = "masked counts") -> list[CountingAgent]:
    task = Task(len(logs), 0.9, share)
    return [CountingAgent(k, House.of(log), common_of(log), task, bytes([k + 1]) * 32) for k, log in enumerate(logs)]


def test_forged_and_truncated_messages_are_refused_and_counted():
    logs = [some_log(100, seed=k) for k in range(3)]
    agents = agents_of(logs)
    (_, good), (_, other) = agents[0].give(0, (1, 2))
    bad = [good[:-1], good[:10], b"", good[:40] + b"\x00" + good[41:], good + b"x", other]
    bad.append(dataclasses.replace(agents[0].task, run=b"another!").run + good)
    before = {name: array.copy() for name, array in agents[1].state().items() if name != "numbers"}
    for data in bad:
        agents[1].take(data)
    assert agents[1].sent.refused == len(bad)
    after = agents[1].state()
    assert all(np.array_equal(array, after[name]) for name, array in before.items())
    agents[1].take(good)
    assert agents[1].sent.refused == len(bad)
    assert agents[1].flood.heard[0] == 0


def test_with_a_key_nobody_else_can_make_a_message():
    logs = [some_log(50, seed=k) for k in range(2)]
    agents = agents_of(logs)
    known = dataclasses.replace(agents[1].task, key=b"only the houses know")
    agents[1].task = known
    [(_, data)] = agents[0].give(0, (1,))
    agents[1].take(data)
    assert agents[1].sent.refused == 1
    agents[0].task = known
    [(_, data)] = agents[0].give(1, (1,))
    agents[1].take(data)
    assert agents[1].sent.refused == 1


@pytest.mark.parametrize("share", ["counts", "masked counts"])
def test_agents_that_are_saved_and_resumed_go_on_bit_for_bit(share: str, tmp_path):
    logs = [some_log(100, seed=k) for k in range(4)]
    net = dualq.Network.ring(4, loss=0.3, delay=1)
    plain, killed = (Simulation(net, agents_of(logs, share)) for _ in range(2))
    for round_ in range(30):
        plain.step()
        killed.step()
        victim = round_ % 4
        save_arrays(tmp_path / "agent.npz", killed.agents[victim].state())
        fresh = agents_of(logs, share)[victim]
        fresh.restore(load_arrays(tmp_path / "agent.npz"))
        killed.agents[victim] = fresh
    for one, other in zip(plain.agents, killed.agents, strict=True):
        assert one.finished
        assert other.finished
        a, b = one.state(), other.state()
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("share", ["counts", "masked counts"])
def test_an_agent_that_lost_its_state_gets_the_same_sums(share: str):
    """It must not send its table twice, with two masks: the others have it already, and give it back."""
    logs = [some_log(100, seed=k) for k in range(4)]
    agents = agents_of(logs, share)
    simulation = Simulation(dualq.Network.ring(4, loss=0.2, delay=2), agents)
    while not any(agent.finished for agent in agents):
        simulation.step()
    first = agents[2]
    fresh = CountingAgent(2, first.house, first.reading, first.task, bytes([99]) * 32, life=1)
    simulation.agents[2] = agents[2] = fresh
    assert simulation.run(200)
    for agent in agents:
        assert_same_counts(agent.counts(), pooled(logs).counts())


def test_an_agent_that_lost_its_secret_too_early_says_so():
    logs = [some_log(100, seed=k) for k in range(4)]
    agents = agents_of(logs)
    simulation = Simulation(dualq.Network.ring(4), agents)
    simulation.step()  # all have said hello to their neighbours
    first = agents[2]
    simulation.agents[2] = CountingAgent(2, first.house, first.reading, first.task, bytes([99]) * 32, life=1)
    with pytest.raises(dualq.LogError, match=r"agent 2 began anew .* secret is lost; begin again with all agents"):
        simulation.run(60)


# ---- what is refused


def test_logs_that_do_not_fit_are_named_with_their_agent():
    logs = [some_log(100, seed=k) for k in range(3)]
    net = dualq.Network.ring(3)
    with pytest.raises(dualq.LogError, match=r"agent 1: its reward range is not given; that of agent 0 is -10 to 10"):
        dualq.learn_together([logs[0], some_log(100, 1, known=False), logs[2]], net)
    other = dualq.ArrayLog([0], [0], [1.0], [0], 4, 3, reward_range=(-10, 10))
    with pytest.raises(dualq.LogError, match=r"agent 1: its costs are none; those of agent 0 are wait, harm"):
        dualq.learn_together([logs[0], other, logs[2]], net)
    with pytest.raises(dualq.LogError, match=r"agent 2's discount is 0\.9 and agent 0's 0\.95"):
        dualq.learn_together(logs, net, discount=[0.95, 0.95, 0.9])
    with pytest.raises(dualq.LogError, match="2 logs for 3 agents"):
        dualq.learn_together(logs[:2], net)
    with pytest.raises(dualq.LogError, match="no agent has a row"):
        dualq.learn_together([None] * 3, net)
    with pytest.raises(dualq.LogError, match="agent 1: "):
        dualq.learn_together([logs[0], "nowhere.csv", logs[2]], net)
    for word in ("share", "reward", "engine"):
        with pytest.raises(dualq.LogError, match=f"{word} is 'all'"):
            dualq.learn_together(logs, net, **{word: "all"})


def test_agents_themselves_see_that_logs_do_not_fit():
    """Without anybody who sees all logs: each agent compares what the others say of theirs."""
    logs = [some_log(100, seed=k) for k in range(3)]
    agents = agents_of(logs)
    odd = agents_of([*logs[:2], some_log(100, 9, states=4)])[2]
    odd.task = dataclasses.replace(odd.task, discount=0.95)
    with pytest.raises(dualq.LogError, match=r"agent 2: its discount is 0.95; the others have 0.9"):
        Simulation(dualq.Network.ring(3), [*agents[:2], odd]).run(20)


def test_what_was_revealed_is_told():
    logs = [some_log(100, seed=k, known=False) for k in range(2)]
    open_, hidden = (
        dualq.learn_together(logs, dualq.Network.ring(2), share=share, certificate=None)
        for share in ("counts", "masked counts")
    )
    assert "whole table" in open_.revealed[0]
    assert "the other can subtract" in hidden.revealed[1]
    assert "least and greatest reward" in hidden.revealed[1]
    assert hidden.bytes > hidden.numbers_sent
    assert hidden.messages == 2 * hidden.rounds
