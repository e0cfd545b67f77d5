"""Training from one seed, step by step, so that it can be stopped and resumed.

`python -m foretide.forecast.zero.learning.fit --out FOLDER` trains the network that ships with the package.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from foretide.forecast.zero.learning.loss import loss, scores
from foretide.forecast.zero.learning.made_series import make_gaps, make_series
from foretide.forecast.zero.learning.network import Parameters, count_parameters, make_parameters, mean_tables
from foretide.forecast.zero.shape import CONTEXT, Shape

__all__ = ["Learner", "flat", "learn_from", "nested"]

# Steps that are run in one call of the accelerator.
_CALL = 25
_WARM_UP = 0.02
_RATE_AT_END = 0.01
_MOMENTUM, _MOMENTUM2, _DECAY, _CLIP = 0.9, 0.98, 0.01, 1.0
# The weights that are kept are the mean of the last five hundred steps or so.
_AVERAGED = 0.998


class Learner:
    """Parameters, the optimiser's memory, and how many steps were made.

    Parameters
    ----------
    shape : Shape
        The size of the network.
    steps : int
        Steps of the whole training, by which the rate of learning rises and falls.
    batch : int
        Series of a step.
    seed : int
        What parameters and series are drawn from: step n always sees the same series.
    rate : float
        The highest rate of learning.
    """

    def __init__(self, shape: Shape, *, steps: int, batch: int = 256, seed: int = 0, rate: float = 2e-3) -> None:
        self.shape, self.steps, self.batch, self.seed, self.rate = shape, steps, batch, seed, rate
        self.done = 0
        parameters = make_parameters(jax.random.key(seed), shape)
        nothing = partial(jax.tree.map, jnp.zeros_like)
        self.state = (parameters, nothing(parameters), nothing(parameters), jax.tree.map(jnp.array, parameters))
        self._tables = mean_tables(CONTEXT)

    @property
    def averaged(self) -> Parameters:
        """The parameters that are kept."""
        found: Parameters = self.state[3]
        return found

    def advance(self) -> float:
        """Make the next steps; return their mean loss."""
        numbers = np.arange(self.done, min(self.done + _CALL, self.steps))
        rates = jnp.asarray([self._rate(number) for number in numbers.tolist()], jnp.float32)
        key = jax.random.fold_in(jax.random.key(self.seed + 1), self.done)
        self.state, losses = _advance(
            self.state, key, jnp.asarray(numbers, jnp.float32), rates, self._tables, batch=self.batch
        )
        self.done = int(numbers[-1]) + 1
        return float(jnp.mean(losses))

    def _rate(self, number: int) -> float:
        part = number / self.steps
        fall = _RATE_AT_END + (1 - _RATE_AT_END) * 0.5 * (1 + math.cos(math.pi * part))
        return self.rate * min(1.0, (part + 1 / self.steps) / _WARM_UP) * fall

    def save(self, path: Path) -> None:
        """Write everything that it takes to go on."""
        parts = {
            f"{name}/{key}": value
            for name, tree in zip("pmva", self.state, strict=True)
            for key, value in flat(tree).items()
        }
        _write(path, {"done": self.done}, parts)

    def resume(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        with np.load(path) as file:
            self.done = int(json.loads(str(file["_facts"]))["done"])
            trees = [{key[2:]: file[key] for key in file.files if key.startswith(f"{name}/")} for name in "pmva"]
        self.state = tuple(nested(tree) for tree in trees)  # type: ignore[assignment]


@partial(jax.jit, static_argnames="batch", donate_argnums=0)
def _advance(state: Any, key: jax.Array, numbers: jax.Array, rates: jax.Array, tables: Any, *, batch: int) -> Any:
    dtype = jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32
    calls = numbers.size
    series = make_series(jax.random.fold_in(key, 0), calls * batch).reshape(calls, batch, -1)
    gaps = make_gaps(jax.random.fold_in(key, 1), calls * batch).reshape(calls, batch, -1)

    def step(state: Any, given: Any) -> Any:
        drawn, missing, number, rate = given
        return learn_from(state, drawn, missing, number, rate, tables, dtype)

    return jax.lax.scan(step, state, (series, gaps, numbers, rates))


def learn_from(
    state: Any, series: jax.Array, gaps: jax.Array, number: jax.Array, rate: jax.Array, tables: Any, dtype: Any
) -> Any:
    """Return parameters, memory and mean of parameters after step `number`, from 0, and the loss (AdamW)."""
    parameters, first, second, averaged = state
    value, slope = jax.value_and_grad(loss)(parameters, series, gaps, tables, dtype)
    norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(slope)))
    sound = jnp.isfinite(norm)
    cut = jnp.where(sound, jnp.minimum(1.0, _CLIP / (norm + 1e-9)), 0.0)
    slope = jax.tree.map(lambda leaf: jnp.where(sound, leaf, 0.0) * cut, slope)
    first = jax.tree.map(lambda old, new: _MOMENTUM * old + (1 - _MOMENTUM) * new, first, slope)
    second = jax.tree.map(lambda old, new: _MOMENTUM2 * old + (1 - _MOMENTUM2) * new * new, second, slope)
    count = number + 1

    def moved(leaf: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
        towards = mean / (1 - _MOMENTUM**count) / (jnp.sqrt(square / (1 - _MOMENTUM2**count)) + 1e-8)
        found: jax.Array = leaf - rate * (towards + (_DECAY * leaf if leaf.ndim > 1 else 0.0))
        return found

    parameters = jax.tree.map(moved, parameters, first, second)
    kept = jnp.minimum(_AVERAGED, count / (count + 10.0))
    averaged = jax.tree.map(lambda old, new: kept * old + (1 - kept) * new, averaged, parameters)
    return (parameters, first, second, averaged), value


def flat(parameters: Parameters) -> dict[str, np.ndarray[Any, Any]]:
    """Return parameters by name, those of layers as ``layer.name``."""
    found = {name: np.asarray(value) for name, value in parameters.items() if name != "layers"}
    for number, layer in enumerate(parameters["layers"]):
        found |= {f"{number}.{name}": np.asarray(value) for name, value in layer.items()}
    return found


def nested(arrays: Any) -> Parameters:
    """Return what `flat` took apart."""
    layers = 1 + max(int(name.split(".")[0]) for name in arrays if "." in name)
    found: Parameters = {name: jnp.asarray(value, jnp.float32) for name, value in arrays.items() if "." not in name}
    found["layers"] = [
        {
            name.split(".")[1]: jnp.asarray(value, jnp.float32)
            for name, value in arrays.items()
            if name.startswith(f"{number}.")
        }
        for number in range(layers)
    ]
    return found


def _write(path: Path, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, _facts=json.dumps(facts), **arrays)
    os.replace(part, path)


def main() -> None:
    """Train, and write weights and figures."""
    parser = argparse.ArgumentParser(description="Train the pretrained forecaster on made-up series.")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, the state to resume from, and figures"
    )
    parser.add_argument("--name", default="zero")
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--resume", type=Path, help="the state to go on from, if it is not in the folder")
    parser.add_argument("--windows", type=Path, help="series to score it on, an array x in a file of numpy")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    shape = Shape(given.channels, given.layers)
    learner = Learner(shape, steps=given.steps, batch=given.batch, seed=given.seed, rate=given.rate)
    kept = given.out / f"{given.name}.state.npz"
    if (given.resume or kept).exists():
        learner.resume(given.resume or kept)
    windows = None if given.windows is None else np.load(given.windows)["x"]
    held_back = np.asarray(make_series(jax.random.key(987_654_321), 512))[:, :CONTEXT]
    print(f"{given.name}: {count_parameters(learner.averaged):,} parameters, from step {learner.done}", flush=True)
    began = shown = time.monotonic()
    seen: list[float] = []
    log = (given.out / f"{given.name}.log.jsonl").open("a", encoding="utf-8")

    def tell() -> None:
        row = {"step": learner.done, "loss": float(np.mean(seen[-40:])), "seconds": round(time.monotonic() - began, 1)}
        row |= {f"made_{name}": value for name, value in scores(learner.averaged, held_back).items()}
        if windows is not None:
            row |= {f"windows_{name}": value for name, value in scores(learner.averaged, windows).items()}
        print(json.dumps(row), file=log, flush=True)
        print({name: round(value, 4) for name, value in row.items()}, flush=True)
        facts = {**shape.to_data(), "steps": given.steps, "batch": given.batch, "seed": given.seed, "rate": given.rate}
        half = {name: value.astype(np.float16) for name, value in flat(learner.averaged).items()}
        _write(given.out / f"{given.name}.npz", {**facts, "done": learner.done, "scores": row}, half)
        learner.save(kept)

    while learner.done < learner.steps and time.monotonic() - began < given.seconds:
        seen.append(learner.advance())
        if time.monotonic() - shown > 75.0:
            shown = time.monotonic()
            tell()
    tell()


if __name__ == "__main__":
    main()
