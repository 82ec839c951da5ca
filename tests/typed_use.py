"""A program that uses every public name, as strict type checkers see it: `make lint` checks it with mypy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import windrow as wr

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def describe() -> wr.Query:
    window: wr.Window = wr.Window("time", 5_000_000)
    access: wr.types.Access = wr.types.Access("hash", 30)
    streams: Mapping[str, wr.Stream] = {
        "a": wr.Stream("at", "5 minutes", access=access),
        "b": wr.Stream("at", window),
    }
    even: wr.Function = wr.Function(lambda k: k % 2 == 0)
    quantum: wr.types.Interval = wr.types.Interval(rows=100)
    return wr.Query(streams, on="a.k = b.k and even(a.k)", functions={"even": even}, evaluate=quantum)


def policies() -> Sequence[object]:
    memory: Sequence[object] = (
        wr.policies.Age(),
        wr.policies.Auto(),
        wr.policies.Fifo(),
        wr.policies.Frequency(),
        wr.policies.Greedy(by={"a": wr.policies.Lookup("k", {1: 2.0})}),
        wr.policies.Importance(by="a.x"),
        wr.policies.Random(),
        wr.policies.Size(),
        wr.policies.UntilExpiry(),
    )
    samples: Sequence[object] = (wr.policies.Uniform(), wr.policies.Cluster(), wr.policies.PpsCluster())
    time: Sequence[object] = (wr.policies.Harvesting(method="knapsack"), wr.policies.Dropping())
    limits: Sequence[object] = (wr.types.MemoryLimit("rows", 1000), wr.types.Deadline(micros=2_000_000))
    return [*memory, *samples, *time, *limits]


def run(query: wr.Query, tables: Mapping[str, pa.Table]) -> tuple[wr.Operator, pa.Table]:
    operator: wr.Operator = wr.Operator(query)
    found: pa.Table = operator.process(tables)
    told: wr.types.OperatorMetrics = operator.metrics()
    quality: wr.types.Quality = told.quality
    streams: Mapping[str, wr.types.StreamMetrics] = told.streams
    plan: wr.types.Plan | None = operator.plan
    curve: wr.RecallCurve | None = operator.forecast()
    learned: wr.types.LearnedModels = operator.learned_models()
    harvest: wr.types.Harvest | None = learned.harvest
    directions: Sequence[wr.types.Direction] = plan.directions if plan else ()
    steps: Sequence[wr.types.Step] = [step for direction in directions for step in direction.steps]
    print(quality.recall, [s.rate for s in streams.values()], plan, curve, found.num_rows, harvest, steps)
    return operator, found


def judge(sampled: pa.Table) -> pa.Table:
    return wr.estimate(sampled, "b.x", "sum", time="b.at", window="1 minute")


def share(query: wr.Query, tables: Mapping[str, pa.Table]) -> pa.Table:
    narrow: wr.Subscription = wr.Subscription(query, where="a.x > 3")
    shared: wr.SharedOperator = wr.SharedOperator({"all": query, "some": narrow})
    groups: Sequence[wr.types.QueryGroup] = shared.groups
    progress: wr.types.SearchProgress = shared.progress
    metrics: wr.types.SharedMetrics = shared.metrics()
    queries: Mapping[str, wr.types.QueryMetrics] = metrics.queries
    print(groups, progress.rows_probed, [q.results for q in queries.values()])
    found: wr.types.ResultsByQuery = shared.process(tables)
    return found["all"]


def test_by_hand(query: wr.Query, tables: Mapping[str, pa.Table]) -> pa.Table:
    return wr.testing.exact_answer(query, tables)


def explain(query: wr.Query, operator: wr.Operator, tables: Mapping[str, pa.Table]) -> str:
    told: wr.Explanation = wr.explain(query, sample=tables)
    together: wr.types.SharedExplanation = wr.explain({"one": query})
    several: str = str(together)
    divided: wr.types.Allocation = wr.allocate({"x": operator}, memory="1 MiB")
    text: str = told.to_json() + told.to_html() + str(told) + several + str(divided)
    recall: float | None = told.expected_recall
    print(recall)
    return text


def on_spark(spark: SparkSession, a: DataFrame, b: DataFrame, started: StreamingQuery) -> list[Any]:
    frames: Mapping[str, DataFrame] = {"a": a, "b": b}
    pool: wr.MemoryPool = wr.MemoryPool("512 MiB", "/data/pool")
    joined: DataFrame = wr.join(frames, on="a.k = b.k", time="at", within="1 minute", memory=pool)
    skewed: wr.types.SkewedKeys = wr.types.SkewedKeys((17, 42), 2)
    shared: DataFrame = wr.share({"one": describe()}, frames, skewed_keys=skewed)
    asked: DataFrame = wr.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW 1 MINUTE", spark, frames, "at")
    bids: wr.types.FileStream = wr.files(spark, "/data/bids", files_per_batch=8)
    mixed: DataFrame = wr.join({"a": a, "b": bids}, on="a.k = b.k", time="at", within="1 minute")
    served: wr.types.Dashboard = wr.dashboard(started)
    measured: wr.types.MetricsList = wr.metrics(started)
    batch: wr.types.BatchMetrics = measured[-1]
    queries: Mapping[str, wr.types.BatchQueryMetrics] = batch.queries
    partition: wr.types.PartitionMetrics = batch.partitions[0]
    streams: Mapping[str, wr.types.PartitionStreamMetrics] = partition.streams
    print(queries, streams)
    why: str | None = wr.reason(started)
    return [joined, shared, mixed, asked, served, measured.to_pandas(), why, *measured]


def refuse() -> None:
    try:
        describe()
    except (wr.QueryError, wr.DataError, wr.StateError) as error:
        wider: wr.WindrowError = error
        place: wr.types.Option | None = wider.place
        print(wider, place)
