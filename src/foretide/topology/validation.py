"""Checking a topology: every error is found in one pass and named where it was declared."""

from __future__ import annotations

import difflib
import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from foretide.errors import TopologyError, TopologyErrors
from foretide.topology.elements import (
    DEFAULT_OUTPUT,
    GROUPING_RULES,
    Edge,
    Operator,
    Processor,
    Sink,
    Source,
    is_processor,
)
from foretide.topology.options import (
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    UnknownOption,
    unknown_operator_options,
    unknown_sink_options,
    unknown_source_options,
)
from foretide.topology.reading import is_number

__all__ = ["topological_order", "validate"]

_Element: TypeAlias = Source | Operator | Sink
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_TRANSPORTS = ("inline", "queued")
# Options of processors that take one of some words, in Spark's spelling or any other.
_PROCESSOR_WORDS = {"output_mode": ("append", "update"), "time_mode": ("none", "processingtime", "eventtime")}
#: How many partitions a state may have.
MOST_PARTITIONS = 4096


def validate(
    name: str,
    sources: Sequence[Source],
    operators: Sequence[Operator],
    sinks: Sequence[Sink],
    edges: Sequence[Edge],
) -> None:
    """Raise `TopologyErrors` unless these parts make a topology."""
    errors = [
        *_check_ids(name, sources, operators, sinks),
        *(error for operator in operators for error in _check_operator(operator)),
        *_check_kinds(sources, SOURCE_OPTIONS),
        *_check_kinds(sinks, SINK_OPTIONS),
        *_check_options(sources, operators, sinks),
        *_check_edges(sources, operators, sinks, edges),
    ]
    if not errors:
        errors = [*_check_reach(sources, operators, sinks, edges), *_check_cycles(operators, edges)]
    if errors:
        raise TopologyErrors(name, tuple(errors))


def topological_order(operators: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Return the operators so that each follows its predecessors; those on a cycle are left out."""
    rank = {id: position for position, id in enumerate(operators)}
    after: dict[str, list[str]] = defaultdict(list)
    waiting = dict.fromkeys(operators, 0)
    for edge in edges:
        if edge.start in rank and edge.end in rank:
            after[edge.start].append(edge.end)
            waiting[edge.end] += 1
    ready = [rank[id] for id, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        order.append(operators[heapq.heappop(ready)])
        for id in after[order[-1]]:
            waiting[id] -= 1
            if waiting[id] == 0:
                heapq.heappush(ready, rank[id])
    return order


def _kind(element: _Element) -> str:
    return f"{type(element).__name__.lower()} {element.id!r}"


def _check_ids(
    name: str, sources: Sequence[Source], operators: Sequence[Operator], sinks: Sequence[Sink]
) -> Iterator[TopologyError]:
    if not sources:
        yield TopologyError(f"topology {name!r}", expected="at least one source", got="none", remedy="declare a source")
    first: dict[str, _Element] = {}
    elements: list[_Element] = [*sources, *operators, *sinks]
    for element in elements:
        if not _ID.fullmatch(element.id):
            yield TopologyError(
                _kind(element),
                expected="an id of letters, digits, '_', '-' and '.', starting with a letter or '_'",
                got=repr(element.id),
                declared=element.declared,
            )
        earlier = first.setdefault(element.id, element)
        if earlier is not element:
            yield TopologyError(
                _kind(element),
                expected="an id of its own",
                got=f"the id of {_kind(earlier)} declared at {earlier.declared or 'an unknown place'}",
                remedy="rename one of them",
                declared=element.declared,
            )


def _check_operator(operator: Operator) -> Iterator[TopologyError]:
    def wrong(expected: str, got: object, remedy: str = "") -> TopologyError:
        return TopologyError(_kind(operator), expected=expected, got=got, remedy=remedy, declared=operator.declared)

    bounds = operator.replicas
    if not 1 <= bounds.minimum <= bounds.maximum:
        yield wrong(
            "replica bounds with 1 <= minimum <= maximum",
            f"minimum {bounds.minimum}, maximum {bounds.maximum}",
            "write replicas=(minimum, maximum)",
        )
    elif not bounds.minimum <= bounds.initial <= bounds.maximum:
        yield wrong(
            f"initial replicas between {bounds.minimum} and {bounds.maximum}", bounds.initial, "change either of them"
        )
    if not operator.outputs:
        yield wrong("at least one output", "none", f"leave outputs out to get {DEFAULT_OUTPUT!r}")
    for output, times in Counter(operator.outputs).items():
        if times > 1:
            yield wrong("outputs of different names", f"{output!r} {times} times")
    for output, ratio in operator.selectivity.items():
        if output not in operator.outputs:
            yield wrong(f"selectivity of an output among {list(operator.outputs)}", repr(output))
        if not (math.isfinite(ratio) and ratio >= 0):
            yield wrong(f"a finite selectivity of output {output!r}, at least 0", ratio)
    for output in operator.schema:
        if output not in operator.outputs:
            yield wrong(f"a schema of an output among {list(operator.outputs)}", repr(output))
    if operator.state and not operator.key:
        yield wrong("a key that its state is kept by", "none", "write key='column'")
    if _means_processor(operator.function):
        yield from (wrong(*found) for found in _check_processor(operator))
    elif operator.key and not operator.state:
        yield wrong("columns of the state that is kept by its key", "none", "write state='n long, total double'")
    elif operator.state and operator.mode == "dataframe":
        yield wrong(
            "mode 'rows', 'pandas' or 'arrow' for a state that Foretide keeps",
            "mode='dataframe'",
            "leave state= out: Spark keeps the state of an operator on DataFrames",
        )
    partitions = operator.options.get("state_partitions", 1)
    if "state_partitions" in operator.options and not (
        operator.stateful and isinstance(partitions, int) and 1 <= partitions <= MOST_PARTITIONS
    ):
        yield wrong(
            f"state_partitions between 1 and {MOST_PARTITIONS}, of an operator that keeps state",
            repr(partitions) if operator.stateful else "one that keeps none",
        )
    yield from _check_timing(operator, wrong)
    if operator.execution_s is not None and not (math.isfinite(operator.execution_s) and operator.execution_s > 0):
        yield wrong("an execution time above 0 seconds", operator.execution_s)


def _check_timing(operator: Operator, wrong: Callable[..., TopologyError]) -> Iterator[TopologyError]:
    """Refuse options about time that an operator cannot have."""
    given = [name for name in ("timer", "watermark_s", "event_time", "ttl_s") if name in operator.options]
    if given and not operator.state and not _means_processor(operator.function):
        yield wrong(f"a state that {given[0]}= is about", "none", "write key= and state=")
    behind_s, ttl_s = (operator.options.get(name, 1.0) for name in ("watermark_s", "ttl_s"))
    if not (is_number(behind_s) and math.isfinite(behind_s) and behind_s >= 0):
        yield wrong("a watermark_s of seconds, at least 0", repr(behind_s))
    if not (is_number(ttl_s) and math.isfinite(ttl_s) and ttl_s > 0):
        yield wrong("a ttl_s of seconds, above 0", repr(ttl_s))
    if given and "watermark_s" not in given and given != ["ttl_s"]:
        yield wrong(f"watermark_s= beside {given[0]}=", "none", "say how many seconds behind later events one may come")


def _means_processor(function: object) -> bool:
    """Return whether an operator's code is a processor, or the class of one."""
    return is_processor(function) or (isinstance(function, type) and issubclass(function, Processor))


def _check_processor(operator: Operator) -> Iterator[tuple[str, object, str]]:
    """Yield what a processor lacks or must not have: what was expected, what was found, and what to do."""
    options = operator.options
    if isinstance(operator.function, type):
        name = operator.function.__name__
        yield "a processor", f"the class {name}", f"write {name}()"
        return
    if operator.mode not in ("pandas", "rows"):
        yield "mode 'pandas' or 'rows', what its handleInputRows takes", repr(operator.mode), "change mode="
    if not operator.key:
        yield "a key that the processor's state is kept by", "none", "write key='column'"
    if operator.state:
        yield "no state=, since a processor declares its states in init", repr(operator.state), "leave state= out"
    if operator.outputs != (DEFAULT_OUTPUT,):
        yield "one output, since a processor has no other", list(operator.outputs), "leave outputs= out"
    elif not operator.schema:
        yield "the columns of what its processor gives", "none", "write schema='card long, n long'"
    for name, known in _PROCESSOR_WORDS.items():
        if (found := options.get(name)) is not None and str(found).lower() not in known:
            yield f"{name} {' or '.join(map(repr, known))}", repr(found), _nearest(str(found).lower(), known)
    if str(options.get("time_mode", "")).lower() == "eventtime" and "watermark_s" not in options:
        yield "watermark_s= beside time_mode=", "none", "say how many seconds behind later events one may come"


def _check_kinds(ends: Sequence[Source] | Sequence[Sink], kinds: Iterable[str]) -> Iterator[TopologyError]:
    """Refuse a kind that seems to be misspelt; one that resembles none may be known to another engine."""
    for end in ends:
        kind = end.connector.kind
        close = difflib.get_close_matches(kind, list(kinds), n=1, cutoff=0.8)
        if end.connector.function is None and close and kind not in kinds:
            yield TopologyError(
                _kind(end),
                expected=f"a kind among {', '.join(kinds)}, or a function",
                got=repr(kind),
                remedy=f"did you mean {close[0]!r}?",
                declared=end.declared,
            )


def _check_options(
    sources: Sequence[Source], operators: Sequence[Operator], sinks: Sequence[Sink]
) -> Iterator[TopologyError]:
    unknown: list[tuple[_Element, Iterator[UnknownOption]]] = [
        *((source, unknown_source_options(source.connector)) for source in sources),
        *((operator, _unknown_options(operator)) for operator in operators),
        *((sink, unknown_sink_options(sink.connector)) for sink in sinks),
    ]
    for element, found in unknown:
        for each in found:
            yield TopologyError(
                _kind(element), expected=each.expected, got=each.got, remedy=each.remedy, declared=element.declared
            )


def _unknown_options(operator: Operator) -> Iterator[UnknownOption]:
    return unknown_operator_options(operator.mode, operator.options, processor=_means_processor(operator.function))


def _check_edges(
    sources: Sequence[Source], operators: Sequence[Operator], sinks: Sequence[Sink], edges: Sequence[Edge]
) -> Iterator[TopologyError]:
    outputs = {source.id: (DEFAULT_OUTPUT,) for source in sources} | {op.id: op.outputs for op in operators}
    ends = {op.id for op in operators} | {sink.id for sink in sinks}
    # Spark itself brings together what belongs together.
    stateful = {op.id for op in operators if op.stateful and not op.on_frames}
    keys = {op.id: op.key for op in operators if op.key}
    seen: set[tuple[str, str, str]] = set()
    for edge in edges:
        yield from _check_ends(edge, outputs, ends)
        yield from _check_grouping(edge, edge.end in stateful)
        if edge.end in keys and (edge.grouping.name, edge.grouping.fields) != ("fields", keys[edge.end]):
            yield _wrong_edge(
                edge,
                f"no grouping, or fields:{','.join(keys[edge.end])}, since {edge.end!r} keeps its state by that key",
                str(edge.grouping),
                "leave grouping= out",
            )
        key = (edge.start, edge.output, edge.end)
        if key in seen:
            yield _wrong_edge(edge, "one edge between the same two ends", "a second one", "leave one of them out")
        seen.add(key)


def _wrong_edge(edge: Edge, expected: str, got: object, remedy: str = "") -> TopologyError:
    return TopologyError(f"edge '{edge}'", expected=expected, got=got, remedy=remedy, declared=edge.declared)


def _check_ends(edge: Edge, outputs: dict[str, tuple[str, ...]], ends: set[str]) -> Iterator[TopologyError]:
    if edge.start not in outputs:
        got = f"the sink {edge.start!r}" if edge.start in ends else f"the unknown name {edge.start!r}"
        yield _wrong_edge(edge, "a source or operator to start from", got, _nearest(edge.start, outputs))
    elif edge.output not in outputs[edge.start]:
        yield _wrong_edge(
            edge,
            f"an output of {edge.start!r} among {list(outputs[edge.start])}",
            repr(edge.output),
            "declare the output, or name one of these",
        )
    if edge.end not in ends:
        got = f"the source {edge.end!r}" if edge.end in outputs else f"the unknown name {edge.end!r}"
        yield _wrong_edge(edge, "an operator or sink to end in", got, _nearest(edge.end, ends))
    if edge.transport not in _TRANSPORTS:
        yield _wrong_edge(edge, f"a transport among {list(_TRANSPORTS)}", repr(edge.transport))
    bound, timeout_s = edge.queue_bound, edge.timeout_s
    if bound is not None and (type(bound) is not int or bound < 1):
        yield _wrong_edge(edge, "a queue_bound of at least 1 event, a whole number", repr(bound))
    if timeout_s is not None and not (is_number(timeout_s) and math.isfinite(timeout_s) and timeout_s > 0):
        yield _wrong_edge(edge, "a timeout_s above 0 seconds", repr(timeout_s))


def _check_grouping(edge: Edge, into_stateful: bool) -> Iterator[TopologyError]:
    rule = GROUPING_RULES.get(edge.grouping.name)
    if rule is None:
        yield _wrong_edge(edge, f"a grouping among {list(GROUPING_RULES)}", repr(edge.grouping.name))
        return
    if rule.needs_fields and not edge.grouping.fields:
        name = edge.grouping.name
        yield _wrong_edge(edge, f"fields for the grouping {name!r}", "none", f"write '{name}:field'")
    if rule.splits_keys and into_stateful:
        yield _wrong_edge(
            edge,
            f"a grouping that keeps a key together, since {edge.end!r} is stateful",
            f"{edge.grouping.name!r}, which may send equal keys to different replicas",
            "use 'fields:<key>' or 'global'",
        )


def _check_reach(
    sources: Sequence[Source], operators: Sequence[Operator], sinks: Sequence[Sink], edges: Sequence[Edge]
) -> Iterator[TopologyError]:
    fed = {edge.end for edge in edges}
    read = {edge.start for edge in edges}
    ends: list[_Element] = [*operators, *sinks]
    for element in ends:
        if element.id not in fed:
            yield TopologyError(
                _kind(element),
                expected="an edge that feeds it",
                got="none",
                remedy="connect it to a source or operator, or remove it",
                declared=element.declared,
            )
    for source in sources:
        if source.id not in read:
            yield TopologyError(
                _kind(source),
                expected="an operator or sink that reads it",
                got="none",
                remedy="connect it, or remove it",
                declared=source.declared,
            )


def _check_cycles(operators: Sequence[Operator], edges: Sequence[Edge]) -> Iterator[TopologyError]:
    ids = [operator.id for operator in operators]
    on_cycle = set(ids) - set(topological_order(ids, edges))
    if not on_cycle:
        return
    loop = _one_cycle(on_cycle, edges)
    declared = next(edge.declared for edge in edges if edge.start == loop[0] and edge.end == loop[1])
    yield TopologyError(
        f"operator {loop[0]!r}",
        expected="a graph without cycles",
        got=" -> ".join(loop),
        remedy="remove one of these edges",
        declared=declared,
    )


def _one_cycle(candidates: set[str], edges: Sequence[Edge]) -> list[str]:
    """Walk backwards among nodes that each have a predecessor among them, until one is repeated."""
    before = {edge.end: edge.start for edge in edges if edge.end in candidates and edge.start in candidates}
    path, seen = [min(before)], set[str]()
    while path[-1] not in seen:
        seen.add(path[-1])
        path.append(before[path[-1]])
    return path[path.index(path[-1]) :][::-1]


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else "declare it, or correct the name"
