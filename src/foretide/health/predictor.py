"""From recent features to what is expected of every worker next, and the last prediction error (SPEC I6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from foretide.health.dataset import MachineTable, present_workers, target_columns, to_tables
from foretide.health.features import TARGETS
from foretide.health.models import WorkerModel
from foretide.health.models.windows import tier_inputs
from foretide.records import Floats
from foretide.store import FeatureSample

__all__ = ["ANY_MACHINE", "HealthPredictor", "WorkerForecast"]

#: The name of the model for machines that have none of their own.
ANY_MACHINE = "any"
# Steps of features that are kept beyond what a model looks back to, and the samples kept at most.
_SPARE_STEPS, _MOST = 4, 20_000


@dataclass(frozen=True)
class WorkerForecast:
    """What is expected of a worker.

    Parameters
    ----------
    worker, machine : str
        Who, and where.
    at_s : float
        The end of the last step that was seen.
    predicted : mapping of str to float
        Targets of the next step, in the units of the features.
    measured, expected : mappings of str to float
        Targets of the last step, and what was predicted for it.
    errors : mapping of str to float
        Targets of the last step less what was predicted for it, in units of the range trained in; empty if nothing
        could be predicted yet.
    """

    worker: str
    machine: str
    at_s: float
    predicted: Mapping[str, float]
    measured: Mapping[str, float]
    expected: Mapping[str, float]
    errors: Mapping[str, float]


class HealthPredictor:
    """Keeps the latest features and runs the models.

    Parameters
    ----------
    models : mapping of str to WorkerModel
        By machine; the one called `ANY_MACHINE` stands for all others.
    """

    def __init__(self, models: Mapping[str, WorkerModel]) -> None:
        self.models = dict(models)
        self._samples: deque[FeatureSample] = deque(maxlen=_MOST)
        self._found: list[WorkerForecast] | None = None

    def take(self, samples: Iterable[FeatureSample]) -> None:
        """Take in features, and forget what is too old to matter."""
        self._samples.extend(samples)
        self._found = None
        if self._samples and self.models:
            reach_s = max((model.window + _SPARE_STEPS) * model.step_s for model in self.models.values())
            last_s = max(sample.at_s for sample in self._samples)
            while self._samples[0].at_s < last_s - reach_s:
                self._samples.popleft()

    def forecasts(self) -> list[WorkerForecast]:
        """Return what is expected of every worker of which enough is known.

        Two steps have to be seen for a prediction, and a third one to measure its error.
        """
        if self._found is None:
            self._found = self._predict()
        return self._found

    def adopt(self, models: Mapping[str, WorkerModel]) -> None:
        """Use other models for the machines that they are about."""
        self.models |= models
        self._found = None

    def _predict(self) -> list[WorkerForecast]:
        found: list[WorkerForecast] = []
        machines = {sample.machine for sample in self._samples}
        for machine in sorted(machines):
            model = self.models.get(machine, self.models.get(ANY_MACHINE))
            if model is not None:
                own = [sample for sample in self._samples if sample.machine == machine]
                own = present_workers(own, model.step_s)
                found += _forecasts(model, to_tables(own, model.step_s)[machine])
        return found


def _forecasts(model: WorkerModel, table: MachineTable) -> list[WorkerForecast]:
    if len(table) < 2:
        return []
    inputs, workers = tier_inputs(model.ranges, table.machine_values, table.worker_values)
    ahead = model.ranges.targets_up(model.predict_scaled(inputs[-model.window :], workers[-model.window :]))
    expected, errors = np.full(ahead.shape, np.nan), np.full(ahead.shape, np.nan)
    if len(table) > 2:
        before = slice(max(0, len(table) - 1 - model.window), len(table) - 1)
        scaled = model.predict_scaled(inputs[before], workers[before])
        expected, errors = model.ranges.targets_up(scaled), workers[-1][:, target_columns()] - scaled
    return [
        WorkerForecast(
            worker,
            table.machine,
            float(table.at_s[-1]),
            _by_name(ahead[place]),
            _by_name(table.targets()[-1, place]),
            _by_name(expected[place]) if len(table) > 2 else {},
            _by_name(errors[place]) if len(table) > 2 else {},
        )
        for place, worker in enumerate(table.workers)
    ]


def _by_name(values: Floats) -> dict[str, float]:
    return dict(zip(TARGETS, values.tolist(), strict=True))
