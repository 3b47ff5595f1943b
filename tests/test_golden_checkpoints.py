"""Checkpoints that an earlier version wrote (tests/golden/checkpoints_1) are read, and go on to the same bits.

Each was written at step 300 by the algorithms below, on the paper's two-state example; `answers.npz` holds what the
version that wrote them found at step 1000, without a stop. PDHG solves a linear system with
OpenBLAS, which adds up in the order that suits the processor (other last bits with OPENBLAS_CORETYPE=Haswell than with
SkylakeX, on one machine): its answers agree to 1e-12. `python tests/test_golden_checkpoints.py FOLDER` writes
such a folder; names after it write only those, with `answers_NAME.npz` beside them, as for what came later.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import dualq

WRITTEN = Path(__file__).parent / "golden" / "checkpoints_1"
TWO = dualq.problems.two_state()
SHARED = {"weights": [1.5, 1.5], "zeta": 0.0856}
WORDS = {"seed": 7, "record": [200, 300]}


def _listed() -> np.ndarray:
    """A step size for each step, as a list."""
    return 2.0 / np.sqrt(np.arange(1000) + 3.0)


ALGORITHMS = {
    "spd_q": lambda: dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), **SHARED),
    "spd_q_known": lambda: dualq.SPDQ(step_size=_listed(), distribution="known", average_power=1.0, **SHARED),
    "safe_spd_q": lambda: dualq.SafeSPDQ(
        limits=dualq.limits.average(TWO.mdp, np.array([[0.0, 1.0], [0.5, 0.0]]), "<=", 0.55, "cost"), **SHARED
    ),
    "spd_rl": lambda: dualq.SPDRL(step_size=dualq.inverse_sqrt(0.5), **SHARED),
    "spd_rl_uniform": lambda: dualq.SPDRLUniform(step_size=dualq.inverse_sqrt(0.5), **SHARED),
    "primal_dual": lambda: dualq.PrimalDual(step_size=dualq.constant(0.1), weights=[1.5, 1.5], distribution=TWO),
    "q_learning": lambda: dualq.QLearning(),
    "double_q_learning": lambda: dualq.QLearning(dualq.visits(0.8), double=True),
    "pdhg": lambda: dualq.PDHG(every=250),
    "qd_learning": lambda: dualq.QDLearning([(0, 1), (1, 2), (2, 0)], [3, 0, 0]),
    "networked_spd_q": lambda: dualq.NetworkedSPDQ(
        step_size=dualq.inverse_sqrt(2.0), edges=[(0, k) for k in range(1, 7)], **SHARED
    ),
}

BY_OPENBLAS = ("pdhg",)


def _found(run: dualq.online.training.Run) -> dict[str, np.ndarray]:
    solutions = {"solution": run.solution, "last": run.last}
    arrays = {f"{k}.{n}": getattr(s, n) for k, s in solutions.items() for n in ("Q", "V", "occupancy", "ratio")}
    return arrays | {f"history.{n}": run.history[n].to_numpy() for n in run.history.column_names}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_old_checkpoint_goes_on_to_the_same_bits(name, tmp_path):
    path = tmp_path / "run.ckpt"
    shutil.copy(WRITTEN / f"{name}.ckpt", path)
    found = _found(dualq.train(ALGORITHMS[name](), TWO, 1000, checkpoint=path, **WORDS))
    expected = {}
    for file in sorted(WRITTEN.glob("answers*.npz")):
        with np.load(file, allow_pickle=False) as answers:
            mine = [key for key in answers.files if key.startswith(f"{name}/")]
            expected |= {key.removeprefix(f"{name}/"): answers[key] for key in mine}
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        if name in BY_OPENBLAS and array.dtype.kind == "f":
            np.testing.assert_allclose(found[key], array, rtol=1e-12, atol=1e-12, err_msg=key)
        else:
            np.testing.assert_array_equal(found[key], array, err_msg=key)


def _write(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for name in names or ALGORITHMS:
        algorithm = ALGORITHMS[name]
        dualq.train(algorithm(), TWO, 300, checkpoint=folder / f"{name}.ckpt", **WORDS)
        run = dualq.train(algorithm(), TWO, 1000, **WORDS)
        answers |= {f"{name}/{key}": array for key, array in _found(run).items()}
    np.savez_compressed(folder / f"{'_'.join(['answers', *names])}.npz", allow_pickle=False, **answers)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), *sys.argv[2:])
