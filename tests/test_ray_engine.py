"""Ray as the engine: the states of all agents against those of the simulation; what is said where it is not there."""

from __future__ import annotations

import sys

import pytest

import dualq

NET = dualq.Network.ring(3, loss=0.2, delay=2, reordering=True, duplication=0.1, away={1: [(3, 12)]})


@pytest.fixture(scope="module")
def logs() -> list[dualq.ArrayLog]:
    return [dualq.problems.two_state().record(steps=200, seed=seed) for seed in range(3)]


@pytest.mark.slow
def test_every_agent_has_the_state_that_it_has_in_the_simulation(logs, monkeypatch):
    ray = pytest.importorskip("ray", reason='Ray is not installed: pip install ".[ray]"')
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=1)
    try:
        for share, reward in (("masked counts", "mean"), ("iterates", "pooled")):
            words = {"share": share, "reward": reward, "discount": 0.9, "seed": 3}
            here, there = (dualq.learn_together(logs, NET, engine=engine, **words) for engine in ("simulation", "ray"))
            assert here.digests == there.digests
            assert len(set(here.digests)) == 3
            assert (here.rounds, here.messages, here.bytes) == (there.rounds, there.messages, there.bytes)
            other = dualq.learn_together(logs, NET, **(words | {"seed": 4}))
            assert here.digests != other.digests
        odd = dualq.ArrayLog([0], [0], [1.0], [0], 2, 2, reward_range=(-9, 9))
        with pytest.raises(dualq.LogError, match=r"^agent 1: its reward range is -9 to 9"):
            dualq.learn_together([logs[0], odd], dualq.Network.ring(2), engine="ray")
        assert ray.is_initialized()  # who started it stops it
    finally:
        ray.shutdown()


def test_without_ray_one_line_says_what_to_install(logs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(dualq.LogError, match=r'engine="ray" needs Ray, .*: pip install "\.\[ray\]"'):
        dualq.learn_together(logs, NET, engine="ray")
    with pytest.raises(dualq.LogError, match=r"engine is 'spark'; it must be one of '?simulation'?, '?ray"):
        dualq.learn_together(logs, NET, engine="spark")
