"""Compiled recursions of the state space forecasters; imported on first use, because numba is slow to import."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foretide._numba import njit

__all__ = ["filter_trends", "search_smoothing", "smooth"]

_Floats = npt.NDArray[np.float64]


@njit
def smooth(y: _Floats, parameters: _Floats, start: _Floats, state: _Floats) -> float:
    """Run additive exponential smoothing over `y` into `state`, and return the sum of squared one-step errors.

    `parameters` are α, β, φ, γ of the error-correction form; `start` and `state` hold level, trend, then one seasonal
    term per phase, the next one first, or none.
    """
    alpha, beta, phi, gamma = parameters[0], parameters[1], parameters[2], parameters[3]
    season = start.size - 2
    level, trend = start[0], start[1]
    for phase in range(season):
        state[2 + phase] = start[2 + phase]
    total = 0.0
    for t in range(y.size):
        at = level + phi * trend
        swing = state[2 + t % season] if season > 0 else 0.0
        error = y[t] - at - swing
        level = at + alpha * error
        trend = phi * trend + beta * error
        if season > 0:
            state[2 + t % season] = swing + gamma * error
        total += error * error
    state[0], state[1] = level, trend
    return total


@njit
def _squared_error(y: _Floats, shares: _Floats, start: _Floats, state: _Floats) -> float:
    """Return the error of α, β ÷ α, φ, γ ÷ (1 - α): shares that vary between 0 and 1 on their own."""
    alpha = shares[0]
    parameters = np.array([alpha, alpha * shares[1], shares[2], (1.0 - alpha) * shares[3]])
    return smooth(y, parameters, start, state)


@njit
def search_smoothing(y: _Floats, grid: _Floats, low: _Floats, high: _Floats, start: _Floats) -> _Floats:
    """Return the shares of least squared error: the best row of `grid`, improved along each axis by halving steps.

    Of rows that do equally well the first is taken. An axis whose `low` is its `high` stays fixed.
    """
    state = start.copy()
    best: _Floats = grid[0].copy()
    least = _squared_error(y, best, start, state)
    for row in range(1, grid.shape[0]):
        error = _squared_error(y, grid[row], start, state)
        if error < least:
            least, best = error, grid[row].copy()
    step = 0.125
    while step > 0.004:
        improved = False
        for axis in range(best.size):
            for sign in (-1.0, 1.0):
                tried = best.copy()
                tried[axis] = min(max(tried[axis] + sign * step * (high[axis] - low[axis]), low[axis]), high[axis])
                error = _squared_error(y, tried, start, state)
                if error < least * (1.0 - 1e-9):
                    least, best, improved = error, tried, True
        if not improved:
            step /= 2
    return best


@njit
def filter_trends(y: _Floats, ratios: _Floats, prior: _Floats, damping: float) -> tuple[_Floats, _Floats]:
    """Run one Kalman filter for each row of `ratios`, and return its fit and its last state, row by row.

    The state is level and slope; a row holds the variances of their changes and the prior variance of the slope, each
    ÷ that of the observations; `prior` holds level, slope, and the variance of the level. Fits are log likelihood and
    observation variance, where the first two values only teach the state; states are level, slope and their
    covariance (level, both, slope) ÷ the observation variance, ahead of the next value.
    """
    fits = np.empty((ratios.shape[0], 2))
    states = np.empty((ratios.shape[0], 5))
    scored = max(y.size - 2, 1)
    floor = 1e-12 * float(np.var(y)) + 1e-300
    for row in range(ratios.shape[0]):
        level, slope = prior[0], prior[1]
        p_level, p_both, p_slope = prior[2], 0.0, ratios[row, 2]
        squares, logs = 0.0, 0.0
        for t in range(y.size):
            variance = p_level + 1.0
            error = y[t] - level
            gain_level, gain_slope = p_level / variance, p_both / variance
            if t >= 2 or y.size < 3:
                squares += error * error / variance
                logs += np.log(variance)
            level, slope = level + gain_level * error, slope + gain_slope * error
            # The part of the prior variance that the value leaves, written so that it stays positive.
            p_slope -= gain_slope * p_both
            p_both, p_level = p_both / variance, p_level / variance
            level += damping * slope
            slope *= damping
            p_level += 2 * damping * p_both + damping * damping * p_slope + ratios[row, 0]
            p_both = damping * p_both + damping * damping * p_slope
            p_slope = damping * damping * p_slope + ratios[row, 1]
        spread = max(squares / scored, floor)
        fits[row, 0] = -0.5 * (scored * np.log(spread) + logs)
        fits[row, 1] = spread
        states[row, 0], states[row, 1] = level, slope
        states[row, 2], states[row, 3], states[row, 4] = p_level, p_both, p_slope
    return fits, states
