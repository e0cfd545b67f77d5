"""The settings of an attachment."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings
from foretide.control import ControlSettings
from foretide.control.settings import ExecutorSettings, attached_control

__all__ = ["AttachSettings"]


class AttachSettings(Settings):
    """How executors of an application are scaled."""

    executors: ExecutorSettings = Field(default_factory=ExecutorSettings, description="Bounds of the executors.")
    control: ControlSettings = Field(
        default_factory=attached_control, description="Loop, planner, forecaster and guards."
    )
    kafka_bound: bool = Field(
        default=False,
        description="Plan no more executors than Kafka's partitions keep busy: for queries that do not shuffle.",
    )
    advisory: bool = Field(default=False, description="Decide and report, but change nothing.")
