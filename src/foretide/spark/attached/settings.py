"""The settings of an attachment."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings
from foretide.control import ControlSettings
from foretide.control.settings import ExecutorSettings, LoopSettings
from foretide.plan import GuardSettings

__all__ = ["AttachSettings"]


class AttachSettings(Settings):
    """How executors of an application are scaled."""

    executors: ExecutorSettings = Field(default_factory=ExecutorSettings, description="Bounds of the executors.")
    control: ControlSettings = Field(
        default_factory=lambda: ControlSettings(
            loop=LoopSettings(td_s=10.0, sample_s=1.0, stale_after_s=60.0),
            guards=GuardSettings(utilisation_target=0.8),
        ),
        description="Loop, planner, forecaster and guards.",
    )
    kafka_bound: bool = Field(
        default=False,
        description="Plan no more executors than Kafka's partitions keep busy: for queries that do not shuffle.",
    )
    advisory: bool = Field(default=False, description="Decide and report, but change nothing.")
