"""Vehicles that pass four gates, on a machine that is too slow: `python examples/tracking.py`.

Readings of gates next to each other are of one vehicle if what they saw lies within 0.2 of each other; a
result is a way through all gates. How the readings are drawn: lab/src/windrow_lab/tracking.py.
"""

from __future__ import annotations

import argparse

from windrow_lab.slow_machine import Scenario, compare
from windrow_lab.tracking import ON, WITHIN, passages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="of readings (default 600)")
    parser.add_argument("--rate", type=float, default=4, help="vehicles per second (default 4)")
    parser.add_argument("--slower", type=float, default=5, help="times too slow a machine (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    readings = passages(asked.seconds, asked.rate, asked.seed)
    print(", ".join(f"gate {gate}: {table.num_rows:,} readings" for gate, table in readings.items()))
    scene = Scenario(readings, asked.seconds, tick=2, time="at", within=WITHIN, on=ON)
    print(compare(scene, asked.slower, asked.seed))


if __name__ == "__main__":
    main()
