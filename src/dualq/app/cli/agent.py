"""`dualq agent`: one house of a network, with files for messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dualq.app.cli.columns import bins_of, listed, or_none, ranges_of, reading
from dualq.app.cli.shared import Json, console, option, print_files, print_json, working
from dualq.base import LogError


def agent(
    log: Annotated[str, option("LOG", "The log of this house.")],
    id_: Annotated[int, typer.Option("--id", metavar="N", help="Which agent this is: 0, 1, ...", show_default=False)],
    network: Annotated[
        Path,
        option("FILE", 'What the houses agreed on: {"run": "winter", "edges": [[0, 1], [1, 2]], "discount": 0.95}.'),
    ],
    mail: Annotated[Path, option("DIR", "The folder that all houses share, by whatever means.")],
    keep: Annotated[
        Path | None, option("FILE", "Where this agent keeps its state and its secret: in this house alone.")
    ] = None,
    key: Annotated[Path | None, option("FILE", "A file of bytes that only the houses know, against forgeries.")] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Time between rounds.")] = 0.5,
    again: Annotated[
        bool, typer.Option("--again", help="The state was lost: begin anew, and tell the others.")
    ] = False,
    state: Annotated[str | None, reading("state")] = None,
    action: Annotated[str | None, reading("action")] = None,
    reward: Annotated[str | None, reading("reward")] = None,
    next_state: Annotated[str | None, reading("next_state")] = None,
    episode: Annotated[str | None, reading("episode")] = None,
    time: Annotated[str | None, reading("time")] = None,
    terminal: Annotated[str | None, reading("terminal")] = None,
    truncated: Annotated[str | None, reading("truncated")] = None,
    cost: Annotated[list[str] | None, reading("costs")] = None,
    bins: Annotated[list[str] | None, reading("bins")] = None,
    reward_range: Annotated[str | None, reading("reward_range")] = None,
    cost_range: Annotated[list[str] | None, reading("cost_ranges")] = None,
    out: Annotated[Path | None, option("DIR", "Write policy.csv, and what else was learned, to this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Learn with other houses: run this in each of them, with one shared folder for messages.

    No row leaves its house; docs/networks.md says what does. Stop it and start it again at any time: it goes on where
    it stood. It ends when all agents have their answer.
    """
    with working("Reading the log"):
        from dualq.logs import read_log
        from dualq.model import write_policy
        from dualq.offline import Fit, Plan, run_agent

        told: dict[str, Any] = {
            "state": listed(state),
            "action": listed(action),
            "reward": reward,
            "next_state": or_none(listed(next_state)),
            "episode": or_none(listed(episode)),
            "time": or_none(time),
            "terminal": or_none(terminal),
            "truncated": or_none(truncated),
            "costs": cost or (),
            "bins": bins_of(bins or []),
            "reward_range": None if reward_range is None else _ends(reward_range),
            "cost_ranges": ranges_of(cost_range or []),
        }
        opened = read_log(log, **told)
        plan = Plan.read(network, key.read_bytes()[:64] if key is not None else b"")
    kept = Path(f"agent-{id_}.state.npz") if keep is None else keep
    fit = run_agent(
        id_, plan, opened, mail, kept, every=every, again=again, said=_tell if sys.stderr.isatty() else None
    )
    files = []
    if out is not None:
        if isinstance(fit, Fit):
            files = fit.save(out)
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_policy(out / "policy.csv", fit.policy)
            files = [str(out / "policy.csv")]
    expected = fit.expected.value if isinstance(fit, Fit) else fit.expected
    if as_json:
        said_of = {"agent": id_, "agents": plan.network.size, "share": plan.task.share}
        print_json({**said_of, "expected": expected, "files": files})
    else:
        page = console()
        page.print(f"Agent {id_} of {plan.network.size}: the policy of all logs is expected to earn {expected:.4g}.")
        print_files(page, files, "--out DIR keeps the policy.")


def _tell(words: str) -> None:
    print(f"dualq: {words}", file=sys.stderr)


def _ends(words: str) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in words.split(","))
    except ValueError:
        raise LogError(f"--reward-range {words}: cannot be understood; write LO,HI, such as 0,1") from None
    return low, high
