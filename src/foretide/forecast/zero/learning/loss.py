"""What the network is to be good at, and how good it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from foretide.forecast.zero.learning.network import Parameters, forecast, mean_tables
from foretide.forecast.zero.shape import CONTEXT, LEADS, LEVELS, STEP_LEVELS

__all__ = ["filled", "loss", "scores"]

# The first positions have seen too little to be asked, the next ones count less.
_UNSEEN, _YOUNG, _YOUNG_WEIGHT = 3, 19, 0.3
# Leads that the control loop plans by count in full.
_NEAR, _FAR_WEIGHT = 12, 0.4
_STEP_WEIGHT, _POINT_WEIGHT = 0.3, 0.3
# A relative error counts at most so many times: else a few very smooth series would outweigh all others.
_MOST = 25.0


def filled(values: jax.Array, gaps: jax.Array) -> jax.Array:
    """Return the values with the last one known in place of those that are missing."""
    place = jnp.where(gaps > 0, 0, jnp.arange(values.shape[1])[None])
    return jnp.take_along_axis(values, jax.lax.cummax(place, axis=1), axis=1)


def loss(parameters: Parameters, series: jax.Array, gaps: jax.Array, tables: Any, dtype: Any) -> jax.Array:
    """Return the mean loss over all positions: pinball of all quantiles, and relative error of the points.

    Each position counts in the units of its own spread, so that a quiet series is worth as much as a loud one.
    """
    seen, missing = series[:, :CONTEXT], gaps[:, :CONTEXT]
    found, spread, lasting, slow = forecast(parameters, filled(seen, missing), missing, tables, dtype)
    leads, levels, step_levels = np.array(LEADS), jnp.asarray(LEVELS), jnp.asarray(STEP_LEVELS)
    passed = jnp.cumsum(series, axis=1)
    steps = jnp.stack([series[:, lead : lead + CONTEXT] for lead in LEADS], axis=-1)
    means = jnp.stack([(passed[:, lead : lead + CONTEXT] - passed[:, :CONTEXT]) / lead for lead in LEADS], axis=-1)
    unit = (jnp.sqrt(spread * lasting) + 0.004 * slow)[..., None]
    of_means = _pinball(means[..., None] - found[..., : levels.size], levels) / unit
    of_steps = _pinball(steps[..., None] - found[..., levels.size + 1 :], step_levels) / unit
    off = jnp.abs(means - found[..., levels.size])
    loud = jnp.minimum(slow[..., None] / unit, _MOST)
    relative = off / jnp.maximum(means, 0.05 * slow[..., None] + 1e-9) * loud
    by_lead = np.where(leads <= _NEAR, 1.0, _FAR_WEIGHT)
    by_lead = by_lead / by_lead.sum()
    each = ((of_means + _POINT_WEIGHT * relative + _STEP_WEIGHT * of_steps) * by_lead).sum(-1)
    place = np.arange(CONTEXT)
    by_place = np.where(place < _UNSEEN, 0.0, np.where(place < _YOUNG, _YOUNG_WEIGHT, 1.0))
    weight = by_place[None] * (slow > 1e-7)
    return jnp.sum(each * weight) / jnp.sum(weight)


def scores(parameters: Parameters, series: np.ndarray[Any, Any], lead: int = 6, first: int = 20) -> dict[str, float]:
    """Return how well the mean over `lead` steps is forecast, over series of any length up to a context.

    MAPE of the median and of the point, pinball of the .9 quantile over the mean, and how often that quantile holds:
    the mean over series.
    """
    length = series.shape[1]
    run = jax.jit(partial(forecast, tables=mean_tables(length)))
    place, (half, high) = LEADS.index(lead), (LEVELS.index(level) for level in (0.5, 0.9))
    found = []
    for begin in range(0, len(series), 64):
        part = jnp.asarray(series[begin : begin + 64], jnp.float32)
        told = np.asarray(run(parameters, part, jnp.zeros_like(part))[0][:, first - 1 : -lead, place], np.float64)
        passed = np.cumsum(series[begin : begin + 64].astype(np.float64), axis=1)
        truth = ((passed[:, lead:] - passed[:, :-lead]) / lead)[:, first - 1 :]
        told = np.maximum(told, 0.0)
        known = truth > 0
        safe = np.where(known, truth, 1.0)
        mape = [
            (np.where(known, np.abs(truth - told[..., at]) / safe, 0.0).sum(1) / known.sum(1))
            for at in (half, len(LEVELS))
        ]
        error = truth - told[..., high]
        pinball = np.maximum(0.9 * error, -0.1 * error).mean(1) / truth.mean(1)
        found.append(np.stack([*mape, pinball, (truth <= told[..., high]).mean(1)], axis=1))
    names = ("mape_median", "mape_point", "pinball_90", "coverage_90")
    return dict(zip(names, np.concatenate(found).mean(0).tolist(), strict=True))


def _pinball(error: jax.Array, levels: jax.Array) -> jax.Array:
    return jnp.maximum(levels * error, (levels - 1) * error).mean(-1)
