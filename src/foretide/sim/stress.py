"""What goes wrong in a stress test: events heavier than believed, noise, and replicas that start late."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import Field

from foretide.config import Settings
from foretide.records import Measurement
from foretide.sim.settings import SimulationSettings
from foretide.traces import RateTrace

__all__ = ["Stress"]


class Stress(Settings):
    """How a run departs from what the policy believes.

    Three things at once. Every event takes `service_factor` times as long as the policy believes, and its measurements
    do not show it: the busy time that it sees is that of the declared execution times, as with the benchmark
    before deployment of SPEC P7. Service times of single events and the input rate of each `noise_s` seconds are
    multiplied by lognormal noise of mean 1. And replicas are active `activation_s` seconds after a plan.

    Examples
    --------
    >>> trace = RateTrace("flat", bin_s=5, rates=np.full(200, 1000.0))
    >>> noisy = Stress().noisy(trace, seed=1)
    >>> noisy.bin_s, bool(abs(noisy.rates.mean() / 1000 - 1) < 0.02), round(float(noisy.rates.std() / 1000), 1)
    (1.0, True, 0.2)
    """

    service_factor: float = Field(default=1.1, gt=0, le=100, description="True ÷ believed execution time.")
    service_cv: float = Field(default=0.2, ge=0, le=10, description="Coefficient of variation of service times.")
    arrival_cv: float = Field(default=0.2, ge=0, le=10, description="Coefficient of variation of the input rate.")
    noise_s: float = Field(default=1.0, gt=0, description="Seconds after which the input rate's noise changes.")
    activation_s: float = Field(default=5.0, ge=0, description="Seconds from a plan until its replicas are active.")
    watched: bool = Field(
        default=False, description="Whether the policy sees the true execution times once they are measured."
    )

    def settings(self, settings: SimulationSettings) -> SimulationSettings:
        """Return the simulator's settings under this stress; a service time that is random already keeps its kind."""
        changes: dict[str, Any] = {
            "service_factor": settings.service_factor * self.service_factor,
            "activation_s": settings.activation_s + self.activation_s,
        }
        if self.service_cv > 0 and settings.service == "constant":
            changes |= {"service": "lognormal", "service_cv": self.service_cv}
        return SimulationSettings(**{**settings.model_dump(), **changes})

    def noisy(self, trace: RateTrace, seed: int) -> RateTrace:
        """Return the trace with noise; the same for the same seed."""
        if not self.arrival_cv:
            return trace
        parts = _parts(trace.bin_s, self.noise_s)
        rates = np.repeat(trace.rates, parts)
        bin_s = trace.bin_s / parts
        repeats = max(1, round(self.noise_s / bin_s))
        # A lognormal of mean 1: its logarithm has the variance ln(1 + CV²), and half of that less as its mean.
        sigma = math.sqrt(math.log1p(self.arrival_cv**2))
        draws = np.random.default_rng([seed, 0x57E55]).normal(-(sigma**2) / 2, sigma, -(-rates.size // repeats))
        return RateTrace(trace.name, bin_s, rates * np.repeat(np.exp(draws), repeats)[: rates.size])

    def believed(self, measurement: Measurement) -> Measurement:
        """Return a measurement as the policy gets it: busy for as long as it believes that the events take."""
        if self.watched:
            return measurement
        return measurement.with_busy_s(measurement.busy_s / self.service_factor)


def _parts(bin_s: float, noise_s: float) -> int:
    """Return into how many bins one is to be split, so that each is about as long as the noise stays the same."""
    bin_us = round(bin_s * 1e6)
    most = max(1, round(bin_s / noise_s))
    # A trace keeps time in whole microseconds.
    return next(parts for parts in range(most, 0, -1) if bin_us % parts == 0)
