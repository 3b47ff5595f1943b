"""Limits over numbers: how often a policy is found that keeps a limit, and what it costs and earns in truth.

Simulated logs of dualq's problems (worlds/continuous.py). A policy's true cost is the mean of 2,000 simulated episodes
from the log's first states; `within` counts the policies whose true cost is at most the bound, `within two` those whose
estimate is within two errors of the true cost. `gained` is as in continuous.py.

    --logs N    of each problem           --rows N ...   rows of each log
    --first N   the first seed
"""

import argparse
import sys
import time

import continuous
import numpy as np
from common import markdown, publish

import dualq
from dualq.worlds.continuous import returns

LIMITS = (("maintenance", "failure", 0.004), ("inventory", "stockout", 0.2), ("dosing", "side_effect", 0.1))
HEADER = [
    "problem", "rows", "limit", "the log's cost", "logs", "found", "within", "true cost", "margin of two errors",
    "within two", "gained", "CPU s",
]  # fmt: skip
EPISODES, SEED = 2_000, 10**6


def answered(name, cost, bound, rows, seed):
    """(true cost, estimate, its error, true value, CPU s) of the policy that is found, nan where none is."""
    problem, log = continuous.made(name), continuous.logged(name, rows, seed)
    begun = time.process_time()
    try:
        fit = continuous.learned(log, problem.discount, seed, approximation="linear", limits=f"{cost}<={bound}")
    except dualq.InfeasibleError:
        return [np.nan] * 4 + [time.process_time() - begun]
    seconds, rule = time.process_time() - begun, fit.policy
    true = (1.0 - problem.discount) * returns(problem, rule, SEED, EPISODES, cost, log.starts).mean()
    estimate = fit.limits[0].estimate
    value = continuous.simulated(name, problem, rule, log.starts)[0]
    return [true, estimate.value, estimate.standard_error, value, seconds]


def summed(name, cost, bound, rows, found):
    true, estimate, error, value, seconds = np.array(found).T
    kept, (low, best), problem = np.isfinite(true), continuous.references(name), continuous.made(name)
    n = int(kept.sum())
    usual = (1.0 - problem.discount) * returns(problem, problem.behaviour, SEED, EPISODES, cost).mean()
    right = np.abs(estimate - true)[kept] <= 2.0 * error[kept]
    margin, gained = 1.96 * error[kept].mean(), (value[kept].mean() - low) / (best - low)
    return [
        name, f"{rows:,}", f"{cost} <= {bound:g}", f"{usual:.3g}", len(found), n,
        f"{(true[kept] <= bound).sum()} of {n}", f"{true[kept].mean():.3g}", f"{margin:.2g}",
        f"{right.sum()} of {n}", f"{gained:.0%}", f"{seconds.mean():.1f}",
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8_000, 20_000])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    table = []
    for (name, cost, bound), rows in ((one, rows) for one in LIMITS for rows in options.rows):
        found = []
        for seed in range(options.first, options.first + options.logs):
            found.append(answered(name, cost, bound, rows, seed))
            print(name, rows, seed, *(f"{x:.4g}" for x in found[-1]), file=sys.stderr, flush=True)
        table.append(summed(name, cost, bound, rows, found))
    note = f"Simulated logs from seed {options.first}."
    publish("States of numbers: limits", markdown(HEADER, table) + "\n\n" + note)


if __name__ == "__main__":
    main()
