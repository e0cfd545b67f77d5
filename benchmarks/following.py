"""Where replicas that stay cover more than a plan that follows: whether prices are the cause, or what is known.

On inputs whose intervals are (nearly) by themselves, `foretide` plans once by forecasts, as always, and once by the
distribution of the whole input, which nobody has in advance: how often which rate comes, but not when. Replicas that
stay the same, at every part of the peak, know as much. All of it is simulated under stress, replicas of operators; what
counts is the part of the plane of cost and p95 that a front covers (docs/policy.md, section 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from _harness import Measured, Options, Ratio, parse_options, progress, report
from foretide.control.policies import Policy
from foretide.forecast import Forecaster
from foretide.forecast.scaling import scale_of
from foretide.records import Floats
from foretide.sim.compare import Scenario, calibrated
from foretide.sim.fronts.front import covered
from foretide.sim.fronts.study import box_of
from foretide.sim.fronts.sweep import run_trials, trials_of
from foretide.sim.stress import Stress
from foretide.traces import load_trace

INPUTS = ("pasps_twitter_raw@50%-", "pasps_logs@50%-", "made:gamma")
TD_S = 5.0


class KnownDistribution(Forecaster):
    """Say the same at all times: mean and quantiles of rates that are given in advance."""

    name: ClassVar[str] = "known-distribution"
    summary: ClassVar[str] = "mean and quantiles of rates that are given"
    spec: ClassVar[tuple[str, ...]] = ()

    rates: tuple[float, ...] = Field(description="The rates, each as likely as the others.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the same for every step."""
        return np.full(horizon, self._known().mean())

    def forecast_quantiles(self, values: Floats, mean: Floats, levels: Floats) -> Floats:
        """Return the same for every step."""
        return np.tile(np.quantile(self._known(), levels)[:, None], mean.size)

    def _known(self) -> Floats:
        """Return the rates in the scale of the history."""
        return np.array(self.rates) / scale_of(self._series.values)


@dataclass(frozen=True)
class Knowing(Policy):
    """A policy that is told the distribution of the input."""

    rates: tuple[float, ...] = ()

    def make_forecaster(self, **defaults: Any) -> Forecaster:
        """Return the forecaster that says it."""
        return KnownDistribution(rates=self.rates)


def main() -> None:
    """Cover the plane with each, on every input and seed."""
    options = parse_options(__doc__, repeats=5)
    lines = []
    for name in INPUTS[: options.size(None, quick=1, smoke=1)]:
        found = covers("pasps_dns@-120" if options.smoke else name, options)
        for other in ("static", "by forecasts"):
            ratio = Ratio(tuple(found["distribution known"] / found[other]))
            lines.append(Measured(f"{name}: distribution known", other, "at least", 1.0, ratio))
        lines.append(
            Measured(
                f"{name}: by forecasts",
                "static",
                "at least",
                0.98,
                Ratio(tuple(found["by forecasts"] / found["static"])),
            )
        )
    intro = (
        "The part of the plane of cost and p95 that fronts cover, under stress, as ratios, one for each seed:"
        " `foretide` by forecasts; by the distribution of the whole input, which it does not follow; and replicas that"
        " stay."
    )
    report("following", "To follow or to stay", lines, {}, options, intro=intro, packages=["numba"])


def covers(name: str, options: Options) -> dict[str, Floats]:
    """Return what each covers, by seed."""
    scenario = calibrated(load_trace(name), TD_S, stress=Stress())
    policies = {
        "by forecasts": Policy("foretide", "auto"),
        # The last rate is not to be followed either.
        "distribution known": Knowing(
            "foretide", "known", {"persistence": 0.0}, rates=rates_of(scenario, options.repeats)
        ),
        "static": Policy("static"),
    }
    found = {}
    for label, policy in policies.items():
        found[label] = front_covers(scenario, policy, options.repeats)
        progress(f"  {name} {label}: {np.array2string(found[label], precision=3)}")
    return found


def rates_of(scenario: Scenario, seeds: int) -> tuple[float, ...]:
    """Return the rates of all intervals, with the noise of all seeds."""
    rates: list[float] = []
    for seed in range(seeds):
        noisy = Stress().noisy(scenario.trace, seed=seed)
        bins = round(TD_S / noisy.bin_s)
        whole = noisy.rates[: noisy.rates.size // bins * bins]
        rates += whole.reshape(-1, bins).mean(axis=1).tolist()
    return tuple(rates)


def front_covers(scenario: Scenario, policy: Policy, seeds: int) -> Floats:
    """Return what the front over a policy's knob covers, by seed."""
    box = box_of(scenario)
    rows = run_trials(trials_of(scenario, [policy], seeds, {}), workers=1 if seeds == 1 else 2)
    points: dict[int, list[list[float]]] = {seed: [] for seed in range(seeds)}
    for row in rows:
        if row["latency_p95_ms"] is not None and row["processed"] >= box.least_processed:
            points[row["seed"]].append([row["cost"], row["latency_p95_ms"]])
    return np.array([covered(np.array(one).reshape(-1, 2), box) for one in points.values()])


if __name__ == "__main__":
    main()
