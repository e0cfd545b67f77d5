"""The network in JAX, for whole series at once: what training runs, and what inference must agree with."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from foretide.forecast.zero.features import ERROR_RATES, FEATURES, RATES, SLOW, running_rate, scale_free
from foretide.forecast.zero.shape import CONTEXT, HEAD, LEADS, OUTPUTS, ROTATION, Shape

__all__ = ["count_parameters", "encode", "forecast", "make_parameters", "mean_tables"]

Parameters = dict[str, Any]
_EXACT = jax.lax.Precision.HIGHEST


def make_parameters(key: jax.Array, shape: Shape) -> Parameters:
    """Return parameters to begin with."""
    width, keys = shape.channels, iter(jax.random.split(key, 5 * shape.layers + 2))
    narrow = 1.0 / math.sqrt(2 * shape.layers)

    def dense(rows: int, columns: int, scale: float = 1.0) -> jax.Array:
        return jax.random.normal(next(keys), (rows, columns)) * (scale / math.sqrt(rows))

    def layer() -> Parameters:
        return {
            "norm": jnp.ones(width),
            "near": jnp.zeros((4, width)).at[3].set(1.0),
            "ask": dense(width, 3 * width),
            "answer": dense(width, width, narrow),
            "norm2": jnp.ones(width),
            "up": dense(width, 4 * width),
            "up_bias": jnp.zeros(4 * width),
            "down": dense(4 * width, width, narrow),
        }

    return {
        "in": dense(FEATURES, width),
        "in_bias": jnp.zeros(width),
        "layers": [layer() for _ in range(shape.layers)],
        "norm": jnp.ones(width),
        "out": dense(width, len(LEADS) * OUTPUTS, 0.1),
        "out_bias": jnp.zeros(len(LEADS) * OUTPUTS),
    }


def count_parameters(parameters: Parameters) -> int:
    """Return how many numbers they are."""
    return sum(leaf.size for leaf in jax.tree.leaves(parameters))


def mean_tables(length: int) -> tuple[jax.Array, jax.Array]:
    """Return matrices by which a series becomes its running means, and its errors their means."""

    def weights(rate: float, first: int) -> np.ndarray[Any, Any]:
        table, column = np.zeros((length, length)), np.zeros(length)
        for place in range(length):
            part = running_rate(rate, max(place - first, 0))
            column = column * (1 - part)
            column[place] = part
            table[:, place] = column
        return table

    of_values = np.concatenate([weights(rate, 0) for rate in (*RATES, SLOW)], axis=1)
    # The first value has no error.
    of_errors = np.concatenate([weights(rate, 1) for rate in ERROR_RATES], axis=1)
    return jnp.asarray(of_values, jnp.float32), jnp.asarray(of_errors, jnp.float32)


def encode(values: jax.Array, gaps: jax.Array, tables: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
    """Return features (series, positions, features), and level, spread, lasting spread, slow mean of each position."""
    before = _lagged(values)
    *means, slow = jnp.split(jnp.matmul(values, tables[0], precision=_EXACT), len(RATES) + 1, axis=1)
    missed = jnp.abs(values - _lagged(means[1])).at[:, 0].set(0.0)
    errors = jnp.split(jnp.matmul(missed, tables[1], precision=_EXACT), len(ERROR_RATES), axis=1)
    place = jnp.arange(values.shape[1], dtype=jnp.float32)[None] + jnp.zeros_like(values)
    found = scale_free(
        jnp, values, before, gaps, means, slow, _lagged(slow), errors, lambda change: jnp.cumsum(change, axis=1), place
    )
    return (*found[:4], slow)


def forecast(
    parameters: Parameters, values: jax.Array, gaps: jax.Array, tables: Any, dtype: Any = jnp.float32
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return outputs (series, positions, leads, outputs) in the units of `values`, spreads and slow means."""
    features, level, spread, lasting, slow = jax.lax.stop_gradient(encode(values, gaps, tables))
    hidden = features @ parameters["in"] + parameters["in_bias"]
    for layer in parameters["layers"]:
        hidden = _layer(layer, hidden, dtype)
    found = _normed(hidden, parameters["norm"]) @ parameters["out"] + parameters["out_bias"]
    found = found.reshape(*found.shape[:2], len(LEADS), OUTPUTS)
    return level[..., None, None] + spread[..., None, None] * found, spread, lasting, slow


def _lagged(values: jax.Array) -> jax.Array:
    return jnp.concatenate([values[:, :1], values[:, :-1]], axis=1)


def _normed(hidden: jax.Array, gain: jax.Array) -> jax.Array:
    return hidden * jax.lax.rsqrt(jnp.mean(hidden * hidden, -1, keepdims=True) + 1e-6) * gain


def _layer(layer: Parameters, hidden: jax.Array, dtype: Any) -> jax.Array:
    def through(values: jax.Array, matrix: jax.Array) -> jax.Array:
        return jnp.matmul(values.astype(dtype), matrix.astype(dtype))

    series, length, width = hidden.shape
    seen = _normed(hidden, layer["norm"]).astype(dtype)
    padded = jnp.pad(seen, ((0, 0), (3, 0), (0, 0)))
    near = sum(layer["near"][tap].astype(dtype) * padded[:, tap : tap + length] for tap in range(4))
    parts = jnp.split(through(near, layer["ask"]), 3, axis=-1)
    query, key, value = (part.reshape(series, length, width // HEAD, HEAD) for part in parts)
    attended = jax.nn.dot_product_attention(
        _turned(query).astype(dtype),
        _turned(key).astype(dtype),
        value,
        is_causal=True,
        local_window_size=(CONTEXT - 1, 0) if length > CONTEXT else None,
        implementation="cudnn" if dtype == jnp.bfloat16 and jax.default_backend() == "gpu" else "xla",
    )
    hidden = hidden + through(attended.reshape(hidden.shape), layer["answer"])
    wide = through(_normed(hidden, layer["norm2"]), layer["up"]) + layer["up_bias"].astype(dtype)
    return hidden + through(jax.nn.gelu(wide), layer["down"])


def _turned(parts: jax.Array) -> jax.Array:
    """Turn the two halves of each head by its position."""
    half = HEAD // 2
    pace = jnp.exp(-jnp.arange(half) / half * math.log(ROTATION))
    angle = jnp.arange(parts.shape[1])[:, None] * pace
    cosine, sine = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    first, second = parts[..., :half], parts[..., half:]
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
