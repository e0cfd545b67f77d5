"""Training a forecaster again while the loop that uses it runs, in another process (SPEC B1)."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.control.loop import ControlLoop
from foretide.control.models.histories import rate_histories
from foretide.control.models.shelf import found_models
from foretide.control.settings import RetrainingSettings
from foretide.errors import ForetideError
from foretide.events import Event, EventSink, Severity
from foretide.forecast import Forecaster, Series
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import PairResult
from foretide.forecast.training.worker import TrainingOrder
from foretide.records import Measurement
from foretide.store import RunStore
from foretide.topology import Topology

__all__ = ["Retrainer", "retrainer_of", "train_apart"]

_LOG = logging.getLogger(__name__)
# Seconds between two looks at whether there is enough to train on.
_POLL_S = 2.0

#: Trains what an order says, and returns what became of it; it gives up when the event is set.
Train = Callable[[TrainingOrder, threading.Event], Sequence[PairResult]]


class Retrainer(Background):
    """Trains the model of each source on the rates of recorded runs and of the present one, again and again.

    It works in a thread that does nothing but wait for a process of the lowest priority, so that neither the loop nor
    the stream waits for it. What was trained is the next version in the store of models, from which the loop takes it
    over at its next forecast and says so (``model.loaded``).

    Parameters
    ----------
    topology : Topology
        What runs.
    forecaster : Forecaster
        The model to train, with its settings.
    models : ModelStore
        Where the loop looks for models.
    settings : RetrainingSettings
        How often, and from how much.
    step_s : float
        Seconds between two values of the loop's histories.
    own : callable
        Returns what was measured of this run.
    events : EventSink
        Hears ``model.missing`` at the start where a source has no model yet, ``model.trained`` and ``model.untrained``.
    past : RunStore, optional
        Where earlier runs of the topology are recorded.
    train : callable, optional
        Trains what it is told.
    clock : Clock
        Tells the time.
    """

    _name: ClassVar[str] = "foretide-retraining"

    def __init__(
        self,
        topology: Topology,
        forecaster: Forecaster,
        models: ModelStore,
        settings: RetrainingSettings,
        *,
        step_s: float,
        own: Callable[[], Sequence[Measurement]],
        events: EventSink,
        past: RunStore | None = None,
        train: Train | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._topology, self._forecaster, self._models, self._settings = topology, forecaster, models, settings
        self._step_s, self._own, self._events, self._past = step_s, own, events, past
        self._train, self._clock = train or train_apart, clock or SystemClock()
        self._tried_at_s: float | None = None

    def begin(self) -> None:
        """Tell which sources have no model yet, and what happens meanwhile."""
        message, missing = found_models(self._models, self._forecaster.name, self._topology, self._settings)
        if missing:
            self._tell("model.missing", message, "warning", {"sources": missing, "model": self._forecaster.name})

    def look(self) -> Sequence[PairResult]:
        """Train if it is time and there is enough to train on; return what became of it."""
        now_s, every_s = self._clock.now_s(), self._settings.every_s
        if every_s is None or (self._tried_at_s is not None and now_s - self._tried_at_s < every_s):
            return []
        # A run that begins with models has them trained again when it has brought something new.
        if self._tried_at_s is None and self._has_all() and not self._ran_for(every_s):
            return []
        histories = rate_histories(
            self._topology, self._past, self._own(), self._step_s, self._settings.most, self._forecaster.window
        )
        enough = [series for series in histories.values() if self._is_enough(series)]
        if not enough:
            return []
        self._tried_at_s = now_s
        results = self._trained(enough)
        for result in results:
            self._report(result)
        return results

    def _run(self) -> None:
        self.begin()
        while not self._stop.wait(_POLL_S):
            try:
                self.look()
            except Exception as error:
                # Whatever is wrong with training, the loop goes on with the model that it has.
                _LOG.debug("training failed", exc_info=True)
                self._tried_at_s = self._clock.now_s()
                message = f"model {self._forecaster.name!r} was not trained: {error}"
                self._tell("model.untrained", message, "warning", {"model": self._forecaster.name})

    def _has_all(self) -> bool:
        return not found_models(self._models, self._forecaster.name, self._topology, self._settings)[1]

    def _ran_for(self, seconds: float) -> bool:
        own = self._own()
        return bool(own) and own[-1].ended_at_s - own[0].ended_at_s >= seconds

    def _is_enough(self, series: Series) -> bool:
        return int(np.isfinite(series.values).sum()) >= self._settings.least

    def _trained(self, every: Sequence[Series]) -> Sequence[PairResult]:
        folder = Path(tempfile.mkdtemp(prefix="foretide-training-"))
        try:
            values = folder / "values.npz"
            np.savez(values, **{str(place): series.values for place, series in enumerate(every)})  # type: ignore[arg-type]
            about = [{"name": one.name, "step_s": one.step_s, "ended_at_s": one.ended_at_s} for one in every]
            settings = self._forecaster.model_dump(mode="json")
            directory = str(self._models.directory.absolute())
            order = TrainingOrder(self._forecaster.name, settings, directory, str(values), about)
            return self._train(order, self._stop)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _report(self, result: PairResult) -> None:
        data = {"source": result.series, "model": result.model, "version": result.version}
        if result.status == "failed":
            message = f"model {result.model!r} of source {result.series!r} was not trained: {result.error}"
            self._tell("model.untrained", message, "warning", data)
            return
        found = result.metrics
        message = (
            f"model {result.model!r} version {result.version} of source {result.series!r} trained in "
            f"{result.seconds:.1f} s: RMSE {found['rmse']:.3g} events/s on the last part of its history, that of the "
            f"last value {found['last_value_rmse']:.3g}"
        )
        self._tell("model.trained", message, "info", {**data, "metrics": dict(found), "seconds": result.seconds})

    def _tell(self, kind: str, message: str, severity: Severity, data: Mapping[str, Any]) -> None:
        try:
            self._events.emit(Event(self._clock.now_s(), kind, message, severity, data))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)


def retrainer_of(
    loop: ControlLoop,
    settings: RetrainingSettings,
    own: Callable[[], Sequence[Measurement]],
    past: RunStore | None,
) -> Retrainer | None:
    """Return what trains the forecaster of a loop while it runs; None where that is not one that is trained."""
    parts = loop.parts
    if parts.models is None or not parts.forecaster.offline or not parts.planner.needs_forecast:
        return None
    return Retrainer(
        loop.topology,
        parts.forecaster,
        parts.models,
        settings,
        step_s=loop.settings.sample_s,
        own=own,
        events=parts.events,
        past=past,
        clock=parts.clock,
    )


def train_apart(order: TrainingOrder, stop: threading.Event) -> list[PairResult]:
    """Train in another process, which is ended when `stop` is set.

    Raises
    ------
    ForetideError
        When the process fails.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "foretide.forecast.training.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]
        ended = threading.Event()
        watch = threading.Thread(target=_end_with, args=(process, stop, ended), daemon=True)
        watch.start()
        try:
            told, errors = process.communicate(order.to_json())
        finally:
            ended.set()
    if stop.is_set():
        return []
    if process.returncode:
        last = (errors.strip().splitlines() or ["no word"])[-1]
        raise ForetideError(f"the process that trains ended with status {process.returncode}: {last}")
    return [PairResult(**json.loads(line)) for line in told.splitlines()]


def _end_with(process: subprocess.Popen[str], stop: threading.Event, ended: threading.Event) -> None:
    """End the process if the run ends first."""
    while not ended.is_set():
        if stop.wait(0.1):
            process.kill()
            return
