"""Recorded features as one table per machine: even steps, its own features and those of all its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.errors import MetricsError
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.records import Floats
from foretide.store import FeatureSample

__all__ = ["MachineTable", "present_workers", "target_columns", "to_tables"]

# A worker that was not heard of for so many steps has gone: another executor may be in its place.
_GONE_STEPS = 6


@dataclass(frozen=True, eq=False)
class MachineTable:
    """The features of a machine and its workers over time.

    Parameters
    ----------
    machine : str
        Which machine.
    workers : tuple of str
        Its workers.
    at_s : array over steps
        The end of each step.
    machine_values : array over steps and features
        In the order of `MACHINE_FEATURES`.
    worker_values : array over steps, workers and features
        In the order of `WORKER_FEATURES`.

    A step in which nothing was seen has the values of the step before; what was never seen is 0.
    """

    machine: str
    workers: tuple[str, ...]
    at_s: Floats
    machine_values: Floats
    worker_values: Floats

    def __post_init__(self) -> None:
        steps = len(self.at_s)
        expected = ((steps, len(MACHINE_NAMES)), (steps, len(self.workers), len(WORKER_NAMES)))
        if (self.machine_values.shape, self.worker_values.shape) != expected:
            raise MetricsError(
                f"features of machine {self.machine!r}: expected shapes {expected}, got "
                f"{self.machine_values.shape} and {self.worker_values.shape}"
            )

    def __len__(self) -> int:
        return len(self.at_s)

    def part(self, first_s: float, last_s: float) -> MachineTable:
        """Return the steps that end after `first_s` and no later than `last_s`."""
        chosen = (self.at_s > first_s) & (self.at_s <= last_s)
        return MachineTable(
            self.machine, self.workers, self.at_s[chosen], self.machine_values[chosen], self.worker_values[chosen]
        )

    def targets(self) -> Floats:
        """Return what is predicted, over steps, workers and `TARGETS`."""
        found: Floats = self.worker_values[:, :, target_columns()]
        return found


def target_columns() -> list[int]:
    """Return where the targets are among the features of a worker."""
    return [WORKER_NAMES.index(name) for name in TARGETS]


def to_tables(samples: Iterable[FeatureSample], step_s: float) -> dict[str, MachineTable]:
    """Return a table for each machine in `samples`.

    Parameters
    ----------
    samples : iterable of FeatureSample
        Of workers and machines, in any order. Features of other versions are left out by name.
    step_s : float
        Seconds of a step; samples of the same step are averaged.

    Examples
    --------
    >>> one = FeatureSample.of(3.0, "worker", "1", "host", {"cpu": 40.0})
    >>> two = FeatureSample.of(8.0, "worker", "1", "host", {"cpu": 60.0})
    >>> table = to_tables([one, two], 5.0)["host"]
    >>> table.workers, table.at_s.tolist(), table.targets()[:, 0, 0].tolist()
    (('1',), [5.0, 10.0], [40.0, 60.0])
    """
    by_machine: dict[str, list[FeatureSample]] = {}
    for sample in samples:
        by_machine.setdefault(sample.machine, []).append(sample)
    return {machine: _table(machine, found, step_s) for machine, found in by_machine.items()}


def present_workers(samples: Iterable[FeatureSample], step_s: float, *, settled: bool = False) -> list[FeatureSample]:
    """Return the samples without those of workers that have gone from their machine.

    If `settled`, only those from the instant on at which all the workers were there that are there now.

    >>> old, new = (FeatureSample.of(at_s, "worker", id, "host", {}) for at_s, id in ((5.0, "1"), (90.0, "2")))
    >>> [sample.owner for sample in present_workers([old, new], 5.0)]
    ['2']
    """
    known = list(samples)
    last_s: dict[str, float] = {}
    seen: dict[tuple[str, str], list[float]] = {}
    for sample in known:
        last_s[sample.machine] = max(sample.at_s, last_s.get(sample.machine, sample.at_s))
        if sample.level == "worker":
            first, last = seen.setdefault((sample.machine, sample.owner), [sample.at_s, sample.at_s])
            seen[sample.machine, sample.owner] = [min(first, sample.at_s), max(last, sample.at_s)]
    present = {who: first for who, (first, last) in seen.items() if last >= last_s[who[0]] - _GONE_STEPS * step_s}
    since_s: dict[str, float] = {}
    for (machine, _), first in present.items() if settled else ():
        since_s[machine] = max(first, since_s.get(machine, first))
    return [
        sample
        for sample in known
        if sample.at_s >= since_s.get(sample.machine, sample.at_s)
        and (sample.level == "machine" or (sample.machine, sample.owner) in present)
    ]


def _table(machine: str, samples: Sequence[FeatureSample], step_s: float) -> MachineTable:
    bins = [int(np.ceil(sample.at_s / step_s)) for sample in samples]
    first, steps = min(bins), max(bins) - min(bins) + 1
    workers = tuple(sorted({sample.owner for sample in samples if sample.level == "worker"}, key=_natural))
    own = [(bin - first, sample) for bin, sample in zip(bins, samples, strict=True) if sample.level == "machine"]
    values = np.zeros((steps, len(workers), len(WORKER_NAMES)))
    for place, worker in enumerate(workers):
        theirs = [
            (bin - first, sample)
            for bin, sample in zip(bins, samples, strict=True)
            if sample.level == "worker" and sample.owner == worker
        ]
        values[:, place] = _grid(theirs, WORKER_NAMES, steps)
    ends: Floats = np.arange(first, first + steps, dtype=np.float64) * step_s
    return MachineTable(machine, workers, ends, _grid(own, MACHINE_NAMES, steps), values)


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def _grid(samples: Sequence[tuple[int, FeatureSample]], names: Sequence[str], steps: int) -> Floats:
    """Return means by step; gaps are filled with the value before, and with 0 before the first value."""
    total, count = np.zeros((steps, len(names))), np.zeros((steps, len(names)))
    columns: Mapping[str, int] = {name: column for column, name in enumerate(names)}
    for bin, sample in samples:
        places = [columns.get(name, -1) for name in sample.names]
        chosen = np.array([place >= 0 and np.isfinite(sample.values[at]) for at, place in enumerate(places)], bool)
        into = np.array(places)[chosen]
        total[bin, into] += sample.values[chosen]
        count[bin, into] += 1
    known = count > 0
    values = np.where(known, total / np.maximum(count, 1), 0.0)
    last = np.maximum.accumulate(np.where(known, np.arange(steps)[:, None], 0), axis=0)
    filled: Floats = np.take_along_axis(values, last, axis=0)
    return filled
