"""What the PA-SPS paper leaves open, or prints and we leave out: other assumptions to run its experiments under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from foretide.sim import MicroBatch

__all__ = ["ASSUMPTIONS", "Assumption", "assumptions_for"]


@dataclass(frozen=True)
class Assumption:
    """One thing that is otherwise in a run.

    Parameters
    ----------
    title : str
        What it is, for the page.
    settings : mapping of str to object
        Settings of the simulator.
    warm : bool
        Whether the run begins with the replicas that the input needs, and its first 30 s do not count.
    for_fixed : bool
        Whether it is tried where replicas are fixed.
    """

    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    warm: bool = False
    for_fixed: bool = True


#: By name.
ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType(
    {
        "limits": Assumption("timeout 30 s, queues of 100 000", {"timeout_s": 30.0, "queue_bound": 100_000}),
        "delay": Assumption("replicas active 5 s later", {"activation_s": 5.0}, for_fixed=False),
        "queues": Assumption("a queue per replica", {"queue": "replica"}),
        "batches": Assumption(
            "batches of .5 s", {"micro_batch": MicroBatch(fixed_s=0.1, trigger_s=0.5)}, for_fixed=False
        ),
        "lighter": Assumption("execution times 10 % shorter", {"service_factor": 0.9}),
        "warm": Assumption("begun warm, first 30 s not counted", warm=True, for_fixed=False),
    }
)


def assumptions_for(policy: str) -> Mapping[str, Assumption]:
    """Return the assumptions that a policy is tried under.

    >>> list(assumptions_for("static"))
    ['limits', 'queues', 'lighter']
    """
    return {name: each for name, each in ASSUMPTIONS.items() if each.for_fixed or policy != "static"}
