"""Fine-tuning: going on with training on one's own series, judged on what is held back of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from foretide.forecast.zero.learning.fit import flat, learn_from, nested
from foretide.forecast.zero.learning.loss import scores
from foretide.forecast.zero.learning.made_series import LENGTH, make_gaps, make_series
from foretide.forecast.zero.learning.network import mean_tables
from foretide.forecast.zero.shape import CONTEXT

__all__ = ["FEWEST", "Tuned", "tune"]

#: Values that a series must have.
FEWEST = 2 * CONTEXT
# The part at the end that is held back, at least so many values, and how much before it is read as context.
_HELD, _HELD_LEAST, _BEFORE = 0.25, CONTEXT // 2, CONTEXT // 2
_BATCH, _RATE = 16, 3e-4
# It is kept if it is better by this part at least, and its median is no worse than by this part.
_BETTER, _NO_WORSE = 0.01, 0.005


@dataclass(frozen=True, eq=False)
class Tuned:
    """What became of it.

    Parameters
    ----------
    weights : mapping of str to array
        The weights after it.
    before, after : mapping of str to float
        Scores on what was held back, see `scores`.
    """

    weights: Mapping[str, np.ndarray[Any, Any]]
    before: Mapping[str, float]
    after: Mapping[str, float]

    @property
    def wins(self) -> bool:
        """Whether the .9 quantile is better by a hundredth, and the median hardly worse."""
        sharper = self.after["pinball_90"] <= (1 - _BETTER) * self.before["pinball_90"]
        return sharper and self.after["mape_median"] <= (1 + _NO_WORSE) * self.before["mape_median"]


def tune(
    series: Sequence[np.ndarray[Any, Any]],
    weights: Mapping[str, np.ndarray[Any, Any]],
    *,
    steps: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """Train `weights` on all but the last quarter of each series, and score them on that quarter before and after.

    Half of each batch are stretches of the series, half are made-up ones, so that nothing is unlearnt.

    Parameters
    ----------
    series : sequence of array
        Rates in even bins without gaps, each of at least `FEWEST` values and not all 0.
    weights : mapping of str to array
        Where it begins.
    steps : int
        Steps of training.
    seed : int
        What stretches and made-up series are drawn from.
    progress : callable, optional
        Called with the steps done and all steps.
    """
    held = [max(round(_HELD * values.size), _HELD_LEAST) for values in series]
    learnt_from = [values[: values.size - back] for values, back in zip(series, held, strict=True)]
    judged = np.concatenate([_held_back(values, back) for values, back in zip(series, held, strict=True)])
    begun = nested(dict(weights))
    before = scores(begun, judged, first=_BEFORE + 1)
    nothing = partial(jax.tree.map, jnp.zeros_like)
    state = (begun, nothing(begun), nothing(begun), jax.tree.map(jnp.array, begun))
    draw, tables = np.random.default_rng(seed), mean_tables(CONTEXT)
    for number in range(steps):
        own = jnp.asarray(np.stack([_stretch(learnt_from, draw) for _ in range(_BATCH // 2)]), jnp.float32)
        key = jax.random.fold_in(jax.random.key(seed), number)
        rate = _RATE * 0.5 * (1 + math.cos(math.pi * number / steps)) * min(1.0, (number + 1) / 10)
        state = _step(state, own, key, jnp.float32(number), jnp.float32(rate), tables)
        if progress is not None:
            progress(number + 1, steps)
    tuned = {name: value.astype(np.float16) for name, value in flat(state[3]).items()}
    after = scores(nested(tuned), judged, first=_BEFORE + 1)
    return Tuned(tuned, before, after)


@jax.jit
def _step(state: Any, own: jax.Array, key: jax.Array, number: jax.Array, rate: jax.Array, tables: Any) -> Any:
    made = make_series(jax.random.fold_in(key, 0), _BATCH // 2)
    gaps = make_gaps(jax.random.fold_in(key, 1), _BATCH)
    found, _ = learn_from(state, jnp.concatenate((own, made)), gaps, number, rate, tables, jnp.float32)
    return found


def _stretch(series: Sequence[np.ndarray[Any, Any]], draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return a stretch of one of the series, of mean 1 as made-up ones are; longer series come more often."""
    sizes = np.array([values.size - LENGTH + 1 for values in series], dtype=np.float64)
    values = series[int(draw.choice(len(series), p=sizes / sizes.sum()))]
    begin = int(draw.integers(0, values.size - LENGTH + 1))
    part = values[begin : begin + LENGTH]
    found: np.ndarray[Any, Any] = part / max(float(part.mean()), 1e-9)
    return found


def _held_back(values: np.ndarray[Any, Any], held: int) -> np.ndarray[Any, Any]:
    """Return contexts whose second halves lie one after the other in what is held back."""
    first = values.size - held - _BEFORE
    starts = range(first, values.size - CONTEXT + 1, CONTEXT - _BEFORE)
    rows = np.stack([values[begin : begin + CONTEXT] for begin in starts])
    found: np.ndarray[Any, Any] = rows / np.maximum(rows.mean(axis=1, keepdims=True), 1e-9)
    return found
