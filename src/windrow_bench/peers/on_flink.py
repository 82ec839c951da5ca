"""Flink's side, run by a Python that has PyFlink and need not have Windrow.

    python on_flink.py DOCUMENT

DOCUMENT is JSON: settings, statements, and a query that counts results and adds up their fingerprints.
"""

from __future__ import annotations

import json
import sys
import time


def main(document: str) -> None:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    given = json.loads(document)
    settings = Configuration()
    for key, value in given["settings"].items():
        settings.set_string(key, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    tables = TableEnvironment.create(chosen)
    for statement in given["statements"]:
        tables.execute_sql(statement)
    plan = tables.explain_sql(given["query"])
    began = time.perf_counter()
    answer = [0, 0]
    with tables.execute_sql(given["query"]).collect() as changes:
        for row in changes:  # of the sums so far; the last is the answer
            answer = [int(value or 0) for value in row]
    seconds = time.perf_counter() - began
    operators = [name for name in ("IntervalJoin", "MultiJoin") if f"{name}(" in plan]
    print(json.dumps({"seconds": seconds, "answer": answer, "operators": operators}))


if __name__ == "__main__":
    main(*sys.argv[1:])
