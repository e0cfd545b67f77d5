"""The settings of an attachment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from foretide.config import Settings
from foretide.control import ControlSettings
from foretide.control.settings import ExecutorSettings, attached_control
from foretide.plan.promise import PromiseText

__all__ = ["AttachSettings"]


class AttachSettings(Settings):
    """How executors of an application are scaled."""

    executors: ExecutorSettings = Field(default_factory=ExecutorSettings, description="Bounds of the executors.")
    control: ControlSettings = Field(
        default_factory=attached_control, description="Loop, planner, forecaster and guards."
    )
    slo: PromiseText | None = Field(
        default=None,
        description="A promise such as 'p95<10s' for the latency of every query; that of `control` if not set.",
    )
    kafka_bound: bool = Field(
        default=False,
        description="Plan no more executors than Kafka's partitions keep busy: for queries that do not shuffle.",
    )
    kafka: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of the client that asks for end offsets, such as bootstrap.servers, besides those of "
        "the query's source or in their place.",
    )
    store: str | None = Field(
        default=None,
        description="Where the application is recorded, a file or postgresql://...; 'none' records nothing. Unset, "
        "where all runs are.",
    )
    advisory: bool = Field(default=False, description="Decide and report, but change nothing.")

    @field_validator("control", mode="before")
    @classmethod
    def _beside_defaults(cls, control: Any) -> Any:
        """Let settings that are given as a mapping win over those of an attachment, group by group."""
        if not isinstance(control, Mapping):
            return control
        known = attached_control().model_dump(exclude_unset=True)
        return {
            **known,
            **{
                name: {**known[name], **value} if name in known and isinstance(value, Mapping) else value
                for name, value in control.items()
            },
        }

    @property
    def steered_by(self) -> ControlSettings:
        """The settings of control, with the promise and the wish for advice only."""
        slo, loop = self.slo or self.control.slo, self.control.loop
        advisory = self.advisory or loop.advisory
        return self.control.model_copy(update={"slo": slo, "loop": loop.model_copy(update={"advisory": advisory})})
