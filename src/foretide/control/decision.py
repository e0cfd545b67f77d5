"""The record of one cycle, and its explanation from measurements to replica counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from foretide.errors import ConfigError
from foretide.records import Action, Forecast, Ints, Plan, Term, Window
from foretide.topology import DEFAULT_OUTPUT

__all__ = ["Decision", "Explanation", "Failure", "Stage", "changed_counts"]

Stage: TypeAlias = Literal["monitor", "forecast", "plan", "act"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a cycle, and in which stage of it.

    `ready` is False when nothing is wrong but it is too early to decide.
    """

    stage: Stage
    error: Exception
    ready: bool = True

    def __str__(self) -> str:
        return f"{self.stage}: {self.error}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one operator got its replicas: the chain from measurements through equations to the count.

    Parameters
    ----------
    operator : str
        The operator.
    replicas : int
        What the plan gives it.
    steps : tuple of mapping
        One mapping per step, in order: ``symbol``, ``meaning``, ``equation``, ``value``, ``unit``.
    sources : tuple of str
        The ids of the records that the plan was made from.
    notes : tuple of str
        What guards and planner had to say.
    outcome : str
        What became of the plan.
    """

    operator: str
    replicas: int
    steps: tuple[Mapping[str, Any], ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    outcome: str

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON: a value that is not known is None."""
        return {
            "operator": self.operator,
            "replicas": self.replicas,
            "steps": [{**step, "value": _plain(step["value"])} for step in self.steps],
            "came_from": list(self.sources),
            "notes": list(self.notes),
            "outcome": self.outcome,
        }

    @property
    def chain(self) -> tuple[str, ...]:
        """The steps in words, a line for each."""
        lines = []
        for step in self.steps:
            quantity = f"{step['symbol']} = {step['value']:.6g}{' ' + step['unit'] if step['unit'] else ''}"
            lines.append(f"  {quantity:<28} {step['meaning']}  [{step['equation']}]")
        return tuple(lines)

    def __str__(self) -> str:
        lines = [f"{self.operator}: {self.replicas} replica{'s' if self.replicas != 1 else ''} ({self.outcome})"]
        lines += [*self.chain, *(f"  note: {note}" for note in self.notes)]
        lines.append(f"  from {', '.join(self.sources)}")
        return "\n".join(lines)


def changed_counts(plan: Plan, replicas_before: Ints, replicas_after: Ints) -> str:
    """Return which units of a plan get another count, in words; the first ten of them by name."""
    before, after = plan.counted(replicas_before), plan.counted(replicas_after)
    columns = np.flatnonzero(after != before)
    shown = [f"{plan.units[c]} {before[c]} → {after[c]}" for c in columns[:10]]
    more = f" and {columns.size - 10} more" if columns.size > 10 else ""
    return (", ".join(shown) + more) or "no change"


def _plain(value: float) -> float | None:
    """Return `value`, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Decision:
    """Everything about one cycle of the loop.

    Parameters
    ----------
    cycle : int
        Its number, from 1.
    at_s : float
        When it ran.
    window, forecasts, plan, action
        The records of its stages, as far as it came.
    failure : Failure, optional
        What kept it from coming further; the last good plan then stays in force.
    """

    cycle: int
    at_s: float
    window: Window | None = None
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    plan: Plan | None = None
    action: Action | None = None
    failure: Failure | None = None

    def explain(self, operator: str | None = None) -> tuple[Explanation, ...]:
        """Return why `operator`, or each operator, got its replicas; nothing where the cycle made no plan.

        Raises
        ------
        ConfigError
            When the topology has no such operator.
        """
        if self.plan is None or self.window is None:
            return ()
        operators = self.plan.layout.operators
        if operator is not None and operator not in self.plan.layout.operator_index:
            raise ConfigError("operator", expected=f"one of {', '.join(operators[:10])}", got=repr(operator))
        names = operators if operator is None else (operator,)
        measured, shares = _measured(self.window), _shares(self.window, set(names))
        expected = _forecast(self.forecasts)
        return tuple(
            self._explain(name, self.plan, (*measured, *shares[name], *expected, *self.plan.terms)) for name in names
        )

    def _explain(self, operator: str, plan: Plan, terms: tuple[Term, ...]) -> Explanation:
        column = plan.layout.operator_index[operator]
        return Explanation(
            operator=operator,
            replicas=int(plan.replicas[column]),
            steps=tuple(_step(term, column) for term in terms),
            sources=(*plan.came_from, *(self.window.measurement_ids if self.window else ())),
            notes=plan.notes,
            outcome=self._outcome(),
        )

    def _outcome(self) -> str:
        if self.action is None:
            return str(self.failure) if self.failure else "not acted upon"
        return f"{self.action.status}: {self.action.detail}" if self.action.detail else self.action.status


def _measured(window: Window) -> tuple[Term, ...]:
    return (
        Term("λ_G", "input of the last interval", "measured", float(window.arrived.sum()), "events"),
        Term("λ", "events received in the last interval", "measured", window.received, "events"),
        Term("μ", "events processed in the last interval", "measured", window.processed, "events"),
        Term("U", "utilisation of the replicas", "P3 Eq. 1: U = μ·et/td, mean over replicas", window.utilisation),
    )


def _shares(window: Window, operators: set[str]) -> Mapping[str, list[Term]]:
    """Return the shares of the edges into each of these operators."""
    terms: dict[str, list[Term]] = {operator: [] for operator in operators}
    for (start, output, end), share in zip(window.layout.edges, window.share.tolist(), strict=True):
        if end in operators:
            branch = start if output == DEFAULT_OUTPUT else f"{start}[{output}]"
            meaning = f"events from {branch} per event finished there"
            terms[end].append(Term(f"θ({branch})", meaning, "P5 Eq. 6: θ_i^p = λ_i^p/μ_p, else declared", share))
    return terms


def _forecast(forecasts: Mapping[str, Forecast]) -> tuple[Term, ...]:
    return tuple(
        Term(
            f"λ̂({source})",
            "mean rate forecast"
            + (" (last value, since the forecaster failed or is not trained yet)" if forecast.fallback else ""),
            f"forecaster {forecast.made_by}",
            float(forecast.mean.mean()),
            "events/s",
        )
        for source, forecast in forecasts.items()
    )


def _step(term: Term, column: int) -> Mapping[str, Any]:
    return {
        "symbol": term.symbol,
        "meaning": term.meaning,
        "equation": term.equation,
        "value": term.value(column),
        "unit": term.unit,
    }
