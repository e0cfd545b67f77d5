"""Every experiment, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from foretide.errors import ConfigError
from foretide.experiments.reproduce import grouping_split, osg_latency, presps_tables
from foretide.experiments.reproduce.bgelasor import figures as bgelasor
from foretide.experiments.reproduce.bgelasor import predictors as bgelasor_predictors
from foretide.experiments.reproduce.contract import Experiment
from foretide.experiments.reproduce.dabs import figures as dabs
from foretide.experiments.reproduce.pasps import tables as pasps_tables

__all__ = ["ALL", "EXPERIMENTS", "find_experiments"]

#: The name that stands for every experiment.
ALL = "all"

_MODULES = (pasps_tables, presps_tables, bgelasor_predictors, bgelasor, dabs, osg_latency, grouping_split)

#: Every experiment, in the order of the index.
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {experiment.name: experiment for module in _MODULES for experiment in module.EXPERIMENTS}
)


def find_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments of these names, each once, in the order of the index; patterns such as ``dabs-*`` work.

    Raises
    ------
    ConfigError
        When a name matches none: the message lists all of them.

    Examples
    --------
    >>> [experiment.name for experiment in find_experiments(["presps-*"])]
    ['presps-table3', 'presps-td']
    """
    wanted = {found for name in names for found in _matching(name)}
    return tuple(experiment for name, experiment in EXPERIMENTS.items() if name in wanted)


def _matching(name: str) -> list[str]:
    if name == ALL:
        return list(EXPERIMENTS)
    found = [known for known in EXPERIMENTS if fnmatchcase(known, name)]
    if not found:
        near = difflib.get_close_matches(name, [*EXPERIMENTS, ALL], n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "`foretide reproduce --list` says what each is"
        raise ConfigError("NAME", expected=f"{ALL}, or one of {', '.join(EXPERIMENTS)}", got=repr(name), remedy=remedy)
    return found
