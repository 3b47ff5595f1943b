"""`dualq evaluate` and `dualq compare`: a policy of your own, or several, judged by a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dualq.app.cli.columns import range_of
from dualq.app.cli.reading import Opening, Words, reads_a_log
from dualq.app.cli.shared import Json, console, option, print_files, print_json, stages, written
from dualq.base import LogError

POLICY = (
    "A policy.csv (the state's columns, the action's, probability), a .json ({state: action}), a folder that "
    '`dualq learn --out` wrote, or a rule: "order = 6 if stock <= 1 else 0". '
    "Put a column whose name has spaces or signs in backticks, and then the rule in single quotes: "
    "'order = 6 if `stock level` <= 1 else 0'."
)
Discount = Annotated[
    float,
    typer.Option(
        metavar="NUMBER", help="How much a reward counts if it comes one step later. 0: only the next one counts."
    ),
]
Confidence = Annotated[float, typer.Option(metavar="NUMBER", help="How sure guarantees must be.")]
Where = Annotated[
    str | None,
    option("WHERE", "Where to start counting rewards: episodes (where they begin), log (any row), or uniform."),
]
Else = Annotated[
    str | None,
    option("ACTION", "What to do in states that a policy does not name: `logged` (as was done), or an action."),
]
Kind = Annotated[str, typer.Option(metavar="KIND", help="How to guarantee: proven, bootstrap (approximate) or none.")]
Limits = Annotated[
    list[str] | None,
    option(
        "LIMIT",
        'A limit that the policy should keep, on average per step (early steps count more): "stockout<=0.02", or >=; '
        "may be repeated.",
    ),
]
ValueRange = Annotated[
    str | None,
    option("LO,HI", "The least and the most that a policy can earn in total, if you know more than the rewards say."),
]
Assume = Annotated[
    list[str] | None,
    option("WHAT", 'What you vouch for: "set aside" (rows set aside are like the others); may be repeated.'),
]


@reads_a_log
def evaluate(
    given: Opening,
    policy: Annotated[str, typer.Option(metavar="POLICY", help=POLICY, show_default=False)],
    otherwise: Else = None,
    discount: Discount = 0.95,
    confidence: Confidence = 0.95,
    start: Where = None,
    certificate: Kind = "proven",
    limit: Limits = None,
    value_range: ValueRange = None,
    assume: Assume = None,
    out: Annotated[
        Path | None, option("DIR", "Write report.html, policy.csv and evaluation.json to this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge a policy of your own by a log: what it earns, whether that is better than what was done, and how sure.

    The log need not come from this policy. Says what the policy is expected to earn and to cost, the difference from
    what was done so far with its own error, what is guaranteed, and which of its decisions the log has never seen.
    """
    with stages("Reading the log") as begin:
        log = given()
        from dualq.offline import evaluate as judge

        asked = _asked(discount, confidence, start, otherwise, certificate, limit, value_range, assume)
        found = judge(log.source, policy, **log.told, **asked, progress=begin)
        files = [] if out is None else written(found, out, begin)
    if as_json:
        print_json({**found.summary(), "files": files})
        return
    from dualq.app.report.evaluation_pages import print_evaluation

    page = console()
    print_evaluation(found, page)
    print_files(page, files, "to keep a report and all numbers, add --out DIR.")


@reads_a_log
def compare(
    given: Opening,
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="POLICY", help=f"{POLICY} May be repeated; NAME:POLICY gives it a name.", show_default=False
        ),
    ],
    learned: Annotated[
        bool, typer.Option("--learned/--no-learned", help="Whether to compare with what dualq learns from the log.")
    ] = True,
    otherwise: Else = None,
    discount: Discount = 0.95,
    confidence: Confidence = 0.95,
    start: Where = None,
    certificate: Kind = "proven",
    limit: Limits = None,
    value_range: ValueRange = None,
    assume: Assume = None,
    out: Annotated[Path | None, option("DIR", "Write report.html and comparison.json to this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Compare policies by one log, with what was done so far and what dualq learns: which is best, and how sure.

    All are judged by the same rows: differences have errors of their own, and what is guaranteed holds for all of them
    together, including the one you choose because of it.
    """
    with stages("Reading the log") as begin:
        log = given()
        from dualq.offline import compare as judge

        asked = _asked(discount, confidence, start, otherwise, certificate, limit, value_range, assume)
        found = judge(log.source, named(policy), learned=learned, **log.told, **asked, progress=begin)
        files = [] if out is None else written(found, out, begin)
    if as_json:
        print_json({**found.summary(), "files": files})
        return
    from dualq.app.report.comparison_pages import print_comparison

    page = console()
    print_comparison(found, page)
    print_files(page, files, "to keep a report and all numbers, add --out DIR.")


def _asked(
    discount: float,
    confidence: float,
    start: str | None,
    otherwise: str | None,
    certificate: str,
    limit: list[str] | None,
    value_range: str | None,
    assume: list[str] | None,
) -> Words:
    """What both commands ask."""
    return {
        "discount": discount,
        "confidence": confidence,
        "start": start,
        "otherwise": otherwise,
        "certificate": None if certificate == "none" else certificate,
        "limits": limit or None,
        "value_range": range_of("--value-range", value_range),
        "assume": assume or (),
    }


def named(policies: list[str]) -> dict[str, str]:
    """{name: policy} from NAME:POLICY, or by the name of the file; a rule is its own name."""
    found: dict[str, str] = {}
    for word in policies:
        name, policy = _name(word)
        if name in found:
            raise LogError(f"two policies are called {name!r}; name one of them: --policy NAME:{policy}", value=word)
        found[name] = policy
    return found


def _name(word: str) -> tuple[str, str]:
    head, colon, rest = word.partition(":")
    is_name = len(head) > 1 and not {"=", "/", "`"} & {*head}
    if colon and rest.strip() and is_name and not Path(word).exists():
        return head.strip(), rest.strip()
    if "=" in word and not Path(word).exists():
        return word.strip(), word
    path = Path(word)
    return (path.name or path.resolve().name) if path.is_dir() else path.stem, word
