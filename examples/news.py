"""Similar news items from three sources, on a machine that is too slow: `python examples/news.py`.

Items are weighted keywords; three of them, one of each source, are about the same story if all inner products
are 0.75 or more. How the items are drawn: lab/src/windrow_lab/news.py.
"""

from __future__ import annotations

import argparse

from windrow_lab.news import ON, WITHIN, news_items
from windrow_lab.slow_machine import Scenario, compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120, help="of news (default 120)")
    parser.add_argument("--stories", type=float, default=12, help="per minute (default 12)")
    parser.add_argument("--slower", type=float, default=5, help="times too slow a machine (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    items = news_items(asked.minutes, asked.stories, asked.seed)
    print(", ".join(f"{source}: {table.num_rows:,} items" for source, table in items.items()))
    scene = Scenario(items, 60 * asked.minutes, tick=60, time="at", within=WITHIN, on=ON)
    print(compare(scene, asked.slower, asked.seed))


if __name__ == "__main__":
    main()
