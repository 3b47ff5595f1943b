"""Logged propensities: `evaluate` beside the estimators of Open Bandit Pipeline, on its small data.

    uv run --group bench --with obp python benchmarks/life_bandit.py

The data (Saito et al., 2021): 10,000 rows of each of three campaigns of a fashion shop, shown by two policies, a
uniform one and Bernoulli Thompson sampling ("bts"); which item stood in which of three positions, with which
probability, and whether it was clicked. From the rows of one policy the other is judged: the uniform one as it is, bts
by how often it showed each item in each position. What that earned in its own rows, other ones, is the nearest to the
truth that there is. Compared: IPW (the mean of weight times click) and SNIPW (divided by the mean weight), with the
intervals that obp gives by the bootstrap, and ours by betting, all at 95%.
"""

from pathlib import Path

import numpy as np
import obp
import pandas as pd
from common import markdown, publish
from obp.ope.estimators import InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

import dualq

DATA = Path(obp.__file__).parent / "dataset" / "obd"
READ = {"state": "position", "action": "item_id", "reward": "click", "propensity": "propensity_score"}
BOOTSTRAP = 1000


def rows_of(policy, campaign):
    return pd.read_csv(DATA / policy / campaign / f"{campaign}.csv", index_col=0)


def shown(policy, of, items):
    """(positions, items) how likely a policy shows each item."""
    if policy == "random":
        return np.full((3, len(items)), 1.0 / len(items))
    counts = pd.crosstab(of.position, of.item_id).reindex(index=[1, 2, 3], columns=items, fill_value=0).to_numpy(float)
    return counts / counts.sum(axis=1, keepdims=True)


def by_obp(log, chances, items):
    """{name: (value, low, high)}."""
    given = {
        "reward": log.click.to_numpy(float),
        "action": np.searchsorted(items, log.item_id.to_numpy()),
        "pscore": log.propensity_score.to_numpy(),
        "position": log.position.to_numpy() - 1,
        "action_dist": np.tile(chances.T[None], (len(log), 1, 1)),
    }
    found = {}
    for name, kind in (("IPW", InverseProbabilityWeighting), ("SNIPW", SelfNormalizedInverseProbabilityWeighting)):
        one = kind()
        interval = one.estimate_interval(**given, alpha=0.05, n_bootstrap_samples=BOOTSTRAP, random_state=0)
        low, high = (interval[f"95.0% CI ({end})"] for end in ("lower", "upper"))
        found[name] = (one.estimate_policy_value(**given), low, high)
    return found


def by_dualq(log, chances, items):
    policy = {p: {int(i): float(c) for i, c in zip(items, chances[p - 1], strict=True)} for p in (1, 2, 3)}
    opened = dualq.read_log(log[list(READ.values())], **READ, terminal="row", reward_range=(0.0, 1.0))
    return dualq.evaluate(opened, policy, discount=0.0, certificate=None).weighted


def main():
    table, apart = [], 0.0
    for campaign in ("all", "men", "women"):
        for policy, logged in (("bts", "random"), ("random", "bts")):
            log, own = rows_of(logged, campaign), rows_of(policy, campaign)
            items = np.array(sorted(log.item_id.unique()))
            chances = shown(policy, own[own.item_id.isin(items)], items)
            theirs, ours = by_obp(log, chances, items), by_dualq(log, chances, items)
            apart = max(apart, abs(ours.plain - theirs["IPW"][0]), abs(ours.value - theirs["SNIPW"][0]))
            truth = f"{100 * own.click.mean():.3f} ± {100 * own.click.std() / len(own) ** 0.5:.3f}"
            shares = [f"{100 * v:.3f} ({100 * low:.3f} to {100 * high:.3f})" for v, low, high in theirs.values()]
            mine = f"{100 * ours.value:.3f} ({100 * ours.low:.3f} to {100 * ours.high:.3f})"
            table.append([campaign, policy, logged, truth, *shares, mine, f"{ours.effective_size:,.0f}"])
            print(*table[-1], sep=" | ", flush=True)
    assert apart < 1e-9, apart
    header = ["campaign", "policy", "log of", "its own rows", "IPW, bootstrap", "SNIPW, bootstrap", "dualq, betting"]
    note = (
        "Clicks in 100 rows shown, 95% intervals; 10,000 rows each. Size: rows of equal weight that would tell as "
        "much. "
        f"Both estimates are the same in dualq and in obp {obp.__version__}: they differ by {apart:.0e} at most. The "
        "ceiling by betting is far higher because it takes no largest weight for granted: a click with a weight of 100 "
        "may come any day, and the bootstrap knows only the weights that it saw."
    )
    publish("Logged propensities: Open Bandit data", f"{note}\n\n{markdown([*header, 'size'], table)}")


if __name__ == "__main__":
    main()
