"""The network in plain numpy, which reads a series value by value and remembers what it has read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.forecast.zero.features import ERROR_RATES, RATES, SLOW, running_rate, scale_free
from foretide.forecast.zero.loading import Weights
from foretide.forecast.zero.shape import CONTEXT, HEAD, LEADS, OUTPUTS, ROTATION
from foretide.records import Floats

__all__ = ["Reader"]

_Row = npt.NDArray[np.float32]
_TAPS = 3
# What a value may be at most, in units of the first one: beyond it all is one.
_MOST = 1e30


class Reader:
    """Reads values one after the other; `told` has the outputs for the steps after the last.

    The way is the same whether a history is read at once or as it comes, so that forecasts are the same to the bit.
    Each layer keeps what it attends to of the last `CONTEXT` positions.

    Parameters
    ----------
    weights : mapping of str to array
        As `load_weights` returns them.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._layers = 1 + max(int(name.split(".")[0]) for name in weights if "." in name)
        width = weights["in"].shape[1]
        self._heads = width // HEAD
        half = HEAD // 2
        self._pace = np.exp(-np.arange(half) / half * math.log(ROTATION))
        #: Values read so far, gaps included.
        self.place = 0
        # What values are divided by: a power of two, which changes no digit; 0 before the first value above 0.
        self._unit = 0.0
        self._last = 0.0
        self._means, self._slow, self._errors, self._drift = np.zeros(len(RATES)), 0.0, np.zeros(len(ERROR_RATES)), 0.0
        self._taps = np.zeros((self._layers, _TAPS, width), dtype=np.float32)
        self._keys = np.zeros((self._layers, CONTEXT, self._heads, HEAD), dtype=np.float32)
        self._values = np.zeros_like(self._keys)
        #: The outputs, of shape (leads, outputs), in units of `unit`; zeros before the first value.
        self.told: Floats = np.zeros((len(LEADS), OUTPUTS))

    @property
    def unit(self) -> float:
        """What the outputs are counted in."""
        return self._unit or 1.0

    def read(self, values: Floats) -> None:
        """Read values, NaN where one is missing; those before the first known one are passed over."""
        for value in values.tolist():
            if self.place or math.isfinite(value):
                self._read(value)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was read as arrays."""
        numbers = [self.place, self._unit, self._last, self._slow, self._drift]
        return {
            "numbers": np.array(numbers, dtype=np.float64),
            "means": self._means,
            "errors": self._errors,
            "taps": self._taps,
            "keys": self._keys,
            "values": self._values,
            "told": self.told,
        }

    def restore(self, state: Any) -> None:
        """Take back what `state` returned."""
        place, self._unit, self._last, self._slow, self._drift = np.asarray(state["numbers"]).tolist()
        self.place = int(place)
        self._means, self._errors = np.array(state["means"]), np.array(state["errors"])
        self._taps, self._keys, self._values = (np.array(state[name]) for name in ("taps", "keys", "values"))
        self.told = np.array(state["told"])

    def _read(self, value: float) -> None:
        gap = 0.0 if math.isfinite(value) else 1.0
        if not self._unit and value > 0:
            self._unit = 2.0 ** math.floor(math.log2(value))
        now = self._last if gap else min(max(value, 0.0) / self.unit, _MOST)
        features, level, spread = self._features(now, gap)
        found = self._network(features).reshape(len(LEADS), OUTPUTS).astype(np.float64)
        self.told = np.maximum(level + spread * found, 0.0)
        self._last = now
        self.place += 1

    def _features(self, now: float, gap: float) -> tuple[_Row, float, float]:
        place, first = self.place, self.place == 0
        before, slow_before = (now if first else self._last), self._slow
        missed = 0.0 if first else abs(now - self._means[1])
        rates = np.array([running_rate(rate, place) for rate in RATES])
        self._means = self._means + rates * (now - self._means)
        self._slow += running_rate(SLOW, place) * (now - self._slow)
        rates = np.array([running_rate(rate, max(place - 1, 0)) for rate in ERROR_RATES])
        self._errors = self._errors + rates * (missed - self._errors)
        found, level, spread, _, drift = scale_free(
            np,
            np.float64(now),
            np.float64(before),
            gap,
            tuple(self._means),
            np.float64(self._slow),
            np.float64(self._slow if first else slow_before),
            tuple(self._errors),
            self._drift,
            np.float64(place),
        )
        self._drift = float(drift)
        return found.astype(np.float32), float(level), float(spread)

    def _network(self, features: _Row) -> _Row:
        weights = self._weights
        hidden: _Row = features @ weights["in"] + weights["in_bias"]
        for number in range(self._layers):
            hidden = self._layer(number, hidden)
        out: _Row = _normed(hidden, weights["norm"]) @ weights["out"] + weights["out_bias"]
        return out

    def _layer(self, number: int, hidden: _Row) -> _Row:
        def part(name: str) -> _Row:
            found: _Row = self._weights[f"{number}.{name}"]
            return found

        seen = _normed(hidden, part("norm"))
        taps, kernel = self._taps[number], part("near")
        near = (kernel[:_TAPS] * taps).sum(0) + kernel[_TAPS] * seen
        taps[:-1] = taps[1:].copy()
        taps[-1] = seen
        query, key, value = (near @ part("ask")).reshape(3, self._heads, HEAD)
        angle = self.place * self._pace
        turn = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        at = self.place % CONTEXT
        self._keys[number, at], self._values[number, at] = _turned(key, *turn), value
        known = min(self.place + 1, CONTEXT)
        keys, values = self._keys[number, :known], self._values[number, :known]
        score = np.einsum("nhd,hd->hn", keys, _turned(query, *turn)) / np.float32(math.sqrt(HEAD))
        share = np.exp(score - score.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        hidden = hidden + np.einsum("hn,nhd->hd", share, values).reshape(-1) @ part("answer")
        wide = _normed(hidden, part("norm2")) @ part("up") + part("up_bias")
        moved: _Row = hidden + _gelu(wide) @ part("down")
        return moved


def _normed(hidden: _Row, gain: _Row) -> _Row:
    found: _Row = hidden / np.sqrt(np.mean(hidden * hidden) + np.float32(1e-6)) * gain
    return found


def _turned(parts: _Row, cosine: _Row, sine: _Row) -> _Row:
    half = HEAD // 2
    first, second = parts[:, :half], parts[:, half:]
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=1)


def _gelu(values: _Row) -> _Row:
    inner = np.float32(math.sqrt(2 / math.pi)) * (values + np.float32(0.044715) * values**3)
    found: _Row = np.float32(0.5) * values * (1 + np.tanh(inner))
    return found
