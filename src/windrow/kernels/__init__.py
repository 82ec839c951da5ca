"""Numba functions: arrays in, arrays out. They know nothing of queries or policies.

Compiled code is cached on disk beside this package (or in NUMBA_CACHE_DIR), once per machine.

Numba tells functions of one name and one signature apart by a number that it counts up from 1 in each
process, and the linker takes the first of two symbols of one name. So kernels compiled by different processes
could be given each other's parts: one that sorts, the comparisons of one that finds the order of sorting.
Each process therefore begins to count at a place of its own (decision 22).
"""

import itertools
import os
import secrets

from numba.core.bytecode import FunctionIdentity


def _count_apart() -> None:
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(63))


_count_apart()
os.register_at_fork(after_in_child=_count_apart)
