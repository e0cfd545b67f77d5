"""The experiments of PA-SPS as topologies and settings, calibrated per trace to match its tables (SPEC P10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from foretide.control.settings import LoopSettings
from foretide.forecast import Forecaster, make_forecaster
from foretide.plan.load import needed_replicas
from foretide.sim.settings import SimulationSettings
from foretide.topology import Topology, flow
from foretide.traces import RateTrace, load_trace

__all__ = [
    "BASE_LATENCY_S",
    "EXECUTION_MS",
    "PAPER_FORECASTERS",
    "POOL",
    "PaSpsSetup",
    "pasps_setup",
    "twitter_chain",
]

#: Mean execution time of the four operators of the Twitter application, with which a fluid model of it gives the
#: published saved resources within .03.
EXECUTION_MS: Mapping[str, float] = MappingProxyType(
    {"topic": 0.178, "subtopic": 0.290, "category": 0.232, "subcategory": 0.253}
)
#: Latency of every event outside queues and operators: the network and the framework of the paper's cluster.
BASE_LATENCY_S = 0.153
#: Replicas in the pool of each operator.
POOL = 30
#: The models of SPEC P6; in the authors' configuration they look back twelve samples.
PAPER_FORECASTERS = ("basic", "lr", "fft", "ann", "rf")

# The applications differ by how heavy their events are: execution times relative to Twitter's, and r_over of the paper.
_FACTOR: Mapping[str, float] = MappingProxyType({"pasps_dns": 0.75, "pasps_logs": 0.95})
_OVERESTIMATED: Mapping[str, int] = MappingProxyType(
    {"pasps_twitter_smoothed": 32, "pasps_twitter_raw": 32, "pasps_dns": 12, "pasps_logs": 32}
)
_TD_S, _SAMPLE_S, _HISTORY = 30.0, 5.0, 12


@dataclass(frozen=True, eq=False, kw_only=True)
class PaSpsSetup:
    """One experiment of PA-SPS: what runs, on which input, and what the paper compares it with.

    Parameters
    ----------
    trace : RateTrace
        The input.
    topology : Topology
        Four operators in a row.
    r_over : int
        The replicas of all operators that saved resources are measured against (SPEC P8).
    td_s, sample_s, history
        The control loop as the authors configured it: an interval of 30 s, samples of 5 s, twelve of them.
    """

    trace: RateTrace
    topology: Topology
    r_over: int
    td_s: float = _TD_S
    sample_s: float = _SAMPLE_S
    history: int = _HISTORY

    def loop(self, td_s: float | None = None) -> LoopSettings:
        """Return the settings of the control loop, for another interval if given; a sample is never longer than it."""
        interval_s = self.td_s if td_s is None else td_s
        return LoopSettings(td_s=interval_s, sample_s=min(self.sample_s, interval_s), history=self.history)

    def settings(self, **changes: Any) -> SimulationSettings:
        """Return the settings of the simulator: one queue per operator without a bound, and the base latency."""
        return SimulationSettings(**{"base_latency_s": BASE_LATENCY_S, **changes})

    def forecaster(self, name: str, **settings: Any) -> Forecaster:
        """Return a forecaster; one of the paper's looks back as far as the authors' own."""
        own = {"window": self.history} if name in PAPER_FORECASTERS else {}
        return make_forecaster(name, **{**own, **settings})


def pasps_setup(trace: str | RateTrace) -> PaSpsSetup:
    """Return the experiment of PA-SPS on one of its traces, or the Twitter application on any other trace.

    Execution times are the Twitter application's, × .75 for DNS and × .95 for logs; `r_over` is the paper's, and for
    another trace what its peak needs, which is how the paper defines it.

    >>> setup = pasps_setup("pasps_dns")
    >>> setup.r_over, [round(1e6 * operator.execution_s, 2) for operator in setup.topology.operators]
    (12, [133.5, 217.5, 174.0, 189.75])
    >>> pasps_setup("pasps_twitter_gaussian").r_over
    9
    """
    rates = trace if isinstance(trace, RateTrace) else load_trace(trace)
    topology = twitter_chain(_FACTOR.get(rates.name, 1.0))
    r_over = _OVERESTIMATED.get(rates.name) or int(needed_replicas(topology, rates.peak_rate).sum())
    return PaSpsSetup(trace=rates, topology=topology, r_over=r_over)


def twitter_chain(factor: float = 1.0, *, pool: int = POOL) -> Topology:
    """Return the four operators of the Twitter application in a row, their execution times multiplied by `factor`.

    >>> [operator.id for operator in twitter_chain().operators]
    ['topic', 'subtopic', 'category', 'subcategory']
    """
    job = flow("twitter_detection")
    stream = job.source("tweets")
    for operator, milliseconds in EXECUTION_MS.items():
        seconds = round(factor * milliseconds / 1e3, 12)
        stream = stream.operator(operator, execution_s=seconds, replicas=(1, pool))
    stream.sink("out")
    return job.build()
