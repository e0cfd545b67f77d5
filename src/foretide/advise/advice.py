"""What an application paid and what it would have paid, with the latency of either."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretide.advise.learning import learn_query, logged_latencies
from foretide.control.settings import ControlSettings, ExecutorSettings
from foretide.errors import ConfigError
from foretide.eventlogs.application import LoggedApplication
from foretide.records import Floats
from foretide.sim.attached.latencies import Latencies
from foretide.sim.attached.query import QueryModel
from foretide.sim.attached.run import ApplicationRun, simulate_application

__all__ = ["Advice", "Late", "QueryAdvice", "Wanted", "advise"]

# Executors that come later than this after the application's start were asked for later.
_FIRST_S = 120.0
# What is taken for the lead time where a log does not tell, and the least that is believed.
_LEAD_S, _LEAST_LEAD_S = 30.0, 1.0


@dataclass(frozen=True)
class Wanted:
    """What to try on a log; None is what the log is asked for.

    Parameters
    ----------
    control : ControlSettings
        Who decides.
    executors : ExecutorSettings, optional
        Bounds and patience; by default from one executor up to the most that the log has.
    lead_s : float, optional
        Seconds from a request until an executor gets tasks.
    """

    control: ControlSettings
    executors: ExecutorSettings | None = None
    lead_s: float | None = None


@dataclass(frozen=True)
class Late:
    """Latencies of rows, in seconds."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float

    @classmethod
    def of(cls, latencies: Latencies) -> Late:
        """Return the figures of latencies."""
        return cls(latencies.mean_s, *(latencies.quantile_s(level) for level in (0.5, 0.95, 0.99)))

    def to_data(self) -> dict[str, float | None]:
        """Return the figures as plain values."""
        return {name: None if math.isnan(value) else round(value, 3) for name, value in vars(self).items()}


@dataclass(frozen=True)
class QueryAdvice:
    """What is said about one query: what was learnt of it, and its latency then and under the policy."""

    model: QueryModel
    rows: int
    batches: int
    then: Late
    foretold: Late

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        model = self.model
        return {
            "name": model.name,
            "rows": self.rows,
            "batches": self.batches,
            "start_s": round(model.start_s, 4),
            "batch_s": round(model.batch_s, 4),
            "cold_s": round(model.cold_s, 4),
            "row_s": model.row_s,
            "trigger_s": model.trigger_s,
            "tasks": model.tasks,
            "then": self.then.to_data(),
            "foretold": self.foretold.to_data(),
        }


@dataclass(frozen=True)
class Advice:
    """What is said about an application.

    Parameters
    ----------
    application : LoggedApplication
        What ran.
    from_s, until_s : float
        The part of it that is compared: from the end of its first batch to that of its last, in seconds since the
        epoch.
    lead_s : float
        Seconds until an executor comes.
    executors : ExecutorSettings
        The bounds.
    paid_s, foretold_s : float
        Executor-seconds then, and under the policy.
    then, foretold : Late
        Latencies of all queries.
    checked : Late
        What the model makes of the executors that there really were: how far it can be trusted.
    queries : tuple of QueryAdvice
        Every query by itself.
    run : ApplicationRun
        The run under the policy.
    notes : tuple of str
        What to know about it.
    """

    application: LoggedApplication
    from_s: float
    until_s: float
    lead_s: float
    executors: ExecutorSettings
    paid_s: float
    foretold_s: float
    then: Late
    foretold: Late
    checked: Late
    queries: tuple[QueryAdvice, ...]
    run: ApplicationRun
    notes: tuple[str, ...] = ()

    @property
    def saved(self) -> float:
        """The part of the executor-seconds that would have been saved; below 0 where more would have been paid."""
        return 1.0 - self.foretold_s / self.paid_s if self.paid_s else 0.0

    @property
    def seconds(self) -> float:
        """Seconds that are compared."""
        return self.until_s - self.from_s

    def course(self) -> tuple[Floats, Floats, Floats]:
        """Return seconds since the beginning, and the executors that there were and that there would have been."""
        at_s = self.run.at_s
        then = [self.application.executors_at(self.from_s + at) for at in at_s.tolist()]
        return at_s, np.array(then), self.run.executors

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        found = self.application
        return {
            "log": found.log,
            "application": found.id,
            "name": found.name,
            "spark": found.spark,
            "seconds": round(self.seconds, 3),
            "cores": found.cores,
            "dynamic_allocation": found.dynamic,
            "lead_s": round(self.lead_s, 2),
            "minimum": self.executors.minimum,
            "maximum": self.executors.maximum,
            "executor_seconds": {"then": round(self.paid_s, 1), "foretold": round(self.foretold_s, 1)},
            "saved": round(self.saved, 4),
            "changes": self.run.changes,
            "turns": self.run.turns,
            "latency": {
                "then": self.then.to_data(),
                "foretold": self.foretold.to_data(),
                "model_of_then": self.checked.to_data(),
            },
            "queries": [query.to_data() for query in self.queries],
            "notes": list(self.notes),
        }


def advise(
    application: LoggedApplication, wanted: Wanted, watch: Callable[[float, float], None] | None = None
) -> Advice:
    """Return what an application would have paid under a policy, and how late its rows would have been.

    Parameters
    ----------
    application : LoggedApplication
        What its log tells.
    wanted : Wanted
        What to try.
    watch : callable, optional
        Told the simulated seconds that have passed, and those of the whole run.

    Raises
    ------
    ConfigError
        When the log is too short for a decision.
    """
    # Nothing is decided before a first batch has ended, which starts Python and compiles plans.
    from_s = min(query.batches[0].ended_at_s for query in application.queries)
    until_s = max(query.batches[-1].ended_at_s for query in application.queries)
    td_s = wanted.control.loop.td_s
    if until_s - from_s < 3 * td_s:
        raise ConfigError(
            f"event log {application.log}",
            expected=f"at least three intervals of {td_s:g} s",
            got=f"{until_s - from_s:.0f} s of batches",
            remedy="take the log of a longer run, or a shorter --td",
        )
    models = [learn_query(application, query, from_s) for query in application.queries]
    first, bounds = application.executors_at(from_s), _bounds(application, wanted.executors)
    lead_s = _lead_seconds(application) if wanted.lead_s is None else wanted.lead_s

    def run(control: ControlSettings, executors: ExecutorSettings, tell: Any = None) -> ApplicationRun:
        return simulate_application(
            models,
            control,
            executors.model_copy(update={"lead_s": lead_s}),
            until_s=until_s - from_s,
            cores=application.cores,
            lead_s=lead_s,
            first=max(first, 1),
            watch=tell,
        )

    found = run(_in_line(wanted.control), bounds, watch)
    then = {query.name: logged_latencies(query, model.curve, from_s) for query, model in _pairs(application, models)}
    # The same model with as many executors as there really were on average: it should find them as late as they were.
    real = max(1, round(application.executor_s(from_s, until_s) / (until_s - from_s)))
    fixed = ControlSettings(
        loop=wanted.control.loop, planner="static", planners={"static": {"replicas": real}}, forecaster="basic"
    )
    checked = run(fixed, ExecutorSettings(minimum=real, maximum=real))
    everything = Latencies()
    for latencies in then.values():
        everything.extend(latencies)
    return Advice(
        application=application,
        from_s=from_s,
        until_s=until_s,
        lead_s=lead_s,
        executors=bounds,
        paid_s=application.executor_s(from_s, until_s),
        foretold_s=found.executor_s,
        then=Late.of(everything),
        foretold=Late.of(found.all_latencies),
        checked=Late.of(checked.all_latencies),
        queries=tuple(
            QueryAdvice(
                model, query.rows, len(query.batches), Late.of(then[query.name]), Late.of(found.latencies[query.name])
            )
            for query, model in _pairs(application, models)
        ),
        run=found,
        notes=_notes(application, wanted),
    )


def _pairs(application: LoggedApplication, models: list[QueryModel]) -> list[tuple[Any, QueryModel]]:
    return list(zip(application.queries, models, strict=True))


def _in_line(control: ControlSettings) -> ControlSettings:
    """Return settings whose results do not depend on when a model that trains in the background is ready."""
    if control.forecaster != "auto":
        return control
    given = {**control.forecasters, "auto": {"background": False, **control.forecasters.get("auto", {})}}
    return control.model_copy(update={"forecasters": given})


def _bounds(application: LoggedApplication, given: ExecutorSettings | None) -> ExecutorSettings:
    if given is not None:
        return given
    instants = [executor.came_at_s for executor in application.executors]
    return ExecutorSettings(minimum=1, maximum=max(1, *(application.executors_at(at_s) for at_s in instants)))


def _lead_seconds(application: LoggedApplication) -> float:
    """Return how long executors took to come, as those tell that were asked for when the application began."""
    waits = [executor.came_at_s - application.began_at_s for executor in application.executors]
    first = [wait for wait in waits if 0 <= wait <= _FIRST_S]
    return max(_LEAST_LEAD_S, float(np.median(first))) if first else _LEAD_S


def _notes(application: LoggedApplication, wanted: Wanted) -> tuple[str, ...]:
    notes = list(application.notes)
    if application.dynamic:
        notes.append("Spark's dynamic allocation scaled it then")
    if wanted.control.loop.advisory:
        notes.append("--advisory changes nothing here: advice never does")
    return tuple(notes)
