"""The stages that `foretide.compile` cuts for Spark, as batches run in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretide.compile.stages import compile_stages
from foretide.records import Floats, Hiring
from foretide.topology import Topology

__all__ = ["Batch", "BatchStage", "stages_of"]


@dataclass(slots=True)
class Batch:
    """A batch that runs: when it ends, and what happens then."""

    ends_s: float
    slots: int
    inputs: dict[int, int]
    busy_s: dict[int, float]
    passed: list[tuple[int, Floats]] = field(default_factory=list)
    leaving: list[Floats] = field(default_factory=list)
    ended: int = 0
    taken: int = 0


@dataclass(slots=True)
class BatchStage:
    """The operators of a stage, and the batch that runs in it.

    `rounds` is how often rows change tasks on the longest way through it, `cost_s` the mean work of an event that
    enters at each operator, down to the stage's last operator; `hiring` how slots are hired
    for each batch, if they are.
    """

    name: str
    operators: list[int]
    rounds: int
    cost_s: dict[int, float]
    slots: int = 1
    free_s: float = 0.0
    began_s: float = -1.0  # of the last batch; before all events until the first
    batch: Batch | None = None
    hiring: Hiring | None = None


def stages_of(topology: Topology, service_factor: float = 1.0) -> list[BatchStage]:
    """Return the stages of a topology that have operators, upstream ones first.

    Raises
    ------
    TopologyError
        When the topology cannot be cut into stages, as on Spark.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> first = job.source("in").operator("a", execution_s=0.1, selectivity=2).operator("b", execution_s=0.2)
    >>> _ = first.operator("c", execution_s=0.3, queued=True)
    >>> [(stage.operators, stage.cost_s) for stage in stages_of(job.build())]
    [([0, 1], {0: 0.5, 1: 0.2}), ([2], {2: 0.3})]
    """
    place = topology.layout.operator_index
    stages = [stage for stage in compile_stages(topology).stages if stage.operators]
    inside = {
        (plan.edge.start, plan.edge.output, plan.edge.end)
        for stage in stages
        for plan in stage.edges
        if plan.link in ("chained", "exchanged")
    }
    cost_s = topology.declared_execution_s * service_factor
    for column in reversed(range(len(topology.layout.edges))):
        start, _, end = edge = topology.layout.edges[column]
        if edge in inside and start in place:
            cost_s[place[start]] += topology.declared_share[column] * cost_s[place[end]]
    members = [[place[operator.id] for operator in stage.operators] for stage in stages]
    return [
        BatchStage(stage.id, operators, stage.rounds, {each: float(cost_s[each]) for each in operators})
        for stage, operators in zip(stages, members, strict=True)
    ]
