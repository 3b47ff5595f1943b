"""`dualq agent`: one house of a network, with files for messages."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.reading import Opening, as_option, reads_a_log
from dualq.app.cli.shared import Json, console, option, print_files, print_json, working

if TYPE_CHECKING:
    from dualq.offline import Fit, IterateFit


@partial(reads_a_log, log=as_option("The log of this house: a file, folder, glob or database; `none`: it has no rows."))
def agent(
    given: Opening,
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
    out: Annotated[Path | None, option("DIR", "Write policy.csv, and what else was learned, to this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Learn together with other houses, the owners of other logs: run this in each, with one folder for messages.

    No row leaves its house; docs/networks.md says what does. You can stop it at any time: started again, it goes on
    from there. It ends when all agents have their answer.
    """
    with working("Reading the log"):
        from dualq.offline import Fit, Plan, run_agent

        plan, house = Plan.read(network, key), given()
        log = None if house.source == "none" else plan.opened(house.source, **house.told)
    kept = Path(f"agent-{id_}.state.npz") if keep is None else keep
    fit = run_agent(id_, plan, log, mail, kept, every=every, again=again, said=_tell if sys.stderr.isatty() else None)
    files = [] if out is None else fit.save(out)
    if as_json:
        said = {"agent": id_, "agents": plan.network.size, "share": plan.task.share, "reward": plan.task.reward}
        print_json({**said, "expected": _expected(fit), "files": files})
        return
    page = console()
    words = "the policy of all logs is expected to earn" if isinstance(fit, Fit) else "the policy of all logs earns"
    page.print(f"Agent {id_} of {plan.network.size}: {words} {_expected(fit):.4g}.")
    print_files(page, files, "--out DIR keeps the policy.")


def _expected(fit: Fit | IterateFit) -> float:
    from dualq.offline import IterateFit

    return fit.expected if isinstance(fit, IterateFit) else fit.expected.value


def _tell(words: str) -> None:
    print(f"dualq: {words}", file=sys.stderr)
