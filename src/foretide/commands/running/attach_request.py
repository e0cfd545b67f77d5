"""What was asked on the command line of ``foretide attach`` or ``foretide advise``: bounds and control of executors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.control import ControlSettings
    from foretide.control.settings import ExecutorSettings
    from foretide.spark.attached.settings import AttachSettings

__all__ = ["AttachRequest", "ExecutorControl"]


@dataclass(frozen=True)
class ExecutorControl:
    """How executors are scaled, and within which bounds."""

    control: ControlSettings
    executors: ExecutorSettings


@dataclass(frozen=True, kw_only=True)
class AttachRequest:
    """What was asked on the command line; None is what was not said.

    Parameters
    ----------
    executors : str, optional
        Bounds of the executors, such as ``1:4``.
    slo : str, optional
        What is promised about latency.
    policy, forecaster : str, optional
        Who decides, and who looks ahead.
    td_s : float, optional
        Seconds between two decisions.
    advisory : bool
        Whether to decide but change nothing.
    kafka_bound : bool
        Whether Kafka's partitions are a bound.
    config : Path, optional
        A file of settings.
    store : str, optional
        Where to record; ``none`` for nowhere.

    Examples
    --------
    >>> request = AttachRequest(executors="1:4", td_s=5.0, policy="pasps:lr")
    >>> found = request.values
    >>> found.executors.maximum, found.control.loop.td_s, found.control.planner, found.control.forecaster
    (4, 5.0, 'pasps', 'lr')
    >>> request.options()
    ['--executors', '1:4', '--policy', 'pasps:lr', '--td', '5.0']
    """

    executors: str | None = None
    slo: str | None = None
    policy: str | None = None
    forecaster: str | None = None
    td_s: float | None = None
    advisory: bool = False
    kafka_bound: bool = False
    config: Path | None = None
    store: str | None = None

    def options(self) -> list[str]:
        """Return the options that say the same."""
        given = {
            "--executors": self.executors,
            "--slo": self.slo,
            "--policy": self.policy,
            "--forecaster": self.forecaster,
            "--td": self.td_s,
            "--config": self.config,
            "--store": self.store,
        }
        flags = {"--advisory": self.advisory, "--kafka-bound": self.kafka_bound}
        pairs = [(name, str(value)) for name, value in given.items() if value is not None]
        return [part for pair in pairs for part in pair] + [name for name, wanted in flags.items() if wanted]

    @cached_property
    def values(self) -> ExecutorControl:
        """Control and executors: what is said wins over the file, the file over the defaults of an attachment.

        Raises
        ------
        ConfigError
            When an option or the file is wrong.
        """
        from foretide.commands.running.request import executor_bounds
        from foretide.config import validated
        from foretide.control import ControlSettings, load_settings
        from foretide.control.policies import parse_policy
        from foretide.control.settings import ExecutorSettings, attached_control
        from foretide.plan.promise import parse_promise

        of_file = ControlSettings() if self.config is None else load_settings(self.config)
        if of_file.engine or of_file.spark:
            raise ConfigError(
                str(self.config),
                expected="no tables [engine] and [spark], which are for foretide run",
                got="engine" if of_file.engine else "spark",
                remedy="a job that is attached to has its own session: give it Spark's settings as it always gets them",
            )
        values = _merged(attached_control().model_dump(exclude_unset=True), of_file.model_dump(exclude_unset=True))
        loop = dict(values["loop"])
        if self.td_s is not None:
            loop |= {"td_s": self.td_s, "sample_s": min(self.td_s, loop.get("sample_s", 1.0))}
        if self.advisory:
            loop["advisory"] = True
        if self.slo is not None:
            parse_promise(self.slo, "--slo")
            values["slo"] = self.slo
        if self.forecaster is not None:
            values["forecaster"] = self.forecaster
        if self.policy is not None:
            policy = parse_policy(self.policy, values.get("forecaster", ControlSettings().forecaster))
            values["planner"] = policy.planner
            values["forecaster"] = policy.forecaster or values.get("forecaster", ControlSettings().forecaster)
        control = validated(ControlSettings, {**values, "loop": loop}, "control")
        control.make_planner()
        control.make_forecaster()  # both say what is wrong with a name or its settings
        return ExecutorControl(control, executor_bounds(self.executors, control.executors) or ExecutorSettings())

    def settings(self) -> AttachSettings:
        """Return the settings of the attachment."""
        from foretide.spark.attached.settings import AttachSettings

        return AttachSettings(
            control=self.values.control,
            executors=self.values.executors,
            kafka_bound=self.kafka_bound,
            store=self.store,
            advisory=self.advisory,
        )


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `below`, those of `above` winning, group by group."""
    found = dict(below)
    for name, value in above.items():
        known = found.get(name)
        found[name] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return found
