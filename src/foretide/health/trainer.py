"""The life cycle of models of workers: trained on recorded features, kept in files, retrained now and then."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from foretide.config import Settings
from foretide.errors import ForecastError, ForetideError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.extras import needs_extra
from foretide.forecast.background import Job
from foretide.health.dataset import MachineTable, to_tables
from foretide.health.idrnn.model import IdrnnModel
from foretide.health.idrnn.settings import IdrnnSettings
from foretide.store import FeatureSample

__all__ = ["HealthTrainer", "ModelDirectory", "TrainerSettings", "train_models"]

_SUFFIX = ".idrnn"
Train = Callable[[MachineTable, IdrnnSettings], IdrnnModel]


class TrainerSettings(Settings):
    """When models of workers are trained."""

    every_s: float = Field(default=1_800.0, gt=0, description="Seconds from one training to the next.")
    first_after_s: float = Field(default=600.0, ge=0, description="Seconds of features before the first training.")
    history_s: float = Field(default=7_200.0, gt=0, description="Seconds of features that are trained on, at most.")
    step_s: float = Field(default=15.0, gt=0, description="Seconds of one step of the model.")
    network: IdrnnSettings = Field(default_factory=IdrnnSettings, description="The network.")


class ModelDirectory:
    """Models in a directory, one file for each machine.

    Parameters
    ----------
    path : path
        The directory; it need not exist yet.
    events : EventSink, optional
        Receives ``model.loaded`` and ``model.broken``.
    """

    def __init__(self, path: str | Path, events: EventSink | None = None) -> None:
        self.path = Path(path)
        self._events: EventSink = EventLog() if events is None else events

    def save(self, models: Mapping[str, IdrnnModel]) -> None:
        """Write models; a reader finds the old one of a machine or the new one, never half of it."""
        for machine, model in models.items():
            model.save(self.path / _file_name(machine))

    def load(self) -> dict[str, IdrnnModel]:
        """Return the models that are fit for use, by machine; what is wrong with others is an event, not an error.

        Without a model the statistical detector stands in.
        """
        found: dict[str, IdrnnModel] = {}
        for path in sorted(self.path.glob(f"*{_SUFFIX}")):
            try:
                found[path.name.removesuffix(_SUFFIX)] = IdrnnModel.load(path)
            except ForecastError as error:
                self._emit("model.broken", f"{error}; the statistical detector stands in", "error")
            else:
                self._emit("model.loaded", f"model of workers {path}", "info")
        return found

    def _emit(self, kind: str, message: str, severity: Severity) -> None:
        self._events.emit(Event(time.time(), kind, message, severity))


def train_models(
    samples: Iterable[FeatureSample], settings: TrainerSettings | None = None, train: Train | None = None
) -> dict[str, IdrnnModel]:
    """Return a model for each machine of which enough was recorded.

    Raises
    ------
    ForecastError
        When there is too little of every machine.
    MissingExtraError
        When JAX is not installed.
    """
    settings = settings or TrainerSettings()
    found: dict[str, IdrnnModel] = {}
    failure: ForecastError | None = None
    for machine, table in to_tables(samples, settings.step_s).items():
        try:
            found[machine] = (train or _train)(table, settings.network)
        except ForecastError as error:
            failure = error
    if not found:
        raise failure or ForecastError("models of workers: expected recorded features, got none; record a run first")
    return found


class HealthTrainer:
    """Retrains models from time to time, in the background.

    Parameters
    ----------
    recent : callable
        Returns the features recorded since an instant.
    settings : TrainerSettings
        When, and on what.
    directory : ModelDirectory, optional
        Where models are kept.
    events : EventSink, optional
        Receives ``model.trained`` and ``model.failed``.
    train : callable, optional
        How one is trained.
    """

    def __init__(
        self,
        recent: Callable[[float], Sequence[FeatureSample]],
        settings: TrainerSettings | None = None,
        *,
        directory: ModelDirectory | None = None,
        events: EventSink | None = None,
        train: Train | None = None,
    ) -> None:
        self.settings = settings or TrainerSettings()
        self._recent, self._directory, self._train = recent, directory, train
        self._events: EventSink = EventLog() if events is None else events
        self._job: Job[dict[str, IdrnnModel]] = Job()
        self._due_s: float | None = None

    def tick(self, now_s: float) -> dict[str, IdrnnModel] | None:
        """Start a training that is due; return new models once when they are ready, else None."""
        settings = self.settings
        if self._due_s is None or now_s < self._due_s - max(settings.every_s, settings.first_after_s):
            self._due_s = now_s + settings.first_after_s  # also after a clock that was set back
        if now_s >= self._due_s and not self._job.running:
            self._due_s = now_s + settings.every_s
            self._job.start(lambda: self._run(now_s))
        return self._job.result() or None

    def wait(self) -> dict[str, IdrnnModel] | None:
        """Wait for a training that is under way, and return its models."""
        return self._job.wait() or None

    def _run(self, now_s: float) -> dict[str, IdrnnModel]:
        try:
            models = train_models(self._recent(now_s - self.settings.history_s), self.settings, self._train)
            if self._directory is not None:
                self._directory.save(models)
        except (ForetideError, OSError) as error:
            self._emit(now_s, "model.failed", f"{error}; the models in use stay", "warning")
            return {}
        errors = ", ".join(f"{machine} {model.validation_error:.3g}" for machine, model in models.items())
        self._emit(now_s, "model.trained", f"models of workers, validation errors: {errors}", "info")
        return models

    def _emit(self, now_s: float, kind: str, message: str, severity: Severity) -> None:
        self._events.emit(Event(now_s, kind, message, severity))


def _train(table: MachineTable, settings: IdrnnSettings) -> IdrnnModel:
    # Imported here, because models are loaded and used without JAX.
    with needs_extra("deep", "training of a model of workers"):
        from foretide.health.idrnn.training import train_idrnn
    return train_idrnn(table, settings)


def _file_name(machine: str) -> str:
    return re.sub(r"[^\w.-]", "_", machine) + _SUFFIX
