"""The topology as stations and the streams between them, event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.errors import ConfigError
from foretide.plan.load import known_execution_s
from foretide.records import Floats, Ints
from foretide.sim.load import Arrivals, KeyDraw, Service
from foretide.sim.settings import SimulationSettings
from foretide.sim.stations import _kernels
from foretide.sim.stations.base import Occupancy, Station, hosts_of
from foretide.sim.stations.dispatching import Dispatcher
from foretide.sim.stations.even import EvenStation
from foretide.sim.stations.exits import Exit
from foretide.sim.stations.replicas import ReplicaStation
from foretide.sim.stations.shared import SharedStation
from foretide.sim.stations.splitting import Splitter
from foretide.sim.stations.streams import Purpose, RandomStreams
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["Network", "StepFlow", "Wiring", "merged"]


@dataclass(frozen=True, slots=True)
class StepFlow:
    """What flowed in one step: arrivals by source, and what was passed on by edge."""

    arrived: Ints
    passed: Ints


class Feed:
    """What arrives at the sources.

    Parameters
    ----------
    topology : Topology
        What runs.
    traces : mapping of str to RateTrace
        The rate of every source.
    settings : SimulationSettings
        How events arrive, and their values.
    streams : RandomStreams
        Source of randomness.
    """

    def __init__(
        self,
        topology: Topology,
        traces: Mapping[str, RateTrace],
        settings: SimulationSettings,
        streams: RandomStreams,
    ) -> None:
        self._arrivals = [
            Arrivals(traces[source], settings.arrivals, streams.rng(Purpose.ARRIVALS, place))
            for place, source in enumerate(topology.layout.sources)
        ]
        self.keys = None if settings.keys is None else KeyDraw(settings.keys, streams.rng(Purpose.KEYS))

    def until(self, end_s: float, lanes: int) -> list[Floats]:
        """Return the tuples that arrive at each source up to an instant."""
        return [self._tuples(arrivals.until(end_s), lanes) for arrivals in self._arrivals]

    def _tuples(self, instants_s: Floats, lanes: int) -> Floats:
        tuples: Floats = np.empty((lanes, instants_s.size))
        tuples[_kernels.AT] = tuples[_kernels.ROOT] = instants_s
        if lanes > _kernels.KEY:
            assert self.keys is not None, "a lane for values comes with values"
            tuples[_kernels.KEY] = self.keys.draw(instants_s.size)
        return tuples


class Wiring:
    """What every simulated network has: its input, its edges, and the count of events by their fate.

    Parameters are those of `Network`.
    """

    stations: Sequence[Occupancy]

    def __init__(
        self, topology: Topology, traces: Mapping[str, RateTrace], settings: SimulationSettings, seed: int
    ) -> None:
        streams, flow = RandomStreams(seed), topology.flow
        self.exit = Exit(settings.base_latency_s)
        self._feed = Feed(topology, traces, settings, streams)
        self._splitters = _splitters(topology, settings, streams)
        self._services = _services(topology, settings, streams, self._feed.keys)
        self._lanes = 3 if settings.keys is None else 4
        self._sources, self._ends = flow.sources, (flow.ends - flow.sources).tolist()
        self._targets = [np.flatnonzero(flow.starts == node).tolist() for node in range(len(self._splitters))]
        self._down_until_s, self._gone, self._ended = -np.inf, 0, 0

    @property
    def processed_events(self) -> int:
        """Events that left, or ended where no output took them."""
        return self.exit.events + self._ended

    @property
    def dropped_events(self) -> int:
        """Events lost to full queues or a restart."""
        return self._gone + sum(station.counts.dropped_events for station in self.stations)

    def _not_lost(self, tuples: Floats) -> Floats:
        """Return what arrives after the topology has restarted."""
        if not tuples.shape[1] or tuples[_kernels.AT, 0] >= self._down_until_s:
            return tuples
        lost = int(np.searchsorted(tuples[_kernels.AT], self._down_until_s, side="left"))
        self._gone += lost
        return tuples[:, lost:]


class Network(Wiring):
    """Sources, stations and the streams between them.

    In a step, each operator serves all that reaches it up to the end of the step before the next operator in
    topological order does: nothing flows back, so the order of events is kept.

    Parameters
    ----------
    topology : Topology
        What runs.
    traces : mapping of str to RateTrace
        The rate of every source.
    settings : SimulationSettings
        How it runs.
    seed : int
        Source of randomness.
    """

    def __init__(
        self, topology: Topology, traces: Mapping[str, RateTrace], settings: SimulationSettings, seed: int
    ) -> None:
        super().__init__(topology, traces, settings, seed)
        even = _are_even(self._services, settings)
        self._lanes = 2 if even else self._lanes
        self.stations: list[Station] = [
            _station(operator, int(topology.maximum_replicas[operator]), service, settings, even)
            for operator, service in enumerate(self._services)
        ]
        self.dispatchers = _dispatchers(topology, settings)

    def resize(self, replicas: Ints, now_s: float) -> None:
        """Set the number of active replicas of each operator from now on."""
        for station, count in zip(self.stations, replicas.tolist(), strict=True):
            station.resize(count, now_s)
        for edge, dispatcher in self.dispatchers.items():
            dispatcher.resize(int(replicas[self._ends[edge]]))

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let nothing begin before `until_s`; with `lose`, what is here or arrives until then is lost."""
        for station in self.stations:
            station.stop(until_s, lose=lose)
        if lose:
            self._down_until_s = until_s

    def step(self, end_s: float) -> StepFlow:
        """Let everything happen up to an instant."""
        arriving = self._feed.until(end_s, self._lanes)
        arrived = np.array([tuples.shape[1] for tuples in arriving], dtype=np.int64)
        passed: Ints = np.zeros(len(self._ends), dtype=np.int64)
        inbox: list[list[Floats]] = [[] for _ in self.stations]
        for node, tuples in enumerate(arriving):
            self._pass_on(node, self._not_lost(tuples), inbox, passed)
        for operator, station in enumerate(self.stations):
            if inbox[operator]:
                station.receive(merged(inbox[operator]))
            departed = station.run(end_s)
            self._pass_on(self._sources + operator, departed, inbox, passed)
        for edge, dispatcher in self.dispatchers.items():
            station = self.stations[self._ends[edge]]
            assert isinstance(station, ReplicaStation), "dispatchers come with queues of replicas"
            dispatcher.learn(station)
        return StepFlow(arrived, passed)

    def _pass_on(self, node: int, tuples: Floats, inbox: list[list[Floats]], passed: Ints) -> None:
        if not tuples.shape[1]:
            return
        if not self._targets[node]:
            self.exit.leave(tuples)
            return
        parts, ended = self._splitters[node](tuples)
        self._ended += ended
        for edge, part in zip(self._targets[node], parts, strict=True):
            if part.shape[1] and edge in self.dispatchers:
                part = self.dispatchers[edge](part)
            passed[edge] += part.shape[1]
            inbox[self._ends[edge]].append(part)


def _services(
    topology: Topology, settings: SimulationSettings, streams: RandomStreams, keys: KeyDraw | None
) -> list[Service]:
    """Return the execution times of every operator, which must declare its mean."""
    means_s = known_execution_s(topology)
    sensitive = topology.layout.operators if settings.keys is None else settings.keys.sensitive
    for name in sensitive or ():
        if name not in topology.layout.operator_index:
            known = ", ".join(topology.layout.operators)
            raise ConfigError("simulation.keys.sensitive", expected=f"operators among {known}", got=repr(name))
    return [
        Service(
            float(mean_s) * settings.service_factor,
            settings.service,
            cv=settings.service_cv,
            costs=keys.costs if keys is not None and (sensitive is None or name in sensitive) else None,
            rng=streams.rng(Purpose.SERVICES, place),
        )
        for place, (name, mean_s) in enumerate(zip(topology.layout.operators, means_s, strict=True))
    ]


def _splitters(topology: Topology, settings: SimulationSettings, streams: RandomStreams) -> list[Splitter]:
    """Return what spreads the tuples of each source and operator over its edges."""
    layout, splitters = topology.layout, []
    for node, name in enumerate((*layout.sources, *layout.operators)):
        edges = [(column, output) for column, (start, output, _) in enumerate(layout.edges) if start == name]
        outputs = list(dict.fromkeys(output for _, output in edges))
        share = {output: float(topology.declared_share[column]) for column, output in edges}
        rng = streams.rng(Purpose.SPLITS, node) if settings.routing == "random" else None
        taken = [outputs.index(output) for _, output in edges]
        splitters.append(Splitter([share[output] for output in outputs], taken, rng))
    return splitters


def _are_even(services: list[Service], settings: SimulationSettings) -> bool:
    """Return whether every service of an operator takes equally long and nothing is lost or distinguished."""
    cores = None if settings.cpu is None else settings.cpu.cores
    special = (settings.queue_bound, settings.timeout_s, settings.workers, settings.keys, cores)
    plain = settings.queue == "operator" and all(setting is None for setting in special)
    return plain and all(service.constant_s is not None for service in services)


def _station(operator: int, pool: int, service: Service, settings: SimulationSettings, even: bool) -> Station:
    if even:
        return EvenStation(pool, service.mean_s)
    kind = SharedStation if settings.queue == "operator" else ReplicaStation
    return kind(hosts_of(settings.workers, operator, pool), service, settings)


def _dispatchers(topology: Topology, settings: SimulationSettings) -> dict[int, Dispatcher]:
    """Return the dispatcher of every edge by the edge's column, if replicas have their own queues."""
    if settings.queue == "operator":
        return {}
    spec = {(edge.start, edge.output, edge.end): edge.grouping for edge in topology.edges}
    dispatchers = {}
    for column, edge in enumerate(topology.layout.edges):
        place = topology.layout.operator_index[edge[2]]
        replicas, execution_s = int(topology.initial_replicas[place]), float(topology.declared_execution_s[place])
        dispatchers[column] = Dispatcher(spec[edge], replicas, execution_s, settings.step_s)
    return dispatchers


def merged(parts: list[Floats]) -> Floats:
    """Return tuples from several edges in the order of their arrival."""
    merged = parts[0]
    for part in parts[1:]:
        out: Floats = np.empty((merged.shape[0], merged.shape[1] + part.shape[1]))
        _kernels.merge(merged, part, out)
        merged = out
    return merged
