"""What every application has: a name, options, a topology, and the exact result that its sink must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa
from pydantic import Field

from foretide.config import Settings, validated
from foretide.postgres import is_postgres
from foretide.topology import Flow, Stream, Topology
from foretide.traces import Replay, load_trace, payload

__all__ = ["SINK", "App", "AppOptions", "Output", "Rows", "rate_field", "store_field", "trace_field"]

#: Rows of the sink as plain values, in a fixed order.
Rows: TypeAlias = list[tuple[Any, ...]]

#: The sink that every application has, and the table that holds its rows.
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
    started_at: float | None = Field(
        default=None,
        ge=0,
        description="When the trace begins, in seconds since the epoch; if not given, when the run does.",
    )
    store: str = store_field("none")

    @property
    def payload(self) -> str:
        """What events carry."""
        return self.PAYLOAD

    def source(self, job: Flow, id: str) -> Stream:
        """Declare the source: the trace, with events of the application's kind."""
        names = {"trace", "rate_scale", "speed", "seed", "until", "started_at"}
        options = self.model_dump(include=names, exclude_none=True)
        return job.source(id, "trace", payload=self.payload, **options)

    def sink(self, stream: Stream) -> Topology:
        """End the topology in the store, and return it."""
        self.keep(stream)
        return stream.flow.build()

    def keep(self, stream: Stream, id: str = SINK) -> None:
        """End a stream in the store: in a table called `id`, or where files are in a directory of its own."""
        if self.store in ("none", "memory"):
            stream.sink(id, self.store)
        elif is_postgres(self.store):
            stream.sink(id, "postgres", url=self.store)
        elif self.store.endswith(_DATABASES):
            stream.sink(id, "sqlite", path=self.store)
        else:
            stream.sink(id, "parquet", path=self.store if id == SINK else f"{self.store}-{id}")

    def events(self) -> pa.Table:
        """Return all events that the source gives, generated in one go."""
        trace = load_trace(self.trace).scaled(self.rate_scale)
        replay = Replay(trace, payload(self.payload), self.seed, self.speed)
        started_us = int((self.started_at or 0.0) * 1e6)
        return pa.Table.from_batches(replay.events(0, replay.total_events, started_us), replay.schema)


OptionsT = TypeVar("OptionsT", bound=AppOptions)


@dataclass(frozen=True)
class Output(Generic[OptionsT]):
    """What a sink holds in the end; see `App` for what each part says."""

    columns: tuple[str, ...]
    compute: Callable[[pa.Table, OptionsT], Rows]
    settle: Callable[[Rows], Rows] | None = None


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
    further : mapping of str to Output
        What further sinks hold, by their ids; all of the above is about `SINK`.

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
    further: Mapping[str, Output[OptionsT]] = field(default_factory=dict)

    @property
    def outputs(self) -> dict[str, Output[OptionsT]]:
        """What each sink holds in the end, by its id."""
        return {SINK: Output(self.columns, self.compute, self.settle), **self.further}

    def build(self, options: Mapping[str, Any] | None = None) -> Topology:
        """Return the topology.

        Raises
        ------
        ConfigError
            When an option is unknown or out of range; values may also be texts, as from a command line.
        """
        return self.declare(self.read_options(options))

    def expected(
        self, options: Mapping[str, Any] | None = None, events: pa.Table | None = None, sink: str = SINK
    ) -> Rows:
        """Return exactly what `results` gives when all events have been processed.

        Parameters
        ----------
        options : mapping
            Those that the topology was built with.
        events : pyarrow.Table, optional
            The events, if they were recorded; by default those generated by their ids.
        sink : str
            Which of its sinks.
        """
        read = self.read_options(options)
        return sorted(self.outputs[sink].compute(read.events() if events is None else events, read))

    def results(self, found: pa.Table, sink: str = SINK) -> Rows:
        """Return the rows of a sink, final and in order, for comparison with `expected`."""
        output = self.outputs[sink]
        rows = list(zip(*(found[name].to_pylist() for name in output.columns), strict=True)) if found.num_rows else []
        return sorted(output.settle(rows) if output.settle else rows)

    def read_options(self, options: Mapping[str, Any] | None = None) -> OptionsT:
        """Return the options, checked."""
        return validated(self.options, options or {}, self.name)
