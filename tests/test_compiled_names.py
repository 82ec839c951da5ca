"""Kernels compiled by different processes do not share symbols (decision 22), and are compiled once."""

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


ONCE = """
import sys
import numpy as np
from windrow.kernels.rate_fit import fit_rates

print("ready", flush=True)
sys.stdin.readline()
fit_rates(np.ones((3, 3)), np.ones((3, 3)), 2)
print(sum(fit_rates._cache_misses.values()))
"""


def test_of_processes_that_need_a_kernel_at_once_one_compiles_it(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command, pipe = [sys.executable, "-c", ONCE], subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) for _ in range(2)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in processes]
    assert sorted(map(int, told)) == [0, 1]
