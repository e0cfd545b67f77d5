"""A reproduced number beside the printed one: where it is printed, how far ours is from it, and why.

The rules of every page are here. A number further than 10 % from print is *explained* if the paper contradicts itself
in that very number, or if an experiment brings it within 10 %: the same run under another assumption, or measured by
another definition, which moves no other number of its row or of its column away from print. Otherwise it is
*unexplained*. A number that was calibrated against print, or that is printed twice, is *no evidence*, however near it
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foretide.errors import ConfigError

__all__ = ["VERDICTS", "WITHIN", "Comparison", "Metric", "Printed", "Trial", "Verdict", "tally"]

#: How far a number may be from print, as a part of the printed one.
WITHIN = 0.10

Verdict = Literal["within 10 %", "explained", "unexplained", "no evidence", "not printed"]
#: The verdicts on printed numbers, in the order of the summary.
VERDICTS: tuple[Verdict, ...] = ("within 10 %", "explained", "unexplained", "no evidence")

# Below this a number of milliseconds or replicas is written as 0; above that many times, a deviation as a factor.
_NOTHING, _MANY_TIMES = 0.005, 10.0
# Parts are printed with three digits: half of the last one is rounding.
_ROUNDING = 0.0005


@dataclass(frozen=True)
class Metric:
    """A quantity, and how it is written and compared.

    Parameters
    ----------
    key, title : str
        Its name in data and in tables.
    unit : {"part", "ms", "count", "ratio"}
        Parts and ratios have three digits, milliseconds and counts as many as they need.

    Examples
    --------
    >>> saved, latency = Metric("saved", "saved resources", "part"), Metric("latency", "latency (ms)", "ms")
    >>> saved.shown(0.4751), saved.deviation(0.47, 0.475), latency.deviation(400.0, 355.49)
    ('0.475', '-1%', '+13%')
    """

    key: str
    title: str
    unit: Literal["part", "ms", "count", "ratio"]

    @property
    def rounding(self) -> float:
        """What rounding alone may add to a printed number."""
        return _ROUNDING if self.unit in ("part", "ratio") else 0.0

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
        """Return how far ours is from the paper's: in percent, or the difference where the paper has 0."""
        if paper is None or not math.isfinite(ours):
            return "–"
        if paper == 0:
            return f"{ours:+.3f}" if self.unit in ("part", "ratio") else "–"
        if ours > _MANY_TIMES * paper:
            return f"× {ours / paper:.0f}"
        return f"{round(ours / paper - 1, 2) + 0.0:+.0%}"

    def near(self, ours: float, paper: float) -> bool:
        """Return whether ours is within 10 % of the paper's, or differs by rounding alone.

        >>> saved = Metric("saved", "saved resources", "part")
        >>> saved.near(0.43, 0.475), saved.near(0.42, 0.475), saved.near(0.0004, 0.0), saved.near(math.nan, 0.5)
        (True, False, True, False)
        """
        # Rounding of sums must not decide.
        return abs(ours - paper) <= max(WITHIN * abs(paper), self.rounding) + 1e-9


@dataclass(frozen=True)
class Printed:
    """A number as it is printed.

    Parameters
    ----------
    value : float
        The number.
    where : str
        Document, section, and table or figure; the document by its key in docs/references.md.
    no_evidence : str
        Why it proves nothing that ours is near: calibrated against it, so by definition, or printed elsewhere too.
    contradiction : str
        What it contradicts in the same document, this very number.

    Examples
    --------
    >>> Printed(0.475, "PASPS, section 4.2, table 2").value
    0.475
    """

    value: float
    where: str
    no_evidence: str = ""
    contradiction: str = ""

    def __post_init__(self) -> None:
        if not self.where:
            raise ConfigError("where", expected="document, section, table or figure of a printed number", got="nothing")


@dataclass(frozen=True)
class Trial:
    """The same number with one assumption changed: an experiment on why it is off.

    `spoils` names the numbers of the same row or column that it moves away from print: such an assumption is no cause.
    """

    assumption: str
    value: float
    spoils: tuple[str, ...] = ()


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
    printed : Printed, optional
        The published number; None if the paper prints none.
    trials : tuple of Trial
        The same under other assumptions.

    Examples
    --------
    >>> latency = Metric("latency", "latency (ms)", "ms")
    >>> printed = Printed(355.49, "PASPS, section 4.2, table 2")
    >>> far = Comparison("ANN", latency, (200.0, 204.0), printed, (Trial("replicas active 5 s later", 335.0),))
    >>> far.ours, far.verdict, far.cause
    (202.0, 'explained', 'replicas active 5 s later: 335 (-6%)')
    """

    subject: str
    metric: Metric
    values: tuple[float, ...]
    printed: Printed | None = None
    trials: tuple[Trial, ...] = ()

    @property
    def ours(self) -> float:
        """The mean over the seeds."""
        finite = [value for value in self.values if math.isfinite(value)]
        return float(np.mean(finite)) if finite else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds."""
        return float(np.std(self.values))

    @property
    def paper(self) -> float | None:
        """The printed number."""
        return None if self.printed is None else self.printed.value

    @property
    def near(self) -> bool:
        """Whether ours is within 10 % of the printed number; not if none is printed."""
        return self.paper is not None and self.metric.near(self.ours, self.paper)

    @property
    def verdict(self) -> Verdict:
        """What the comparison comes to."""
        if self.printed is None:
            return "not printed"
        if self.printed.no_evidence:
            return "no evidence"
        if self.near:
            return "within 10 %"
        return "explained" if self.printed.contradiction or self._causes() else "unexplained"

    @property
    def cause(self) -> str:
        """Why it is off, or proves nothing; what comes nearest where it is unexplained; else nothing."""
        if self.printed is None or self.verdict == "within 10 %":
            return ""
        if self.printed.no_evidence:
            return self.printed.no_evidence
        if self.printed.contradiction:
            return f"the paper contradicts itself: {self.printed.contradiction}"
        if causes := self._causes():
            return self._text(causes[0])
        return f"nearest: {self._text(nearer[0])}" if (nearer := self._nearer()) else "nothing tried brings it nearer"

    def shows(self, trial: Trial) -> bool:
        """Return whether a trial is within 10 % of the printed number."""
        return self.paper is not None and self.metric.near(trial.value, self.paper)

    def _causes(self) -> list[Trial]:
        return [trial for trial in self._nearer() if self.shows(trial) and not trial.spoils]

    def _nearer(self) -> list[Trial]:
        """Return the trials that are nearer than ours, and than our first seed, which they share: nearest first."""
        paper = self.paper if self.paper is not None else math.nan
        away = min(abs(self.ours - paper), abs(self.values[0] - paper))
        return sorted(
            (trial for trial in self.trials if abs(trial.value - paper) < away),
            key=lambda trial: abs(trial.value - paper),
        )

    def _text(self, trial: Trial) -> str:
        but = f", but it moves {_listed(trial.spoils)} away from print" if trial.spoils else ""
        metric = self.metric
        return f"{trial.assumption}: {metric.shown(trial.value)} ({metric.deviation(trial.value, self.paper)}){but}"


def _listed(names: Sequence[str]) -> str:
    """Return names as text: two, and how many more."""
    shown = list(names[:2]) + ([f"{len(names) - 2} more"] if len(names) > 2 else [])
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def tally(verdicts: Iterable[str]) -> dict[Verdict, int]:
    """Return how many printed numbers have which verdict.

    >>> tally(["explained", "within 10 %", "not printed", "explained"])
    {'within 10 %': 1, 'explained': 2, 'unexplained': 0, 'no evidence': 0}
    """
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in VERDICTS}
