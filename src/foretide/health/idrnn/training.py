"""Training of the I-DRNN (SPEC I4): windows of recorded features, several networks, each with windows held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.health.dataset import MachineTable, target_columns
from foretide.health.features import MACHINE_NAMES
from foretide.health.idrnn.committee import Lesson, Outcome, Progress, train_committee
from foretide.health.idrnn.folds import Fold, make_folds
from foretide.health.idrnn.memory import LinearMemory, Past, context_of, fit_memories
from foretide.health.idrnn.model import IdrnnModel, tier_inputs
from foretide.health.idrnn.scaling import Floats32, Ranges
from foretide.health.idrnn.screening import Screen, screen_inputs
from foretide.health.idrnn.settings import IdrnnSettings

__all__ = ["FEWEST_WINDOWS", "train_idrnn", "train_together"]

#: With fewer windows than these a network learns noise.
FEWEST_WINDOWS = 20


@dataclass(frozen=True, eq=False)
class _Windows:
    inputs: Floats32
    targets: Floats32
    context: Floats32
    ahead: Floats32

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def past(self) -> Past:
        return Past(self.targets, self.context)


@dataclass(frozen=True, eq=False)
class _Member:
    """What is fixed of a network before it is trained; `unit` is the deviation of what the memory misses."""

    memory: LinearMemory
    screen: Screen
    unit: Floats32
    lesson: Lesson


def train_idrnn(
    table: MachineTable, settings: IdrnnSettings | None = None, *, progress: Progress | None = None
) -> IdrnnModel:
    """Train networks on what was recorded of a machine.

    See `train_together`, which learns from several machines.
    """
    return train_together([table], settings, progress=progress)[0]


def train_together(
    tables: Sequence[MachineTable], settings: IdrnnSettings | None = None, *, progress: Progress | None = None
) -> list[IdrnnModel]:
    """Train networks for several machines, each in ranges of its own.

    For each network a stretch of windows is held back. From the rest follow a linear memory, the inputs that go with
    what it misses, and the network, which learns to predict what the memory missed. The form of the memory, the number
    of epochs, and the weight of the networks' predictions are chosen on the windows held back, of all networks
    together. The result depends on the arguments alone.

    Parameters
    ----------
    tables : sequence of MachineTable
        The features of each machine and its workers; all with as many workers.
    settings : IdrnnSettings
        The networks and how they are trained.
    progress : callable, optional
        Called with seed, epoch and validation error; what it raises ends the training.

    Returns
    -------
    list of IdrnnModel
        One for each table: the same networks, with the machine's ranges.

    Raises
    ------
    ForecastError
        When there is too little to learn from.
    """
    settings = settings or IdrnnSettings()
    _check(tables, settings)
    ranges = [Ranges.of(table) for table in tables]
    parts = [_cut(table, each, settings.window) for table, each in zip(tables, ranges, strict=True)]
    windows = _Windows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(_Windows)))
    gap = min(settings.window, min(map(len, parts)) // 8)
    folds = make_folds([len(part) for part in parts], settings.seeds, settings.validation_share, gap)
    memories = fit_memories(windows.past, windows.ahead, folds)
    members = [_member(windows, fold, memory, settings) for fold, memory in zip(folds, memories, strict=True)]
    outcome = train_committee([member.lesson for member in members], settings, progress)
    networks = tuple(_weights(member, outcome, place) for place, member in enumerate(members))
    steps_s = [float(np.median(np.diff(table.at_s))) for table in tables]
    return [
        IdrnnModel(networks, each, settings.window, step_s, outcome.error, settings.seed)
        for each, step_s in zip(ranges, steps_s, strict=True)
    ]


def _check(tables: Sequence[MachineTable], settings: IdrnnSettings) -> None:
    found = [len(table) - settings.window for table in tables if table.workers]
    if len(found) < len(tables) or min(found, default=0) < 1 or sum(found) < FEWEST_WINDOWS:
        lengths = ", ".join(f"{len(table)} steps of {len(table.workers)} on {table.machine!r}" for table in tables)
        raise ForecastError(
            f"features of machines: expected at least {FEWEST_WINDOWS + settings.window} steps of at least one worker "
            f"to train on, got {lengths or 'none'}; record for longer"
        )
    if len({len(table.workers) for table in tables}) > 1:
        raise ForecastError(
            f"features of machines: expected as many workers on each, got {[len(table.workers) for table in tables]}; "
            f"train machines with different numbers separately"
        )


def _cut(table: MachineTable, ranges: Ranges, window: int) -> _Windows:
    """Return every window of the table with what followed it."""
    inputs, workers = tier_inputs(ranges, table.machine_values, table.worker_values)
    targets = workers[:, :, target_columns()]
    view = np.lib.stride_tricks.sliding_window_view
    return _Windows(
        view(inputs[:-1], window, axis=0).transpose(0, 2, 1).copy(),
        view(targets[:-1], window, axis=0).transpose(0, 3, 1, 2).copy(),
        context_of(inputs[:, : len(MACHINE_NAMES)], workers)[window - 1 : -1],
        targets[window:],
    )


def _member(windows: _Windows, fold: Fold, memory: LinearMemory, settings: IdrnnSettings) -> _Member:
    missed = windows.ahead - memory(windows.past)
    unit = np.maximum(missed[fold.learnt].std(axis=(0, 1)), 1e-6).astype(np.float32)
    screen = screen_inputs(windows.inputs[fold.learnt, -1], missed[fold.learnt], settings.inputs)
    return _Member(memory, screen, unit, Lesson(screen(windows.inputs), windows.targets, missed / unit, fold))


def _weights(member: _Member, outcome: Outcome, place: int) -> dict[str, npt.NDArray[Any]]:
    """Return a network as plain arrays; its output in the units of the scaling, and scaled by its weight."""
    arrays = outcome.networks[place].arrays()
    unit = (member.unit * outcome.factors).astype(np.float32)
    arrays["output.weights"] = arrays["output.weights"] * unit
    arrays["output.bias"] = arrays["output.bias"] * unit
    return arrays | member.screen.arrays() | member.memory.arrays()
