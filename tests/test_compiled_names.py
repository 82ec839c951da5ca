"""Kernels compiled by different processes must not share symbols (decision 22)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TELL = """
import os
import numpy as np
from windrow.kernels.probe_index import lower

def names():
    lower(np.arange(3), 0, 3, 1)
    lower.recompile()
    return next(iter(lower.overloads.values())).fndesc.mangled_name

print(names())
if os.fork() == 0:
    print(names(), flush=True)
    os._exit(0)
os.wait()
print(names())
"""


def test_no_two_processes_give_the_same_name(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    names = []
    for _ in range(2):
        told = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, env=environment)
        assert told.returncode == 0, told.stderr
        names += told.stdout.split()
    assert len(names) == len(set(names)) == 6
