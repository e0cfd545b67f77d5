"""Topologies from files: TOML, YAML, or Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from foretide.errors import Declaration, TopologyError, TopologyErrors
from foretide.topology.document import Document, file_error, read_document
from foretide.topology.elements import (
    DEFAULT_OUTPUT,
    Connector,
    Edge,
    GroupingSpec,
    Operator,
    OperatorMode,
    ReplicaBounds,
    Sink,
    Source,
)
from foretide.topology.graph import Topology
from foretide.topology.options import (
    UnknownOption,
    unknown_operator_options,
    unknown_sink_options,
    unknown_source_options,
)
from foretide.topology.reading import Cursor, is_number
from foretide.topology.script import run_script, without_name
from foretide.topology.validation import topological_order

__all__ = ["load_topology", "topology_of"]

_TOP = ("name", "sources", "operators", "sinks")
_SOURCE = ("id", "kind", "options")
_SINK = ("id", "kind", "options", "inputs")
_OPERATOR = (
    *("id", "function", "mode", "outputs", "schema", "selectivity", "execution_ms", "execution_s"),
    *("replicas", "stateful", "key", "state", "options", "inputs"),
)
_INPUT = ("from", "output", "grouping", "queued", "queue_bound", "timeout_s")
_GROUPING = ("name", "fields", "options")
_BOUNDS = ("min", "max", "initial")
_MODES: tuple[OperatorMode, ...] = get_args(OperatorMode)


def load_topology(path: str | Path) -> Topology:
    r"""Load the topology declared in a file: ``.toml``, ``.yaml``, ``.yml`` or ``.py``.

    A Python file holds a module-level `topology`, or a function ``topology()`` or ``build()``, that is or returns
    a `Topology` or a `Flow`; ``jobs.py:hourly`` is the one that the file calls `hourly`. It is run, so load only files
    that you trust; the other formats run nothing.

    Raises
    ------
    TopologyError
        Naming file, line, what was expected, what was found and what to do; with all errors of the file, if it could
        be read at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "line.yaml")
    ...     _ = file.write_text("sources: [{id: in}]\noperators: [{id: count, inputs: [in], execution_ms: 2.5}]")
    ...     load_topology(file).operators[0].execution_s
    0.0025
    """
    file, name = without_name(path)
    if file.suffix == ".py":
        return run_script(file, name)
    if file.suffix not in (".toml", ".yaml", ".yml"):
        raise file_error(
            file, None, "a name ending in .toml, .yaml, .yml or .py", f"{file.suffix or 'no ending'!r}", "rename it"
        )
    return topology_of(read_document(file), default_name=file.stem)


def topology_of(document: Document, *, default_name: str) -> Topology:
    """Return the topology that a document describes."""
    top = Cursor(document, (), document.data, "topology", [])
    top.is_table(_TOP)
    name = top.text("name", default_name)
    sources = [
        Source(_id(item), _connector(item, unknown_source_options), _where(item))
        for item in _elements(top, "source", _SOURCE)
    ]
    operators = [(item, _operator(item)) for item in _elements(top, "operator", _OPERATOR)]
    sinks = [
        (item, Sink(_id(item), _connector(item, unknown_sink_options), _where(item)))
        for item in _elements(top, "sink", _SINK)
    ]
    fed = [*((item, operator.id) for item, operator in operators), *((item, sink.id) for item, sink in sinks)]
    known = {source.id for source in sources} | {id for _, id in fed}
    edges = [edge for item, id in fed for edge in _edges(item, id, known)]
    if top.errors:
        raise TopologyErrors(name, tuple(sorted(top.errors, key=_line)))
    steps, ends = tuple(operator for _, operator in operators), tuple(sink for _, sink in sinks)
    return Topology(name, tuple(sources), steps, ends, _sorted(edges, steps), document.declared(("name",)))


def _line(error: TopologyError) -> int:
    return (error.declared and error.declared.line) or 0


def _elements(top: Cursor, kind: str, known: tuple[str, ...]) -> list[Cursor]:
    found = []
    for position, item in enumerate(top.tables(f"{kind}s"), start=1):
        has_id = isinstance(item.value, dict) and "id" in item.value
        named = item.named(f"{kind} {item.value['id']!r}" if has_id else f"{kind} number {position}")
        if named.is_table(known):
            found.append(named)
    return found


def _id(item: Cursor) -> str:
    if "id" not in item.value:
        item.wrong("an id", "none", 'write id = "..." (TOML) or id: ... (YAML)')
    return str(item.text("id", "unnamed"))


def _where(item: Cursor) -> Declaration:
    return item.document.declared((*item.place, "id"))


def _connector(item: Cursor, unknown: Callable[[Connector], Iterable[UnknownOption]]) -> Connector:
    connector = Connector(item.text("kind", "none"), item.table("options"))
    _refuse(item, unknown(connector))
    return connector


def _refuse(item: Cursor, unknown: Iterable[UnknownOption]) -> None:
    """Note unknown options, each at its own line."""
    for each in unknown:
        item.at("options").wrong(each.expected, each.got, each.remedy, key=each.name)


def _operator(item: Cursor) -> Operator:
    outputs, mode, options = item.texts("outputs", (DEFAULT_OUTPUT,)), _mode(item), item.table("options")
    _refuse(item, unknown_operator_options(mode, options))
    return Operator(
        _id(item),
        item.text("function", None),
        mode=mode,
        outputs=outputs,
        schema=_by_output(item, "schema", outputs),
        selectivity=_by_output(item, "selectivity", outputs),
        execution_s=_execution_s(item),
        replicas=_bounds(item),
        stateful=item.flag("stateful"),
        key=(item.value["key"],) if isinstance(item.value.get("key"), str) else item.texts("key", ()),
        state=item.text("state", "") or "",
        options=options,
        declared=_where(item),
    )


def _mode(item: Cursor) -> OperatorMode:
    wanted = item.text("mode", _MODES[0])
    for mode in _MODES:
        if wanted == mode:
            return mode
    item.wrong(f"a mode among {list(_MODES)}", repr(wanted), key="mode")
    return _MODES[0]


def _by_output(item: Cursor, key: str, outputs: tuple[str, ...]) -> dict[str, Any]:
    """Read one value for every output, or a table of them: texts for a schema, numbers for selectivity."""
    found, expected = item.value.get(key), "a text" if key == "schema" else "a number"
    if found is None:
        return {}
    by_output = found if isinstance(found, dict) else dict.fromkeys(outputs, found)
    for output, value in by_output.items():
        if not (isinstance(value, str) if key == "schema" else is_number(value)):
            item.wrong(f"{expected} for {key!r}, or a table of them by output", repr(value), key=key)
            return {}
        if not isinstance(output, str):
            item.wrong(f"names of outputs as keys of {key!r}", repr(output), "put quotes around it", key=key)
            return {}
    return by_output if key == "schema" else {output: float(value) for output, value in by_output.items()}


def _execution_s(item: Cursor) -> float | None:
    seconds, milliseconds = item.number("execution_s"), item.number("execution_ms")
    if seconds is not None and milliseconds is not None:
        item.wrong("execution_s or execution_ms", "both", "leave one of them out", key="execution_ms")
    return seconds if milliseconds is None else round(milliseconds / 1000.0, 12)


def _bounds(item: Cursor) -> ReplicaBounds:
    found = item.value.get("replicas")
    if found is None:
        return ReplicaBounds()
    if isinstance(found, dict) and item.at("replicas").is_table(_BOUNDS):
        minimum = found.get("min", 1)
        parts = [
            minimum,
            found.get("max", max(ReplicaBounds().maximum, _whole(minimum))),
            found.get("initial", minimum),
        ]
    else:
        parts = [found, found, found] if isinstance(found, int) else found
    if isinstance(parts, list) and len(parts) in (2, 3) and all(type(part) is int for part in parts):
        return ReplicaBounds(parts[0], parts[1], parts[2] if len(parts) == 3 else parts[0])
    item.wrong(
        "whole numbers for 'replicas'", repr(found), "write 4, [1, 8], or a table of min, max, initial", key="replicas"
    )
    return ReplicaBounds()


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _edges(item: Cursor, end: str, known: set[str]) -> Iterator[Edge]:
    for given in item.tables("inputs"):
        if isinstance(given.value, str):
            start, output = _start_and_output(given.value, known)
            yield Edge(start, end, output, declared=given.declared)
        elif given.is_table(_INPUT):
            yield from _edge_of_table(given, end, known)


def _edge_of_table(given: Cursor, end: str, known: set[str]) -> Iterator[Edge]:
    text = given.text("from", None)
    if text is None:
        given.wrong("the element that it comes 'from'", "none", 'write from = "..."')
        return
    start, output = (text, None) if text in known or "output" in given.value else _start_and_output(text, known)
    named = given.text("output", output or DEFAULT_OUTPUT)
    transport = "queued" if given.flag("queued") else "inline"
    bound: Any = given.number("queue_bound")
    bound = int(bound) if bound is not None and bound.is_integer() else bound
    limits = bound, given.number("timeout_s")
    yield Edge(start, end, named, _grouping(given), transport, given.declared, *limits)  # type: ignore[arg-type]


def _grouping(given: Cursor) -> GroupingSpec:
    if not isinstance(given.value.get("grouping"), dict):
        return GroupingSpec.of(given.text("grouping", "shuffle"))
    table = given.at("grouping")
    table.is_table(_GROUPING)
    return GroupingSpec(table.text("name", "shuffle"), table.texts("fields", ()), table.table("options"))


def _start_and_output(text: str, known: set[str]) -> tuple[str, str]:
    """Read ``element`` or ``element.output``; an element whose id holds the dot wins."""
    if text in known or "." not in text:
        return text, DEFAULT_OUTPUT
    dots = [position for position, letter in enumerate(text) if letter == "."]
    dot = next((position for position in reversed(dots) if text[:position] in known), dots[-1])
    return text[:dot], text[dot + 1 :]


def _sorted(edges: list[Edge], operators: tuple[Operator, ...]) -> tuple[Edge, ...]:
    """Return the edges in the order in which the topology keeps their ends, so that a dump loads as an equal one."""
    order = topological_order([operator.id for operator in operators], edges)
    rank = {id: position for position, id in enumerate(order)}
    return tuple(sorted(edges, key=lambda edge: rank.get(edge.end, len(rank))))
