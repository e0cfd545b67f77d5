"""The settings of the control loop, and of a whole set-up in one file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from foretide.config import Settings, validated
from foretide.control.signals.stored import SignalSettings
from foretide.errors import ConfigError
from foretide.forecast import Forecaster, make_forecaster
from foretide.health.settings import HealthSettings
from foretide.plan import Guarded, GuardSettings, Planner, make_planner, standard_guards
from foretide.plan.promise import Promise, PromiseText, parse_promise
from foretide.plan.registry import find_planner

__all__ = [
    "LONGEST_LEAD_S",
    "ControlSettings",
    "ExecutorSettings",
    "LoopSettings",
    "RetrainingSettings",
    "attached_control",
    "load_settings",
]

#: The longest lead time of executors that is learnt and planned for, in seconds.
LONGEST_LEAD_S = 600.0
# What a start costs, in lead times: chosen in the simulator on made-up inputs, at lead times of 7 to 28 s.
_START = 1.5


class LoopSettings(Settings):
    """How often the control loop decides and what it looks at."""

    td_s: float = Field(default=30.0, gt=0, le=86_400, description="Seconds between two decisions: `td` of P7.")
    sample_s: float = Field(default=1.0, gt=0, le=3_600, description="Seconds between two values of a history (P6).")
    history: int = Field(default=100, ge=2, le=100_000, description="Values of each history that are kept (P6).")
    stale_after_s: float = Field(
        default=90.0, gt=0, description="Seconds without a measurement after which a cycle is skipped as blind."
    )
    settle_s: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds after a change whose measurements are ignored (D3).",
    )
    coverage: float = Field(
        default=0.5, gt=0, le=1, description="Part of an interval that must be measured before it is planned from."
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        description="Seconds to wait for forecasts, which then run on threads of their own (P6); unset, in line.",
    )
    wake_backlog_s: float | None = Field(
        default=2.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds of input by which a backlog may grow until a decision is made at once; never if not set.",
    )
    advisory: bool = Field(default=False, description="Decide and record, but change nothing.")

    @model_validator(mode="after")
    def _sample_fits(self) -> LoopSettings:
        if self.sample_s > self.td_s:
            raise ValueError(f"sample_s of at most td_s ({self.td_s} s)")
        return self


class ExecutorSettings(Settings):
    """How many executors there may be, and how they are released."""

    minimum: int = Field(default=1, ge=1, description="Executors that are kept in any case.")
    maximum: int = Field(default=8, ge=1, description="Executors that are asked for at most.")
    cores: int | None = Field(
        default=None, ge=1, description="Task slots of an executor; what Spark's settings say unless given."
    )
    release_after_s: float = Field(
        default=10.0,
        ge=0,
        description="Seconds for which fewer executors must have been enough before one is released.",
    )
    quiet_s: float = Field(
        default=10.0,
        ge=0,
        description="Seconds for which a moment without jobs is waited for before executors go: batches that are "
        "planned while one leaves wait for it.",
    )
    kill_after_s: float = Field(
        default=30.0, gt=0, description="Seconds after which an executor that is to go and stays is killed."
    )

    lead_s: float = Field(
        default=10.0,
        ge=0,
        le=LONGEST_LEAD_S,
        description="Seconds from a request until an executor gets tasks, as long as that is not learnt yet.",
    )
    start_price_s: float | None = Field(
        default=None,
        ge=0,
        description="Executor-seconds that a start costs; one and a half of what is learnt of `lead_s` if not set.",
    )
    stop_price_s: float = Field(default=0.0, ge=0, description="Executor-seconds that a stop costs.")

    @model_validator(mode="after")
    def _in_order(self) -> ExecutorSettings:
        if self.maximum < self.minimum:
            raise ValueError(f"maximum of at least minimum ({self.minimum})")
        return self

    def change_price_s(self, lead_s: float) -> float:
        """Return the executor-seconds that a stop and a start cost, where an executor takes `lead_s` to come.

        It does little at first: it loads and compiles what queries need. So a start costs more than the wait for it.
        """
        start_s = _START * lead_s if self.start_price_s is None else self.start_price_s
        return start_s + self.stop_price_s


class RetrainingSettings(Settings):
    """How a forecaster that learns offline is trained again while a topology runs (B1)."""

    every_s: float | None = Field(
        default=300.0, gt=0, description="Seconds from one training to the next, in another process; never if not set."
    )
    least: int = Field(default=120, ge=20, description="Values of a source's rate that a training takes, at least.")
    most: int = Field(
        default=20_000, ge=100, description="Values that it takes at most: the latest, of recorded runs and this one."
    )


class ControlSettings(Settings):
    """A whole set-up: the loop, its planner with its settings, its forecaster with its, and the guards."""

    loop: LoopSettings = Field(default_factory=LoopSettings, description="The loop itself.")
    planner: str = Field(default="foretide", description="The planner, by name; `foretide planners` lists them.")
    planners: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Settings of planners, by name.")
    forecaster: str = Field(
        default="auto", description="The forecaster, by name; `foretide forecast models` lists them."
    )
    forecasters: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of forecasters, by name."
    )
    retraining: RetrainingSettings = Field(
        default_factory=RetrainingSettings, description="Training of networks while a topology runs."
    )
    guards: GuardSettings = Field(default_factory=GuardSettings, description="Guards around the planner.")
    executors: ExecutorSettings | None = Field(
        default=None,
        description="Executors of a cluster, which are scaled along with the slots; left alone if not set.",
    )

    health: HealthSettings | None = Field(
        default=None,
        description="How workers of a cluster are watched and slow ones bypassed; not at all if not set.",
    )

    signal: SignalSettings | None = Field(
        default=None, description="A column of the store that says what input to plan for; none if not set."
    )

    slo: PromiseText | None = Field(
        default=None,
        description="A promise such as 'p95<500ms': kept by planners that take one, and measured for all.",
    )

    engine: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="Settings of the engine on Spark, see EngineSettings; for `foretide run`.",
    )
    spark: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="Settings of Spark's, without the 'spark.' that all names begin with; for `foretide run`.",
    )

    @property
    def promise(self) -> Promise | None:
        """What is promised about latency; None where nothing is."""
        return None if self.slo is None else parse_promise(self.slo)

    def promised(self, planner: str) -> dict[str, str]:
        """Return the promise as a setting of a planner, empty where there is none or the planner takes none."""
        return {} if self.slo is None or "slo" not in find_planner(planner).model_fields else {"slo": self.slo}

    def make_planner(self) -> Planner | Guarded:
        """Return the planner with its settings, inside its guards."""
        planner = make_planner(self.planner, **{**self.promised(self.planner), **self.planners.get(self.planner, {})})
        guards = standard_guards(self.guards)
        return Guarded(planner=planner, guards=guards) if guards else planner

    def make_forecaster(self) -> Forecaster:
        """Return the forecaster with its settings."""
        return make_forecaster(self.forecaster, **self.forecasters.get(self.forecaster, {}))


def attached_control() -> ControlSettings:
    """Return the set-up for an application of the user's own unless something else is said.

    Executors take longer to come than slots, and a query tells of itself only once a batch. In a driver that is not
    ours, nothing is trained that takes much memory.
    """
    return ControlSettings(
        loop=LoopSettings(td_s=5.0, sample_s=1.0, stale_after_s=60.0), forecasters={"auto": {"dear": []}}
    )


def load_settings(path: str | Path) -> ControlSettings:
    """Read a set-up from a TOML file.

    Its tables are ``loop``, ``planners.NAME``, ``forecasters.NAME``, ``retraining``, ``guards``,
    ``executors``, ``health``, ``signal``, ``engine``, ``spark``. Settings of planners and forecasters that are
    not in use are checked as well.

    Raises
    ------
    ConfigError
        Naming the file and the setting, what was expected and what came.
    """
    file = Path(path)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), expected="a readable settings file", got=error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), expected="a TOML file", got=str(error)) from error
    settings = validated(ControlSettings, values, file.name)
    try:
        for name in {settings.planner: None, **settings.planners}:
            make_planner(name, **settings.planners.get(name, {}))
        for name in {settings.forecaster: None, **settings.forecasters}:
            make_forecaster(name, **settings.forecasters.get(name, {}))
        if settings.health is not None:
            settings.health.make_policy()
    except ConfigError as error:
        raise ConfigError(
            f"{file.name}: {error.setting}", expected=error.expected, got=error.got, remedy=error.remedy
        ) from error
    return settings
