"""What an experiment is made of: runs to make, and a conclusion that compares them with a paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from foretide.errors import ConfigError
from foretide.experiments.report import Check, Line, Panel

__all__ = [
    "Check",
    "Comparison",
    "Experiment",
    "Job",
    "Line",
    "Metric",
    "Outcomes",
    "Panel",
    "Result",
    "Scope",
]


# Below this a number of milliseconds or replicas is written as 0; above that many times, a deviation as a factor.
_NOTHING, _MANY_TIMES = 0.005, 10.0


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


@dataclass(frozen=True)
class Metric:
    """A quantity, and how it is written and compared.

    Parameters
    ----------
    key, title : str
        Its name in data and in tables.
    unit : {"part", "ms", "count", "ratio"}
        Parts and ratios are compared by difference, milliseconds and counts by percentage.

    Examples
    --------
    >>> saved, latency = Metric("saved", "saved resources", "part"), Metric("latency", "latency (ms)", "ms")
    >>> saved.shown(0.4751), saved.deviation(0.47, 0.475), latency.deviation(400.0, 355.49)
    ('0.475', '-0.005', '+13%')
    """

    key: str
    title: str
    unit: Literal["part", "ms", "count", "ratio"]

    def shown(self, value: float | None) -> str:
        """Return a value as text; a dash if there is none."""
        if value is None or not math.isfinite(value):
            return "–"
        if self.unit in ("part", "ratio"):
            return f"{value:.3f}"
        if abs(value) < _NOTHING:
            return "0"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

    def deviation(self, ours: float, paper: float | None) -> str:
        """Return how far ours is from the paper's."""
        if paper is None or not math.isfinite(ours):
            return "–"
        if self.unit in ("part", "ratio"):
            return f"{round(ours - paper, 3) + 0.0:+.3f}"
        if paper == 0:
            return "–"
        return f"× {ours / paper:.0f}" if ours > _MANY_TIMES * paper else f"{ours / paper - 1:+.0%}"


@dataclass(frozen=True)
class Comparison:
    """A reproduced number and the paper's.

    Parameters
    ----------
    subject : str
        What was run, such as a forecaster.
    metric : Metric
        What was measured.
    values : tuple of float
        Ours, one per seed.
    paper : float, optional
        The published number; None if the paper prints none.
    remark : str
        A contradiction in the paper, or anything that a reader must know.

    Examples
    --------
    >>> Comparison("ANN", Metric("saved", "saved resources", "part"), (0.47, 0.48), 0.475).ours
    0.475
    """

    subject: str
    metric: Metric
    values: tuple[float, ...]
    paper: float | None = None
    remark: str = ""

    @property
    def ours(self) -> float:
        """The mean over the seeds."""
        finite = [value for value in self.values if math.isfinite(value)]
        return float(np.mean(finite)) if finite else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds."""
        return float(np.std(self.values))


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
