"""What each worker did in a batch, and its features over time, from what tasks hand back (SPEC I3)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.health.features import machine_sample, worker_sample
from foretide.health.readings import STREAM, stream_features
from foretide.health.task_features import values_of
from foretide.store import FeatureSample

if TYPE_CHECKING:
    from foretide.spark.tasks.statistics import BatchStatistics

__all__ = ["FeatureLog", "FeatureReport", "WorkerStatistics", "worker_statistics"]


@dataclass(frozen=True)
class FeatureReport:
    """Features that a task read of its host; None where they were not due."""

    at_s: float
    worker: Sequence[float] | None
    machine: Sequence[float] | None


@dataclass(slots=True)
class WorkerStatistics:
    """What a worker did.

    Parameters
    ----------
    machine : str
        Where it is.
    tasks, rows_in, rows_out, failed, parcels : int
        Tasks done; rows that operators took, gave, and gave up on; outbound batches of rows.
    busy_s, waited_s, sending_s : float
        In operators; from when events were due to their operator, added up; packing and handing on.
    task_s, start_s : float
        From the start of a round of tasks to the end, and to the start, of each task here, added up.
    compared_s, usual_s : float
        The former for rounds in which several workers had tasks, and what the median task of those rounds took.
    reports : list of FeatureReport
        Features read meanwhile.
    alone_s : list of float
        What tasks took that were alone in their round.
    """

    machine: str = ""
    tasks: int = 0
    rows_in: int = 0
    rows_out: int = 0
    failed: int = 0
    parcels: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0
    sending_s: float = 0.0
    task_s: float = 0.0
    start_s: float = 0.0
    compared_s: float = 0.0
    usual_s: float = 0.0
    reports: list[FeatureReport] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)

    def add(self, other: WorkerStatistics) -> None:
        """Add another's totals; lists are not kept."""
        self.machine = other.machine
        for name in _TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def slowness(self) -> float:
        """How long its tasks took by the median of their rounds; NaN where there was nothing to compare with."""
        return self.compared_s / self.usual_s if self.usual_s > 0 else math.nan

    def counters(self) -> dict[str, float]:
        """Return the totals by name."""
        return {name: float(getattr(self, name)) for name in _TOTALS}


_TOTALS = tuple(each.name for each in fields(WorkerStatistics) if each.name not in ("machine", "reports", "alone_s"))


def worker_statistics(results: Iterable[Mapping[str, Any]]) -> dict[str, WorkerStatistics]:
    """Return what each worker did, from the results of a batch's tasks.

    Tasks of one round are ready at the same time: how much later one starts than the first tells how long its worker
    lets it wait.
    """
    rounds: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        if result.get("worker"):
            rounds[result["worker"]["stage"]].append(result)
    found: dict[str, WorkerStatistics] = defaultdict(WorkerStatistics)
    for tasks in rounds.values():
        began_s = min(result["worker"]["started_at_s"] for result in tasks)
        done = [(result["worker"]["id"], _task(result, began_s)) for result in tasks]
        usual_s = median(task.task_s for _, task in done)
        comparable = len({id for id, _ in done}) > 1
        for result, (id, task) in zip(tasks, done, strict=True):
            if comparable:
                task.compared_s, task.usual_s = task.task_s, usual_s
            found[id].add(task)
            if len(tasks) == 1:
                found[id].alone_s.append(task.task_s)
            if report := result["worker"].get("features"):
                found[id].reports.append(_report(report))
    return dict(found)


def _task(result: Mapping[str, Any], began_s: float) -> WorkerStatistics:
    task = result["worker"]
    start_s = task["started_at_s"] - began_s
    done = WorkerStatistics(
        machine=task["machine"],
        tasks=1,
        parcels=task["parcels"],
        sending_s=task["sending_s"],
        start_s=start_s,
        task_s=start_s + task["took_s"],
    )
    for rows_in, rows_out, busy_s, waited_s, failed, *_ in result["operators"].values():
        done.rows_in += rows_in
        done.rows_out += rows_out
        done.busy_s += busy_s
        done.waited_s += waited_s
        done.failed += failed
    return done


def _report(data: Mapping[str, Any]) -> FeatureReport:
    worker, machine = (None if data[level] is None else values_of(data[level]) for level in ("worker", "machine"))
    return FeatureReport(data["at_s"], worker, machine)


def _merged(reports: Sequence[FeatureReport]) -> FeatureReport:
    """Return the mean of reports: what tasks measured about events is known for the whole batch only."""
    if len(reports) == 1:
        return reports[0]
    return FeatureReport(
        max(report.at_s for report in reports),
        _mean([report.worker for report in reports if report.worker is not None]),
        _mean([report.machine for report in reports if report.machine is not None]),
    )


def _mean(rows: Sequence[Sequence[float]]) -> list[float] | None:
    if not rows:
        return None
    values = np.array(rows)
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    counts = known.sum(axis=0)
    found: list[float] = np.where(counts > 0, total / np.maximum(counts, 1), np.nan).tolist()
    return found


class FeatureLog:
    """Turns batches into samples of features, as the store and the model take them.

    What tasks measured about events since the last sample of a worker goes into its next one.
    """

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._totals: dict[str, WorkerStatistics] = {}

    def take(self, batch: BatchStatistics) -> list[FeatureSample]:
        """Return the samples that a batch brought, oldest first."""
        samples: list[FeatureSample] = []
        for id, worker in batch.workers.items():
            self._since_s.setdefault(id, batch.started_at_s)
            self._totals.setdefault(id, WorkerStatistics()).add(worker)
            if worker.reports:
                samples += self._samples(id, worker.machine, _merged(worker.reports))
        return sorted(samples, key=lambda sample: sample.at_s)

    def _samples(self, id: str, machine: str, report: FeatureReport) -> list[FeatureSample]:
        samples = []
        if report.machine is not None:
            samples.append(machine_sample(report.at_s, machine, np.array(report.machine)))
        if report.worker is not None:
            values = np.array(report.worker)
            # The batch is committed after its tasks have read the host: a stretch is never empty.
            seconds = max(report.at_s - self._since_s[id], 1e-3)
            values[list(STREAM)] = stream_features(self._totals[id].counters(), seconds)
            samples.append(worker_sample(report.at_s, id, machine, values))
            self._since_s[id], self._totals[id] = report.at_s, WorkerStatistics()
        return samples
