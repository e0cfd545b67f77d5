"""Steering a run by hand: pause, resume, and replicas set by hand for a while."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from foretide.service.graph import topology_of
from foretide.service.http.answers import json_answer
from foretide.service.http.problems import Problem, problems
from foretide.service.runs import RunName
from foretide.service.schemas import ControlState
from foretide.service.state import ServiceState, state_of
from foretide.store import Override, RunInfo, RuntimeStore

__all__ = ["RUNTIME_PATH", "router"]

#: The setting of a recorded run that says where its run-time configuration is.
RUNTIME_PATH = "runtime_path"
_LONGEST_S = 7 * 86_400.0

router = APIRouter(prefix="/v1/runs/{run}", tags=["control"])


class OverrideRequest(BaseModel):
    """Replicas to set by hand."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"replicas": 6, "for_s": 600, "reason": "load test"}]},
    )

    replicas: int = Field(ge=1, le=1_000_000, description="How many, within the operator's bounds.")
    for_s: float = Field(
        gt=0, le=_LONGEST_S, allow_inf_nan=False, description="Seconds after which plans decide again."
    )
    reason: str = Field(default="", max_length=200, description="Why, for readers of the decisions.")


OperatorName = Annotated[str, Path(description="The operator.", examples=["count"])]
_CHANGE = problems(404, 409, 422)


@router.get("/control", summary="Show what is set by hand", response_model=ControlState, responses=problems(404, 422))
def show(request: Request, run: RunName) -> Response:
    """Return whether a run can be steered from here, whether it is paused, and replicas that are set by hand."""
    state = state_of(request)
    info = state.run(run).info
    return json_answer(_control(info, state))


@router.post("/pause", summary="Pause a run", response_model=ControlState, responses=_CHANGE)
def pause(request: Request, run: RunName) -> Response:
    """Let sources admit nothing new; what was admitted is processed to the end."""
    return _changed(request, run, paused=True)


@router.post("/resume", summary="Resume a run", response_model=ControlState, responses=_CHANGE)
def resume(request: Request, run: RunName) -> Response:
    """Let sources admit events again."""
    return _changed(request, run, paused=False)


@router.put(
    "/overrides/{operator}",
    summary="Set replicas by hand, for a while",
    response_model=ControlState,
    responses=problems(400, 404, 409, 413, 422),
)
def override(request: Request, run: RunName, operator: OperatorName, wanted: OverrideRequest) -> Response:
    """Set the replicas of an operator from its next batch on, whatever plans say, until the time is up."""
    state = state_of(request)
    info = state.run(run).info
    _check_operator(info, operator)
    bounds = topology_of(info).operator(operator).replicas
    if not bounds.minimum <= wanted.replicas <= bounds.maximum:
        detail = (
            f"expected between {bounds.minimum} and {bounds.maximum} replicas of {operator!r}, got {wanted.replicas}"
        )
        raise Problem(422, "out-of-bounds", detail, errors=[("#/replicas", detail)])
    until_s = state.now() + wanted.for_s
    _runtime(info, state).override(operator, Override(wanted.replicas, until_s, wanted.reason), state.now())
    return json_answer(_control(info, state))


@router.delete(
    "/overrides/{operator}",
    summary="Let plans decide again",
    response_model=ControlState,
    responses=_CHANGE,
)
def let_go(request: Request, run: RunName, operator: OperatorName) -> Response:
    """Drop what was set by hand for an operator; does nothing if nothing was set."""
    state = state_of(request)
    info = state.run(run).info
    _check_operator(info, operator)
    _runtime(info, state).override(operator, None, state.now())
    return json_answer(_control(info, state))


def _changed(request: Request, run: str, **changes: Any) -> Response:
    state = state_of(request)
    info = state.run(run).info
    _runtime(info, state).change(**changes)
    return json_answer(_control(info, state))


def _check_operator(info: RunInfo, operator: str) -> None:
    if operator not in info.layout.operator_index:
        names = ", ".join(info.layout.operators[:10])
        raise Problem(404, "unknown-operator", f"expected one of {names}, got {operator!r}")


def _runtime(info: RunInfo, state: ServiceState) -> RuntimeStore:
    """Return the run-time configuration of a run that is alive."""
    reason = _obstacle(info, state)
    if reason:
        raise Problem(409, "not-steerable", f"run {info.id}: {reason}")
    return RuntimeStore(str(info.settings[RUNTIME_PATH]))


def _obstacle(info: RunInfo, state: ServiceState) -> str:
    """Return why a run cannot be steered; empty if it can."""
    if not info.is_alive(state.now()):
        return f"expected one that runs, got one that is {info.status if info.status != 'running' else 'lost'}"
    if not isinstance(info.settings.get(RUNTIME_PATH), str):
        return "expected one with a run-time configuration, got a simulated one or one of an older version"
    return ""


def _control(info: RunInfo, state: ServiceState) -> dict[str, Any]:
    obstacle, now_s = _obstacle(info, state), state.now()
    body: dict[str, Any] = {"steerable": not obstacle, "obstacle": obstacle, "paused": False, "version": 0}
    if obstacle:
        return {**body, "replicas": {}, "overrides": []}
    config = RuntimeStore(str(info.settings[RUNTIME_PATH])).read()
    in_force = [(name, one) for name, one in config.overrides.items() if one.until_s > now_s]
    return {
        **body,
        "paused": config.paused,
        "version": config.version,
        "replicas": config.active(now_s),
        "overrides": [
            {
                "operator": name,
                "replicas": one.replicas,
                "until_s": one.until_s,
                "left_s": round(one.until_s - now_s, 3),
                "reason": one.reason,
            }
            for name, one in in_force
        ],
    }
