"""How a run is simulated: who decides, how often, from what, under which stress."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from foretide.config import validated
from foretide.control.settings import LoopSettings
from foretide.errors import ConfigError
from foretide.forecast import Basic, Forecaster, make_forecaster
from foretide.plan import Guarded, Planner, make_planner
from foretide.plan.promise import Promise
from foretide.sim.settings import SimulationSettings
from foretide.sim.stress import Stress

__all__ = ["SimulationOptions"]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Everything about a simulated run except its topology and its input.

    Parameters
    ----------
    planner : Planner or Guarded
        The planner. It is copied: what it learns in one run does not reach the next.
    forecaster : Forecaster, optional
        The forecaster; a planner that reads forecasts needs one.
    td_s, sample_s : float, optional
    history : int, optional
        The interval, the time between two observations and how many of them are kept, in place of those of `loop`. An
        observation is never longer than the interval.
    loop : LoopSettings
        The control loop.
    settings : SimulationSettings
        The simulated system.
    seed : int
        The seed of everything random.
    stress : Stress, optional
        What goes wrong; nothing by default.
    warm_up_s : float
        Metrics count from here on.
    warm_start : bool
        Whether the run begins with the replicas that the first rate above 0 needs, instead of the initial ones.
    r_over : float, optional
        The replicas that saved resources are measured against; by default what the input's peak needs.
    keep_decisions : bool
        Whether the report holds the record of every cycle; without them a long run takes little memory.
    policy : str
        What to call the planner with its settings, such as ``static-peak``; its own name if empty.
    promise : Promise, optional
        What is promised about latency: how well it was kept is measured; what the planner does about it is its setting.

    Examples
    --------
    >>> options = SimulationOptions.of({"planner": "pasps", "forecaster": "lr", "td_s": 5.0, "sample_s": 10.0})
    >>> options.control.td_s, options.control.sample_s, options.planner.name
    (5.0, 5.0, 'pasps')
    """

    planner: Planner | Guarded
    forecaster: Forecaster | None = None
    td_s: float | None = None
    sample_s: float | None = None
    history: int | None = None
    loop: LoopSettings = field(default_factory=LoopSettings)
    settings: SimulationSettings = field(default_factory=SimulationSettings)
    seed: int = 0
    stress: Stress | None = None
    warm_up_s: float = 30.0
    warm_start: bool = True
    r_over: float | None = None
    keep_decisions: bool = True
    policy: str = ""
    promise: Promise | None = None

    def __post_init__(self) -> None:
        if self.planner.needs_forecast and self.forecaster is None:
            raise ConfigError(
                "forecaster",
                expected=f"a forecaster, since policy {self.planner.name!r} plans from forecasts",
                got="none",
                remedy="name one, such as 'basic' or 'auto'; `foretide forecast models` lists them",
            )
        if not 0 <= self.warm_up_s < math.inf:
            raise ConfigError("warm_up_s", expected="at least 0 seconds", got=self.warm_up_s)
        if self.r_over is not None and not 0 < self.r_over < math.inf:
            raise ConfigError("r_over", expected="more than 0 replicas", got=self.r_over)
        _ = self.control  # checked when the options are made, not when a run begins

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SimulationOptions:
        """Return the options from a mapping, in which planner and forecaster may be names.

        Raises
        ------
        ConfigError
            When there is no such option, or a name is not known.
        """
        known = [part.name for part in fields(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ConfigError(unknown[0], expected=f"one of the options {', '.join(known)}", got="another one")
        planner, forecaster = given.get("planner"), given.get("forecaster")
        if planner is None:
            raise ConfigError("planner", expected="a planner or the name of one", got="none")
        named = {
            "planner": make_planner(planner) if isinstance(planner, str) else planner,
            "forecaster": make_forecaster(forecaster) if isinstance(forecaster, str) else forecaster,
        }
        return cls(**{**given, **named})

    @cached_property
    def control(self) -> LoopSettings:
        """The settings of the loop, with `td_s`, `sample_s` and `history` in place."""
        given = {"td_s": self.td_s, "sample_s": self.sample_s, "history": self.history}
        values = self.loop.model_dump() | {name: value for name, value in given.items() if value is not None}
        values["sample_s"] = min(values["sample_s"], values["td_s"])
        return validated(LoopSettings, values, "loop")

    @property
    def simulation(self) -> SimulationSettings:
        """The settings of the simulated system, under stress if there is any."""
        return self.settings if self.stress is None else self.stress.settings(self.settings)

    def fresh_planner(self) -> Planner | Guarded:
        """Return a copy of the planner, for one run."""
        return copy.deepcopy(self.planner)

    def fresh_forecaster(self) -> Forecaster:
        """Return a forecaster that has learnt nothing; if none is needed, one that is never used."""
        return Basic() if self.forecaster is None else self.forecaster.clone()

    @property
    def policy_name(self) -> str:
        """What to call the planner with its settings."""
        return self.policy or self.planner.name

    @property
    def forecaster_name(self) -> str | None:
        """The name of the forecaster, None if the planner reads no forecasts."""
        return self.forecaster.name if self.forecaster is not None and self.planner.needs_forecast else None
