"""Independent tasks of a sweep, run side by side as Spark tasks.

Each task is a Spark job with a single task of its own, handed in from as many threads as there are
cores: jobs then run at the same time and each reports as it ends, which one job with many tasks does not.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from windrow.spark.session import local_session

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    cores: int,
    on_done: Callable[[Task], None] = lambda _: None,
) -> list[Result]:
    """`[function(task) for task in tasks]`, on a local Spark with so many cores.

    Parameters
    ----------
    function
        A function of a module; it, the tasks and the results must pickle.
    on_done
        Called in this thread with each task as it ends.
    """
    session = local_session(cores, "windrow lab")
    results: dict[int, Result] = {}
    with ThreadPoolExecutor(cores) as pool:
        running = {pool.submit(_run_one, session, function, task): n for n, task in enumerate(tasks)}
        try:
            for ended in as_completed(running):
                results[running[ended]] = ended.result()
                on_done(tasks[running[ended]])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[n] for n in range(len(tasks))]


def _run_one(session: SparkSession, function: Callable[[Any], Any], task: Any) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(function(task))]})

    one_row = session.range(1, numPartitions=1)
    return pickle.loads(one_row.mapInArrow(run, "result binary").collect()[0]["result"])
