"""The program of a stage, packed for the workers that run it."""

from __future__ import annotations

import uuid
from dataclasses import replace

from pyspark import cloudpickle

from foretide.compile.stages import Stage
from foretide.health.task_features import FeatureOrder
from foretide.spark.batches.declared import operator_spec
from foretide.spark.errors import OperatorError
from foretide.spark.settings import EngineSettings
from foretide.spark.tasks.contract import Program
from foretide.store.workspace import Workspace
from foretide.topology import Operator, Topology, is_processor

__all__ = ["pack_program"]


def pack_program(topology: Topology, stage: Stage, workspace: Workspace, settings: EngineSettings) -> tuple[str, bytes]:
    """Return the program of a stage, and the key that workers keep it under.

    Raises
    ------
    OperatorError
        When the code of an operator cannot be sent to workers.
    """
    specs = {operator.id: operator_spec(topology, operator, settings.retries) for operator in stage.operators}
    every_s = settings.features_every_s
    features = FeatureOrder(workspace.run_id(), every_s) if every_s else None
    program = Program(_without_connectors(stage), specs, settings.statistics, features)
    return f"{stage.id}/{uuid.uuid4().hex}", _packed(program)


def _packed(program: Program) -> bytes:
    """Return what workers unpack."""
    try:
        return cloudpickle.dumps(program)
    except Exception:
        for operator in program.stage.operators:
            _check_sendable(operator)
        raise


def _check_sendable(operator: Operator) -> None:
    try:
        cloudpickle.dumps(operator.function)
    except Exception as error:
        where = "init" if is_processor(operator.function) else "the function, or its warm_up()"
        raise OperatorError(
            operator.id,
            expected="code that can be sent to workers",
            got=f"{type(error).__name__}: {error}",
            remedy=f"make in {where} what cannot be pickled, such as connections and locks",
        ) from error


def _without_connectors(stage: Stage) -> Stage:
    """Return the stage without what tasks never call: sources and sinks may hold functions that cannot be sent."""
    sources = tuple(replace(source, connector=type(source.connector)()) for source in stage.sources)
    sinks = tuple(replace(sink, connector=type(sink.connector)()) for sink in stage.sinks)
    return replace(stage, sources=sources, sinks=sinks)
