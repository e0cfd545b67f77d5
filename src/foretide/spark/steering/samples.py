"""Samples of a run: a measurement each, with what only the data plane knows, and all of them in bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.latency import LatencyHistogram
from foretide.records import Measurement
from foretide.store.merging import joined

if TYPE_CHECKING:
    # Attached applications have samples too, and nothing of a data plane to load.
    from foretide.spark.inputs.positions import InputState

__all__ = ["KEPT_SAMPLES", "Sample", "SampleLog"]

#: About 50 MB of samples, the last 80 minutes as they came.
KEPT_SAMPLES = 10_000


@dataclass(frozen=True, eq=False)
class Sample:
    """One measurement, and what only the data plane on Spark knows.

    Parameters
    ----------
    measurement : Measurement
        For the control loop.
    inputs : mapping of str to InputState
        How far each input has come.
    latency : LatencyHistogram
        Of the events that reached an end in the stretch.
    slots : int
        Tasks that the plan in force runs side by side.
    """

    measurement: Measurement
    inputs: Mapping[str, InputState]
    latency: LatencyHistogram
    slots: int


class SampleLog:
    """The samples of a run, oldest first, in bounded memory.

    The latest half of its places hold samples as they came. Older ones are joined to stretches that grow longer the
    longer the run: all that was counted is still there, only when exactly it happened is known less well. As long as
    there is room, a stretch ends where replicas change.

    Parameters
    ----------
    capacity : int
        How many samples and stretches are kept.
    """

    def __init__(self, capacity: int = KEPT_SAMPLES) -> None:
        self._half, self._lock = max(1, capacity // 2), threading.Lock()
        self._recent: deque[Sample] = deque()
        self._old: list[Sample] = []
        # How many samples make a stretch, and how many are in the last one.
        self._length, self._filled = 1, 0

    def append(self, sample: Sample) -> None:
        """Keep a sample."""
        with self._lock:
            self._recent.append(sample)
            if len(self._recent) > self._half:
                self._age(self._recent.popleft())

    def samples(self) -> tuple[Sample, ...]:
        """Return what is kept."""
        with self._lock:
            return (*self._old, *self._recent)

    def _age(self, sample: Sample) -> None:
        if self._filled < self._length and self._old and _same_replicas(self._old[-1], sample):
            self._old[-1] = _join(self._old[-1], sample)
            self._filled += 1
        else:
            self._old.append(sample)
            self._filled = 1
        if len(self._old) > self._half:
            self._old = _halved(self._old)
            self._length *= 2


def _halved(samples: Sequence[Sample]) -> list[Sample]:
    """Join neighbours two by two, those with the same replicas if that is enough."""
    found = _paired(samples, _same_replicas)
    return found if len(found) <= 0.75 * len(samples) else _paired(samples, lambda before, after: True)


def _paired(samples: Sequence[Sample], fit: Callable[[Sample, Sample], bool]) -> list[Sample]:
    found: list[Sample] = []
    single = False
    for sample in samples:
        if single and fit(found[-1], sample):
            found[-1], single = _join(found[-1], sample), False
        else:
            found.append(sample)
            single = True
    return found


def _same_replicas(before: Sample, after: Sample) -> bool:
    return bool((before.measurement.replicas == after.measurement.replicas).all())


def _join(before: Sample, after: Sample) -> Sample:
    latency = LatencyHistogram()
    latency.merge(before.latency)
    latency.merge(after.latency)
    return replace(after, measurement=joined((before.measurement, after.measurement)), latency=latency)
