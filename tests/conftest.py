"""Options and hypothesis profiles: the same examples every time, or with --soak many new ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SOAK = 100
"""How many times more examples a soak runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run many times more random queries, with new seeds")


def pytest_configure(config: pytest.Config) -> None:
    soak = config.getoption("--soak")
    settings.register_profile(
        "windrow",
        deadline=None,
        derandomize=not soak,
        database=None,
        print_blob=soak,
        suppress_health_check=QUIET,
        max_examples=100,
    )
    settings.load_profile("windrow")
    config.stash[EXAMPLES] = SOAK if soak else 1


EXAMPLES = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A soak multiplies the examples of every hypothesis test, whatever number it asks for."""
    times = config.stash[EXAMPLES]
    if times == 1:
        return
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None:
            test._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * times)
