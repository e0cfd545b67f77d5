"""From the options of ``foretide run`` to a steered run: who decides, from what, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.control import ControlSettings
    from foretide.control.policies import Setting
    from foretide.spark.steering.executors import ExecutorSettings
    from foretide.spark.steering.steered_run import ControlOptions
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["Asked", "Prepared", "default_master", "is_application", "prepare"]

#: What decides about an application unless someone else is named; the second where the first is not there.
_DEFAULT_POLICIES = ("foretide", "pasps")
# Short, since a change costs nothing here: the pool is warm, and a plan takes effect with the next batch.
_TD_S = 3.0
# Between two batches slots are idle while Spark plans and commits: so much of their time can be used.
UTILISATION = 0.6
_NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says about control; None is what was not said."""

    policy: str | None = None
    forecaster: str | None = None
    td_s: float | None = None
    advisory: bool = False
    config: Path | None = None
    executors: str | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a steered run needs, whichever policy it has.

    Parameters
    ----------
    setting : Setting
        What policies are made for.
    execution_s : mapping of str to float
        Execution times of the last benchmark of the topology; empty without one.
    executors : ExecutorSettings, optional
        How executors are to be scaled.
    """

    setting: Setting
    execution_s: Mapping[str, float]
    executors: ExecutorSettings | None

    @property
    def planner_of_file(self) -> str | None:
        """The planner that a file of settings names; None where it names none."""
        control = self.setting.control
        return control.planner if "planner" in control.model_fields_set else None

    def options(self, policy: str, store: RunStore | None, trace: str) -> tuple[ControlOptions, Mapping[str, int]]:
        """Return the options of a run under `policy`, and the replicas that it begins with."""
        from foretide.control.policies import find_policy
        from foretide.spark.steering.steered_run import ControlOptions

        found = find_policy(policy, self.setting)
        control = self.setting.control
        options = ControlOptions(
            settings=control,
            policy=policy,
            planner=found.planner,
            execution_s=self.execution_s,
            overestimated=sum(self.setting.peak.values()) or None,
            executors=self.executors,
            whole_lag=found.whole_lag,
        )
        if store is None:
            return options, found.replicas
        from foretide.store import RunSpec

        spec = RunSpec(
            topology=self.setting.topology,
            policy=policy,
            forecaster=control.forecaster if found.planner.needs_forecast else "",
            trace=trace,
            td_s=control.loop.td_s,
            settings=control.model_dump(),
        )
        return replace(options, recorder=store.begin_run(spec)), found.replicas


def is_application(named: str | Path) -> bool:
    """Tell whether a name on the command line is an application's, not a file's."""
    return not (Path(named).suffix or Path(named).exists())


def chosen_policy(asked: Asked, application: bool) -> str | None:
    """Return who decides; None for a run that nobody steers.

    Applications are steered unless one says ``--policy none``, a topology of one's own if one names a policy.
    """
    if asked.policy is not None:
        return None if asked.policy == _NONE else asked.policy
    named = asked.config is not None or asked.forecaster is not None or asked.td_s is not None or asked.advisory
    return default_policy() if application or named else None


def default_policy() -> str:
    """Return who decides unless someone else is named."""
    from foretide.plan import PLANNERS

    return next(name for name in _DEFAULT_POLICIES if name in PLANNERS)


def default_master(topology: Topology) -> str:
    """Return where an application runs: here, with a slot for every replica of its pools.

    More slots than cores are of use where replicas wait for others most of the time.
    """
    return f"local[{max(2, int(topology.maximum_replicas.sum()))}]"


def prepare(topology: Topology, asked: Asked, named: str | Path) -> Prepared:
    """Return what a steered run of `topology` needs.

    Raises
    ------
    ConfigError
        When an option is wrong, or the execution time of an operator is needed and not known.
    """
    from foretide.control.policies import Setting, peak_replicas, trace_peaks, trace_speed
    from foretide.control.profiles import stored_profile

    profile = stored_profile(named, topology)
    execution_s = {} if profile is None else dict(profile.execution_s)
    control = _control(asked)
    peaks = trace_peaks(topology)
    utilisation = control.guards.utilisation_target or UTILISATION
    try:
        peak = peak_replicas(topology, peaks, execution_s, utilisation) if peaks else {}
    except ConfigError:
        # Nothing is known yet about an operator: policies that need it will say so.
        peak = {}
    setting = Setting(topology, control, peak, trace_speed(topology))
    return Prepared(setting=setting, execution_s=execution_s, executors=_executors(asked.executors))


def _control(asked: Asked) -> ControlSettings:
    from foretide.config import validated
    from foretide.control import ControlSettings, load_settings
    from foretide.control.policies import with_guards

    control = ControlSettings() if asked.config is None else load_settings(asked.config)
    values = control.model_dump(exclude_unset=True)
    loop = dict(values.get("loop", {}))
    td_s = loop.get("td_s", _TD_S) if asked.td_s is None else asked.td_s
    loop = {"stale_after_s": max(10.0, 5 * td_s), "deadline_s": td_s / 2, **loop, "td_s": td_s}
    loop.setdefault("sample_s", min(1.0, td_s))
    if asked.advisory:
        loop["advisory"] = True
    values["loop"] = loop
    if asked.forecaster is not None:
        values["forecaster"] = asked.forecaster
    found = with_guards(validated(ControlSettings, values, "control"), UTILISATION)
    found.make_forecaster()  # which says what is wrong with its name or settings
    return found


def _executors(text: str | None) -> ExecutorSettings | None:
    """Read the bounds of executors, such as ``1:4``."""
    if text is None:
        return None
    from foretide.config import validated
    from foretide.spark.steering.executors import ExecutorSettings

    least, colon, most = (part.strip() for part in text.partition(":"))
    if not (colon and least.isdecimal() and most.isdecimal()):
        raise ConfigError("--executors", expected="the fewest and the most, such as 1:4", got=repr(text))
    return validated(ExecutorSettings, {"minimum": int(least), "maximum": int(most)}, "--executors")
