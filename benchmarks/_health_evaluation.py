"""How well targets are predicted (SPEC I5): RMSE after minutes 10-40 of training, on minutes 40-45 and 40-60."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from _health_baselines import BASELINES, predict_each
from foretide.errors import ForecastError
from foretide.health.dataset import MachineTable
from foretide.health.features import TARGETS
from foretide.health.models import IdrnnSettings, WorkerModel, train_model
from foretide.records import Floats

__all__ = ["MODELS", "PERIODS", "Score", "evaluate"]

#: The parts of a run, in sixtieths: an hour's minutes.
_TRAIN = (10.0, 40.0)
PERIODS: Mapping[str, tuple[float, float]] = {"40-45": (40.0, 45.0), "40-60": (40.0, 60.0)}
#: The models that are compared with the baselines.
MODELS = ("idrnn", "linear")
# Steps below which no method has anything to learn from.
_FEWEST = 10


@dataclass(frozen=True)
class Score:
    """The error of one method.

    Parameters
    ----------
    method, period, target : str
        Who predicted what, in which part of the run.
    rmse : float
        Root of the mean squared error of each worker, averaged over workers, in the target's unit.
    """

    method: str
    period: str
    target: str
    rmse: float


def evaluate(
    table: MachineTable, settings: IdrnnSettings | None = None, models: Mapping[str, WorkerModel] | None = None
) -> list[Score]:
    """Return the errors of the network, the linear model and the baselines on one recorded run.

    A run shorter than an hour is divided in the same proportions. Everything is trained on the same part and predicts
    one step ahead from all values before.

    Parameters
    ----------
    table : MachineTable
        The run.
    settings : IdrnnSettings
        How the network is trained.
    models : mapping of str to WorkerModel, optional
        Models that were trained already, by kind.
    """
    used = table.part(*_instants(table, _TRAIN[0], 60.0))
    train = len(table.part(*_instants(table, *_TRAIN)))
    if train < _FEWEST or train >= len(used):
        raise ForecastError(f"machine {table.machine!r}: expected a longer run to evaluate on, got {len(table)} steps")
    if models is None:
        learnt = used.part(-np.inf, float(used.at_s[train - 1]))
        models = {kind: train_model(kind, learnt, settings) for kind in MODELS}
    predicted = {kind: model.predict_table(used) for kind, model in models.items()}
    predicted |= {name: predict_each(used, train, ahead) for name, ahead in BASELINES.items()}
    scores = []
    for period, (first, last) in PERIODS.items():
        start_s, end_s = _instants(table, first, last)
        chosen = (used.at_s > start_s) & (used.at_s <= end_s)
        for method, found in predicted.items():
            errors = _rmse(found[chosen], used.targets()[chosen])
            scores += [Score(method, period, name, float(error)) for name, error in zip(TARGETS, errors, strict=True)]
    return scores


def _instants(table: MachineTable, first: float, last: float) -> tuple[float, float]:
    """Return the instants of two sixtieths of a run."""
    step_s = float(np.median(np.diff(table.at_s)))
    start_s = float(table.at_s[0]) - step_s
    length_s = float(table.at_s[-1]) - start_s
    return start_s + length_s * first / 60.0, start_s + length_s * last / 60.0


def _rmse(predicted: Floats, actual: Floats) -> Floats:
    """Return the error of each target, averaged over workers."""
    found: Floats = np.sqrt(np.nanmean(np.square(predicted - actual), axis=0)).mean(axis=0)
    return found
