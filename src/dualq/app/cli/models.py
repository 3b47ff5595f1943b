"""`dualq solve`, `dualq simulate` and `dualq example`: problems whose model is known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.shared import Json, Out, console, print_files, print_json, working
from dualq.app.report.terminal import names_and_values, plain_table
from dualq.base import LogError, ModelError, count

if TYPE_CHECKING:
    from dualq.app.cli.shapes import SimulateFacts, SolveFacts
    from dualq.base import Label
    from dualq.logs import ArrayLog
    from dualq.model import MDP, Solution
    from dualq.worlds import Simulator

FIRST_STATES = 10  # shown of a policy; the rest is in policy.csv
KEEPS = "to keep the policy and the whole solution, add --out DIR."


def solve(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model: an .npz or a .csv file.", show_default=False)
    ],
    discount: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How much a reward counts if it comes one step later: at least 0, below 1. A .csv needs it; "
            "for an .npz it replaces the one in the file.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="dynamic (the default), mpi, krylov, lp or pdhg.", show_default=False),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Solve a known model exactly: the best policy, its value, and a proven bound on the error.

    A .csv has a row per possible transition, with the columns state, action, next_state, probability and reward.
    An .npz has the arrays P (S, A, S), rewards (S, A) and discount, or their sparse parts.
    """
    with working("Reading the model"):
        from dualq.model import read_model

        began = time.perf_counter()
        mdp = read_model(model, discount)
        read = time.perf_counter() - began
    solution, seconds = _solved(mdp, method)
    files = _written(solution, out)

    facts: SolveFacts = {
        "model": str(model),
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "discount": mdp.discount,
        "method": solution.method,
        "iterations": solution.iterations,
        "error_bound": solution.error_bound,
        "mean_value": float(solution.V.mean()),
        "weighted_value": float(solution.weights @ solution.V),
        "weight": float(solution.weights[0]),
        "seconds": {"read": round(read, 6), "solve": round(seconds, 6)},
        "files": files,
        "first_states": _rows(solution, FIRST_STATES),
    }
    if as_json:
        print_json(facts)
    else:
        _print_solved(facts, mdp)


def _print_solved(facts: SolveFacts, mdp: MDP) -> None:
    from rich.markup import escape

    page = console()
    page.print(f"{facts['model']}, solved exactly\n", style="bold", markup=False, soft_wrap=True)
    pairs = int(mdp.available.sum())
    some = "" if pairs == mdp.available.size else f" ({pairs:,} pairs of state and action exist)"
    names = names_and_values()
    names.add_row("states", f"{facts['states']:,}")
    names.add_row("actions", f"{facts['actions']:,}{some}")
    names.add_row("discount", f"{facts['discount']:g}")
    names.add_row("method", f"{facts['method']}, {count(facts['iterations'], 'iteration')}")
    names.add_row("seconds", f"{facts['seconds']['read']:.2g} to read, {facts['seconds']['solve']:.2g} to solve")
    names.add_row("proven error", _proven(facts["error_bound"]))
    names.add_row("mean value", f"{facts['mean_value']:.8g} (every state equally likely at the start)")
    weight = f"{facts['weight']:.6g} in every state"
    names.add_row("weighted value", f"{facts['weighted_value']:.8g} (each value times its weight, {weight}, added up)")
    page.print(names)

    shown = facts["first_states"]
    more = f" (first {len(shown)} of {facts['states']:,} states)" if facts["states"] > len(shown) else ""
    page.print(f"\nThe best policy{more}\n", style="bold")
    rows = plain_table()
    for name in shown[0]:
        rows.add_column(name, justify="left" if any(isinstance(row[name], str) for row in shown) else "right")
    for row in shown:
        rows.add_row(*(escape(f"{v:.6g}" if isinstance(v, float) else str(v)) for v in row.values()))
    page.print(rows)
    print_files(page, facts["files"], KEEPS)


def _solved(mdp: MDP, method: str | None = None) -> tuple[Solution, float]:
    """The exact solution with its policy, and the seconds it took."""
    with working("Solving (the first run also compiles)"):
        from dualq.solvers import solve as solve_exactly

        began = time.perf_counter()
        solution = solve_exactly(mdp, method=method)
        _ = solution.primal_policy
        return solution, time.perf_counter() - began


def _written(solution: Solution, out: Path | None) -> list[str]:
    """Write the solution and its policy into a folder; the names of the files."""
    if out is None:
        return []
    from dualq.model import write_policy

    with working("Writing the solution"):
        solution.save(out / "solution.npz")
        write_policy(out / "policy.csv", solution.primal_policy)
    return [str(out / "solution.npz"), str(out / "policy.csv")]


def _rows(solution: Solution, count: int) -> list[dict[str, Label]]:
    """The first rows of the policy: the columns of the state and the action, and the value."""
    mdp, chosen = solution.mdp, solution.primal_policy.matrix.argmax(axis=1)
    return [
        {**mdp.states.named(s), **mdp.actions.named(chosen[s]), "value": float(solution.V[s])}
        for s in range(min(mdp.num_states, count))
    ]


def _proven(error_bound: float | None) -> str:
    if error_bound is None:
        return "none by this method"
    return f"{error_bound:.1e} (no value is further off than this)"


def example(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The file to write; its name must end in .parquet.", show_default=False)
    ],
) -> None:
    """Write the log that ships with dualq, to try the other commands with: two simulated years of a chain of shops.

    The columns are shop, day, season, stock, order, profit and stockout.
    """
    _check_parquet(out)
    from dualq.base import write_whole
    from dualq.worlds import sample_log

    write_whole(out, sample_log.path().read_bytes())
    console().print(f"Written: {out}\nNext: dualq look {out}", markup=False, soft_wrap=True)


def _check_parquet(out: Path) -> None:
    if out.suffix != ".parquet":
        raise LogError(f"{out}: a log is written as Parquet; give a name that ends in .parquet")


def simulate(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="Its name, such as two_state or inventory.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The log to write; its name must end in .parquet.", show_default=False)
    ],
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Rows to draw.")] = 100_000,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same rows.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a simulated log: a walk through a problem with a known model, one row per decision.

    The log has the columns of the state, action, reward, those of the next state, and time, in the problem's labels;
    where the problem has episodes, also their number and whether one ended.
    If there is no problem of that name, the error lists those that there are.
    """
    _check_parquet(out)
    with working(f"Drawing {steps:,} rows"):
        from dualq.worlds import problems

        if problem not in problems.BY_NAME:
            raise ModelError(f"no problem {problem!r}; known are {', '.join(problems.BY_NAME)}")
        simulator = problems.BY_NAME[problem]()
        log = simulator.record(steps, seed=seed)
    with working(f"Writing {out}"):
        log.to_parquet(out)
        visits = log.counts().visits
    facts: SimulateFacts = {
        "problem": problem,
        "simulated": True,
        "source": simulator.source,
        "seed": seed,
        "rows": len(log),
        "states": simulator.mdp.num_states,
        "actions": simulator.mdp.num_actions,
        "states_seen": int((visits.sum(axis=1) > 0).sum()),
        "pairs": int(simulator.mdp.available.sum()),
        "pairs_seen": int((visits > 0).sum()),
        "mean_reward": float(log.reward.mean()),
        "reward_range": list(log.reward_range),
        "columns": {name: list(columns) for name, columns in log.columns.items()},
        "episodes_ended": None if log.episode is None else int(log.ended.sum()),
        "absorbed_at": _absorbed_at(log, simulator),
        "files": [str(out)],
    }
    if as_json:
        print_json(facts)
    else:
        _print_simulated(facts)


def _absorbed_at(log: ArrayLog, simulator: Simulator) -> int | None:
    """The row from which on the walk is in a state that no action leaves."""
    stuck = simulator.mdp.absorbing[log.state]
    return int(stuck.argmax()) if stuck.any() else None


def _print_simulated(facts: SimulateFacts) -> None:
    page = console()
    page.print(f"{facts['problem']}, a simulated log\n", style="bold", markup=False)
    low, high = facts["reward_range"]
    columns = [name for names in facts["columns"].values() for name in names]
    names = names_and_values()
    names.add_row("rows", f"{facts['rows']:,}, drawn with the seed {facts['seed']}")
    names.add_row("states", f"{facts['states']:,}, of which {facts['states_seen']:,} were acted in")
    names.add_row("actions", f"{facts['actions']:,}")
    names.add_row("pairs", f"{facts['pairs']:,} of state and action exist, {facts['pairs_seen']:,} were seen")
    names.add_row("mean reward", f"{facts['mean_reward']:.6g} (rewards can be {low:g} to {high:g})")
    columns += ["reward", "time"]
    if facts["episodes_ended"] is not None:
        names.add_row("episodes", f"{facts['episodes_ended']:,} ended; the next one begins at the start")
        columns += ["episode", "ended"]
    names.add_row("columns", ", ".join(columns))
    names.add_row("source", facts["source"])
    page.print(names)
    if facts["absorbed_at"] is not None:
        at = f"{facts['absorbed_at']:,}"
        page.print(f"\nFrom row {at} on, the walk is in a state that no action leaves.", soft_wrap=True)
    print_files(page, facts["files"], KEEPS)
