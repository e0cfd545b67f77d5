"""How long a batch of a stage takes, learnt from batches that ended, with what is not known about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from foretide.records import BatchRun, Floats, SharedSlots

__all__ = ["BatchModel", "StageFigures", "StageMemory"]

# What is believed before a batch has ended, with its standard deviation: seconds to start, seconds per slot, and how
# much longer the slowest task takes than the mean of them.
_PRIOR = np.array([0.15, 0.01, 1.1])
_DOUBT = np.array([0.15, 0.01, 0.2])
_NOISE_S = 0.03
# A batch counts half as much 140 batches later; the noise is followed faster. Of a young stage about the later half of
# its batches counts: the first ones find nothing compiled and no worker warm.
_FORGET, _FORGET_NOISE, _YOUNG = 0.995, 0.97, 5.0
# The work of one event is the mean over the last twenty batches or so.
_FORGET_EVENTS = 0.95
# A batch further off than so many deviations counts less: a cold start or a pause of the machine is no rule.
_OUTLIER = 3.0
# Seconds between two batches above which Spark was not busy but had nothing to do.
_IDLE_S = 2.0
_SMOOTHING = 0.1
# Batches of which the median of what latencies had besides is taken.
_BESIDES = 40
# The smallest part of a slot that a batch may have had.
_LEAST_SLOTS = 0.1
# The least deviation of a batch's work from a line that is believed, as a part of it; and the least part of it that is
# taken for the work of events.
_LEAST_NOISE, _LEAST_PART = 0.05, 0.3


@dataclass(frozen=True)
class StageFigures:
    """What is known about the batches of a stage: duration = start + per slot · slots + skew · work / slots.

    The work is that of the batch, however many events it has, and that of each event.

    Parameters
    ----------
    start_s, slot_s, skew : float
        The three parts.
    gap_s : float
        Seconds from the end of a batch to the start of the next, where events wait.
    noise_s : float
        Standard deviation of a duration around the model.
    doubt : array of shape (3, 3)
        Covariance of the three parts.
    activation_s : float
        Seconds from a plan until a batch runs with its slots.
    event_s : float
        The work of one event that the stage takes; NaN before the first batch.
    batches : int
        Batches that this rests on.
    besides_s : float
        What latencies have besides waiting for a batch and the batch itself: on the way to the source, for instance.
    batch_s : float
        The work of a batch however many events it has, such as the start of its tasks.
    cores : float
        Slots beyond which none is of use, since no core is free for it; infinite if there are no such.
    """

    start_s: float
    slot_s: float
    skew: float
    gap_s: float
    noise_s: float
    doubt: Floats
    activation_s: float
    event_s: float
    batches: int
    besides_s: float = 0.0
    batch_s: float = 0.0
    cores: float = math.inf

    def duration_s(self, slots: float, work_s: float) -> float:
        """Return how long a batch with so much work is expected to take.

        >>> StageFigures(0.1, 0.01, 1.0, 0.05, 0.0, np.zeros((3, 3)), 0.0, 0.01, 1).duration_s(4, 0.8)
        0.34
        """
        return self.start_s + self.slot_s * slots + self.skew * work_s / min(slots, self.cores)

    def most_useful(self, least: int, most: int) -> int:
        """Return the most slots within bounds, without those that would only wait for a core.

        >>> known = StageFigures(0.1, 0.01, 1.0, 0.05, 0.0, np.zeros((3, 3)), 0.0, 0.01, 1, cores=2.2)
        >>> known.most_useful(1, 2), known.most_useful(1, 20), known.most_useful(4, 20)
        (2, 3, 4)
        """
        return max(least, most if self.cores >= most else math.ceil(self.cores))

    def least_latency_s(self, trigger_s: float, slots: int = 1, level: float = 0.5) -> float:
        """Return the latency that no number of slots can avoid: half a period, and a batch without work.

        That is the mean and the median; another `level` is that part of a period.

        >>> known = StageFigures(0.1, 0.01, 1.0, 0.05, 0.0, np.zeros((3, 3)), 0.0, 0.01, 1)
        >>> round(known.least_latency_s(trigger_s=0.25), 3), round(known.least_latency_s(trigger_s=0.0), 3)
        (0.235, 0.19)
        """
        fixed_s = self.start_s + self.slot_s * slots
        return level * max(trigger_s, fixed_s + self.gap_s) + fixed_s

    def batch_rate(self, trigger_s: float) -> float:
        """Return the slots that the work of batches without events keeps busy, at one batch a period.

        >>> StageFigures(0.1, 0.0, 1.0, 0.1, 0.0, np.zeros((3, 3)), 0.0, 0.01, 1, batch_s=0.4).batch_rate(1.0)
        0.4
        """
        return self.batch_s / max(trigger_s, self.start_s + self.gap_s, 1e-9)


@dataclass
class StageMemory:
    """What is remembered of a stage: the sums of a Bayesian regression with forgetting, and the last batch.

    `line` has the sums for work over events: batches, events, their squares, work, events times work, squares of work.
    """

    information: Floats = field(default_factory=lambda: np.zeros((3, 3)))
    moment: Floats = field(default_factory=lambda: np.zeros(3))
    noise_s2: float = _NOISE_S**2
    gap_s: float = 0.05
    activation_s: float | None = None
    events: float = 0.0
    work_s: float = 0.0
    cpu_s: float = 0.0
    batches: int = 0
    last: BatchRun | None = None
    asked: tuple[float, int] | None = None
    besides_s: tuple[float, ...] = ()
    line: Floats = field(default_factory=lambda: np.zeros(6))

    def work_line(self) -> tuple[float, float]:
        """Return the work of a batch, and that of each of its events, as batches of other sizes tell.

        Before they do, all work is taken for that of events, give or take half of it. The deviation of batches from the
        line counts as if there were only one: while everything warms up, batch after batch deviates the same way.
        """
        count, events, squares, work_s, products, work_squares = self.line.tolist()
        if not events or not work_s:
            return 0.0, 0.0 if events else math.nan
        mean, mean_s = events / count, work_s / count
        spread, together = squares / count - mean**2, products / count - mean * mean_s
        around = work_squares / count - mean_s**2 - together**2 / max(spread, 1e-12)
        noise_s2 = max(around, (_LEAST_NOISE * mean_s) ** 2)
        each_s = mean_s / mean
        known, prior = spread / noise_s2, (2.0 / each_s) ** 2
        event_s = (together / noise_s2 + prior * each_s) / (known + prior)
        event_s = min(max(event_s, _LEAST_PART * each_s), each_s)
        return mean_s - event_s * mean, event_s

    def belief(self) -> tuple[Floats, Floats]:
        """Return the mean of the three parts and their covariance."""
        prior = np.diag(1.0 / _DOUBT**2)
        covariance: Floats = np.linalg.inv(prior + self.information / self.noise_s2).astype(np.float64)
        mean: Floats = covariance @ (prior @ _PRIOR + self.moment / self.noise_s2)
        return np.maximum(mean, [0.0, 0.0, 0.5]), covariance

    def to_data(self) -> dict[str, Any]:
        """Return what outlives a run, as plain data."""
        return {
            "information": self.information.tolist(),
            "moment": self.moment.tolist(),
            "noise_s2": self.noise_s2,
            "gap_s": self.gap_s,
            "activation_s": self.activation_s,
            "events": self.events,
            "work_s": self.work_s,
            "cpu_s": self.cpu_s,
            "batches": self.batches,
            "line": self.line.tolist(),
        }

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> StageMemory:
        """Read what `to_data` gave; raises an error of any kind where it is damaged."""
        information, moment = np.array(data["information"], dtype=np.float64), np.array(data["moment"], dtype=float)
        noise_s2, gap_s, events, work_s = (float(data[name]) for name in ("noise_s2", "gap_s", "events", "work_s"))
        cpu_s = float(data.get("cpu_s", 0.0))  # earlier versions did not keep it
        delay_s = None if data["activation_s"] is None else float(data["activation_s"])
        line = np.array(data["line"], dtype=np.float64)
        numbers = [*information.ravel(), *moment, *line, noise_s2, gap_s, events, work_s, cpu_s, delay_s or 0.0]
        shapes = (information.shape, moment.shape, line.shape)
        if shapes != ((3, 3), (3,), (6,)) or not np.isfinite(numbers).all() or noise_s2 <= 0:
            raise ValueError("expected a matrix of 3 x 3, vectors of 3 and of 6, and finite numbers")
        batches = int(data["batches"])
        return cls(information, moment, noise_s2, gap_s, delay_s, events, work_s, cpu_s, batches, line=line)


class BatchModel:
    """Learns how long the batches of every stage take.

    A batch that takes work w in n slots lasts ``start + per slot · n + skew · w / min(n, cores)``. The three parts
    follow by Bayesian regression over the batches that ended, older ones counting less, so that it is known how far
    they can be trusted; so do the gap between two batches and the time until a plan is at work.

    Where all tasks share the C cores of one machine and compute for the part ρ of their work, C/ρ slots keep the cores
    busy; to compute in more takes as long.

    Parameters
    ----------
    stages : SharedSlots
        The stages.
    fixed_work : bool
        Whether batches have work besides that of their events, which tasks of Spark's own have and ours do not.

    Examples
    --------
    >>> stages = SharedSlots(("in",), ((0,),), (1,), (8,))
    >>> model = BatchModel(stages)
    >>> for number in range(400):
    ...     slots, work_s = 1 + number % 5, 0.1 * (1 + number % 7)
    ...     model.learn(BatchRun(stage=0, began_at_s=number, duration_s=0.2 + 0.004 * slots + 1.2 * work_s / slots,
    ...                          slots=slots, events=10, work_s=work_s))
    >>> figures = model.figures(0)
    >>> round(figures.start_s, 2), round(figures.slot_s, 3), round(figures.skew, 2)
    (0.2, 0.004, 1.2)
    """

    def __init__(self, stages: SharedSlots, *, fixed_work: bool = False) -> None:
        self._shared, self._fixed_work = stages, fixed_work
        self._stages = [StageMemory() for _ in stages.names]

    def observe(self, batches: Sequence[BatchRun]) -> None:
        """Take in batches that ended; those that are known already are left out."""
        for run in batches:
            last = self._stages[run.stage].last
            if last is None or run.began_at_s > last.began_at_s:
                self.learn(run)

    def asked(self, at_s: float, slots: Sequence[int]) -> None:
        """Note the slots that a plan made at an instant gives to every stage."""
        for stage, count in zip(self._stages, slots, strict=True):
            before = stage.asked[1] if stage.asked is not None else None if stage.last is None else stage.last.slots
            if count != before:
                stage.asked = (at_s, count)

    def learn(self, run: BatchRun) -> None:
        """Take in one batch."""
        stage = self._stages[run.stage]
        self._watch_gap(stage, run)
        self._watch_activation(stage, run)
        self._watch_besides(stage, run)
        stage.last = run
        if not run.events:
            return
        stage.cpu_s = _FORGET_EVENTS * stage.cpu_s + run.cpu_s
        stage.work_s = _FORGET_EVENTS * stage.work_s + run.work_s
        parts = np.array([1.0, run.slots, run.work_s / max(_LEAST_SLOTS, min(run.slots, self._cores(stage)))])
        mean, _ = stage.belief()
        miss_s = run.duration_s - float(parts @ mean)
        weight = min(1.0, _OUTLIER * math.sqrt(stage.noise_s2) / max(abs(miss_s), 1e-9))
        forget = min(_FORGET, 1 - 1 / (_YOUNG + stage.batches / 2))
        stage.information = forget * stage.information + weight * np.outer(parts, parts)
        stage.moment = forget * stage.moment + weight * run.duration_s * parts
        rows, work_s = float(run.events), run.work_s
        stage.line = forget * stage.line + np.array([1.0, rows, rows**2, work_s, rows * work_s, work_s**2])
        stage.noise_s2 += (1 - _FORGET_NOISE) * (weight * miss_s**2 - stage.noise_s2)
        stage.noise_s2 = max(stage.noise_s2, 1e-8)
        stage.events = _FORGET_EVENTS * stage.events + run.events
        stage.batches += 1

    def figures(self, stage: int) -> StageFigures:
        """Return what is known about a stage."""
        found = self._stages[stage]
        mean, covariance = found.belief()
        activation_s = found.activation_s if found.activation_s is not None else self._shared.trigger(stage)
        start_s, slot_s, skew = mean.tolist()
        batch_s, event_s = found.work_line() if self._fixed_work else (0.0, found.work_s / (found.events or math.nan))
        return StageFigures(
            start_s,
            slot_s,
            skew,
            gap_s=found.gap_s,
            noise_s=math.sqrt(found.noise_s2),
            doubt=covariance,
            activation_s=activation_s,
            event_s=event_s,
            batches=found.batches,
            besides_s=max(0.0, float(np.median(found.besides_s))) if found.besides_s else 0.0,
            batch_s=batch_s,
            cores=self._cores(found),
        )

    def learnt(self) -> dict[str, Any]:
        """Return what was learnt as plain data, by stage."""
        return {name: stage.to_data() for name, stage in zip(self._shared.names, self._stages, strict=True)}

    def resume(self, known: Mapping[str, StageMemory]) -> None:
        """Go on from what was learnt about stages of these names; others begin afresh."""
        self._stages = [replace(known[name]) if name in known else StageMemory() for name in self._shared.names]

    def _cores(self, stage: StageMemory) -> float:
        """Return the slots that are of use: those that run side by side, and do not only wait for a core."""
        most = math.inf if self._shared.cores is None else float(self._shared.cores)
        if self._shared.machine_cores is None or not stage.cpu_s:
            return most
        return min(most, max(1.0, self._shared.machine_cores * stage.work_s / stage.cpu_s))

    def _watch_gap(self, stage: StageMemory, run: BatchRun) -> None:
        """Learn the time between two batches from those that did not wait for a trigger."""
        if stage.last is None:
            return
        gap_s = run.began_at_s - stage.last.ended_at_s
        waited = run.began_at_s - stage.last.began_at_s <= 1.05 * self._shared.trigger(run.stage)
        if not waited and 0 <= gap_s < _IDLE_S:
            stage.gap_s += _SMOOTHING * (gap_s - stage.gap_s)

    @staticmethod
    def _watch_besides(stage: StageMemory, run: BatchRun) -> None:
        """Learn what latencies have besides: events came evenly since the batch before began, and left with this one.

        Some batches take what was left behind, or run while the input changes; the median does not mind.
        """
        if stage.last is not None and run.events and math.isfinite(run.latency_s):
            waited_s = (run.began_at_s - stage.last.began_at_s) / 2
            stage.besides_s = (*stage.besides_s[1 - _BESIDES :], run.latency_s - waited_s - run.duration_s)

    @staticmethod
    def _watch_activation(stage: StageMemory, run: BatchRun) -> None:
        if stage.asked is None or run.slots != stage.asked[1] or run.began_at_s < stage.asked[0]:
            return
        delay_s = run.began_at_s - stage.asked[0]
        known = stage.activation_s
        stage.activation_s = delay_s if known is None else known + 0.2 * (delay_s - known)
        stage.asked = None
