"""Numba functions over arrays. They know nothing of queries or policies.

Compiled code is cached on disk beside this package (or in NUMBA_CACHE_DIR), once per machine.

Numba distinguishes functions of one name and signature by a number that it counts from 1 in each process, and
the linker takes the first of two symbols of one name. So kernels that different processes compiled could call
each other's helpers: a sort could call the comparison of an argsort. Each process therefore starts counting
at a random number (decision 22). And they take turns at compiling (`compile_once`).
"""

import itertools
import os
import secrets

from numba.core.bytecode import FunctionIdentity

from windrow.kernels.compile_once import compile_once


def _count_apart() -> None:
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(63))


_count_apart()
os.register_at_fork(after_in_child=_count_apart)
compile_once(__name__)
