"""From recent features to what is expected of every worker next, and the last prediction error (SPEC I6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from foretide.health.dataset import MachineTable, target_columns, to_tables
from foretide.health.features import TARGETS
from foretide.health.idrnn.model import IdrnnModel, tier_inputs
from foretide.store import FeatureSample

__all__ = ["ANY_MACHINE", "HealthPredictor", "WorkerForecast"]

#: The name of the model for machines that have none of their own.
ANY_MACHINE = "any"
# Steps of features that are kept beyond what a model looks back to.
_SPARE_STEPS = 4


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
    errors : mapping of str to float
        Targets of the last step less what was predicted for it, in units of the range trained in; empty if nothing
        could be predicted yet.
    """

    worker: str
    machine: str
    at_s: float
    predicted: Mapping[str, float]
    errors: Mapping[str, float]


class HealthPredictor:
    """Keeps the latest features and runs the models.

    Parameters
    ----------
    models : mapping of str to IdrnnModel
        By machine; the one called `ANY_MACHINE` stands for all others.
    """

    def __init__(self, models: Mapping[str, IdrnnModel]) -> None:
        self.models = dict(models)
        self._samples: deque[FeatureSample] = deque()

    def take(self, samples: Iterable[FeatureSample]) -> None:
        """Take in features, and forget what is too old to matter."""
        self._samples.extend(samples)
        if self._samples and self.models:
            reach_s = max((model.window + _SPARE_STEPS) * model.step_s for model in self.models.values())
            last_s = max(sample.at_s for sample in self._samples)
            while self._samples[0].at_s < last_s - reach_s:
                self._samples.popleft()

    def forecasts(self) -> list[WorkerForecast]:
        """Return what is expected of every worker of which enough is known.

        Two steps have to be seen for a prediction, and a third one to measure its error.
        """
        found: list[WorkerForecast] = []
        machines = {sample.machine for sample in self._samples}
        for machine in sorted(machines):
            model = self.models.get(machine, self.models.get(ANY_MACHINE))
            if model is not None:
                own = [sample for sample in self._samples if sample.machine == machine]
                found += _forecasts(model, to_tables(own, model.step_s)[machine])
        return found


def _forecasts(model: IdrnnModel, table: MachineTable) -> list[WorkerForecast]:
    if len(table) < 2:
        return []
    inputs, workers = tier_inputs(model.ranges, table.machine_values, table.worker_values)
    ahead = model.ranges.targets_up(model.predict_scaled(inputs[-model.window :], workers[-model.window :]))
    errors = np.full(ahead.shape, np.nan)
    if len(table) > 2:
        before = slice(max(0, len(table) - 1 - model.window), len(table) - 1)
        errors = workers[-1][:, target_columns()] - model.predict_scaled(inputs[before], workers[before])
    return [
        WorkerForecast(
            worker,
            table.machine,
            float(table.at_s[-1]),
            dict(zip(TARGETS, ahead[place].tolist(), strict=True)),
            dict(zip(TARGETS, errors[place].tolist(), strict=True)) if len(table) > 2 else {},
        )
        for place, worker in enumerate(table.workers)
    ]
