"""Runs over HTTP: what was measured, forecast, decided and why, and what happened."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from foretide.records import Plan
from foretide.service import schemas
from foretide.service.graph import drawn, topology_of
from foretide.service.http.answers import json_answer
from foretide.service.http.problems import Problem, problems
from foretide.service.state import ServiceState, state_of
from foretide.service.views import (
    decision_entry,
    decision_story,
    event_entry,
    feature_entry,
    feature_history,
    forecast_columns,
    latency_columns,
    measurement_columns,
    run_entry,
    run_score,
    thinned,
)
from foretide.store import FeatureSample, RecordedRun
from foretide.topology.draw_svg import to_svg
from foretide.topology.draw_theme import THEMES

__all__ = ["RunName", "router"]

router = APIRouter(prefix="/v1/runs", tags=["runs"])

RunName = Annotated[
    str,
    Path(description="An id, the beginning of one, a name, or `latest`.", max_length=200, examples=["latest"]),
]
Since = Annotated[
    float | None,
    Query(description="Only what is later, on the clock of the run's loop.", allow_inf_nan=False),
]
Last = Annotated[int, Query(description="Only the latest, at most this many.", ge=1, le=1_000_000)]
_FOUND = problems(404, 422, 503)
_LONG_AGO = -float("inf")
_EVENT = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "event": {"enum": ["measurement", "latency", "decision", "event", "features", "end"]},
        "data": {"type": "string", "description": "JSON."},
        "id": {"type": "string", "description": "The row to continue from, as `Last-Event-ID` or `after`."},
    },
    "required": ["event", "data"],
}
# Twice the longest time between two reports of a worker or machine (SPEC I3).
_FEATURES_S = 60.0


@router.get("", summary="List runs", response_model=schemas.Runs, responses=problems(422, 503))
def list_runs(
    request: Request,
    last: Last = 100,
    name: Annotated[str | None, Query(description="Only runs of this name.", max_length=200)] = None,
) -> Response:
    """Return recorded runs, the newest first; one whose process ended without reporting it is called lost."""
    state = state_of(request)
    found = [info for info in reversed(state.store.runs()) if name is None or info.name == name]
    return json_answer({"runs": [run_entry(info, state.now()) for info in found[:last]]})


@router.get("/{run}", summary="Show a run", response_model=schemas.RunDetails, responses=_FOUND)
def show_run(request: Request, run: RunName) -> Response:
    """Return what is known about a run as a whole."""
    state = state_of(request)
    found = state.run(run)
    entry = run_entry(found.info, state.now())
    return json_answer({**entry, "settings": found.info.settings, "cursor": found.cursor()})


@router.get(
    "/{run}/topology", summary="Show what runs", response_model=schemas.TopologyPicture, responses=problems(404, 422)
)
def show_topology(request: Request, run: RunName) -> Response:
    """Return the topology of a run with the places of its elements in a picture."""
    info = state_of(request).run(run).info
    layout = info.layout
    names = {"sources": layout.sources, "operators": layout.operators, "edges": layout.edges}
    document = {"name": info.name, "document": info.topology_document, "layout": names}
    return json_answer({**document, **drawn(topology_of(info))})


@router.get(
    "/{run}/topology.svg",
    summary="Draw what runs",
    response_class=Response,
    responses={**problems(404, 422), 200: {"content": {"image/svg+xml": {}}, "description": "The picture."}},
)
def draw_topology(request: Request, run: RunName, theme: Literal["light", "dark"] = "light") -> Response:
    """Return the topology of a run as a picture."""
    topology = topology_of(state_of(request).run(run).info)
    return Response(to_svg(topology, theme=THEMES[theme]), media_type="image/svg+xml")


@router.get(
    "/{run}/measurements", summary="Show what was measured", response_model=schemas.Measurements, responses=_FOUND
)
def show_measurements(
    request: Request,
    run: RunName,
    since_s: Since = None,
    last: Last = 600,
    points: Annotated[
        int | None, Query(description="At most this many rows, neighbours joined.", ge=1, le=10_000)
    ] = None,
) -> Response:
    """Return rates, queues, utilisation and replicas of every operator, as columns over time."""
    state = state_of(request)
    found = state.run(run)
    measurements = found.measurements(_since(since_s), _bounded(last, state))
    return json_answer(measurement_columns(found.info, thinned(measurements, points)))


@router.get("/{run}/forecasts", summary="Show what was expected", response_model=schemas.Forecasts, responses=_FOUND)
def show_forecasts(request: Request, run: RunName, since_s: Since = None, last: Last = 600) -> Response:
    """Return what each forecast expected of the next interval: mean rate and band, by source."""
    state = state_of(request)
    found = state.run(run)
    forecasts = found.forecasts(_since(since_s))[-_bounded(last, state) :]
    return json_answer({"sources": forecast_columns(found.info, forecasts)})


@router.get("/{run}/decisions", summary="List decisions", response_model=schemas.Decisions, responses=_FOUND)
def list_decisions(request: Request, run: RunName, since_s: Since = None, last: Last = 100) -> Response:
    """Return decisions in short: what they changed, planned, requested and observed replicas, notes."""
    state = state_of(request)
    found = state.run(run)
    decisions = found.decisions(_since(since_s), _bounded(last, state))
    return json_answer({"decisions": [decision_entry(one, found.info) for one in decisions]})


@router.get(
    "/{run}/decisions/{decision}",
    summary="Explain a decision",
    response_model=schemas.DecisionStory,
    responses=_FOUND,
)
def explain_decision(
    request: Request,
    run: RunName,
    decision: Annotated[int, Path(description="The id that the list of decisions gives.", ge=0, le=2**62)],
) -> Response:
    """Return a decision with its reasons: for each operator every term, from measurements through equations."""
    found = state_of(request).run(run)
    stored = found.decision(decision)
    if stored is None:
        raise Problem(404, "unknown-decision", f"run {found.id}: there is no decision {decision}; list its decisions")
    return json_answer(decision_story(stored, found.info))


@router.get("/{run}/plan", summary="Show the plan in force", response_model=schemas.CurrentPlan, responses=_FOUND)
def show_plan(request: Request, run: RunName) -> Response:
    """Return the last plan that the running system applied."""
    plan: Plan | None = state_of(request).run(run).latest_plan()
    if plan is None:
        return json_answer({"planner": None, "made_at_s": None, "replicas": {}, "notes": []})
    body = {"planner": plan.planner, "made_at_s": plan.made_at_s, "replicas": plan.by_operator(), "notes": plan.notes}
    return json_answer(body)


@router.get("/{run}/advice", summary="Recommend replicas", response_model=schemas.Advice, responses=_FOUND)
def advise(request: Request, run: RunName) -> Response:
    """Return what the last decision with a plan recommends, next to what was active: advice for an external scaler."""
    return json_answer(_advice(state_of(request).run(run)))


@router.get("/{run}/latencies", summary="Show latency percentiles", response_model=schemas.Latencies, responses=_FOUND)
def show_latencies(
    request: Request,
    run: RunName,
    since_s: Since = None,
    interval_s: Annotated[
        float | None,
        Query(description="Seconds of an interval; by default the time between two decisions.", gt=0, le=86_400),
    ] = None,
) -> Response:
    """Return mean, p50, p95 and p99 of the latency of the events that left, interval by interval."""
    state = state_of(request)
    found = state.run(run)
    samples = found.latencies(_since(since_s))[-state.settings.max_rows :]
    return json_answer(latency_columns(samples, interval_s or found.info.td_s or 5.0))


@router.get("/{run}/events", summary="List events", response_model=schemas.Events, responses=_FOUND)
def list_events(
    request: Request,
    run: RunName,
    since_s: Since = None,
    last: Last = 200,
    kind: Annotated[str | None, Query(description="Only events of this kind, such as `plan.applied`.")] = None,
) -> Response:
    """Return what happened."""
    state = state_of(request)
    events = state.run(run).events(_since(since_s), kind)[-_bounded(last, state) :]
    return json_answer({"events": [event_entry(event) for event in events]})


@router.get("/{run}/features", summary="Show workers and machines", response_model=schemas.Features, responses=_FOUND)
def show_features(request: Request, run: RunName) -> Response:
    """Return the latest features of each worker and machine."""
    latest: dict[tuple[str, str], FeatureSample] = {}
    found = state_of(request).run(run)
    ended = [one.ended_at_s for one in found.measurements(last=1)]
    samples = found.features(ended[0] - _FEATURES_S) if ended else []
    for sample in samples or found.features():
        latest[sample.level, sample.owner] = sample
    return json_answer({"features": [feature_entry(sample) for sample in latest.values()]})


@router.get(
    "/{run}/features/{name}",
    summary="Show a feature over time",
    response_model=schemas.FeatureHistory,
    responses=_FOUND,
)
def show_feature(
    request: Request,
    run: RunName,
    name: Annotated[str, Path(description="A feature, such as `queueing_ms`.", max_length=100)],
    level: Annotated[Literal["worker", "machine"], Query(description="Of workers or of machines.")] = "worker",
    since_s: Since = None,
    points: Annotated[
        int, Query(description="At most this many values of each, neighbours averaged.", ge=1, le=10_000)
    ] = 300,
) -> Response:
    """Return one feature of every worker or machine over time; nobody has one that is not known."""
    samples = state_of(request).run(run).features(_since(since_s), level)
    return json_answer({"name": name, "level": level, "owners": feature_history(samples, name, points)})


@router.get("/{run}/score", summary="Score a run", response_model=schemas.Score, responses=_FOUND)
def show_score(request: Request, run: RunName) -> Response:
    """Return the metrics of SPEC P8 so far, savings against the whole pool of replicas."""
    state = state_of(request)
    return json_answer(run_score(state.run(run), state.settings.max_rows))


@router.get(
    "/{run}/stream",
    summary="Follow a run",
    response_class=StreamingResponse,
    responses={
        **_FOUND,
        200: {
            "description": "Events `measurement`, `latency`, `decision`, `event`, `features` as they come, then `end`.",
            "content": {"text/event-stream": {"schema": _EVENT}},
        },
    },
)
async def follow(
    request: Request,
    run: RunName,
    after: Annotated[int | None, Query(description="The row after which to begin; unset, now.", ge=0, le=2**62)] = None,
    last_event_id: Annotated[str | None, Header(description="Where a returning reader left off.")] = None,
) -> Response:
    """Return what is stored of a run as it comes, as server-sent events, until the run has ended.

    The figures of a `measurement` are in the order of `layout` of the topology.
    """
    state = state_of(request)
    found = await asyncio.to_thread(state.run, run)
    state.hub.check_room()
    if last_event_id and last_event_id.isdecimal():
        after = int(last_event_id[:19])
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(state.hub.follow(found, after), headers=headers, media_type="text/event-stream")


def _since(since_s: float | None) -> float:
    return _LONG_AGO if since_s is None else since_s


def _bounded(last: int, state: ServiceState) -> int:
    return min(last, state.settings.max_rows)


def _advice(run: RecordedRun) -> dict[str, Any]:
    planned = [one for one in run.decisions(last=20) if one.action is not None]
    advisory = bool(dict(run.info.settings.get("loop") or {}).get("advisory"))
    if not planned:
        return {"advisory": advisory, "at_s": None, "decision": None, "recommendations": [], "notes": []}
    last = planned[-1]
    assert last.action is not None
    pairs = zip(run.info.layout.operators, last.action.observed.tolist(), last.action.planned.tolist(), strict=True)
    return {
        "advisory": advisory or last.status == "advised",
        "at_s": last.at_s,
        "decision": last.seq,
        "recommendations": [
            {"operator": name, "observed": observed, "recommended": planned, "change": planned - observed}
            for name, observed, planned in pairs
        ],
        "notes": [] if last.plan is None else list(last.plan.notes),
    }
