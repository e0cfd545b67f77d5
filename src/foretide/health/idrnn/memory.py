"""The linear part of the model: what a worker's targets become by their own past, and by what its machine shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.health.idrnn.folds import Fold
from foretide.health.idrnn.scaling import Floats32
from foretide.health.idrnn.screening import FURTHEST, deviations
from foretide.records import Floats

__all__ = ["LinearMemory", "MemoryForm", "Past", "context_of", "fit_memories", "fit_memory"]

# Candidates: penalties, in units of the variance of what is penalised, and numbers of features.
_SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_FEATURE_SHRINKAGES = (0.03, 0.3, 3.0)
_COUNTS = (1, 2, 4, 8)
# A form whose error is so much above the least has 1/e of its weight: with few windows the best may be so by chance.
_TOLERANCE = 0.05
# The penalty under which features are picked one after another.
_PICKING = 0.1


@dataclass(frozen=True)
class MemoryForm:
    """How the memory of one target is fitted.

    Parameters
    ----------
    shrinkage : float
        Ridge penalty of the latest step; that of the step before is twice as much, and so on.
    from_last : bool
        Whether a strong penalty leads to the last value, else to the mean.
    crossed : bool
        Whether the last values of the worker's other targets count as well.
    features : int
        How many features of the last step count: each time the one that goes best with what is missed so far.
    feature_shrinkage : float
        The penalty on these.
    """

    shrinkage: float
    from_last: bool = False
    crossed: bool = False
    features: int = 0
    feature_shrinkage: float = 1.0


@dataclass(frozen=True, eq=False)
class Past:
    """The inputs of a memory.

    Parameters
    ----------
    targets : array over windows, steps, workers and targets
        The worker's own.
    context : array over windows, workers and features
        The last step, see `context_of`.
    """

    targets: Floats32
    context: Floats32

    def take(self, places: npt.NDArray[Any]) -> Past:
        """Return some of the windows."""
        return Past(self.targets[places], self.context[places])


@dataclass(frozen=True, eq=False)
class LinearMemory:
    """Weights over steps, targets seen and targets predicted; over features and targets predicted; and a constant.

    Features are in units of `spread` from `centre`.
    """

    weights: Floats32
    features: Floats32
    centre: Floats32
    spread: Floats32
    constant: Floats32

    def __call__(self, past: Past) -> Floats32:
        """Return targets one step ahead, over windows, workers and targets."""
        units = np.clip((past.context - self.centre) / self.spread, -FURTHEST, FURTHEST)
        found: Floats32 = np.einsum("btki,tij->bkj", past.targets, self.weights) + units @ self.features + self.constant
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return it as plain arrays, as `IdrnnModel` takes them."""
        parts = {"weights": self.weights, "features": self.features, "centre": self.centre, "spread": self.spread}
        return {f"memory.{name}": part for name, part in (parts | {"constant": self.constant}).items()}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> LinearMemory:
        """Return the memory that was kept as plain arrays."""
        names = ("weights", "features", "centre", "spread", "constant")
        return cls(*(arrays[f"memory.{name}"] for name in names))


def context_of(machine: Floats32, workers: Floats32) -> Floats32:
    """Return what counts for each worker: the machine's features, those of all workers on average, and its own.

    `machine` is over features last, `workers` over workers and features last.

    >>> context_of(np.array([7.0]), np.array([[1.0], [3.0]])).tolist()
    [[7.0, 2.0, 1.0], [7.0, 2.0, 3.0]]
    """
    shared = np.concatenate((machine, workers.mean(axis=-2)), axis=-1)
    spread = np.broadcast_to(shared[..., None, :], (*workers.shape[:-1], shared.shape[-1]))
    return np.concatenate((spread, workers), axis=-1)


def fit_memory(past: Past, ahead: Floats32, forms: Sequence[MemoryForm]) -> LinearMemory:
    """Return the ridge regression of each target, the same for all workers; there is a form for each target.

    >>> past = np.random.default_rng(1).random((50, 3, 2, 1)).astype(np.float32)
    >>> memory = fit_memory(Past(past, np.zeros((50, 2, 1), np.float32)), 0.5 * past[:, -1] + 0.25, [MemoryForm(1e-7)])
    >>> (memory.weights.round(3) + 0.0).ravel().tolist(), memory.constant.round(3).tolist()
    ([0.0, 0.0, 0.5], [0.25])
    """
    steps, kinds, width = past.targets.shape[1], past.targets.shape[3], past.context.shape[2]
    weights, constant = np.zeros((steps, kinds, kinds), np.float32), np.zeros(kinds, np.float32)
    features = np.zeros((width, kinds), np.float32)
    centre, spread = deviations(past.context.reshape(-1, width))
    units = np.clip((past.context.reshape(-1, width) - centre) / spread, -FURTHEST, FURTHEST).astype(np.float64)
    for kind, form in enumerate(forms):
        columns, target = _regression(past.targets, ahead, kind, form)
        places, found = _pick(columns, target, units, form, _penalties(form, steps, kinds))
        own, others = found[: steps - form.from_last], found[steps - form.from_last : columns.shape[1]]
        weights[: len(own), kind, kind] = own
        if form.from_last:
            # The regression was one of differences from the last value.
            weights[-1, kind, kind] = 1.0 - own.sum()
        if form.crossed:
            weights[-1, [other for other in range(kinds) if other != kind], kind] = others
        features[places, kind] = found[columns.shape[1] : -1]
        constant[kind] = found[-1]
    return LinearMemory(weights, features, centre, spread, constant)


def fit_memories(past: Past, ahead: Floats32, folds: Sequence[Fold]) -> list[LinearMemory]:
    """Return a memory for each fold: the mean of many forms, weighed by their errors where it was held back."""
    kinds, few = past.targets.shape[3], range(past.context.shape[2] + 1)
    forms: list[list[MemoryForm]] = []
    for from_last, crossed in product((False, True), (False, True) if kinds > 1 else (False,)):
        plain = [[MemoryForm(shrinkage, from_last, crossed)] * kinds for shrinkage in _SHRINKAGES]
        errors, _ = _try(past, ahead, folds, plain)
        best = [plain[place][kind] for kind, place in enumerate(errors.argmin(axis=0).tolist())]
        forms += [
            best,
            *(
                [replace(form, features=count, feature_shrinkage=shrinkage) for form in best]
                for count, shrinkage in product(_COUNTS, _FEATURE_SHRINKAGES)
                if count in few
            ),
        ]
    errors, fitted = _try(past, ahead, folds, forms)
    parts = np.exp((1.0 - errors / np.maximum(errors.min(axis=0), 1e-12)) / _TOLERANCE)
    return [_mean(memories, (parts / parts.sum(axis=0)).astype(np.float32)) for memories in fitted]


def _try(
    past: Past, ahead: Floats32, folds: Sequence[Fold], choices: Sequence[Sequence[MemoryForm]]
) -> tuple[Floats, list[list[LinearMemory]]]:
    """Return squared errors on what was held back, by choice and target, and the memories by fold and choice."""
    errors, fitted = np.zeros((len(choices), ahead.shape[2])), []
    for fold in folds:
        held = past.take(fold.held)
        fitted.append([fit_memory(past.take(fold.learnt), ahead[fold.learnt], forms) for forms in choices])
        for place, memory in enumerate(fitted[-1]):
            errors[place] += np.square(memory(held) - ahead[fold.held]).sum(axis=(0, 1))
    return errors, fitted


def _mean(memories: Sequence[LinearMemory], parts: Floats32) -> LinearMemory:
    """Return the mean of memories of the same fold, with a weight for each of them and target."""
    first = memories[0]
    return LinearMemory(
        np.einsum("mtij,mj->tij", [memory.weights for memory in memories], parts),
        np.einsum("mij,mj->ij", [memory.features for memory in memories], parts),
        first.centre,
        first.spread,
        np.einsum("mj,mj->j", [memory.constant for memory in memories], parts),
    )


def _regression(targets: Floats32, ahead: Floats32, kind: int, form: MemoryForm) -> tuple[Floats, Floats]:
    """Return the predictors of a target, in rows, and the target."""
    past = targets[..., kind].transpose(0, 2, 1).astype(np.float64)
    target = ahead[..., kind].astype(np.float64)
    columns = past
    if form.from_last:
        columns, target = past[..., :-1] - past[..., -1:], target - past[..., -1]
    if form.crossed:
        columns = np.concatenate((columns, np.delete(targets[:, -1], kind, axis=-1)), axis=-1)
    return columns.reshape(-1, columns.shape[-1]), target.reshape(-1)


def _penalties(form: MemoryForm, steps: int, kinds: int) -> Floats:
    """Return the penalty of each column of `_regression`: the older the step, the higher."""
    ages = np.arange(steps - form.from_last, 0, -1, dtype=np.float64)
    return form.shrinkage * np.append(ages, np.ones((kinds - 1) * form.crossed))


def _pick(
    columns: Floats, target: Floats, units: Floats, form: MemoryForm, penalties: Floats
) -> tuple[list[int], Floats]:
    """Return features, each of which goes best with what was missed before it, and all weights, the constant last."""
    places: list[int] = []
    found = _ridge(columns, target, penalties)
    for _ in range(form.features):
        seen = np.concatenate((columns, units[:, places]), axis=1)
        missed = target - seen @ found[:-1] - found[-1]
        fit = np.abs(units.T @ (missed - missed.mean()))
        fit[places] = -1.0
        places.append(int(fit.argmax()))
        seen = np.concatenate((columns, units[:, places]), axis=1)
        found = _ridge(seen, target, np.append(penalties, np.full(len(places), _PICKING)))
    if places:
        found = _ridge(seen, target, np.append(penalties, np.full(len(places), form.feature_shrinkage)))
    return places, found


def _ridge(columns: Floats, target: Floats, penalties: Floats) -> Floats:
    """Return weights, and last the constant; penalties are in units of each column's variance."""
    centre, middle, spread = columns.mean(axis=0), target.mean(), columns.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    units = (columns - centre) / spread
    square = units.T @ units + len(columns) * np.diag(penalties)
    found = np.linalg.solve(square, units.T @ (target - middle)) / spread
    return np.append(found, middle - centre @ found)
