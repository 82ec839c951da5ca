"""One file an experiment: each defines `EXPERIMENT`, and its name is the file's with dashes."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from windrow.errors import QueryError, unknown
from windrow_lab.experiment import Experiment


def names() -> tuple[str, ...]:
    """All experiments, in order."""
    return tuple(sorted(module.name.replace("_", "-") for module in iter_modules(__path__)))


def find(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in names():
        raise QueryError(unknown("experiment", name, names()))
    experiment = import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
    assert isinstance(experiment, Experiment)
    assert experiment.name == name, f"{name} calls itself {experiment.name}"
    return experiment
