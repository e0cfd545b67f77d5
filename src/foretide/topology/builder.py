"""The fluent way to declare a topology. Declaring runs nothing; `build` checks everything and freezes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.errors import Declaration
from foretide.topology.elements import (
    DEFAULT_OUTPUT,
    Connector,
    Edge,
    GroupingSpec,
    Operator,
    OperatorMode,
    Processor,
    ReplicaBounds,
    Sink,
    Source,
    Transport,
    is_processor,
    rows_of_processor,
)
from foretide.topology.graph import Topology

__all__ = ["Flow", "Stream", "flow"]

_HERE = str(Path(__file__).parent)


def _called_from() -> Declaration:
    """Return the user's line that called this, the first one outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Declaration(Path(frame.f_code.co_filename).name, frame.f_lineno)


def flow(name: str) -> Flow:
    """Start the declaration of a topology.

    >>> job = flow("news")
    >>> tweets = job.source("tweets")
    >>> split = tweets.operator("split", outputs=("news", "opinion"), selectivity={"news": 0.7, "opinion": 0.3})
    >>> news = split["news"].operator("score", replicas=(1, 8))
    >>> opinion = split["opinion"].operator("mood", grouping="fields:user", queued=True)
    >>> merged = job.operator("merge", inputs=[news, opinion])
    >>> _ = merged.sink("store")
    >>> topology = job.build()
    >>> [operator.id for operator in topology.operators]
    ['split', 'score', 'mood', 'merge']
    """
    return Flow(name)


@dataclass(frozen=True, slots=True)
class Stream:
    """An output of a source or operator, to which more can be attached.

    ``stream["name"]`` is the same element's output of that name.
    """

    flow: Flow
    element: str
    output: str = DEFAULT_OUTPUT

    def __getitem__(self, output: str) -> Stream:
        return Stream(self.flow, self.element, output)

    def operator(
        self,
        id: str,
        function: Callable[..., Any] | Processor | str | None = None,
        *,
        grouping: GroupingSpec | str = "shuffle",
        queued: bool = False,
        **declaration: Any,
    ) -> Stream:
        """Attach an operator to this stream; further parameters are those of `Flow.operator`."""
        return self.flow.operator(id, function, inputs=[self], grouping=grouping, queued=queued, **declaration)

    def into(
        self,
        id: str,
        *,
        grouping: GroupingSpec | str = "shuffle",
        queued: bool = False,
        queue_bound: int | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        """Send this stream also to the operator or sink called `id`, wherever that is declared."""
        self.flow.connect(self, id, grouping=grouping, queued=queued, queue_bound=queue_bound, timeout_s=timeout_s)
        return self

    def sink(self, id: str, kind: str | Callable[..., Any] = "none", *, queued: bool = False, **options: Any) -> Stream:
        """End this stream in a sink: a kind with options, or a user's function."""
        self.flow.sink(id, kind, inputs=[self], queued=queued, **options)
        return self


class Flow:
    """A topology under construction. Start one with `flow`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._declared = _called_from()
        self._sources: list[Source] = []
        self._operators: list[Operator] = []
        self._sinks: list[Sink] = []
        self._edges: list[Edge] = []

    def source(self, id: str, kind: str | Callable[..., Any] = "none", **options: Any) -> Stream:
        """Declare a source: a kind with options, or a user's function that reads a DataFrame."""
        self._sources.append(Source(id, _connector(kind, options), _called_from()))
        return Stream(self, id)

    def operator(
        self,
        id: str,
        function: Callable[..., Any] | Processor | str | None = None,
        *,
        inputs: Sequence[Stream] = (),
        grouping: GroupingSpec | str = "shuffle",
        queued: bool = False,
        queue_bound: int | None = None,
        timeout_s: float | None = None,
        mode: OperatorMode | None = None,
        outputs: Sequence[str] = (DEFAULT_OUTPUT,),
        schema: str | Mapping[str, str] | None = None,
        selectivity: float | Mapping[str, float] | None = None,
        execution_s: float | None = None,
        replicas: ReplicaBounds | int | tuple[int, int] | tuple[int, int, int] | None = None,
        stateful: bool = False,
        key: str | Sequence[str] = (),
        state: str = "",
        **options: Any,
    ) -> Stream:
        """Declare an operator, fed by `inputs`.

        Parameters
        ----------
        id : str
            Its name.
        function : callable, StatefulProcessor or str, optional
            The user's code, or ``module:name`` of it; or a processor of PySpark's, whose state Spark keeps.
        inputs : sequence of Stream
            The streams that feed it; `Stream.into` can add more.
        grouping : str or GroupingSpec
            How events are spread over its replicas, such as ``"fields:word"``.
        queued : bool
            Whether there is a durable log between it and its inputs.
        queue_bound, timeout_s
            Events that may wait for it, and how old they may be, as in `Edge`; for queued inputs and for sources.
        outputs, execution_s, stateful, state
            As in `Operator`.
        mode : {"rows", "pandas", "arrow", "dataframe"}, optional
            What the function takes and gives: rows by default; for a processor what its annotations say, or pandas.
        key : str or sequence of str
            The columns that its state is kept by; equal keys reach the same replica without a grouping.
        schema, selectivity
            As in `Operator`; a single value stands for every output.
        replicas : int, (minimum, maximum), (minimum, maximum, initial) or ReplicaBounds, optional
            Bounds of its replicas.
        **options
            Options that the engine takes for it.
        """
        by_default: OperatorMode = rows_of_processor(function) if is_processor(function) else "rows"
        self._operators.append(
            Operator(
                id,
                function,
                mode=mode or by_default,
                outputs=tuple(outputs),
                schema=_by_output(schema, outputs),
                selectivity=_by_output(selectivity, outputs),
                execution_s=execution_s,
                replicas=ReplicaBounds() if replicas is None else ReplicaBounds.of(replicas),
                stateful=stateful,
                key=(key,) if isinstance(key, str) else tuple(key),
                state=state,
                options=options,
                declared=_called_from(),
            )
        )
        for stream in inputs:
            self.connect(stream, id, grouping=grouping, queued=queued, queue_bound=queue_bound, timeout_s=timeout_s)
        return Stream(self, id)

    def sink(
        self,
        id: str,
        kind: str | Callable[..., Any] = "none",
        *,
        inputs: Sequence[Stream] = (),
        queued: bool = False,
        queue_bound: int | None = None,
        timeout_s: float | None = None,
        **options: Any,
    ) -> None:
        """Declare a sink, fed by `inputs`: a kind with options, or a user's function."""
        self._sinks.append(Sink(id, _connector(kind, options), _called_from()))
        for stream in inputs:
            self.connect(stream, id, queued=queued, queue_bound=queue_bound, timeout_s=timeout_s)

    def connect(
        self,
        stream: Stream,
        id: str,
        *,
        grouping: GroupingSpec | str = "shuffle",
        queued: bool = False,
        queue_bound: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Declare an edge from `stream` to the operator or sink called `id`."""
        transport: Transport = "queued" if queued else "inline"
        spec, declared = GroupingSpec.of(grouping), _called_from()
        self._edges.append(Edge(stream.element, id, stream.output, spec, transport, declared, queue_bound, timeout_s))

    def build(self) -> Topology:
        """Return the topology, or raise every error in it."""
        return Topology(
            self.name,
            tuple(self._sources),
            tuple(self._operators),
            tuple(self._sinks),
            tuple(self._edges),
            self._declared,
        )


def _connector(kind: str | Callable[..., Any], options: Mapping[str, Any]) -> Connector:
    return Connector(kind, options) if isinstance(kind, str) else Connector("function", options, kind)


def _by_output(value: Any, outputs: Sequence[str]) -> Mapping[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else dict.fromkeys(outputs, value)
