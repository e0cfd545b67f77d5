"""The parts of a topology as the user declares them: plain, frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from foretide.errors import Declaration

__all__ = [
    "DEFAULT_OUTPUT",
    "GROUPING_RULES",
    "Connector",
    "Edge",
    "GroupingRule",
    "GroupingSpec",
    "Operator",
    "OperatorMode",
    "Processor",
    "ReplicaBounds",
    "Sink",
    "Source",
    "Transport",
    "is_processor",
    "rows_of_processor",
]

Transport: TypeAlias = Literal["inline", "queued"]
OperatorMode: TypeAlias = Literal["rows", "pandas", "arrow", "dataframe"]

#: The name of an operator's only output.
DEFAULT_OUTPUT = "out"


@runtime_checkable
class Processor(Protocol):
    """PySpark's ``StatefulProcessor``, by its methods: Spark keeps state for it, and calls it key by key."""

    def init(self, handle: Any) -> None:
        """Declare its states."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's names
        """Return what becomes of the rows of a key."""

    def close(self) -> None:
        """Give up what it holds."""


def is_processor(function: object) -> TypeGuard[Processor]:
    """Return whether an operator's code is a processor; the class of one is none."""
    return not isinstance(function, type) and isinstance(function, Processor)


def rows_of_processor(processor: Processor) -> OperatorMode:
    """Return what a processor takes by its annotations: rows one by one, or pandas frames where they do not say.

    >>> class Count:
    ...     def init(self, handle): ...
    ...     def handleInputRows(self, key, rows: "Iterator[Row]", timerValues) -> "Iterator[Row]": ...
    ...     def close(self): ...
    >>> rows_of_processor(Count())
    'rows'
    """
    hints = " ".join(map(str, getattr(processor.handleInputRows, "__annotations__", {}).values()))
    return "rows" if "Row" in hints and "DataFrame" not in hints else "pandas"


def _own(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy that the caller cannot change; a plain dict, since elements are pickled for workers."""
    return dict(mapping)


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """How many replicas an operator may have: the pool of SPEC P2.

    >>> ReplicaBounds.of((1, 8))
    ReplicaBounds(minimum=1, maximum=8, initial=1)
    >>> ReplicaBounds.of(4)
    ReplicaBounds(minimum=4, maximum=4, initial=4)
    """

    minimum: int = 1
    maximum: int = 32
    initial: int = 1

    @classmethod
    def of(cls, replicas: ReplicaBounds | int | tuple[int, int] | tuple[int, int, int]) -> ReplicaBounds:
        """Read bounds from a fixed number, (minimum, maximum), or (minimum, maximum, initial)."""
        if isinstance(replicas, ReplicaBounds):
            return replicas
        if isinstance(replicas, int):
            return cls(replicas, replicas, replicas)
        minimum, maximum, *rest = replicas
        return cls(minimum, maximum, rest[0] if rest else minimum)


@dataclass(frozen=True, slots=True)
class GroupingRule:
    """What the topology must know about a grouping to check it.

    `splits_keys` says whether two events of one key may reach different replicas, `needs_fields` whether the
    grouping takes the fields that make up a key.
    """

    splits_keys: bool
    needs_fields: bool = False


#: Every grouping by name. `foretide.grouping` holds their implementations.
GROUPING_RULES: Mapping[str, GroupingRule] = MappingProxyType(
    {
        "shuffle": GroupingRule(splits_keys=True),
        "fields": GroupingRule(splits_keys=False, needs_fields=True),
        "all": GroupingRule(splits_keys=False),
        "global": GroupingRule(splits_keys=False),
        "direct": GroupingRule(splits_keys=False, needs_fields=True),
        "partial-key": GroupingRule(splits_keys=True, needs_fields=True),
        "load-aware": GroupingRule(splits_keys=True),
        "dynamic": GroupingRule(splits_keys=True),
        "osg": GroupingRule(splits_keys=True, needs_fields=True),
    }
)


@dataclass(frozen=True)
class GroupingSpec:
    """How an edge chooses the replica for an event, by name.

    Parameters
    ----------
    name : str
        One of `GROUPING_RULES`.
    fields : tuple of str
        The fields that make up the key, if the grouping takes one.
    options : mapping
        Options of the grouping.

    Examples
    --------
    >>> str(GroupingSpec.of("fields:word,lang"))
    'fields:word,lang'
    """

    name: str = "shuffle"
    fields: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _own(self.options))

    @classmethod
    def of(cls, grouping: GroupingSpec | str) -> GroupingSpec:
        """Read a grouping from its short form, ``name`` or ``name:field,field``."""
        if isinstance(grouping, GroupingSpec):
            return grouping
        name, _, fields = grouping.partition(":")
        return cls(name.strip(), tuple(part.strip() for part in fields.split(",") if part.strip()))

    def __str__(self) -> str:
        return f"{self.name}:{','.join(self.fields)}" if self.fields else self.name


@dataclass(frozen=True)
class Connector:
    """What a source or sink connects to: a kind known to the engine with options, or a user's function."""

    kind: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _own(self.options))


@dataclass(frozen=True)
class Source:
    """Where events enter the topology."""

    id: str
    connector: Connector = field(default_factory=Connector)
    declared: Declaration | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Sink:
    """Where results leave the topology."""

    id: str
    connector: Connector = field(default_factory=Connector)
    declared: Declaration | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Operator:
    """One step of processing, with its pool of replicas.

    Parameters
    ----------
    id : str
        Its name, unique in the topology.
    function : callable, Processor or str, optional
        The user's code, or ``module:name`` of it. A topology that is only planned or simulated does not need it.
    mode : {"rows", "pandas", "arrow", "dataframe"}
        What the function takes and gives.
    outputs : tuple of str
        The names of its outputs.
    schema : mapping of str to str
        The columns of each output, if they differ from the input's.
    selectivity : mapping of str to float
        Events out per event in, by output; an output that is missing is measured, and taken as 1 before that.
    execution_s : float, optional
        Mean time to execute one event, if known before it is measured (SPEC P7).
    replicas : ReplicaBounds
        Bounds of its replicas.
    stateful : bool
        Whether it keeps state by key.
    key : tuple of str
        The columns that its state is kept by, where Foretide keeps it, or a processor does.
    state : str
        The columns of that state, such as ``"n long, total double"``.
    options : mapping
        Options that the engine takes for it.
    """

    id: str
    function: Callable[..., Any] | Processor | str | None = field(default=None, compare=False)
    mode: OperatorMode = "rows"
    outputs: tuple[str, ...] = (DEFAULT_OUTPUT,)
    schema: Mapping[str, str] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)
    execution_s: float | None = None
    replicas: ReplicaBounds = field(default_factory=ReplicaBounds)
    stateful: bool = False
    key: tuple[str, ...] = ()
    state: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    declared: Declaration | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("schema", "selectivity", "options"):
            object.__setattr__(self, name, _own(getattr(self, name)))
        object.__setattr__(self, "stateful", self.stateful or bool(self.state) or is_processor(self.function))

    @property
    def on_frames(self) -> bool:
        """Whether Spark reads its rows for it: it is a function of DataFrames, or a processor."""
        return self.mode == "dataframe" or is_processor(self.function)

    def without_code(self) -> Operator:
        """Return it for those who only plan or simulate; where it is a processor, as an operator on DataFrames."""
        if not is_processor(self.function):
            return replace(self, function=None)
        options = {name: self.options[name] for name in ("output_mode", "state_partitions") if name in self.options}
        return replace(self, function=None, mode="dataframe", key=(), options=options)


@dataclass(frozen=True)
class Edge:
    """A stream from an output of one element to another element.

    An inline edge keeps both ends in one stage; a queued one is a durable log between two stages. Events wait on a
    queued edge, and at a source: there `queue_bound` is how many may wait, the oldest being dropped beyond that, and
    `timeout_s` the age beyond which they are dropped (SPEC P7).
    """

    start: str
    end: str
    output: str = DEFAULT_OUTPUT
    grouping: GroupingSpec = field(default_factory=GroupingSpec)
    transport: Transport = "inline"
    declared: Declaration | None = field(default=None, compare=False)
    queue_bound: int | None = None
    timeout_s: float | None = None

    def __str__(self) -> str:
        output = "" if self.output == DEFAULT_OUTPUT else f"[{self.output}]"
        return f"{self.start}{output} -> {self.end}"
