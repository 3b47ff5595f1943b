"""The command line: parse, call, print. What is heavy is imported by the command that needs it.

Standard output has the answer (with --json, one JSON object and nothing else), standard error has progress and errors.
Exit codes: 0 done, 2 bad input (one line, no traceback), 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualq._version import __version__
from dualq.errors import DualqError, LogError, ModelError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dualq.logs.log import Log
    from dualq.mdp import MDP
    from dualq.simulator import Simulator
    from dualq.solution import Solution

FIRST_STATES = 10  # shown of a policy; the rest is in policy.csv
NO_LOGS_YET = "learning from logs is not part of this version"

app = typer.Typer(
    name="dualq",
    help="Find the best policy of a decision problem, and say how good it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)

Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write solution.npz and policy.csv into this folder.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text for people.")]


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    try:
        code = app(arguments or ["--help"], prog_name="dualq", standalone_mode=False) or 0
    except DualqError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        # Typer's complaints about arguments know how to say themselves; anything else is a bug, and shows itself.
        words = getattr(error, "format_message", None)
        if words is None:
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "dualq")
        return _fail(f"{words().rstrip('.')}; see {command} --help")
    if code == 130:
        print("dualq: interrupted", file=sys.stderr)
    return code


def _fail(message: str) -> int:
    print(f"dualq: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _version(asked: bool) -> None:
    if asked:
        print(f"dualq {__version__}")
        raise typer.Exit


@app.callback()
def _dualq(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass


# ---- solve


@app.command(short_help="Solve a known model exactly.")
def solve(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model: an .npz or a .csv file.", show_default=False)
    ],
    discount: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="What a reward one step later is worth: at least 0, below 1. A .csv needs it; "
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
    with _working("Reading the model"):
        from dualq.models import read_model

        began = time.perf_counter()
        mdp = read_model(model, discount)
        read = time.perf_counter() - began
    solution, seconds = _solved(mdp, method)
    files = _written(solution, out)

    facts = {
        "model": str(model),
        **_facts(solution),
        "mean_value": float(solution.V.mean()),
        "weighted_value": float(solution.weights @ solution.V),
        "seconds": {"read": round(read, 6), "solve": round(seconds, 6)},
        "files": files,
        "first_states": _rows(solution, FIRST_STATES),
    }
    if as_json:
        _print_json(facts)
    else:
        _print_solved(facts, mdp)


def _print_solved(facts: dict[str, Any], mdp: MDP) -> None:
    from rich.markup import escape

    console = _console()
    console.print(f"{facts['model']}, solved exactly\n", style="bold", markup=False, soft_wrap=True)
    pairs = int(mdp.available.sum())
    some = "" if pairs == mdp.available.size else f" ({pairs:,} pairs of state and action exist)"
    names = _names_and_values()
    names.add_row("states", f"{facts['states']:,}")
    names.add_row("actions", f"{facts['actions']:,}{some}")
    names.add_row("discount", f"{facts['discount']:g}")
    names.add_row("method", f"{facts['method']}, {_count(facts['iterations'], 'iteration')}")
    names.add_row("seconds", f"{facts['seconds']['read']:.2g} to read, {facts['seconds']['solve']:.2g} to solve")
    names.add_row("proven error", _proven(facts["error_bound"]))
    names.add_row("mean value", f"{facts['mean_value']:.8g} (every state equally likely at the start)")
    names.add_row("weighted value", f"{facts['weighted_value']:.8g} (each state's value times its weight, added up)")
    console.print(names)

    shown = facts["first_states"]
    more = f" (first {len(shown)} of {facts['states']:,} states)" if facts["states"] > len(shown) else ""
    console.print(f"\nThe best policy{more}\n", style="bold")
    table = _table()
    for name in shown[0]:
        table.add_column(name, justify="left" if any(isinstance(row[name], str) for row in shown) else "right")
    for row in shown:
        table.add_row(*(escape(f"{v:.6g}" if isinstance(v, float) else str(v)) for v in row.values()))
    console.print(table)
    _print_files(console, facts["files"])


# ---- learn


@app.command(short_help="Learn a policy from a log; for now, explain a shipped model.")
def learn(
    log: Annotated[
        str | None, typer.Argument(metavar="LOG", help="Not in this version: leave it out.", show_default=False)
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Learn a better policy from a log. This version cannot do that yet.

    Without a LOG it solves the inventory model that ships with dualq, exactly, and explains the answer.
    """
    if log is not None:
        raise LogError(
            f"{log}: {NO_LOGS_YET}; `dualq learn` explains the shipped model, `dualq solve MODEL` solves one of yours"
        )
    with _working("Building the shipped inventory model"):
        from dualq import problems

        shop = problems.inventory()
    solution, seconds = _solved(shop.mdp)
    with _working("Evaluating the present policy"):
        V = shop.behaviour.value(shop.mdp)
        behaviour, behaviour_error = float(shop.start @ V), shop.behaviour.value_error(shop.mdp, V)
    best = float(shop.start @ solution.V)
    facts = {
        "model": "inventory",
        "learned_from_log": False,
        "source": shop.source,
        **_facts(solution),
        "seconds": {"solve": round(seconds, 6)},
        "value": {
            "best": best,
            "best_error": solution.error_bound,
            "behaviour": behaviour,
            "behaviour_error": behaviour_error,
            "improvement": best - behaviour,
        },
        "files": _written(solution, out),
        "policy": _rows(solution, shop.mdp.num_states),
    }
    if as_json:
        _print_json(facts)
    else:
        _print_learned(facts, shop, solution)


def _print_learned(facts: dict[str, Any], shop: Simulator, solution: Solution) -> None:
    console, mdp, value = _console(), shop.mdp, facts["value"]
    shelf, orders = max(mdp.states.columns()["stock"]), [str(order) for order in mdp.actions]
    console.print("The shipped inventory model, solved exactly\n", style="bold")
    console.print(
        "Learning from logs is not part of this version. What follows is the exact answer for a model that ships with "
        "dualq, computed from the model itself and not from a log.\n"
    )
    console.print(
        f"Each morning a shop with a shelf for {shelf} units orders {', '.join(orders[:-1])} or {orders[-1]}, as far "
        "as they fit. Demand is random and changes with the season; what is not on the shelf is not sold. The reward "
        "is the day's profit: sales, less the cost of goods, of ordering, of storing, and of customers sent away. "
        f"There are {mdp.num_states} states (stock and season); profit a day later counts {mdp.discount:g} times.\n"
    )
    console.print("The best order, by stock and season (-: none)\n", style="bold")
    console.print(_orders_table(solution))

    console.print("\nWhat it is worth, from a full shelf in any season\n", style="bold")
    table = _table()
    for name in ("policy", "discounted profit", "the same per day", "proven error"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for name, words in (("best", "the best one"), ("behaviour", "rule of thumb")):
        per_day = value[name] * (1.0 - mdp.discount)
        table.add_row(words, f"{value[name]:.4f}", f"{per_day:.4f}", f"{value[name + '_error']:.0e}")
    console.print(table)
    console.print(
        "\nThe rule of thumb is what the shop does now: it ignores the season, orders as much as fits when the shelf "
        "is half empty, and sometimes orders at random. "
        f"The best policy was found by {facts['method']}.\n"
    )
    console.print("Next: `dualq solve MODEL` solves a model of yours; `dualq solve --help` says how to write one down.")
    _print_files(console, facts["files"])


def _orders_table(solution: Solution) -> Table:
    """Seasons across, stock down; neighbouring stocks with the same orders share a row."""
    mdp, choice = solution.mdp, solution.primal_policy.matrix.argmax(axis=1)
    orders: dict[Any, dict[Any, Any]] = {}
    columns = mdp.states.columns()
    for stock, season, a in zip(columns["stock"], columns["season"], choice, strict=True):
        orders.setdefault(stock, {})[season] = mdp.actions[int(a)]
    table = _table()
    table.add_column("stock", justify="right")
    for season in next(iter(orders.values())):
        table.add_column(str(season), justify="right")
    for row, same in groupby(orders, key=lambda stock: list(orders[stock].values())):
        stocks = list(same)
        table.add_row(
            str(stocks[0]) if len(stocks) == 1 else f"{stocks[0]} to {stocks[-1]}", *(str(n or "-") for n in row)
        )
    return table


# ---- simulate


@app.command(short_help="Write a simulated log of a problem with a known model.")
def simulate(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="Its name, such as two_state or inventory.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The log to write; a name that ends in .parquet.", show_default=False)
    ],
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Rows to draw.")] = 100_000,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same rows.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a simulated log: a walk through a problem with a known model, one row per decision.

    The log has the columns of the state, action, reward, those of the next state, and time, in the problem's labels;
    where the problem has episodes, also their number and whether one ended.
    A wrong name of a problem is answered with the right ones.
    """
    if out.suffix != ".parquet":
        raise LogError(f"{out}: a log is written as Parquet; give a name that ends in .parquet")
    with _working(f"Drawing {steps:,} rows"):
        from dualq import problems

        if problem not in problems.BY_NAME:
            raise ModelError(f"no problem {problem!r}; known are {', '.join(problems.BY_NAME)}")
        simulator = problems.BY_NAME[problem]()
        log = simulator.record(steps, seed=seed)
    with _working(f"Writing {out}"):
        log.to_parquet(out)
        visits = log.counts().visits
    facts = {
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
        _print_json(facts)
    else:
        _print_simulated(facts)


def _absorbed_at(log: Log, simulator: Simulator) -> int | None:
    """The row from which on the walk is in a state that no action leaves."""
    stuck = simulator.mdp.absorbing[log.state]
    return int(stuck.argmax()) if stuck.any() else None


def _print_simulated(facts: dict[str, Any]) -> None:
    console = _console()
    console.print(f"{facts['problem']}, a simulated log\n", style="bold", markup=False)
    low, high = facts["reward_range"]
    columns = [name for names in facts["columns"].values() for name in names]
    names = _names_and_values()
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
    console.print(names)
    if facts["absorbed_at"] is not None:
        at = f"{facts['absorbed_at']:,}"
        console.print(f"\nFrom row {at} on, the walk is in a state that no action leaves.", soft_wrap=True)
    _print_files(console, facts["files"])


# ---- reproduce


@app.command(short_help="Measure whether the paper's claims hold, figure by figure.")
def reproduce(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the tables, plots and summary.json.", show_default=False)
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="fig1 to fig4, drift, bounds, ablation, efficiency, rates; or all (the default), which leaves out "
            "rates, the longest.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each curve: the seeds 0 to N - 1.")] = 50,
    as_json: Json = False,
) -> None:
    """Measure whether the paper's claims hold: a table, a plot and a verdict for each, by simulation.

    A run that is stopped goes on where it stood when the same command is given again. The same seeds give the same
    files, stopped or not.
    """
    with _working("Loading"):
        from dualq.experiments.runner import reproduce as run_all
    asked, terminal = names or ["all"], sys.stderr.isatty()
    said = None if as_json else _print_verdict
    try:
        summary = run_all(asked, out, seeds, progress=terminal, said=said)
    except KeyboardInterrupt:
        command = f"dualq reproduce {' '.join(asked)} --seeds {seeds} --out {out}"
        print(f"dualq: what is finished is kept in {out}; to go on: {command}", file=sys.stderr)
        raise
    if as_json:
        _print_json(summary)
    else:
        _console().print(f"Written: {out / 'summary.json'} and the tables and plots beside it", soft_wrap=True)


def _print_verdict(name: str, entry: dict[str, Any]) -> None:
    console = _console()
    console.print(f"{name}: {entry['verdict']}", style="bold", markup=False)
    console.print(entry["claim"], markup=False, soft_wrap=True)
    for check in entry["checks"]:
        answer = "yes" if check["holds"] else "no "
        console.print(f"  {answer}  {check['claim']} ({check['because']})", markup=False, soft_wrap=True)
    console.print()


# ---- what the commands share


def _solved(mdp: MDP, method: str | None = None) -> tuple[Solution, float]:
    """The exact solution with its policy, and the seconds it took."""
    with _working("Solving (the first run also compiles)"):
        from dualq.exact import solve as solve_exactly

        began = time.perf_counter()
        solution = solve_exactly(mdp, method=method)
        _ = solution.primal_policy
        return solution, time.perf_counter() - began


def _written(solution: Solution, out: Path | None) -> list[str]:
    """Write the solution and its policy into a folder; the names of the files."""
    if out is None:
        return []
    from dualq.models import write_policy

    with _working("Writing the solution"):
        solution.save(out / "solution.npz")
        write_policy(out / "policy.csv", solution.primal_policy)
    return [str(out / "solution.npz"), str(out / "policy.csv")]


def _facts(solution: Solution) -> dict[str, Any]:
    return {
        "states": solution.mdp.num_states,
        "actions": solution.mdp.num_actions,
        "discount": solution.mdp.discount,
        "method": solution.method,
        "iterations": solution.iterations,
        "error_bound": solution.error_bound,
    }


def _rows(solution: Solution, count: int) -> list[dict[str, Any]]:
    """The first rows of the policy: the columns of the state and the action, and the value."""
    mdp, policy = solution.mdp, solution.primal_policy
    rows = []
    for s in range(min(mdp.num_states, count)):
        state, action = mdp.states[s], mdp.actions[int(policy.matrix[s].argmax())]
        cells = [
            *(state if isinstance(state, tuple) else (state,)),
            *(action if isinstance(action, tuple) else (action,)),
        ]
        names = [*mdp.states.names, *mdp.actions.names]
        rows.append(dict(zip(names, cells, strict=True)) | {"value": float(solution.V[s])})
    return rows


def _proven(error_bound: float | None) -> str:
    if error_bound is None:
        return "none by this method"
    return f"{error_bound:.1e} (no value is further off than this)"


def _print_files(console: Console, files: list[str]) -> None:
    console.print()
    if files:
        console.print(f"Written: {' and '.join(files)}", markup=False, soft_wrap=True)
    else:
        console.print("Nothing was written; --out DIR keeps the policy and the whole solution.")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, 2))


def _names_and_values() -> Table:
    table = _table()
    table.show_header = False
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A spinner on standard error while something may take long; nothing where that is not a terminal."""
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
