"""What was asked on the command line of ``foretide run`` or ``foretide steer``, and what steers a run accordingly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from foretide.commands.running.engine_options import engine_values, spark_settings
from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.control import ControlSettings
    from foretide.control.policies import Policy
    from foretide.control.settings import ExecutorSettings
    from foretide.control.steering import Steering
    from foretide.events import EventSink
    from foretide.forecast.training.model_store import ModelStore
    from foretide.spark import EngineSettings
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["RunRequest", "default_master", "default_policy", "executor_bounds", "is_application"]

#: What decides about an application unless someone else is named; the second where the first is not there.
_DEFAULT_POLICIES = ("foretide", "pasps")
# Short, since a change costs nothing here: the pool is warm, and a plan takes effect with the next batch.
_TD_S = 3.0
# Between two batches slots are idle while Spark plans and commits: so much of their time can be used. Planners that
# know nothing of batches are held to it unless a target is set; ours learns what a batch takes.
_UTILISATION = 0.6
_NONE = "none"
# Executors of an application whose workers are watched, as many as there are machines in most experiments.
_WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What was asked on the command line; None is what was not said.

    Parameters
    ----------
    named : str or Path
        The application or file, or the name of a recorded run.
    policy, forecaster : str, optional
        Who decides, and who looks ahead.
    td_s : float, optional
        Seconds between two decisions.
    advisory : bool
        Whether to decide but change nothing.
    config : Path, optional
        A file of settings.
    executors : str, optional
        Bounds of the executors, such as ``1:4``.
    master : str, optional
        Where to run.
    store : str, optional
        Where to record; ``none`` for nowhere.
    slo : str, optional
        What is promised about latency.
    models : Path, optional
        Where trained models of the forecaster are.
    fresh : bool
        Whether to begin without what earlier runs have learnt.
    health : str, optional
        Who judges workers.
    conf, engine : sequence of str
        Settings of Spark's and of the engine, ``NAME=VALUE``.
    """

    named: str | Path
    policy: str | None = None
    forecaster: str | None = None
    td_s: float | None = None
    advisory: bool = False
    config: Path | None = None
    executors: str | None = None
    master: str | None = None
    store: str | None = None
    slo: str | None = None
    models: Path | None = None
    fresh: bool = False
    health: str | None = None
    conf: Sequence[str] = ()
    engine: Sequence[str] = ()

    @property
    def application(self) -> bool:
        """Whether an application is named, not a file."""
        return is_application(self.named)

    @property
    def steered(self) -> bool:
        """Whether the run is steered.

        Applications are unless one says ``--policy none``, a topology of one's own if an option of control is given.
        """
        if self.policy is not None:
            return self.policy != _NONE
        given = (self.config, self.forecaster, self.td_s, self.slo, self.health)
        return any(one is not None for one in given) or self.advisory or self.application

    def master_for(self, topology: Topology) -> str:
        """Return where to run."""
        if self.master is not None:
            return self.master
        watched = self.settings.health is not None and self.settings.health.by != _NONE
        return default_master(topology, _WORKERS if watched else None) if self.application else "local[*]"

    def open_store(self) -> RunStore | None:
        """Return where runs are recorded; None where they are not."""
        from foretide.store import RunStore, default_store

        if self.store == _NONE:
            return None
        return RunStore(default_store() if self.store is None else self.store)

    @cached_property
    def settings(self) -> ControlSettings:
        """The settings of control: what is said wins over the file, and the file over the defaults.

        Raises
        ------
        ConfigError
            When an option or the file is wrong.
        """
        from foretide.config import unknown_name, validated
        from foretide.control import ControlSettings
        from foretide.health.settings import Judge
        from foretide.plan.promise import parse_promise

        values = self._of_file.model_dump(exclude_unset=True)
        loop = dict(values.get("loop", {}))
        td_s = loop.get("td_s", _TD_S) if self.td_s is None else self.td_s
        loop = {"stale_after_s": max(10.0, 5 * td_s), "deadline_s": td_s / 2, **loop, "td_s": td_s}
        loop.setdefault("sample_s", min(1.0, td_s))
        if self.advisory:
            loop["advisory"] = True
        if self.forecaster is not None:
            values["forecaster"] = self.forecaster
        if self.slo is not None:
            parse_promise(self.slo, "--slo")
            values["slo"] = self.slo
        if self.health is not None:
            if self.health not in get_args(Judge):
                raise unknown_name("--health", self.health, get_args(Judge))
            values["health"] = {**(values.get("health") or {}), "by": self.health}
        found = validated(ControlSettings, {**values, "loop": loop}, "control")
        found.make_forecaster()  # which says what is wrong with its name or settings
        if found.health is not None:
            found.health.make_policy()
        return found

    def spark_settings(self) -> dict[str, str]:
        """Return the settings of Spark's: what is said wins over the file.

        Raises
        ------
        ConfigError
            When one is not ``spark.KEY=VALUE``, or has an option of its own.
        """
        return spark_settings(self.conf, self._of_file.spark)

    def engine_settings(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> EngineSettings:
        """Return the settings of the engine: `given` by options of their own, else by --engine, the file, `defaults`.

        Raises
        ------
        ConfigError
            When a name is not known, with the nearest one, or a value is out of range.
        """
        from foretide.config import validated
        from foretide.spark import EngineSettings

        values = {**defaults, **self._of_file.engine, **engine_values(self.engine), **given}
        return validated(EngineSettings, values, "engine")

    @cached_property
    def _of_file(self) -> ControlSettings:
        from foretide.control import ControlSettings, load_settings

        return ControlSettings() if self.config is None else load_settings(self.config)

    def policies(self, names: str | None = None, option: str = "--policy") -> tuple[Policy, ...]:
        """Return the policies called `names`; without any, the one that was asked for, or else the default.

        Raises
        ------
        ConfigError
            When a name is not known.
        """
        from foretide.control.policies import parse_policies

        settings, of_file = self.settings, self._of_file
        planner_of_file = of_file.planner if "planner" in of_file.model_fields_set else None
        chosen = names if names is not None else self.policy or planner_of_file or default_policy()
        return parse_policies(chosen, settings.forecaster, {**settings.planners, **settings.forecasters}, option)

    def steering(self, topology: Topology, policy: Policy | None = None, events: EventSink | None = None) -> Steering:
        """Return what steers a run of `topology` under `policy`, or under the one that was asked for.

        Raises
        ------
        ConfigError
            When an option is wrong, or the execution time of an operator is needed and not known.
        """
        from foretide.control.profiles import stored_profile
        from foretide.control.steering import make_steering

        profile = stored_profile(self.named, topology)
        found = make_steering(
            self._one_policy() if policy is None else policy,
            topology,
            self.settings,
            execution_s=None if profile is None else profile.execution_s,
            utilisation=_UTILISATION,
            executors=executor_bounds(self.executors, self.settings.executors),
            events=events,
        )
        found.settings.make_forecaster()  # before Spark is started: what it needs may not be installed
        return replace(found, models=self._model_store(topology, found))

    def _model_store(self, topology: Topology, steering: Steering) -> ModelStore | None:
        """Return where trained models are: the folder that was given, or that of the store of runs."""
        from foretide.control.models.shelf import check_models, kept_models, learns_offline
        from foretide.forecast.training.model_store import ModelStore

        if self.models is not None:
            model = steering.forecaster_name
            if not model:
                got = f"{steering.policy_name!r}, which reads no forecasts"
                raise ConfigError("--models", expected="a policy with a forecaster", got=got, remedy="leave it out")
            models = ModelStore(self.models)
            check_models(models, model, topology, steering.settings.loop.sample_s)
            return models
        kept = learns_offline(steering.forecaster_name) and not self.fresh and self.store != _NONE
        return kept_models(topology, self.store) if kept else None

    def _one_policy(self) -> Policy:
        found = self.policies()
        if len(found) > 1:
            raise ConfigError("--policy", expected="one policy; --compare takes several", got=repr(self.policy))
        return found[0]


def is_application(named: str | Path) -> bool:
    """Return whether a name on the command line is an application's, not a file's."""
    return not (Path(named).suffix or Path(named).exists())


def default_policy() -> str:
    """Return who decides unless someone else is named."""
    from foretide.plan import PLANNERS

    return next(name for name in _DEFAULT_POLICIES if name in PLANNERS)


def default_master(topology: Topology, workers: int | None = None) -> str:
    """Return where an application runs: here, with a slot for every replica of its pools.

    More slots than cores are of use where replicas wait for others most of the time. With so many `workers` it is a
    small cluster on this machine, whose executors can be bypassed.
    """
    slots = max(2, int(topology.maximum_replicas.sum()))
    return f"local[{slots}]" if workers is None else f"local-cluster[{workers},{-(-slots // workers)},1024]"


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def executor_bounds(text: str | None, of_file: ExecutorSettings | None) -> ExecutorSettings | None:
    """Return the settings of the executors: the bounds, such as ``1:4``, win over those of the file."""
    if text is None:
        return of_file
    from foretide.config import validated
    from foretide.control.settings import ExecutorSettings

    least, colon, most = (part.strip() for part in text.partition(":"))
    if not (colon and least.isdecimal() and most.isdecimal()):
        raise ConfigError("--executors", expected="the fewest and the most, such as 1:4", got=repr(text))
    others = {} if of_file is None else of_file.model_dump()
    return validated(ExecutorSettings, {**others, "minimum": int(least), "maximum": int(most)}, "--executors")
