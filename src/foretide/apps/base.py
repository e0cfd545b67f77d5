"""What every application has: a name, options, a topology, and the exact result that its sink must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa
from pydantic import Field

from foretide.config import Settings, validated
from foretide.postgres import is_postgres
from foretide.topology import Flow, Stream, Topology
from foretide.traces import Replay, load_trace, payload

__all__ = ["SINK", "App", "AppOptions", "Rows", "rate_field", "store_field", "trace_field"]

#: Rows of the sink as plain values, in a fixed order.
Rows: TypeAlias = list[tuple[Any, ...]]

#: The one sink of every application, and the table or directory that holds its rows.
SINK = "results"

_DATABASES = (".db", ".sqlite")


_TRACE = "The trace to replay: a shipped name, or a CSV file."
_RATE_SCALE = "Factor on the trace's rates."
_STORE = (
    "Where results go: a SQLite file (.db, .sqlite), postgresql://user@host/database, a directory for Parquet, "
    "'memory' or 'none'."
)


def trace_field(trace: str) -> Any:
    """Return the option `trace` with another default."""
    return Field(default=trace, description=_TRACE)


def rate_field(rate_scale: float) -> Any:
    """Return the option `rate_scale` with another default."""
    return Field(default=rate_scale, gt=0, description=_RATE_SCALE)


def store_field(store: str) -> Any:
    """Return the option `store` with another default."""
    return Field(default=store, description=_STORE)


class AppOptions(Settings):
    """Options that all applications take: what is replayed, how fast, and where results go."""

    #: What events carry, by the name of a payload.
    PAYLOAD: ClassVar[str] = "tweets"

    trace: str = trace_field("pasps_twitter_smoothed")
    rate_scale: float = rate_field(0.01)
    speed: float = Field(default=10.0, gt=0, description="Seconds of the trace that pass in one second.")
    seed: int = Field(default=0, description="Seed of the generated events.")
    until: Literal["now", "all"] = Field(
        default="now", description="Whether events come as they are due, or all at once."
    )
    store: str = store_field("none")

    @property
    def payload(self) -> str:
        """What events carry."""
        return self.PAYLOAD

    def source(self, job: Flow, id: str) -> Stream:
        """Declare the source: the trace, with events of the application's kind."""
        options = self.model_dump(include={"trace", "rate_scale", "speed", "seed", "until"})
        return job.source(id, "trace", payload=self.payload, **options)

    def sink(self, stream: Stream) -> Topology:
        """End the topology in the store, and return it."""
        if self.store in ("none", "memory"):
            stream.sink(SINK, self.store)
        elif is_postgres(self.store):
            stream.sink(SINK, "postgres", url=self.store)
        else:
            kind = "sqlite" if self.store.endswith(_DATABASES) else "parquet"
            stream.sink(SINK, kind, path=self.store)
        return stream.flow.build()

    def events(self) -> pa.Table:
        """Return all events that the source gives, generated in one go."""
        trace = load_trace(self.trace).scaled(self.rate_scale)
        replay = Replay(trace, payload(self.payload), self.seed, self.speed)
        return pa.Table.from_batches(replay.events(0, replay.total_events, started_us=0), replay.schema)


OptionsT = TypeVar("OptionsT", bound=AppOptions)


@dataclass(frozen=True)
class App(Generic[OptionsT]):
    """An application that Foretide ships.

    Parameters
    ----------
    name, summary : str
        What it is called, and what it does.
    spec : tuple of str
        The requirements that it follows.
    columns : tuple of str
        The columns of its results, besides the event time.
    options : type
        Its options.
    declare : callable
        From options to its topology.
    compute : callable
        From all events and options to its results, by a plain batch computation that shares no code with operators
        if possible.
    settle : callable, optional
        From the rows found in the sink to final ones, if a sink also holds earlier states of a result.

    Examples
    --------
    >>> from foretide.apps import find_app
    >>> app = find_app("continuous-queries")
    >>> [operator.id for operator in app.build({"limit_kmh": 100}).operators]
    ['query', 'log']
    """

    name: str
    summary: str
    spec: tuple[str, ...]
    columns: tuple[str, ...]
    options: type[OptionsT]
    declare: Callable[[OptionsT], Topology]
    compute: Callable[[pa.Table, OptionsT], Rows]
    settle: Callable[[Rows], Rows] | None = None

    def build(self, options: Mapping[str, Any] | None = None) -> Topology:
        """Return the topology.

        Raises
        ------
        ConfigError
            When an option is unknown or out of range; values may also be texts, as from a command line.
        """
        return self.declare(self.read_options(options))

    def expected(self, options: Mapping[str, Any] | None = None, events: pa.Table | None = None) -> Rows:
        """Return exactly what `results` gives when all events have been processed.

        Parameters
        ----------
        options : mapping
            Those that the topology was built with.
        events : pyarrow.Table, optional
            The events, if they were recorded; by default those generated by their ids.
        """
        read = self.read_options(options)
        return sorted(self.compute(read.events() if events is None else events, read))

    def results(self, found: pa.Table) -> Rows:
        """Return the rows of the sink, final and in order, for comparison with `expected`."""
        rows = list(zip(*(found[name].to_pylist() for name in self.columns), strict=True)) if found.num_rows else []
        return sorted(self.settle(rows) if self.settle else rows)

    def read_options(self, options: Mapping[str, Any] | None = None) -> OptionsT:
        """Return the options, checked."""
        return validated(self.options, options or {}, self.name)
