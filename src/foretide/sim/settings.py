"""The settings of a simulation: how events arrive, what serves them, and what goes wrong."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from foretide.config import Settings

__all__ = ["Cpu", "Failure", "Keys", "MicroBatch", "Restart", "SimulationSettings", "Workers"]


class Failure(Settings):
    """A stretch of time in which a host is slow or dead."""

    host: int = Field(ge=0, description="The host, counting from 0.")
    from_s: float = Field(default=0.0, ge=0, description="When it begins, in seconds from the start.")
    to_s: float | None = Field(default=None, gt=0, description="When it ends; unset, never.")
    factor: float | None = Field(
        default=10.0, gt=0, description="Factor on the time of a service that begins then; unset, none begins."
    )

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Failure:
        if self.to_s is not None and self.to_s <= self.from_s:
            raise ValueError(f"to_s after from_s ({self.from_s:g} s)")
        return self


class Workers(Settings):
    """The hosts that replicas run on: replica j of the i-th operator on host (i + j) modulo their number."""

    hosts: int = Field(default=1, ge=1, description="How many there are.")
    speeds: tuple[float, ...] = Field(default=(), description="The speed of each, 2 being twice as fast; empty, all 1.")
    failures: tuple[Failure, ...] = Field(default=(), description="When which of them is slow or dead.")

    @model_validator(mode="after")
    def _hosts_are_known(self) -> Workers:
        if self.speeds and len(self.speeds) != self.hosts:
            raise ValueError(f"speeds for {self.hosts} hosts")
        if not all(0 < speed < float("inf") for speed in self.speeds):
            raise ValueError("speeds above 0")
        if any(failure.host >= self.hosts for failure in self.failures):
            raise ValueError(f"failures of hosts 0 to {self.hosts - 1}")
        return self


class Cpu(Settings):
    """The cores that replicas compute on (SPEC D2)."""

    cores: int | None = Field(
        default=None, ge=1, description="Cores that all replicas share, placed around them in turn; unset, one each."
    )
    share: float = Field(
        default=1.0, gt=0, le=1, description="Part of an execution time that is CPU time; in the rest a replica waits."
    )
    reserved: float = Field(default=1.0, gt=0, le=1, description="Part of a core that is reserved for each replica.")


class Restart(Settings):
    """A change of replicas that stops the topology for a while, as in DABS (SPEC D7)."""

    downtime_s: float = Field(default=5.5, gt=0, allow_inf_nan=False, description="Seconds that nothing runs.")
    loses: bool = Field(default=True, description="Whether events queued then and arriving meanwhile are dropped.")


class Keys(Settings):
    """The values of events, drawn by Zipf's law, and what they cost (SPEC D6)."""

    count: int = Field(default=4_096, ge=1, le=10_000_000, description="How many different values there are.")
    skew: float = Field(default=1.5, ge=0, le=10, description="The exponent of Zipf's law; 0 is uniform.")
    cost_levels: int = Field(default=64, ge=1, description="How many different costs the values have.")
    cost_ratio: float = Field(
        default=64.0, ge=1, allow_inf_nan=False, description="Highest cost of a value ÷ the lowest; 1: all alike."
    )
    sensitive: tuple[str, ...] | None = Field(
        default=None, description="The operators whose execution time depends on the value; unset, all."
    )


class MicroBatch(Settings):
    """Batches as a stage on Spark runs them: all operators of a stage take turns on the stage's slots."""

    fixed_s: float = Field(default=0.2, ge=0, allow_inf_nan=False, description="Seconds per batch.")
    per_task_s: float = Field(default=0.025, ge=0, allow_inf_nan=False, description="CPU seconds per task.")
    trigger_s: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="Seconds between the starts of two batches, at least."
    )
    batch_target_s: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="Seconds of work that are admitted into a batch."
    )
    cores: int | None = Field(default=None, ge=1, description="Cores that all slots share; unset, one per slot.")


class SimulationSettings(Settings):
    """How a topology is simulated."""

    step_s: float = Field(
        default=1.0, ge=1e-3, le=3_600, description="Seconds that a measurement takes; replicas change between steps."
    )
    arrivals: Literal["deterministic", "poisson"] = Field(
        default="deterministic", description="How events arrive within a bin of the trace: evenly, or at random."
    )
    routing: Literal["deterministic", "random"] = Field(
        default="deterministic", description="How events are spread over outputs by their shares: evenly, or at random."
    )
    queue: Literal["operator", "replica"] = Field(
        default="operator",
        description="One queue for all replicas of an operator, or one per replica, filled by the edge's grouping.",
    )
    queue_bound: int | None = Field(
        default=None, ge=1, description="Events that a queue holds at most; more are dropped (P7: 100 000). Unset, any."
    )
    timeout_s: float | None = Field(
        default=None, gt=0, description="Age at which an event is discarded when its service is to begin (P7: 30)."
    )
    base_latency_s: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="Seconds added to the latency of every event."
    )
    activation_s: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="Seconds from a plan until its replicas are active."
    )
    service: Literal["constant", "exponential", "lognormal"] = Field(
        default="constant", description="How the execution time varies around its mean."
    )
    service_cv: float = Field(
        default=0.2, ge=0, le=100, description="Standard deviation ÷ mean of the execution time if lognormal."
    )
    service_factor: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="True execution time ÷ the one that the topology declares."
    )
    keys: Keys | None = Field(default=None, description="Values of events and their costs; unset, all are alike.")
    workers: Workers | None = Field(default=None, description="The hosts; unset, all replicas are equally fast.")
    cpu: Cpu | None = Field(
        default=None,
        description="Cores and what replicas use of them; unset, each has one, and CPU time is busy time.",
    )
    restart: Restart | None = Field(default=None, description="What a change of replicas costs; unset, nothing.")
    micro_batch: MicroBatch | None = Field(default=None, description="Batches as on Spark; unset, event by event.")

    @model_validator(mode="after")
    def _batches_are_plain(self) -> SimulationSettings:
        if self.micro_batch is None:
            return self
        for name in ("queue_bound", "timeout_s", "workers"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} unset where micro_batch is set")
        if self.cpu is not None and self.cpu.cores is not None:
            raise ValueError("cpu.cores unset where micro_batch is set, which has cores of its own")
        if self.queue != "operator":
            raise ValueError("queue 'operator' where micro_batch is set")
        return self
