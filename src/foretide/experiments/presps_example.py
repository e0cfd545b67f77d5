"""The worked example of PRESPS: table 4 and figure 5 of [PRESPS]_, planned by our own planner (SPEC P4, P5).

A line of three operators was measured for an interval of one second. The paper gives the execution times, what
each operator processed and what is left in its queue, and works out the replicas for the next interval by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from foretide.control.monitor import Monitor
from foretide.control.settings import LoopSettings
from foretide.plan.base import Situation
from foretide.plan.planners.presps import Presps
from foretide.records import Measurement, Plan, Term
from foretide.topology import Topology, flow

__all__ = ["PAPER", "WorkedExample", "worked_example"]

_TD_S = 1.0
_INPUT = 100.0
_EXECUTION_S = (0.0166, 0.025, 0.1)
_PROCESSED = (140.0, 120.0, 90.0)
_QUEUED = (0.0, 7.0, 20.0)
# Figure 5 prints .833 and .75. Its table says that O2 received 117 of O1's 140 events, which are five sixths, rounded.
_SHARES = (1.0, 5 / 6, 3 / 4)

#: What table 4 prints, by symbol: loads are rounded up to whole events at each step.
PAPER: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "θ": (1.0, 0.833, 0.625),
        "λ̂ʳ": (100.0, 84.0, 63.0),
        "λ̂^q": (0.0, 7.0, 20.0),
        "λ̂": (100.0, 91.0, 83.0),
        "r": (2.0, 3.0, 9.0),
    }
)


@dataclass(frozen=True, eq=False)
class WorkedExample:
    """The example from measurement to plan.

    Parameters
    ----------
    topology : Topology
        The line in -> O1 -> O2 -> O3.
    measurement : Measurement
        The interval that the paper's figures describe.
    situation : Situation
        What the planner saw.
    plan : Plan
        What it planned, with every term on the way.
    paper : mapping of str to tuple of float
        What the paper prints for the same symbols, by operator.
    """

    topology: Topology
    measurement: Measurement
    situation: Situation
    plan: Plan
    paper: Mapping[str, tuple[float, ...]]

    @property
    def agrees(self) -> bool:
        """Whether the replicas are those of the paper."""
        return tuple(self.plan.replicas.tolist()) == self.paper["r"]

    def to_dict(self) -> dict[str, Any]:
        """Return the example as plain data, for JSON."""
        operators = self.plan.layout.operators
        return {
            "example": "PRESPS table 4",
            "spec": list(Presps.spec),
            "planner": self.plan.planner,
            "td_s": self.measurement.duration_s,
            "replicas": self.plan.by_operator(),
            "terms": [_term(term, operators) for term in self.plan.terms],
            "paper": {symbol: dict(zip(operators, values, strict=True)) for symbol, values in self.paper.items()},
            "agrees": self.agrees,
            "notes": list(self.plan.notes),
            "came_from": list(self.plan.came_from),
        }


def worked_example() -> WorkedExample:
    """Return the example, measured, observed by the monitor and planned.

    >>> worked_example().plan.by_operator()
    {'O1': 2, 'O2': 3, 'O3': 9}
    """
    topology = _topology()
    measurement = _measurement(topology)
    monitor = Monitor(topology, LoopSettings(td_s=_TD_S, sample_s=_TD_S))
    monitor.add([measurement])
    situation = Situation(
        topology=topology,
        window=monitor.window(measurement.ended_at_s),
        forecasts={},
        replicas=measurement.replicas,
        changed_at_s=np.full(len(_PROCESSED), -np.inf),
    )
    return WorkedExample(topology, measurement, situation, Presps().plan(situation), PAPER)


def _topology() -> Topology:
    job = flow("presps_table_4")
    stream = job.source("in")
    for number, execution_s in enumerate(_EXECUTION_S, start=1):
        stream = stream.operator(f"O{number}", execution_s=execution_s)
    return job.build()


def _measurement(topology: Topology) -> Measurement:
    """Return the interval of table 4 (a); its replicas, which the paper leaves out, are as many as it took."""
    processed, execution_s = np.array(_PROCESSED), np.array(_EXECUTION_S)
    finished_at_start = np.array([_INPUT, *_PROCESSED[:-1]])
    return Measurement(
        layout=topology.layout,
        ended_at_s=_TD_S,
        duration_s=_TD_S,
        arrived=np.array([_INPUT]),
        passed=finished_at_start * np.array(_SHARES),
        processed=processed,
        queued=np.array(_QUEUED),
        busy_s=processed * execution_s,
        replicas=np.ceil(processed * execution_s / _TD_S - 1e-9).astype(np.int64),
    )


def _term(term: Term, operators: tuple[str, ...]) -> dict[str, Any]:
    whole = isinstance(term.values, int | float)
    values = term.value(0) if whole else {id: term.value(column) for column, id in enumerate(operators)}
    return {
        "symbol": term.symbol,
        "meaning": term.meaning,
        "equation": term.equation,
        "values": values,
        "unit": term.unit,
    }
