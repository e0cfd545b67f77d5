"""Topologies to plain data and YAML, the reverse of loading them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from foretide.errors import TopologyError
from foretide.postgres import without_password
from foretide.topology.elements import DEFAULT_OUTPUT, Connector, Edge, GroupingSpec, Operator, ReplicaBounds
from foretide.topology.graph import Topology

__all__ = ["dump_topology", "dump_yaml"]


def dump_topology(topology: Topology) -> dict[str, Any]:
    """Return the topology as plain data, in the form that `load_topology` reads.

    A function is kept as ``module:name`` if it can be imported by that name, otherwise left out, and a processor of
    PySpark's is an operator on DataFrames then. Edges come back in the order of the elements that they end in.
    Passwords in addresses are left out: what is dumped is stored and shown.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("count", grouping="fields:word", stateful=True, replicas=(1, 4))
    >>> dump_topology(job.build())["operators"][0]["inputs"]
    [{'from': 'in', 'grouping': 'fields:word'}]
    """
    return {
        "name": topology.name,
        "sources": [{"id": source.id, **_connector(source.id, source.connector)} for source in topology.sources],
        "operators": [_operator(operator, topology) for operator in topology.operators],
        "sinks": [
            {"id": sink.id, **_connector(sink.id, sink.connector), "inputs": _inputs(sink.id, topology)}
            for sink in topology.sinks
        ],
    }


def dump_yaml(topology: Topology) -> str:
    """Return the topology as the text of a YAML file."""
    text = yaml.safe_dump(dump_topology(topology), sort_keys=False, allow_unicode=True, width=110)
    return str(text)


def _connector(id: str, connector: Connector) -> dict[str, Any]:
    kind = {} if connector.kind == "none" else {"kind": connector.kind}
    return {**kind, **_options(id, connector.options)}


def _options(id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"options": _plain(id, options)} if options else {}


def _operator(operator: Operator, topology: Topology) -> dict[str, Any]:
    name, default = _function_name(operator), Operator(operator.id)
    operator = operator.without_code()
    entry: dict[str, Any] = {"id": operator.id}
    entry |= {"function": name} if name else {}
    entry |= {"mode": operator.mode} if operator.mode != default.mode else {}
    entry |= {"outputs": list(operator.outputs)} if operator.outputs != default.outputs else {}
    entry |= {"schema": dict(operator.schema)} if operator.schema else {}
    entry |= {"selectivity": dict(operator.selectivity)} if operator.selectivity else {}
    entry |= {"execution_s": operator.execution_s} if operator.execution_s is not None else {}
    entry |= {"replicas": _bounds(operator.replicas)} if operator.replicas != default.replicas else {}
    entry |= {"stateful": True} if operator.stateful and not operator.state else {}
    entry |= {"key": list(operator.key)} if operator.key else {}
    entry |= {"state": operator.state} if operator.state else {}
    return entry | _options(operator.id, operator.options) | {"inputs": _inputs(operator.id, topology)}


def _function_name(operator: Operator) -> str | None:
    function = operator.function
    if function is None or isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    return f"{module}:{name}" if module and module not in ("__main__", "__topology__") and "<" not in name else None


def _bounds(bounds: ReplicaBounds) -> int | dict[str, int]:
    if bounds.minimum == bounds.maximum:
        return bounds.minimum
    return {"min": bounds.minimum, "max": bounds.maximum, "initial": bounds.initial}


def _inputs(id: str, topology: Topology) -> list[str | dict[str, Any]]:
    return [_input(edge) for edge in topology.incoming.get(id, ())]


def _input(edge: Edge) -> str | dict[str, Any]:
    entry: dict[str, Any] = {"from": edge.start}
    entry |= {"output": edge.output} if edge.output != DEFAULT_OUTPUT else {}
    entry |= {"grouping": _grouping(edge.grouping)} if edge.grouping != GroupingSpec() else {}
    entry |= {"queued": True} if edge.transport == "queued" else {}
    limits = {"queue_bound": edge.queue_bound, "timeout_s": edge.timeout_s}
    entry |= {name: value for name, value in limits.items() if value is not None}
    return edge.start if len(entry) == 1 else entry


def _grouping(grouping: GroupingSpec) -> str | dict[str, Any]:
    if not grouping.options and not any("," in field for field in grouping.fields):
        return str(grouping)
    options = _options(f"grouping {grouping}", grouping.options)
    return {"name": grouping.name, "fields": list(grouping.fields), **options}


def _plain(where: str, value: Any) -> Any:
    """Return options as dicts, lists, texts and numbers."""
    if isinstance(value, Mapping):
        return {str(key): _plain(where, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(where, item) for item in value]
    if isinstance(value, str):
        return without_password(value)
    if value is None or isinstance(value, int | float | bool):
        return value
    raise TopologyError(
        f"options of {where!r}",
        expected="texts, numbers, lists and tables",
        got=repr(value),
        remedy="a topology with other options can only be declared in Python",
    )
