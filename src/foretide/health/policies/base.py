"""What a health policy sees, and what it returns: the contract of policies (SPEC I6)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.config import Settings

__all__ = ["HealthPolicy", "HealthView", "Verdict", "WorkerView"]


@dataclass(frozen=True)
class WorkerView:
    """What is known about one worker at one moment.

    Parameters
    ----------
    worker, machine : str
        Who, and where.
    signals : mapping of str to float
        What its tasks measured since the last check: ``slowness`` (their time by the median of their rounds) and the
        features of the group ``stream``. NaN where nothing is known.
    predicted : mapping of str to float
        Targets expected for the next step, in the units of the features; empty without a model.
    measured, expected : mappings of str to float
        Targets of the last step, and what was predicted for it; empty without a model.
    errors : mapping of str to float
        By how much targets differ from what was predicted for this step, in units of the range that the model was
        trained in; empty without a model.
    """

    worker: str
    machine: str
    signals: Mapping[str, float] = field(default_factory=dict)
    predicted: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class HealthView:
    """All workers that get events, at one moment."""

    at_s: float
    workers: tuple[WorkerView, ...]


@dataclass(frozen=True)
class Verdict:
    """A policy's judgement of a worker.

    Parameters
    ----------
    worker, machine : str
        Who, and where.
    suspicious : bool
        Whether it misbehaves, at this moment.
    score : float
        How badly, in the policy's own units.
    reason : str
        Why, with the numbers.
    policy : str
        Whose it is; filled in by who asks the policy.
    """

    worker: str
    machine: str
    suspicious: bool
    score: float
    reason: str = ""
    policy: str = ""


class HealthPolicy(Settings):
    """Decides which workers misbehave. It keeps nothing between two checks: `Bypass` counts and waits."""

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClassVar[tuple[str, ...]] = ("I6",)
    #: Whether it needs predictions; without a model the `peers` policy stands in.
    needs_model: ClassVar[bool] = False

    @abstractmethod
    def judge(self, view: HealthView) -> Sequence[Verdict]:
        """Return a verdict for every worker that something is known about; others are left out."""
