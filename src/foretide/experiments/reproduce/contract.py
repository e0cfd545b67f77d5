"""What an experiment is made of: runs to make, and a conclusion that compares them with a paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from foretide.errors import ConfigError
from foretide.experiments.report import Check, Line, Panel
from foretide.experiments.reproduce.comparison import Comparison, Metric, Printed, Trial

__all__ = [
    "Check",
    "Comparison",
    "Experiment",
    "Job",
    "Line",
    "Metric",
    "Outcomes",
    "Panel",
    "Printed",
    "Result",
    "Scope",
    "Trial",
]


class Job(Hashable, Protocol):
    """One run: the same for the same value, so that experiments that need the same run share it.

    It travels to another process, and so does what it returns.
    """

    @property
    def label(self) -> str:
        """What it is, for progress."""
        ...

    @property
    def cost(self) -> float:
        """Seconds that it takes, roughly: long ones begin first."""
        ...

    def run(self) -> Any:
        """Make the run."""
        ...


Outcomes = Mapping[Job, Any]


@dataclass(frozen=True)
class Scope:
    """How much of an experiment is done.

    Parameters
    ----------
    seeds : int
        Runs with different randomness; seeds are 1, 2, ...
    first_s : float, optional
        Only this many seconds of every input, to try an experiment out. Its numbers cannot be compared.
    traces : Path, optional
        The folder with series that are not shipped.

    Examples
    --------
    >>> Scope(seeds=3).numbers
    (1, 2, 3)
    """

    seeds: int = 5
    first_s: float | None = None
    traces: Path | None = None

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError("--seeds", expected="at least 1", got=self.seeds)
        if self.first_s is not None and not 60 <= self.first_s < math.inf:
            raise ConfigError("--first", expected="at least 60 seconds", got=self.first_s)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(range(1, self.seeds + 1))

    @property
    def whole(self) -> bool:
        """Whether every input is used to its end."""
        return self.first_s is None


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of an experiment.

    Parameters
    ----------
    comparisons : tuple of Comparison
        Reproduced numbers and the paper's.
    checks : tuple of Check
        Statements, and whether they hold.
    panels : tuple of Panel
        The figure.
    notes : tuple of str
        How it was set up, and where that departs from the paper.
    """

    comparisons: tuple[Comparison, ...]
    checks: tuple[Check, ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A published table or figure, and how to reproduce it.

    Parameters
    ----------
    name : str
        What the command line calls it.
    title : str
        What it reproduces.
    source : str
        The key of the paper in docs/references.md.
    seconds : float
        How long it takes on two cores, roughly.
    jobs : callable
        From a scope to the runs that it needs.
    conclude : callable
        From the scope and the outcomes of the runs to the result.
    inputs : callable
        From a scope to the data that the runs are made with, a line for each: file and source, or that it is made up.
    """

    name: str
    title: str
    source: str
    seconds: float
    jobs: Callable[[Scope], Sequence[Job]] = field(repr=False)
    conclude: Callable[[Scope, Outcomes], Result] = field(repr=False)
    inputs: Callable[[Scope], Sequence[str]] = field(repr=False, default=lambda scope: ())
