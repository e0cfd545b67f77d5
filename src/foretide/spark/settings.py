"""The settings of the data plane on Spark."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from foretide.compile.queues import QueueLimits
from foretide.config import Settings

__all__ = ["LIVE_REPORT_S", "PRELOAD_VARIABLE", "EngineSettings"]

#: The environment variable that tells the worker daemon (`foretide.spark.pool.daemon`) what to import before it forks.
PRELOAD_VARIABLE = "FORETIDE_PRELOAD"

#: Seconds between two reports of a task of a live stage.
LIVE_REPORT_S = 0.2


class EngineSettings(Settings):
    """How stages run on Spark."""

    batch_target_s: float = Field(
        default=1.0, gt=0, description="Seconds that a batch is to take at most; admission keeps it near that."
    )
    trigger_s: float = Field(default=0.0, ge=0, description="Seconds between the starts of two batches; 0: at once.")
    first_rows: int = Field(default=5_000, ge=1, description="Rows admitted into the first batch of a stage.")
    max_rows: int = Field(default=1_000_000, ge=1, description="The most rows ever admitted into a batch.")
    max_bytes: int = Field(
        default=256 << 20,
        ge=1 << 10,
        description="The most bytes ever admitted into a batch, by what the rows of those before took in memory.",
    )
    tasks_per_slot: int = Field(
        default=1, ge=1, le=16, description="Partitions per slot; more than one lets fast slots pull more."
    )
    warm_pool: bool = Field(default=True, description="Start Python workers before they are needed, and keep them.")
    retries: int = Field(default=1, ge=0, le=10, description="Times that a failed event is tried again.")
    failed_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of an operator's last events that may fail; if more do, its stage stops with that error. "
        "1: it never stops for that.",
    )
    failed_window: int = Field(
        default=1_000, ge=1, description="The last events of which that share is taken, at least; batches count whole."
    )
    letter_bytes: int = Field(
        default=8 << 20,
        ge=1 << 14,
        description="Bytes of failed events that the tasks of a batch hand to the driver, which keeps them; what is "
        "beyond is counted only.",
    )
    batch_attempts: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Times that a batch is run before its stage fails; a lost executor costs one.",
    )
    statistics: bool = Field(default=True, description="Measure latency and waiting time inside tasks.")
    features_every_s: float = Field(
        default=5.0,
        ge=0,
        description="Seconds between two readings of each worker's and machine's features; 0: none are read.",
    )
    kept_batches: int = Field(
        default=1_000, ge=1, description="Batches of a stage whose statistics are kept one by one; totals cover all."
    )
    queue_bound: int | None = Field(
        default=None,
        ge=1,
        description="Events that may wait at a source or on a queued edge; beyond that, the oldest are dropped, and "
        "counted. Unset: any. Limits of an edge, or of a queue in `queues`, go first.",
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Age in seconds beyond which events are dropped, and counted, when a batch takes them. Unset: any.",
    )
    queues: dict[str, QueueLimits] = Field(
        default_factory=dict,
        description="`queue_bound` and `timeout_s` of single queues, by source ('tweets') or queued edge ('a -> b').",
    )
    log_max_bytes: int = Field(default=1 << 30, ge=1 << 20, description="Bytes that a queued edge may hold.")
    room_timeout_s: float = Field(
        default=600.0, gt=0, description="Seconds that a stage waits for room on a full edge before it fails."
    )
    checkpoint: str = Field(
        default="",
        description="Where Spark keeps its checkpoints, as Spark writes it: a folder of the driver's, or a URI such as "
        "s3a://bucket/run; a folder for each stage is made there. Unset: in the run's directory.",
    )
    sync_files: bool = Field(default=False, description="Whether segments are forced to disk before they are named.")
    edges: Literal["files", "kafka"] = Field(
        default="files", description="Where queued edges are kept: in files of the run's directory, or in Kafka."
    )
    kafka_servers: str = Field(default="", description="Kafka's bootstrap servers, for edges in Kafka.")
    kafka_patience_s: float = Field(
        default=60.0, ge=0, description="Seconds that edges in Kafka wait for a broker that does not answer."
    )

    live: bool | tuple[str, ...] = Field(
        default=False,
        description="Stages that run in tasks which stay, and commit to Kafka every few tens of milliseconds: true for "
        "all, or their names. What cannot is refused, with the reason.",
    )
    live_target_s: float = Field(
        default=0.05,
        gt=0,
        le=10,
        description="Latency in seconds that the transactions of live stages are made for; less costs the broker more.",
    )
    live_rows: int = Field(default=5_000, ge=1, description="Messages of a transaction of a live stage at most.")

    @property
    def period_s(self) -> float:
        """Seconds of input that are on their way and no queue: those between two batches, or two reports."""
        return max(self.trigger_s, LIVE_REPORT_S) if self.live else self.trigger_s

    @property
    def every_queue(self) -> QueueLimits:
        """What queues may hold that have no limits of their own."""
        return QueueLimits(queue_bound=self.queue_bound, timeout_s=self.timeout_s)
