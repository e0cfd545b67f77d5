"""The trainer (SPEC I6): models of workers from recorded features, again and again, beside the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foretide.errors import ForecastError, ForetideError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.forecast.background import Job
from foretide.health.dataset import MachineTable, present_workers, to_tables
from foretide.health.kept import KeptModels
from foretide.health.models import IdrnnSettings, WorkerModel, train_model
from foretide.health.settings import TrainerSettings
from foretide.store import FeatureSample

__all__ = ["HealthTrainer", "train_models"]

# Seconds from a training that brought no model to the next.
_AGAIN_S = 30.0

#: Trains one model: of which kind, on what, how, for which topology.
Train = Callable[[str, MachineTable, IdrnnSettings, str], WorkerModel]


def train_models(
    kind: str,
    samples: Iterable[FeatureSample],
    settings: TrainerSettings | None = None,
    topology: str = "",
    train: Train = train_model,
) -> dict[str, WorkerModel]:
    """Return a model for each machine of which enough was recorded.

    A machine is learnt from the instant on at which all the workers were there that are there now.

    Raises
    ------
    ForecastError
        When there is too little of every machine.
    MissingExtraError
        When JAX is needed and not installed.
    """
    settings = settings or TrainerSettings()
    found: dict[str, WorkerModel] = {}
    failure: ForecastError | None = None
    settled = present_workers(samples, settings.step_s, settled=True)
    for machine, table in to_tables(settled, settings.step_s).items():
        try:
            found[machine] = train(kind, table, settings.network, topology)
        except ForecastError as error:
            failure = error
    if not found:
        raise failure or ForecastError("models of workers: expected recorded features, got none; record a run first")
    return found


class HealthTrainer:
    """Retrains models from time to time, in the background.

    A model that predicted the part of the run that was held back worse than the last value would have is not used.

    Parameters
    ----------
    kind : {"linear", "idrnn"}
        Which model.
    recent : callable
        Returns the features recorded since an instant.
    settings : TrainerSettings
        When, and on what.
    topology : str
        The fingerprint of the topology that runs.
    kept : KeptModels, optional
        Where models are kept.
    events : EventSink, optional
        Receives ``model.trained``, ``model.rejected`` and ``model.failed``.
    train : callable
        How one is trained.
    """

    def __init__(
        self,
        kind: str,
        recent: Callable[[float], Sequence[FeatureSample]],
        settings: TrainerSettings | None = None,
        *,
        topology: str = "",
        kept: KeptModels | None = None,
        events: EventSink | None = None,
        train: Train = train_model,
    ) -> None:
        self.settings, self._kind, self._topology = settings or TrainerSettings(), kind, topology
        self._recent, self._kept, self._train = recent, kept, train
        self._events: EventSink = EventLog() if events is None else events
        self._job: Job[dict[str, WorkerModel]] = Job()
        self._due_s: float | None = None

    def tick(self, now_s: float) -> dict[str, WorkerModel] | None:
        """Start a training that is due; return new models once when they are ready, else None."""
        settings = self.settings
        if self._due_s is None or now_s < self._due_s - max(settings.every_s, settings.first_after_s):
            self._due_s = now_s + settings.first_after_s  # also after a clock that was set back
        if now_s >= self._due_s and not self._job.running:
            self._due_s = now_s + settings.every_s
            self._job.start(lambda: self._run(now_s))
        found = self._job.result()
        if found is not None and not found:  # too little was recorded yet, say: that may soon be otherwise
            self._due_s = min(self._due_s, now_s + _AGAIN_S)
        return found or None

    def wait(self) -> dict[str, WorkerModel] | None:
        """Wait for a training that is under way, and return its models."""
        return self._job.wait() or None

    def _run(self, now_s: float) -> dict[str, WorkerModel]:
        try:
            recent = self._recent(now_s - self.settings.history_s)
            trained = train_models(self._kind, recent, self.settings, self._topology, self._train)
            models = {machine: model for machine, model in trained.items() if not model.validation_error > 1}
            if self._kept is not None and models:
                self._kept.save(models)
        except (ForetideError, OSError) as error:
            self._emit(now_s, "model.failed", f"{error}; who judged workers goes on", "warning")
            return {}
        for machine, model in trained.items():
            words = f"{self._kind} model of the workers of {machine}"
            words += f", {model.validation_error:.2f} of the last value's error where it was held back"
            if machine in models:
                self._emit(now_s, "model.trained", words, "info")
            else:
                self._emit(now_s, "model.rejected", f"{words}; who judged workers goes on", "warning")
        return models

    def _emit(self, now_s: float, kind: str, message: str, severity: Severity) -> None:
        self._events.emit(Event(now_s, kind, message, severity))
