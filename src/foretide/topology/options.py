"""Which options each kind of source and sink, and each mode of an operator, takes.

Kinds are declared here, below the packages that read their options: a topology is checked before anything is opened,
and options are read through their declarations, so that the two cannot differ.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from foretide.topology.elements import Connector, Operator, OperatorMode

__all__ = [
    "OPERATOR_OPTIONS",
    "OWN_KINDS",
    "PROCESSOR_OPTIONS",
    "SINK_OPTIONS",
    "SOURCE_OPTIONS",
    "KindOptions",
    "UnknownOption",
    "register_sink_kind",
    "register_source_kind",
    "unknown_operator_options",
    "unknown_sink_options",
    "unknown_source_options",
    "written_by",
]


@dataclass(frozen=True)
class KindOptions:
    """The options that a kind takes.

    Parameters
    ----------
    names : sequence of str
        Those it knows.
    required : sequence of str
        The required ones; checked when the connector is opened.
    passes_on : bool
        Whether others are passed on, for instance to a Spark reader, and may have any name.
    loose : bool
        Whether case and underscores are ignored: ``rate_scale`` is also ``rateScale``.

    Examples
    --------
    >>> [str(found) for found in KindOptions(("speed", "seed")).unknown({"sped": 20, "seed": 1})]
    ["got the unknown option 'sped'; did you mean 'speed'?"]
    """

    names: Sequence[str]
    required: Sequence[str] = ()
    passes_on: bool = False
    loose: bool = False

    def knows(self, name: str) -> bool:
        """Return whether there is an option of that name."""
        return self.passes_on or self._plain(name) in {self._plain(known) for known in self.names}

    def unknown(self, options: Mapping[str, Any], also: Sequence[str] = ()) -> Iterator[UnknownOption]:
        """Yield the unknown options; the names in `also` may have been meant as well."""
        for name in options:
            if not self.knows(name):
                yield UnknownOption(name, tuple(self.names), (*self.names, *also))

    def missing(self, options: Mapping[str, Any]) -> list[str]:
        """Return the required options that are missing."""
        given = {self._plain(name) for name in options}
        return [name for name in self.required if self._plain(name) not in given]

    def _plain(self, name: str) -> str:
        return name.replace("_", "").lower() if self.loose else name


@dataclass(frozen=True)
class UnknownOption:
    """An unknown option, and the names that may have been meant."""

    name: str
    names: tuple[str, ...]
    candidates: tuple[str, ...]

    @property
    def expected(self) -> str:
        """What was expected."""
        return f"an option among {', '.join(self.names)}" if self.names else "no options"

    @property
    def got(self) -> str:
        """What was found."""
        return f"the unknown option {self.name!r}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        close = difflib.get_close_matches(self.name, self.candidates, n=1)
        return f"did you mean {close[0]!r}?" if close else "correct its name, or remove it"

    def __str__(self) -> str:
        return f"got {self.got}; {self.remedy}"


_KAFKA = ("servers", "topic", "format", "patience_s", "client")

SOURCE_OPTIONS: dict[str, KindOptions] = {
    "none": KindOptions(()),
    "trace": KindOptions(
        (
            *("trace", "payload", "seed", "speed", "rate_scale", "started_at", "until"),
            *("partitions", "max_rows", "config_path"),
        ),
        required=("trace",),
        loose=True,
    ),
    "files": KindOptions(("path", "format", "schema"), required=("path",), passes_on=True),
    "kafka": KindOptions(
        (*_KAFKA, "schema", "starting", "ending", "metadata", "on_data_loss"),
        required=("servers", "topic"),
    ),
}
"""The options of each kind of source."""

SINK_OPTIONS: dict[str, KindOptions] = {
    "none": KindOptions(()),
    "memory": KindOptions(()),
    "parquet": KindOptions(("path", "compression"), required=("path",)),
    "sqlite": KindOptions(("path", "table"), required=("path",)),
    "postgres": KindOptions(
        ("url", "table", "keys", "create", "password_env", "nul", "retry_s", "connect_s", "written_by"),
        required=("url",),
    ),
    "kafka": KindOptions((*_KAFKA, "key", "column", "headers", "written_by"), required=("servers", "topic")),
}
"""The options of each kind of sink."""

#: Kinds of sources that Foretide's tasks read themselves; all others Spark reads for them.
OWN_KINDS = ("trace", "kafka")

_ON_ROWS = KindOptions(("tables", "state_partitions", "timer", "watermark_s", "event_time", "ttl_s"))
OPERATOR_OPTIONS: Mapping[OperatorMode, KindOptions] = {
    "rows": _ON_ROWS,
    "pandas": _ON_ROWS,
    "arrow": _ON_ROWS,
    "dataframe": KindOptions(("output_mode", "state_partitions")),
}
"""The options of an operator, by its mode."""

PROCESSOR_OPTIONS = KindOptions(("output_mode", "state_partitions", "time_mode", "watermark_s", "event_time"))
"""The options of an operator that is a processor of PySpark's."""

# The other parameters of an operator's declaration; a misspelt one of these arrives as an option.
_DECLARED = (*(field.name for field in fields(Operator)), "inputs", "grouping", "queued", "queue_bound", "timeout_s")


def written_by(kind: str, options: Mapping[str, Any]) -> str:
    """Return who writes to a sink: ``tasks``, each its rows, or the ``driver`` those of a batch.

    Rows with a key that replace each other are the driver's, unless the user says otherwise: tasks would overtake each
    other. Where tasks get other rows when a batch runs again, the driver writes in any case (ADR 0026).

    >>> written_by("kafka", {}), written_by("postgres", {"keys": ["id"]}), written_by("sqlite", {})
    ('tasks', 'driver', 'driver')
    """
    if kind not in ("kafka", "postgres"):
        return "tasks" if kind in ("none", "parquet") else "driver"
    return str(options.get("written_by") or ("driver" if options.get("keys") else "tasks"))


def register_source_kind(kind: str, options: KindOptions) -> None:
    """Register a kind of source that another package reads, so that its options are checked."""
    SOURCE_OPTIONS[kind] = options


def register_sink_kind(kind: str, options: KindOptions) -> None:
    """Register a kind of sink that another package writes, so that its options are checked."""
    SINK_OPTIONS[kind] = options


def unknown_source_options(connector: Connector) -> Iterator[UnknownOption]:
    """Yield the unknown options of a source; a function takes those that its parameters name."""
    return _unknown(connector, SOURCE_OPTIONS, positional=1)


def unknown_sink_options(connector: Connector) -> Iterator[UnknownOption]:
    """Yield the unknown options of a sink; a function takes those that its parameters name."""
    return _unknown(connector, SINK_OPTIONS, positional=2)


def unknown_operator_options(
    mode: OperatorMode, options: Mapping[str, Any], *, processor: bool = False
) -> Iterator[UnknownOption]:
    """Yield the unknown options of an operator."""
    return (PROCESSOR_OPTIONS if processor else OPERATOR_OPTIONS[mode]).unknown(options, also=_DECLARED)


def _unknown(connector: Connector, kinds: Mapping[str, KindOptions], positional: int) -> Iterator[UnknownOption]:
    if connector.function is not None:
        return _options_of(connector.function, positional).unknown(connector.options)
    # The engine decides whether a kind exists when it opens it: a topology need not be made for Spark.
    known = kinds.get(connector.kind)
    return iter(()) if known is None else known.unknown(connector.options)


def _options_of(function: Callable[..., Any], positional: int) -> KindOptions:
    """Return the options of a user's function: its parameters after those that it is always called with."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some C functions have no signature
        return KindOptions((), passes_on=True)
    named = [
        each.name for each in parameters[positional:] if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    return KindOptions(named, passes_on=any(each.kind is each.VAR_KEYWORD for each in parameters))
