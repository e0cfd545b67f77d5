"""From recorded features to a trained model of workers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from foretide.extras import needs_extra
from foretide.health.dataset import MachineTable
from foretide.health.models.base import WorkerModel
from foretide.health.models.idrnn import IdrnnModel
from foretide.health.models.linear import LinearModel, fit_linear
from foretide.health.models.settings import IdrnnSettings
from foretide.health.models.windows import cut_windows

__all__ = ["MODEL_KINDS", "train_model"]

#: The models by name.
MODEL_KINDS: Mapping[str, type[WorkerModel]] = MappingProxyType(
    {model.kind: model for model in (LinearModel, IdrnnModel)}
)


def train_model(
    kind: str, table: MachineTable, settings: IdrnnSettings | None = None, topology: str = ""
) -> WorkerModel:
    """Train a model on what was recorded of a machine and its workers.

    Parameters
    ----------
    kind : {"linear", "idrnn"}
        Which.
    table : MachineTable
        The features.
    settings : IdrnnSettings
        The network; the linear model has its window and the part that is held back.
    topology : str
        The fingerprint of the topology that ran.

    Raises
    ------
    ForecastError
        When there is too little to learn from.
    MissingExtraError
        When JAX, which trains the network, is not installed.
    """
    settings = settings or IdrnnSettings()
    ranges, windows = cut_windows(table, settings.window)
    if kind == LinearModel.kind:
        arrays, errors = fit_linear(windows, settings.validation_share)
    else:
        # Imported here, because models are loaded and used without JAX.
        with needs_extra("deep", "training of the I-DRNN"):
            from foretide.health.models.descent import fit_idrnn
        arrays, errors = fit_idrnn(windows, settings)
    _, held = windows.split(settings.validation_share)
    usual = np.square(held.targets[:, -1] - held.ahead).mean(axis=(0, 1))
    step_s = float(np.median(np.diff(table.at_s)))
    relative = float(np.mean(errors / np.maximum(usual, 1e-12)))
    return MODEL_KINDS[kind](arrays, ranges, settings.window, step_s, relative, topology)
