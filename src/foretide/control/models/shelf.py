"""Where the trained models of a run are: in the folder given, beside the store of runs, or for this run alone."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from foretide.control.settings import RetrainingSettings
from foretide.control.steering import Steering
from foretide.errors import ConfigError, ForecastError
from foretide.forecast.registry import all_forecasters
from foretide.forecast.training.model_store import ModelStore
from foretide.store import default_store_path, fingerprint
from foretide.topology import Topology

__all__ = ["ModelShelf", "check_models", "found_models", "kept_models", "learns_offline"]


def learns_offline(forecaster: str) -> bool:
    """Return whether a forecaster, by name, is trained beside the loop; not one that nobody knows.

    >>> learns_offline("bigru"), learns_offline("ridge"), learns_offline("")
    (True, False, False)
    """
    kind = all_forecasters().get(forecaster)
    return kind is not None and kind.offline


class ModelShelf:
    """The store of models that a loop looks at: that of the steering, or an own one for a forecaster that needs one.

    Without a store of models, those that are trained while a topology runs last as long as the run.

    Parameters
    ----------
    steering : Steering
        What steers.
    """

    def __init__(self, steering: Steering) -> None:
        #: Whether models are to be trained while the topology runs.
        self.trains = learns_offline(steering.forecaster_name)
        self._own: TemporaryDirectory[str] | None = None
        self.models = steering.models
        if self.models is None and self.trains:
            self._own = TemporaryDirectory(prefix="foretide-models-", ignore_cleanup_errors=True)
            self.models = ModelStore(self._own.name)

    def close(self) -> None:
        """Remove the models that were for this run alone."""
        if self._own is not None:
            self._own.cleanup()


def kept_models(topology: Topology, store: str | Path | None = None) -> ModelStore:
    """Return where models of a topology are kept from run to run: beside the file that its runs are stored in."""
    beside = default_store_path() if store is None or "://" in str(store) else Path(store)
    return ModelStore(beside.parent / "models" / f"{topology.name}-{fingerprint(topology)}")


def found_models(
    models: ModelStore, model: str, topology: Topology, retraining: RetrainingSettings
) -> tuple[str, list[str]]:
    """Return in words which models a run begins with, or what happens without, and the sources that have none."""
    found, missing = [], []
    for source in topology.layout.sources:
        try:
            stored = models.latest(source, model)
        except ForecastError as error:
            return f"{error}; meanwhile the last value stands in", [source]
        if stored is None:
            missing.append(source)
        else:
            found.append(f"version {stored.version} of {source}, trained {stored.card.trained_at}")
    if not missing:
        return f"trained {model!r}: {'; '.join(found)}", []
    plan = (
        f"one is trained in the background once there are {retraining.least} values of its rate"
        if retraining.every_s is not None
        else "none is trained in this run, since retraining.every_s is not set"
    )
    where = f"in {models.directory}"
    return f"no trained {model!r} of {', '.join(missing)} {where}: the last value stands in; {plan}", missing


def check_models(models: ModelStore, model: str, topology: Topology, step_s: float) -> None:
    """Check that a folder has a model for each source of a topology, whole and of the loop's step.

    Raises
    ------
    ConfigError
        When a model is missing, or was trained on values of another step.
    ForecastError
        When one is damaged, changed, or of another format.
    """
    known = models.list()
    for source in topology.layout.sources:
        stored = models.latest(source, model)
        if stored is None:
            got = ", ".join(f"{one.card.model} of {one.card.series}" for one in known[:10]) or "none"
            remedy = (
                f"`foretide forecast train --models {model} --out {models.directory}` on a file in which the series is "
                f"called {source!r}, in its column 'series' or by the file's name"
            )
            where = f"--models {models.directory}"
            raise ConfigError(where, expected=f"a model {model!r} of source {source!r}", got=got, remedy=remedy)
        if stored.card.data["step_s"] != step_s:
            raise ConfigError(
                f"--models {models.directory}",
                expected=f"a model of source {source!r} for values every {step_s:g} s, as loop.sample_s says",
                got=f"one for values every {stored.card.data['step_s']:g} s",
                remedy=f"train it with --bin {step_s:g}, or set loop.sample_s",
            )
        stored.load()
