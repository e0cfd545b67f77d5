"""Training in a process of its own, at the lowest priority: ``python -m foretide.forecast.training.worker``.

It takes a `TrainingOrder` as JSON on its standard input, and prints what became of each series, a line of JSON each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from foretide.errors import ForetideError
from foretide.forecast.base import Forecaster, Series
from foretide.forecast.models.basic import Basic
from foretide.forecast.training.model_card import ModelCard
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import PairResult, TrainerOptions, judged, single_threaded, training_forecaster

__all__ = ["TrainingOrder", "carry_out"]


@dataclass(frozen=True)
class TrainingOrder:
    """What to train, and where to put it.

    Parameters
    ----------
    model : str
        The forecaster's name.
    settings : mapping
        Its settings.
    directory : str
        The model directory.
    values : str
        A file of NumPy arrays, one per series.
    series : list of mapping
        ``name``, ``step_s`` and ``ended_at_s`` of each, in the order of the arrays ``0``, ``1``, ...
    """

    model: str
    settings: Mapping[str, Any]
    directory: str
    values: str
    series: list[dict[str, Any]]

    def to_json(self) -> str:
        """Return it as the process takes it."""
        return json.dumps(asdict(self))


def carry_out(order: TrainingOrder) -> Iterator[PairResult]:
    """Train the model on each series, store it as the next version, and tell; one that cannot be trained fails.

    Beside the errors of a model are those of the last value on the same part, as ``last_value_rmse`` and ``-_mae``.
    """
    options, store = TrainerOptions(), ModelStore(order.directory)
    forecaster = training_forecaster(order.model, order.settings, options)
    with np.load(order.values, allow_pickle=False) as arrays:
        every = [Series(arrays[str(place)], **about) for place, about in enumerate(order.series)]
    for series in every:
        try:
            yield _train(forecaster, series, options, store)
        except ForetideError as error:
            yield PairResult(series.name, order.model, "failed", error=str(error))


def _train(forecaster: Forecaster, series: Series, options: TrainerOptions, store: ModelStore) -> PairResult:
    started = time.perf_counter()
    model, metrics = judged(forecaster, series, options)
    if model.untrained is not None:
        return PairResult(series.name, forecaster.name, "failed", error=model.untrained)
    _, last = judged(Basic(), series, options)
    metrics |= {f"last_value_{name}": last[name] for name in ("rmse", "mae")}
    seconds = time.perf_counter() - started
    training = options.model_dump(mode="json")
    card = ModelCard.of(model, series, training=training, metrics=metrics, seconds=seconds)
    return PairResult.of(store.save(model, card), "trained")


def _main() -> None:
    with suppress(OSError):
        os.nice(19)
    single_threaded()
    for result in carry_out(TrainingOrder(**json.load(sys.stdin))):
        print(json.dumps(asdict(result)), flush=True)


if __name__ == "__main__":
    _main()
