"""The cache of compiled kernels follows every source: a changed helper in another file is never served stale."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dualq

CALLER = """
from dualq.base.kernels import kernel
from dualq.helper import step

@kernel
def walk(n):
    total = 0.0
    for _ in range(n):
        total += step()
    return total

print(walk(10))
"""


def test_a_changed_helper_in_another_file_is_compiled_anew(tmp_path):
    package = tmp_path / "dualq"
    shutil.copytree(Path(dualq.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "caller.py").write_text(CALLER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(value):
        helper = f"from dualq.kernels import kernel\n\n@kernel\ndef step():\n    return {value}\n"
        (package / "helper.py").write_text(helper)
        command = [sys.executable, "-B", "-c", "import dualq.caller"]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert [run(1.0), run(1.0), run(2.5)] == [10.0, 10.0, 25.0]
    assert len(list((tmp_path / "cache" / "dualq").iterdir())) == 2  # one folder per state of the sources
