"""When a worker is bypassed and when it is taken back: a pure state machine over verdicts (SPEC I6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pydantic import Field

from foretide.config import Settings
from foretide.health.policies.base import Verdict

__all__ = ["Bypass", "BypassSettings", "Step", "WorkerState"]

#: The state of a worker: it gets events, or none for a while, or events again on probation.
Standing: TypeAlias = Literal["healthy", "bypassed", "probation"]


class BypassSettings(Settings):
    """When workers are bypassed, and for how long."""

    confirm: int = Field(default=3, ge=1, description="Consecutive checks at which a worker must be suspicious.")
    cool_down_s: float = Field(default=60.0, gt=0, description="Seconds for which a worker gets nothing.")
    probation_s: float = Field(
        default=30.0, ge=0, description="Seconds after its return in which one suspicious check is enough."
    )
    back_off: float = Field(default=2.0, ge=1, description="Factor on the cool-down when it fails its probation.")
    longest_s: float = Field(default=600.0, gt=0, description="The longest cool-down, however often it fails.")
    scope: Literal["worker", "machine"] = Field(
        default="worker", description="Whether all workers of the machine are bypassed with it, as in the paper."
    )
    at_most: float = Field(default=0.5, gt=0, lt=1, description="Share of the workers that may be bypassed at a time.")


@dataclass(frozen=True)
class WorkerState:
    """The state of one worker.

    Parameters
    ----------
    standing : {"healthy", "bypassed", "probation"}
        What it may do.
    suspicions : int
        Consecutive checks at which it was suspicious.
    until_s : float
        When its cool-down or probation ends.
    cool_down_s : float
        The cool-down it gets next, or has now.
    reason : str
        Why it was bypassed last.
    """

    standing: Standing = "healthy"
    suspicions: int = 0
    until_s: float = 0.0
    cool_down_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """What one check changed.

    Parameters
    ----------
    bypassed, readmitted : tuples of str
        Workers that get nothing from now on, and those that get events again.
    spared : tuple of str
        Workers that misbehave but are kept, since too few others are left.
    reasons : mapping of str to str
        Why, by worker.
    """

    bypassed: tuple[str, ...] = ()
    readmitted: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)


class Bypass:
    """Counts verdicts, bypasses workers, and takes them back after a cool-down.

    At least one worker always gets events, and never more than the share `at_most` is bypassed, so that a policy that
    suspects every worker does no harm. The worst go first.

    Parameters
    ----------
    settings : BypassSettings
        Counts, times and limits.

    Examples
    --------
    >>> bypass = Bypass(BypassSettings(confirm=2, cool_down_s=60))
    >>> bad = Verdict("2", "host", True, 9.0, "slow")
    >>> bypass.look(0.0, ["1", "2"], [bad]).bypassed
    ()
    >>> bypass.look(1.0, ["1", "2"], [bad]).bypassed
    ('2',)
    >>> bypass.look(61.0, ["1", "2"], []).readmitted
    ('2',)
    """

    def __init__(self, settings: BypassSettings | None = None) -> None:
        self.settings = settings or BypassSettings()
        self._states: dict[str, WorkerState] = {}

    def state(self, worker: str) -> WorkerState:
        """Return the state of a worker; one that was never seen is healthy."""
        return self._states.get(worker, WorkerState())

    @property
    def bypassed(self) -> tuple[str, ...]:
        """The workers that get nothing at present."""
        return tuple(worker for worker, state in self._states.items() if state.standing == "bypassed")

    def look(self, now_s: float, present: Iterable[str], verdicts: Sequence[Verdict]) -> Step:
        """Take verdicts into account, and return what changes.

        Parameters
        ----------
        now_s : float
            The present instant.
        present : iterable of str
            All workers, bypassed ones included; others are forgotten.
        verdicts : sequence of Verdict
            The policy's verdicts. A worker without a verdict keeps its count.
        """
        workers = tuple(dict.fromkeys(present))
        self._states = {worker: self.state(worker) for worker in workers}
        readmitted = self._end_terms(now_s)
        for verdict in verdicts:
            if verdict.worker in self._states and verdict.worker not in readmitted:
                self._count(verdict)
        chosen = self._confirmed(verdicts)
        taken, spared = self._within_limits(chosen, {verdict.worker: verdict for verdict in verdicts})
        reasons = {verdict.worker: verdict.reason for verdict in verdicts if verdict.worker in (*taken, *spared)}
        for worker in taken:
            reasons.setdefault(worker, "another worker of its machine misbehaves")
            self._bypass(worker, now_s, reasons[worker])
        return Step(taken, readmitted, spared, reasons)

    def restore(self, worker: str) -> None:
        """Take a worker back that could not be bypassed after all; its count starts over."""
        if worker in self._states:
            self._states[worker] = WorkerState()

    def _end_terms(self, now_s: float) -> tuple[str, ...]:
        """Take back workers whose cool-down is over, and forget probations that went well."""
        readmitted = []
        for worker, state in self._states.items():
            if state.standing == "bypassed" and self._is_over(state, now_s):
                self._states[worker] = replace(
                    state, standing="probation", suspicions=0, until_s=now_s + self.settings.probation_s
                )
                readmitted.append(worker)
            elif state.standing == "probation" and self._is_over(state, now_s):
                self._states[worker] = WorkerState(suspicions=state.suspicions)
        return tuple(readmitted)

    def _is_over(self, state: WorkerState, now_s: float) -> bool:
        # If the clock was set back, a worker must not stay bypassed for hours.
        longest_s = max(state.cool_down_s, self.settings.probation_s)
        return now_s >= state.until_s or now_s < state.until_s - longest_s

    def _count(self, verdict: Verdict) -> None:
        state = self._states[verdict.worker]
        if state.standing != "bypassed":
            count = state.suspicions + 1 if verdict.suspicious else 0
            self._states[verdict.worker] = replace(state, suspicions=count)

    def _confirmed(self, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
        """Return the workers that have been suspicious for long enough, the worst first."""
        worst_first = sorted(verdicts, key=lambda verdict: -verdict.score)
        chosen = [verdict for verdict in worst_first if verdict.suspicious and self._is_due(verdict.worker)]
        if self.settings.scope == "worker":
            return tuple(verdict.worker for verdict in chosen)
        machines = {verdict.machine for verdict in chosen}
        others = [verdict for verdict in worst_first if verdict.machine in machines and verdict not in chosen]
        return tuple(verdict.worker for verdict in (*chosen, *others) if self._may_go(verdict.worker))

    def _is_due(self, worker: str) -> bool:
        state = self.state(worker)
        needed = 1 if state.standing == "probation" else self.settings.confirm
        return self._may_go(worker) and state.suspicions >= needed

    def _may_go(self, worker: str) -> bool:
        return worker in self._states and self.state(worker).standing != "bypassed"

    def _within_limits(
        self, chosen: Sequence[str], verdicts: dict[str, Verdict]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return those of `chosen` that can be spared from work, and those that cannot."""
        most = min(int(len(self._states) * self.settings.at_most), len(self._states) - 1)
        room = max(0, most - len(self.bypassed))
        if self.settings.scope == "worker":
            return tuple(chosen[:room]), tuple(chosen[room:])
        taken: list[str] = []
        for machine in dict.fromkeys(verdicts[worker].machine for worker in chosen):
            group = [worker for worker in chosen if verdicts[worker].machine == machine]
            if len(taken) + len(group) <= room:
                taken += group
        return tuple(taken), tuple(worker for worker in chosen if worker not in taken)

    def _bypass(self, worker: str, now_s: float, reason: str) -> None:
        state, settings = self.state(worker), self.settings
        failed_again = state.standing == "probation"
        cool_down_s = state.cool_down_s * settings.back_off if failed_again else settings.cool_down_s
        cool_down_s = min(cool_down_s, max(settings.longest_s, settings.cool_down_s))
        self._states[worker] = WorkerState("bypassed", 0, now_s + cool_down_s, cool_down_s, reason)
