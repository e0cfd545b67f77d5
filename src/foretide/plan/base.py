"""The contract of planners, and the record they plan from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from foretide.errors import PlanError
from foretide.plan.knobs import Knob
from foretide.records import Floats, Forecast, Hiring, Ints, Plan, SharedSlots, Term, Window
from foretide.topology import Topology

__all__ = ["Planner", "Situation"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Situation:
    """Everything that a planner may look at: what was measured, what is expected, what runs now.

    Parameters
    ----------
    topology : Topology
        The operators and their bounds.
    window : Window
        The last interval and the history before it.
    forecasts : mapping of str to Forecast
        The forecast of each source's rate.
    replicas : array of int over operators
        The replicas that are meant to be active now.
    changed_at_s : array over operators
        When each operator's replicas last changed; minus infinity if never.
    stages : SharedSlots, optional
        The stages of a data plane whose operators share slots; unset, every operator has replicas of its own.
    """

    topology: Topology
    window: Window
    forecasts: Mapping[str, Forecast]
    replicas: Ints
    changed_at_s: Floats
    stages: SharedSlots | None = None

    @property
    def now_s(self) -> float:
        """The end of the window."""
        return self.window.ended_at_s

    @cached_property
    def came_from(self) -> tuple[str, ...]:
        """The ids of the records in it."""
        return (self.window.id, *(forecast.id for forecast in self.forecasts.values()))

    def expected_arrivals(self, intervals: int = 1) -> Floats:
        """Return the events forecast for each of the next intervals (rows) and sources (columns)."""
        missing = [source for source in self.window.layout.sources if source not in self.forecasts]
        if missing:
            raise PlanError(
                f"source {missing[0]!r}: expected a forecast of its rate, got forecasts of {list(self.forecasts)}; "
                "give the control loop a forecaster"
            )
        columns = [
            self.forecasts[source].interval_events(self.window.duration_s, intervals)
            for source in self.window.layout.sources
        ]
        return np.stack(columns, axis=1)


class Planner(BaseModel):
    """Turns a situation into a plan.

    A planner is its own settings: parameters are validated fields with descriptions (ADR 0002). Most planners keep
    nothing between two calls; those that do (a knowledge base, the time of the last alarm) say so.

    Class attributes: `name` for the registry and the command line, `summary` in one line, `spec` the SPEC ids it
    implements, `needs_forecast` whether it reads forecasts, `by_stage` whether it plans slots per stage where operators
    share them; plans of others are replicas of operators, and a stage has as many slots as its operators replicas;
    `knobs` the settings that trade replicas for waiting, each an alternative to the others; `by_lag_alone` whether it
    goes by what waits and nothing else; `durations` the settings that are times of real life, which pass as fast as a
    trace is replayed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClassVar[tuple[str, ...]]
    needs_forecast: ClassVar[bool] = False
    by_stage: ClassVar[bool] = False
    knobs: ClassVar[tuple[Knob, ...]] = ()
    by_lag_alone: ClassVar[bool] = False
    durations: ClassVar[tuple[str, ...]] = ()
    #: The version of the form of what is `learnt`; it grows when earlier knowledge can no longer be resumed.
    knowledge_version: ClassVar[int] = 1

    @property
    def intervals_ahead(self) -> int:
        """How many intervals of forecast it wants."""
        return 1

    def learnt(self) -> Mapping[str, Any] | None:
        """Return what it has learnt about the topology, as plain data for JSON; None where there is nothing to keep.

        It is kept with the recorded runs and handed to `resume` when the topology runs again. JSON has no NaN: what is
        not known becomes None.
        """
        return None

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        """Go on from what `learnt` returned in an earlier run of the same topology, at the same version.

        Whatever it raises is reported, and the planner is then used as if it had not been called: it must take over
        all or nothing.
        """

    @abstractmethod
    def plan(self, situation: Situation) -> Plan:
        """Return how many replicas every operator is to have next."""

    def decide_slots(
        self,
        situation: Situation,
        slots: npt.ArrayLike,
        terms: tuple[Term, ...],
        *,
        demand: Floats,
        hiring: Mapping[str, Hiring] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Plan:
        """Make the plan from the slots wanted of each stage, within its bounds; operators have parts by `demand`."""
        stages = situation.stages
        assert stages is not None, "slots are planned where operators share them"
        within = np.clip(np.asarray(slots), stages.least, stages.most).astype(np.int64)
        share = stages.sums(demand)
        parts = within * np.divide(1.0, share, out=np.zeros(share.size), where=share > 0)
        equations = (f"{self.name}: least ≤ s ≤ most", "s·b_i / Σ b over the stage")
        bounds = (
            Term("s", "slots of its stage, within bounds", equations[0], stages.spread(within.astype(np.float64))),
            Term("s_i", "its part of them", equations[1], np.nan_to_num(demand) * stages.spread(parts)),
        )
        return Plan(
            layout=situation.window.layout,
            planner=self.name,
            made_at_s=situation.now_s,
            replicas=stages.parts(within, demand),
            demand=demand,
            terms=(*terms, *bounds),
            notes=warnings,
            came_from=situation.came_from,
            stages=stages,
            hiring=hiring or {},
            warnings=warnings,
        )

    def decide(
        self,
        situation: Situation,
        wanted: npt.ArrayLike,
        terms: tuple[Term, ...],
        *,
        demand: Floats | None = None,
        schedule: Ints | None = None,
        notes: tuple[str, ...] = (),
    ) -> Plan:
        """Make the plan from the replicas wanted: within each operator's bounds, every term kept.

        Where `wanted` is NaN (an operator whose execution time is not known yet) the present number stays.
        """
        topology = situation.topology
        numbers = np.asarray(wanted, dtype=np.float64)
        unknown = np.isnan(numbers)
        held = np.where(unknown, situation.replicas, numbers)
        replicas = topology.bounded(held)
        if unknown.any():
            names = [situation.window.layout.operators[column] for column in np.flatnonzero(unknown)[:5]]
            notes = (*notes, f"execution time of {', '.join(names)} not known yet: replicas stay as they are")
        bounds = Term("r", "replicas within bounds", f"{self.name}: minimum ≤ r ≤ maximum", replicas.astype(np.float64))
        return Plan(
            layout=situation.window.layout,
            planner=self.name,
            made_at_s=situation.now_s,
            replicas=replicas,
            demand=demand,
            terms=(*terms, bounds),
            schedule=schedule,
            notes=notes,
            came_from=situation.came_from,
        )
