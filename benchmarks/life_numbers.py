"""`check` of policies over numbers: how often it is wrong in 50 looks, and whether it finds a fifth less.

    python benchmarks/life_numbers.py [fits] [streams of each] [first seed]

Simulated problems (worlds/continuous.py). Each log of 20,000 rows is learned from without networks; its policy goes
into use for 5,000 rows, several times over, and somebody looks after every hundred. Counted are streams with any look
that says that it earns less than expected, or that the system changed (at the rows where `check` tests it). Then the
same with rewards lowered so that the policy earns 20% less from the first row: in how many streams that was found.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import dataclasses
import sys
import time
from unittest import mock

import numpy as np
from common import markdown, publish
from continuous import learned

from dualq.offline.approximate import learning
from dualq.offline.checking import CHANGE, EFFECT, FIRST, LOOKS, Z
from dualq.offline.number_checking import NumberEarning, changes, inside
from dualq.worlds.continuous import PROBLEMS, record

USED, A_LOOK, OLD = 5_000, 100, 20_000


def said(earning, rows):
    """Whether any look says that too little is earned; that the system changed; either."""
    fit, low = earning.fit, False
    for until in range(A_LOOK, len(rows) + 1, A_LOOK):
        _, told, _, (_, high) = earning.told_by(rows.at(np.arange(until)))
        low |= told > 0 and high / (1.0 - fit.discount) < -Z * fit.chosen.expected.error_or_nan
    changed = any(one.found for what, one in changes(fit, rows, FIRST, CHANGE).items() if what != "behaviour")
    return np.array([low, changed, low or changed], int)


def measured(name, fits, streams, first):
    """A row of the table, and the streams with false alarms: of earning, of change, of either; and all of them."""
    problem, began = PROBLEMS[name](), time.process_time()
    wrong, found, usable = np.zeros(3, int), np.zeros(3, int), 0
    for seed in range(first, first + fits):
        log = record(problem, OLD, seed)
        with mock.patch.object(learning, "NEURAL", ("a package that is not there",)):
            fit = learned(log, problem.discount, seed)
        if not fit.chosen.usable:
            continue
        usable += 1
        earning = NumberEarning.of(fit, LOOKS / 2.0, EFFECT)
        loss = EFFECT * (1.0 - fit.discount) * abs(fit.chosen.expected.value)
        for k in range(streams):
            rows = record(problem, USED, 10**6 + streams * seed + k, fit.policy)
            rows = rows.coded_as(fit.columns, fit.actions)
            rows = rows.at(inside(fit.sample.state, rows.state))
            wrong += said(earning, rows)
            found += said(earning, dataclasses.replace(rows, r=rows.r - loss))
    shares = [f"{w} of {usable * streams}" for w in (*wrong, *found[[0, 2]])]
    return [name, f"{usable} of {fits}", *shares, f"{time.process_time() - began:,.0f}"], wrong, usable * streams


def main(fits=10, streams=25, first=8_000):
    table, totals, every = [], np.zeros(3, int), 0
    for name in PROBLEMS:
        row, wrong, all_of_them = measured(name, fits, streams, first)
        table.append(row)
        totals, every = totals + wrong, every + all_of_them
        print(*row, file=sys.stderr, flush=True)
    table.append(["all", "", *(f"{w} of {every}" for w in totals), "", "", ""])
    header = ["problem", "fits with an expectation", "false: earning", "false: change", "false: any"]
    header += ["a fifth less found, earning", "by anything", "CPU s"]
    publish("A policy over numbers in use", markdown(header, table))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
