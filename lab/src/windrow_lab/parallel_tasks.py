"""Runs independent Python tasks in parallel as Spark tasks.

The tasks are divided among a few dozen Spark jobs of one Spark task each, submitted by one thread per core.
Unlike the tasks of one large job, each of these jobs returns its results as soon as it ends. Neighbouring
tasks are in one job, since they often share what a function keeps from its last call.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa

from windrow.spark.session import local_session

Task = TypeVar("Task")
Result = TypeVar("Result")
JOBS_PER_CORE = 16


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    cores: int,
    on_done: Callable[[Task], None] = lambda _: None,
) -> list[Result]:
    """`[function(task) for task in tasks]`, on a local Spark with this many cores.

    Parameters
    ----------
    function
        A module-level function. It, the tasks and the results must be picklable.
    on_done
        Called in this thread with each task that has ended.
    """
    session = local_session(cores, "windrow lab")
    jobs = min(len(tasks), JOBS_PER_CORE * cores)
    ends = [job * len(tasks) // jobs for job in range(jobs + 1)]
    shares = [range(*share) for share in pairwise(ends)]
    results: dict[int, Result] = {}
    with ThreadPoolExecutor(cores) as pool:
        running = {pool.submit(_run_job, session, function, [tasks[n] for n in own]): own for own in shares}
        try:
            for ended in as_completed(running):
                for n, result in zip(running[ended], ended.result(), strict=True):
                    results[n] = result
                    on_done(tasks[n])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[n] for n in range(len(tasks))]


def _run_job(session: Any, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                results = [function(task) for task in tasks]
                yield pa.RecordBatch.from_pydict({"results": [pickle.dumps(results)]})

    one_row = session.range(1, numPartitions=1)
    collected: list[Any] = pickle.loads(one_row.mapInArrow(run, "results binary").collect()[0]["results"])
    return collected
