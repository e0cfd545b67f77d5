"""A running system in simulated time: the two ports of the control loop over a network of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from foretide.clock import Clock
from foretide.compile.stages import compile_stages
from foretide.control.activation import Activation
from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram
from foretide.records import BatchRun, Floats, Ints, Measurement, Plan, SharedSlots
from foretide.sim.batches import BatchNetwork
from foretide.sim.cores import Cores
from foretide.sim.network import Network
from foretide.sim.settings import SimulationSettings
from foretide.sim.stations.base import Occupancy
from foretide.sim.stations.replicas import ReplicaStation
from foretide.topology import GroupingSpec, Topology
from foretide.traces import RateTrace

__all__ = ["SimulatedSystem", "Totals"]


class Totals(NamedTuple):
    """The fate of events: `received` is always the sum of the others.

    An event that is split into several tuples is still one: its first tuple stands for it, and the event is queued,
    processed, dropped or timed out where that tuple is. An event that no output takes is processed too.
    """

    received: int
    processed: int
    queued: int
    dropped: int
    timed_out: int

    @property
    def conserved(self) -> bool:
        """Whether no event was lost or invented."""
        return self.received == self.processed + self.queued + self.dropped + self.timed_out


class SimulatedSystem:
    """Both sides of a running system, a metric source and an actuator, simulated tuple by tuple.

    Every event of the trace arrives, waits for a replica, is served, is passed on by the shares that the topology
    declares, and leaves behind its last operator. Replicas change between steps; a change within a step counts from the
    nearer end of it.

    Parameters
    ----------
    topology : Topology
        What runs; every operator must declare `execution_s`.
    rates : RateTrace, or mapping of source to RateTrace
        The input. A single trace is every source's; after its end nothing arrives.
    clock : Clock
        The time; the system catches up with it at the next call.
    settings : SimulationSettings, optional
        How it runs.
    seed : int
        The seed of everything random; the same seed gives the same run.

    Examples
    --------
    >>> from foretide.clock import ManualClock
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> clock = ManualClock()
    >>> trace = RateTrace("steps", bin_s=1.0, rates=[80.0, 150.0])
    >>> system = SimulatedSystem(job.build(), trace, clock=clock)
    >>> clock.sleep_s(3.0)
    >>> [(step.processed.tolist(), step.queued.tolist()) for step in system.collect()]
    [([79.0], [1.0]), ([99.0], [51.0]), ([52.0], [0.0])]
    >>> system.totals
    Totals(received=230, processed=230, queued=0, dropped=0, timed_out=0)
    """

    def __init__(
        self,
        topology: Topology,
        rates: RateTrace | Mapping[str, RateTrace],
        *,
        clock: Clock,
        settings: SimulationSettings | None = None,
        seed: int = 0,
    ) -> None:
        self._topology, self._clock = topology, clock
        self._settings = settings or SimulationSettings()
        traces = {source: _trace(source, rates) for source in topology.layout.sources}
        kind = Network if self._settings.micro_batch is None else BatchNetwork
        self._network: Network | BatchNetwork = kind(topology, traces, self._settings, seed)
        self._began_at_s, self._steps, self._received = clock.now_s(), 0, 0
        self._activation = Activation(topology, self._settings.activation_s)
        batches, cpu = self._settings.micro_batch, self._settings.cpu
        self._cores = (
            None if cpu is None else Cores(cpu, self._network.stations, None if batches is None else batches.cores)
        )
        self._resize(self._activation.active, 0.0)
        self._measured: list[Measurement] = []
        self._before = self._so_far()

    @property
    def stages(self) -> SharedSlots | None:
        """The stages whose operators share slots, as on Spark; None where every operator has replicas of its own."""
        batches = self._settings.micro_batch
        if batches is None:
            return None
        return replace(
            compile_stages(self._topology).shared_slots,
            trigger_s=batches.trigger_s,
            batch_target_s=batches.batch_target_s,
            cores=batches.cores,
        )

    @property
    def queued(self) -> Floats:
        """Tuples that wait before each operator; those in service are not among them."""
        return np.array([station.waiting for station in self._stations], dtype=np.float64)

    @property
    def replicas(self) -> Ints:
        """Replicas of each operator that are active."""
        return self._activation.active.copy()

    @property
    def totals(self) -> Totals:
        """The fate of all events so far; those in service count as queued, and queues are counted one by one."""
        stations = self._stations
        return Totals(
            received=self._received,
            processed=self._network.processed_events,
            queued=sum(station.present_events() for station in stations),
            dropped=self._network.dropped_events,
            timed_out=sum(station.counts.timed_out_events for station in stations),
        )

    @property
    def operator_totals(self) -> Mapping[str, Totals]:
        """The fate of the tuples that reached each operator."""
        return {
            name: Totals(
                station.counts.received,
                station.counts.processed,
                station.present(),
                station.counts.dropped,
                station.counts.timed_out,
            )
            for name, station in zip(self._topology.layout.operators, self._stations, strict=True)
        }

    @property
    def latency(self) -> LatencyHistogram:
        """The latencies of all tuples that left so far, from the arrival of their event at the source."""
        return self._network.exit.latency

    def take_latency(self) -> LatencyHistogram:
        """Return the latencies of the tuples that left since the last call."""
        return self._network.exit.take_latency()

    def watch_latency(self, limit_s: float) -> None:
        """Count tuples that take longer than this from now on, one by one."""
        self._network.exit.limit_s = limit_s

    def take_late(self) -> int:
        """Return how many took longer than the latency that is watched, since the last call."""
        return self._network.exit.take_late()

    def collect(self) -> Sequence[Measurement]:
        """Return a measurement of every whole step since the last call."""
        self._live()
        measured, self._measured = self._measured, []
        return measured

    def apply(self, plan: Plan) -> Ints:
        """Take a plan, cut to the operators' bounds; it is active `activation_s` seconds from now."""
        self._live()
        requested = self._activation.request(plan, self._clock.now_s() - self._began_at_s)
        self._activate()
        return requested

    def regroup(self, edge: str, configuration: GroupingSpec | str | Mapping[str, Any]) -> None:
        """Replace the grouping of an edge, or its options, from the present on (SPEC I2); needs `queue` "replica".

        Parameters
        ----------
        edge : str
            Its name, ``start.output-end``.
        configuration : GroupingSpec, str or mapping
            Another grouping, or other options of the one in use, such as ``{"weights": [7, 3, 2]}``.
        """
        names = [f"{start}.{output}-{end}" for start, output, end in self._topology.layout.edges]
        if edge not in names:
            raise ConfigError("simulation.regroup.edge", expected=f"one of {', '.join(names)}", got=repr(edge))
        dispatcher = self._network.dispatchers.get(names.index(edge))
        if dispatcher is None:
            got = repr(self._settings.queue)
            raise ConfigError("simulation.queue", expected="'replica', so that edges have groupings", got=got)
        self._live()
        dispatcher.regroup(configuration)

    def processed_by_replica(self, operator: str) -> Ints:
        """Return how many tuples each replica of an operator's pool finished so far; needs `queue` "replica"."""
        station = self._stations[self._topology.layout.operator_index[operator]]
        if not isinstance(station, ReplicaStation):
            got = repr(self._settings.queue)
            raise ConfigError("simulation.queue", expected="'replica', so that replicas are distinguished", got=got)
        return np.array([replica.counts.processed for replica in station.replicas], dtype=np.int64)

    def _live(self) -> None:
        """Go through the whole steps up to the present; a clock that was set back waits until it has caught up."""
        # A step that ends within the rounding of the clock is over.
        due = int((self._clock.now_s() - self._began_at_s) / self._settings.step_s + 1e-9)
        while self._steps < due:
            self._activate()
            self._measured.append(self._step())

    def _activate(self) -> None:
        """Activate what is due before the middle of the step that begins now."""
        now_s = self._steps * self._settings.step_s
        for replicas in self._activation.take_due(now_s + self._settings.step_s / 2):
            if isinstance(self._network, BatchNetwork):
                self._network.hire(self._activation.hiring)
            self._resize(replicas, now_s)
            if self._settings.restart is not None:
                restart = self._settings.restart
                self._network.stop(now_s + restart.downtime_s, lose=restart.loses)

    def _resize(self, replicas: Ints, now_s: float) -> None:
        self._network.resize(replicas, now_s)
        if self._cores is not None:
            self._cores.place(replicas)

    def _step(self) -> Measurement:
        step_s = self._settings.step_s
        self._steps += 1
        flow = self._network.step(self._steps * step_s)
        self._received += int(flow.arrived.sum())
        before, self._before = self._before, self._so_far()
        processed, busy_s, dropped = self._before - before
        return Measurement(
            layout=self._topology.layout,
            ended_at_s=self._began_at_s + self._steps * step_s,
            duration_s=step_s,
            arrived=flow.arrived.astype(np.float64),
            passed=flow.passed.astype(np.float64),
            processed=processed,
            queued=self.queued,
            busy_s=np.maximum(busy_s, 0.0),
            dropped=dropped,
            replicas=self._activation.active,
            cpu=None if self._cores is None else self._cores.use(step_s),
            latency_s=self._network.exit.take_step_s(),
            batches=self._batches(),
            slot_s=self._slot_s(),
        )

    def _slot_s(self) -> float | None:
        """Return the slot-seconds of the last step, where stages have slots."""
        if not isinstance(self._network, BatchNetwork):
            return None
        return self._network.take_slot_s(self._steps * self._settings.step_s)

    def _batches(self) -> tuple[BatchRun, ...]:
        """Return the batches that ended since the last call, where stages run in batches."""
        if not isinstance(self._network, BatchNetwork):
            return ()
        return tuple(replace(run, began_at_s=self._began_at_s + run.began_at_s) for run in self._network.take_runs())

    @property
    def _stations(self) -> Sequence[Occupancy]:
        return self._network.stations

    def _so_far(self) -> Floats:
        counts = [station.counts for station in self._stations]
        columns = [(each.processed, each.busy_s, each.dropped + each.timed_out) for each in counts]
        return np.array(columns, dtype=np.float64).reshape(-1, 3).T


def _trace(source: str, rates: RateTrace | Mapping[str, RateTrace]) -> RateTrace:
    given = rates.get(source) if isinstance(rates, Mapping) else rates
    if not isinstance(given, RateTrace):
        got = "none" if given is None else type(given).__name__
        raise ConfigError(f"simulation.rates.{source}", expected="a RateTrace for every source", got=got)
    return given
