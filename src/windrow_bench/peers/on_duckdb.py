"""DuckDB's side: all files at once, as a process of its own.

python -m windrow_bench.peers.on_duckdb JOIN FOLDER CORES
"""

from __future__ import annotations

import json
import sys
import time

import duckdb

from windrow_bench.peers.joins import JOINS


def main(name: str, folder: str, cores: str) -> None:
    join = JOINS[name]
    with duckdb.connect(config={"threads": int(cores)}) as connection:
        for alias in join.aliases:
            connection.execute(f"create view {alias} as from '{folder}/{alias}/*.parquet'")
        began = time.perf_counter()
        found = connection.sql(f"select count(*), sum({join.fingerprint}) from {join.chain}").fetchall()
        seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "answer": [int(value or 0) for value in found[0]]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
