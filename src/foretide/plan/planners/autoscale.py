"""AUTOSCALE: estimate each operator's input by regression and along the DAG, rescale outside a working interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.plan.base import Planner, Situation
from foretide.plan.capacity import capacity
from foretide.plan.knobs import Axis, Knob
from foretide.plan.load import whole_replicas
from foretide.records import Floats, Plan, Term
from foretide.regression import Curve, predict_rates

__all__ = ["Autoscale", "InputEstimate"]

# A demand this close to a bound of the working interval is on it: the sums before it are not exact.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class InputEstimate:
    """What each operator is to process in the next interval, with its parts (SPEC D1 Eq. 3-5), as events.

    Parameters
    ----------
    own : array over operators
        What the operator's own history predicts (EstimR).
    from_parents : array over operators
        What its parents will send, Σ EstimOutput.
    total : array over operators
        EstimInput: the combination of both, and the events that are pending.
    """

    own: Floats
    from_parents: Floats
    total: Floats


class Autoscale(Planner):
    r"""Rescale an operator when its estimated input leaves the interval that its replicas work well in.

    Eq. 3-6 and 10-12 of [DABS]_ as far as they hold for AUTOSCALE, the predecessor of AUTOSCALE+: the estimate comes
    from a linear regression alone, and a replica is taken to have a core of its own, so UtilCPU is 1 and the reserved
    capacity is the ideal one.

    - Estimate: :math:`EstimInput = combine(EstimR, \sum_p EstimOutput_p) + pending`, where a parent's output is its
      own estimate times the share of the edge, and a source is a parent whose estimate is the regression on what
      arrived there. Where no sample is known yet, the last interval stands in for the regression.
    - Decision: with :math:`idealK = EstimInput/Capacity`, nothing happens inside :math:`[\beta k, k]`. Outside it,
      k' is the smallest degree that carries the input by the reserved capacity.
    - A scale-out that would not raise k, or a scale-in that would not lower it, leaves k alone. The paper is silent
      there; in AUTOSCALE+ it happens, since reserved and usable CPU differ.

    >>> Autoscale(combine="min").beta
    0.8
    """

    name: ClassVar[str] = "autoscale"
    summary: ClassVar[str] = "linear regression on each operator's input, rescaled outside [β·k, k] (AUTOSCALE)"
    spec: ClassVar[tuple[str, ...]] = ("D1", "D3")
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(Axis("beta", (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))),)
    curves: ClassVar[tuple[Curve, ...]] = ("linear",)
    usable_rule: ClassVar[str] = "a core of its own"
    reserved_rule: ClassVar[str] = "D3 Eq. 13 with a core of its own: Δ/Lat"

    combine: Literal["max", "min"] = Field(
        default="max",
        description="Which estimate of the input to trust, own history or parents': max is cautious, min frugal.",
    )
    beta: float = Field(
        default=0.8, gt=0, le=1, description="Scale in only when fewer than this part of the replicas would do."
    )
    window: int = Field(default=12, ge=2, description="Samples of history that the curves are fitted to.")
    settle_s: float = Field(
        default=0.0,
        ge=0,
        description="Leave an operator alone for this long after a change, while its measurements settle.",
    )

    def plan(self, situation: Situation) -> Plan:
        """Estimate the next interval's input and rescale the operators that it takes out of their interval."""
        window = situation.window
        usable, reserved = self.cpu(situation)
        estimate = self.estimate(situation)
        each = capacity(window.duration_s, window.execution_s, usable)
        guaranteed = capacity(window.duration_s, window.execution_s, reserved)
        ideal = estimate.total / each
        present = situation.replicas.astype(np.float64)
        fitting = whole_replicas(estimate.total / guaranteed)
        wanted = _outside(ideal, self.beta * present, present, fitting)
        settling = situation.now_s - situation.changed_at_s < self.settle_s
        terms = (
            *self._estimate_terms(situation, estimate),
            Term(
                "Lat", "execution time of one event", "measured: busy time / events processed", window.execution_s, "s"
            ),
            Term("UtilCPU", "usable part of a core", self.usable_rule, usable),
            Term("Capacity", "events that a replica finishes", "D2 Eq. 9: Δ/Lat·UtilCPU", each, "events"),
            Term("idealK", "replicas that the input takes", "D3 Eq. 10: EstimInput/Capacity", ideal),
            Term("β·k", "below it, scale in", f"D3 Eq. 11: {self.beta:g}·k", self.beta * present),
            *self._degree_terms(guaranteed, fitting, wanted),
        )
        names = [window.layout.operators[column] for column in np.flatnonzero(settling)[:5]]
        notes = (f"{', '.join(names)} left alone while a change settles",) if names else ()
        return self.decide(situation, np.where(settling, present, wanted), terms, demand=ideal, notes=notes)

    def estimate(self, situation: Situation) -> InputEstimate:
        """Return what each operator is to process in the next interval (D1)."""
        window, flow = situation.window, situation.topology.flow
        at_sources = self._regress(situation, window.arrival_rates, window.arrived)
        own = self._regress(situation, window.received_rates, window.received)
        choose = max if self.combine == "max" else min
        history, waiting = [*at_sources.tolist(), *own.tolist()], [*[0.0] * flow.sources, *window.queued.tolist()]
        sent = [*at_sources.tolist(), *[0.0] * flow.operators]
        # Edges come in the order of their starts, so all that flows into a start is summed before it flows on.
        for start, end, part in zip(flow.starts.tolist(), flow.ends.tolist(), window.share.tolist(), strict=True):
            sent[end] += (choose(history[start], sent[start]) + waiting[start]) * part
        from_parents = np.array(sent[flow.sources :])
        merge = np.maximum if self.combine == "max" else np.minimum
        return InputEstimate(own, from_parents, merge(own, from_parents) + window.queued)

    def cpu(self, situation: Situation) -> tuple[Floats, Floats]:
        """Return the part of a core that a replica of each operator can use, and that it can be sure of."""
        whole = np.ones(len(situation.window.layout.operators))
        return whole, whole

    def _regress(self, situation: Situation, rates: Floats, last: Floats) -> Floats:
        """Return the events that the history `rates` predicts; `last` if it holds no sample."""
        window = situation.window
        recent = rates[-self.window :]
        steps = max(1, round(window.duration_s / window.sample_s))
        # Samples are rates: their mean times Δ is Eq. 3's sum of amounts, even if Δ is not a multiple of a sample.
        events = predict_rates(recent, steps, self.curves).mean(axis=0) * window.duration_s
        return np.where(np.isfinite(recent).any(axis=0), events, last)

    def _estimate_terms(self, situation: Situation, estimate: InputEstimate) -> tuple[Term, ...]:
        rule = f"D1 Eq. 5: {self.combine}(EstimR, ΣEstimOutput) + pending"
        fitted = f"D1 Eq. 3: best of {', '.join(self.curves)}" if len(self.curves) > 1 else "D1 Eq. 3: linear"
        return (
            Term("EstimR", "input by the operator's own history", fitted, estimate.own, "events"),
            Term(
                "ΣEstimOutput",
                "input by its parents",
                "D1 Eq. 4: Σ_p EstimInput_p·α_p",
                estimate.from_parents,
                "events",
            ),
            Term("pending", "events queued at the operator", "measured", situation.window.queued, "events"),
            Term("EstimInput", "events to process", rule, estimate.total, "events"),
        )

    def _degree_terms(self, guaranteed: Floats, fitting: Floats, wanted: Floats) -> tuple[Term, ...]:
        rule = "D3 Eq. 12: ⌈EstimInput/ResCapacity⌉"
        return (
            Term("ResCapacity", "events that a replica is sure to finish", self.reserved_rule, guaranteed, "events"),
            Term("k'", "smallest degree that carries the input", rule, fitting),
            Term("k*", "degree decided", "D3: k inside [β·k, k], else k' where it moves the right way", wanted),
        )


def _outside(ideal: Floats, low: Floats, present: Floats, fitting: Floats) -> Floats:
    """Return `present` where `ideal` is inside [low, present], else `fitting` unless that moves the wrong way."""
    out = np.where(ideal > present + _ROUNDING, np.maximum(fitting, present), present)
    scaled = np.where(ideal < low - _ROUNDING, np.minimum(fitting, present), out)
    return np.where(np.isnan(ideal), np.nan, scaled)
