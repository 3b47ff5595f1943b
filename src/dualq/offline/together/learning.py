"""learn_together: many logs, none of which leaves its owner; every agent ends with what one pooled log would teach.

    share = "counts"          every agent's table goes to all; they add up to the table of the pooled log, exactly
    share = "masked counts"   the same, and no single table can be read: masks vanish in the sum (masks.py)
    share = "iterates"        no table leaves its owner, only Q-like numbers, round after round (tracking.py)

With the same sums every agent comes to the same `Fit`, bit for bit. It is the Fit of the pooled rows as a log without
order: tables say nothing of which row came first, so what needs that (drift, memory, a certificate in blocks, what
episodes earned) is not there. Sums of rewards are exact sums of what the houses counted, rounded once (exact_sums.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from dualq.base import DualqError, LogError, door, few
from dualq.logs import Log, Start
from dualq.model import checked_discount
from dualq.offline.fit import Fit
from dualq.offline.learning import learn
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.stages import read
from dualq.offline.together.agents import CountingAgent, Sent, Task, state_digest
from dualq.offline.together.agreement import checked_discount_of_all, common_of
from dualq.offline.together.iterated import IterateFit, iterate_fit
from dualq.offline.together.network import Network
from dualq.offline.together.pooled import PooledLog
from dualq.offline.together.ray_engine import RaySimulation, ray_running
from dualq.offline.together.reveal import revealed_by
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import TrackingAgent

Array = np.ndarray

SHARES = ("masked counts", "counts", "iterates")
REWARDS = ("pooled", "mean")
MOST_ROUNDS = 10_000


class Wishes(TypedDict, total=False):
    """What `learn` may be told beside the discount."""

    confidence: float
    start: Start
    pessimism: float | None
    certificate: str | None
    solver: str
    limits: LimitsGiven | None
    margin: str
    value_range: tuple[float, float] | None
    assume: str | Iterable[str]


@dataclass(frozen=True, eq=False)
class Together:
    """What a network of agents has learned, and what it took.

    Attributes
    ----------
    fits : list of Fit, or of IterateFit where iterates were shared
        One per agent, in order; None for an agent that left and never came back.
    rounds, messages, numbers_sent, bytes : int
        Rounds until every agent knew that all had finished, and what was sent in them.
    disagreement : float
        The largest difference between two agents' answers.
    revealed : list of str
        What each agent has let others know, in words.
    left_out : tuple of int
        Agents whose logs are not in the answer: they were lost before anybody had their table.
    refused : int
        Messages that were cut off, changed or forged, and were not read.
    digests : tuple of str
        A SHA-256 of every agent's state in the end: the same with every engine.
    """

    fits: list[Fit | None] | list[IterateFit | None] = field(repr=False)
    rounds: int
    messages: int
    numbers_sent: int
    bytes: int
    disagreement: float
    revealed: list[str] = field(repr=False)
    left_out: tuple[int, ...] = ()
    refused: int = 0
    share: str = "masked counts"
    reward: str = "pooled"
    digests: tuple[str, ...] = field(default=(), repr=False)


@door
def learn_together(
    logs: Sequence[object],
    network: Network,
    *,
    share: str = "masked counts",
    reward: str = "pooled",
    discount: float | Sequence[float] = 0.95,
    seed: int = 0,
    engine: str = "simulation",
    patience: int = 200,
    most_rounds: int = MOST_ROUNDS,
    **more: Any,
) -> Together:
    """Learn one policy from many logs, none of which leaves its owner.

    logs        one per agent: a Log, anything that `read_log` reads, or None for an agent without rows
    network     who can send to whom, and what becomes of messages
    share       "masked counts": only the sum of the tables can be read; "counts": every agent sees every table;
                "iterates": no table is sent, only iterates, and a fit has no certificate. They are not private:
                whoever hears enough of an agent's iterates can rebuild its table. Where agents do not come to agree,
                they see it, and it is an error
    reward      "pooled": every row counts alike; "mean": every agent that has a pair counts alike (then no
                certificate is given: its proof needs rows that count alike)
    discount    what a reward one step later is worth; all agents need the same
    seed        of the agents' secrets and, with the network's, of what happens to messages
    engine      "simulation": all agents in this process; "ray": one process each, by Ray (`pip install ".[ray]"`),
                with the same bits in every agent's state
    patience    rounds of silence after which an agent counts as lost
    most_rounds after which it is an error that some agent has no answer
    more        what else `learn` takes (limits=..., confidence=..., start=..., ...); anything else is for `read_log`,
                where logs are not opened yet (state=..., action=..., ...). A reward column that is not called reward:
                open the logs with `read_log` first

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> logs = [two.record(steps=1000, seed=seed) for seed in range(5)]
    >>> together = dualq.learn_together(logs, dualq.Network.ring(5, loss=0.1), discount=0.9)
    >>> together.fits[0].policy.act(0), together.disagreement
    (0, 0.0)
    """
    task = _task(logs, network, share, reward, discount, seed, engine, patience)
    wishes = Wishes(**{word: more.pop(word) for word in Wishes.__annotations__ if word in more})
    opened = _opened(logs, task.discount, more)
    secrets = [hashlib.sha256(f"{seed} {a}".encode()).digest() for a in range(network.size)]
    made = TrackingAgent if share == "iterates" else CountingAgent
    agents = [made(a, House.of(log), common_of(log), task, secrets[a]) for a, log in enumerate(opened)]
    ended, rounds = ENGINES[engine](network, agents, seed, most_rounds)
    if not ended:
        raise DualqError(_unfinished(agents, most_rounds))
    fits = _iterate_fits(agents, wishes) if share == "iterates" else _fits(agents, wishes)
    return _told(rounds, agents, fits, task)


def _iterate_fits(agents: Sequence[CountingAgent], wishes: Wishes) -> list[IterateFit | None]:
    for word in set(wishes) - {"start", "certificate"} | ({"certificate"} if wishes.get("certificate") else set()):
        raise LogError(f"{word} needs a table; agents that share iterates have none", argument=word)
    tracking = [agent for agent in agents if isinstance(agent, TrackingAgent)]
    return [iterate_fit(agent, wishes.get("start")) if agent.finished else None for agent in tracking]


def _fits(agents: Sequence[CountingAgent], wishes: Wishes) -> list[Fit | None]:
    """Every agent learns from its sum; from the same sum comes the same fit, so it is made once."""
    made: dict[bytes, Fit] = {}
    fits: list[Fit | None] = []
    for agent in agents:
        if agent.total is None or agent.columns is None:
            fits.append(None)
            continue
        sums = agent.total.n, *agent.columns, agent.total.keys, agent.total.starts
        same = hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in sums)).digest()
        if same not in made:
            made[same] = fit_of(agent, wishes)
        fits.append(made[same])
    return fits


def fit_of(agent: CountingAgent, wishes: Wishes) -> Fit:
    """What one agent learns from the sum of all tables."""
    assert agent.total is not None
    common, task = agent.common, agent.task
    if task.reward == "mean":
        if wishes.get("certificate") is not None:
            raise LogError(
                'a certificate needs rows that count alike; with reward="mean" they do not', argument="reward"
            )
        wishes = Wishes({**wishes, "certificate": None})
    dropped, skipped = agent.total.left_out.tolist()
    log = PooledLog(
        agent.counts(),
        common.columns,
        agent.total.starts if common.episodes else None,
        (dropped, skipped),
        f"the logs of {len(agent.members.nonzero()[0])} agents, {'averaged' if task.reward == 'mean' else 'pooled'}",
        common.bins,
        common.available,
    )
    fit = learn(log, discount=task.discount, **wishes)
    assert isinstance(fit, Fit)
    return fit


def _simulated(network: Network, agents: Sequence[CountingAgent], seed: int, most: int) -> tuple[bool, int]:
    """Run in this process: whether all have ended, and the rounds that it took."""
    simulation = Simulation(network, agents, seed)
    return simulation.run(most), simulation.round


def _in_actors(network: Network, agents: Sequence[CountingAgent], seed: int, most: int) -> tuple[bool, int]:
    """Run every agent in a process of its own, and bring its state back."""
    with ray_running() as ray:
        simulation = RaySimulation(network, agents, seed, ray)
        ended = simulation.run(most)
        for agent, state in zip(agents, simulation.states(), strict=True):
            agent.restore(state)
    return ended, simulation.round


ENGINES = {"simulation": _simulated, "ray": _in_actors}


def _told(
    rounds: int,
    agents: Sequence[CountingAgent],
    fits: list[Fit | None] | list[IterateFit | None],
    task: Task,
) -> Together:
    total = [sum(getattr(agent.sent, what) for agent in agents) for what in Sent.__dataclass_fields__]
    messages, numbers, sent_bytes, refused = total
    judge = next(agent for agent, fit in zip(agents, fits, strict=True) if fit is not None)
    return Together(
        fits,
        rounds,
        messages,
        numbers,
        sent_bytes,
        _disagreement(agents, fits),
        [revealed_by(agent.id, agent.house, judge.common, task) for agent in agents],
        tuple(np.flatnonzero(~judge.members).tolist()),
        refused,
        task.share,
        task.reward,
        tuple(state_digest(agent.state()) for agent in agents),
    )


def _disagreement(agents: Sequence[CountingAgent], fits: Sequence[Fit | IterateFit | None]) -> float:
    """Between two agents' Q; of iterates, what they themselves have seen before they took the middle."""
    seen = [agent.found().disagreement for agent in agents if isinstance(agent, TrackingAgent) and agent.finished]
    tables = [fit.Q if isinstance(fit, IterateFit) else fit.solution.Q for fit in fits if fit is not None]
    known = [np.nan_to_num(Q) for Q in tables if Q is not None]
    return max([*seen, *(float(np.abs(Q - known[0]).max()) for Q in known)], default=0.0)


def _unfinished(agents: Sequence[CountingAgent], rounds: int) -> str:
    late = [agent.id for agent in agents if not agent.finished]
    tracking = [agent for agent in agents if isinstance(agent, TrackingAgent) and agent.visits is not None]
    if late and tracking:
        worst, residual = (max(getattr(a, what) for a in tracking) for what in ("disagreement", "residual"))
        seen = f"they last saw a disagreement of {worst:.2g} and a residual of {residual:.2g}"
        return f"after {rounds:,} rounds the agents have no answer: {seen}; masked counts need no such luck"
    who = f"agents {few(late, 8)} lack tables" if late else "some agents do not know that all have finished"
    return f"after {rounds:,} rounds {who}; more rounds, less loss, or a shorter patience may help"


# ---- checks at the border


def _task(
    logs: Sequence[object],
    network: Network,
    share: str,
    reward: str,
    discount: float | Sequence[float],
    seed: int,
    engine: str,
    patience: int,
) -> Task:
    if seed < 0:
        raise LogError(f"seed is {seed}; it must be a whole number, at least 0", argument="seed", value=seed)
    for name, word, known in (("share", share, SHARES), ("reward", reward, REWARDS), ("engine", engine, ENGINES)):
        if word not in known:
            column = "; a column of that name: read the logs first, read_log(log, reward=...)"
            hint = column if name == "reward" else ""
            raise LogError(f"{name} is {word!r}; it must be one of {few(known)}{hint}", argument=name, value=word)
    if len(logs) != network.size:
        raise LogError(f"there are {len(logs)} logs for {network.size} agents; give one each", argument="logs")
    alpha = checked_discount(checked_discount_of_all(discount, network.size))
    run = hashlib.sha256(f"{seed} {network!r} {share} {reward}".encode()).digest()[:8]
    return Task(network.size, alpha, share, reward, run, patience)


def _opened(logs: Sequence[object], discount: float, columns: dict[str, Any]) -> list[Log | None]:
    opened: list[Log | None] = []
    for agent, log in enumerate(logs):
        try:
            opened.append(None if log is None else without_numbers(read(log, discount, "auto", **columns).log))
        except LogError as error:
            raise LogError(f"agent {agent}: {error}", **error.parts) from None
    return opened


def without_numbers(log: Log | None) -> Log | None:
    """The log, if its states are labels; numbers that hardly come again are no labels that houses could share."""
    if log is not None and log.numbers:
        column = log.numbers[0]
        how = f"cut it at the same edges in every house, such as bins={{{column!r}: [1, 2, 5]}}"
        raise LogError(f"its state {column!r} is a number that hardly comes again; {how}", column=column)
    return log
