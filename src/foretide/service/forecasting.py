"""The forecasters over HTTP (SPEC P6)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import Response

from foretide.forecast import all_forecasters
from foretide.service.desk import Question
from foretide.service.http.answers import json_answer
from foretide.service.http.bodies import body_of, described
from foretide.service.http.problems import Problem, problems
from foretide.service.state import state_of

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["forecasts"])

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_LONGEST_STEP_S = 86_400.0


class ForecastRequest(BaseModel):
    """What a forecast is made from."""

    model_config = ConfigDict(
        extra="forbid",
        # A true or a text is no number, though it could be taken for one.
        strict=True,
        json_schema_extra={
            "examples": [{"samples": [100, 104, 108, None, 116, 120], "horizon": 3, "quantiles": [0.1, 0.9]}]
        },
    )

    samples: list[Rate | None] = Field(
        min_length=1, description="Events per second, oldest first; null where none was measured."
    )
    horizon: int = Field(ge=1, description="Steps ahead.")
    step_s: float = Field(
        default=1.0, gt=0, le=_LONGEST_STEP_S, allow_inf_nan=False, description="Seconds between two samples."
    )
    quantiles: list[Level] = Field(
        default_factory=list,
        max_length=20,
        description="Levels of the quantiles to return besides the mean, which take longer to compute.",
    )


class ForecastResponse(BaseModel):
    """A forecast: its mean and quantiles, step by step."""

    model: str = Field(description="Who made it.")
    horizon: int = Field(description="Steps ahead.")
    step_s: float = Field(description="Seconds between two steps.")
    mean: list[float] = Field(description="Expected events per second.")
    quantiles: dict[str, list[float]] = Field(description="Quantiles of the same, by level.")
    cost_ms: float = Field(description="What it took to compute.")


class Model(BaseModel):
    """A forecaster."""

    name: str = Field(description="What to ask for.")
    summary: str = Field(description="What it does.")
    follows: list[str] = Field(description="The requirements that it follows.")
    cost: str = Field(description="`dear` if a forecast takes more than a few milliseconds.")
    window: int = Field(description="The samples that it looks back on.")
    installed: bool = Field(description="Whether it can be used.")
    extra: str | None = Field(description="The extra of the package that installs what it needs.")


class Models(BaseModel):
    """All forecasters."""

    models: list[Model]


ModelName = Annotated[str, Path(description="The forecaster, by name; `GET /v1/models` lists them.", examples=["lr"])]


@router.get("/models", summary="List the forecasters", response_model=Models, responses=problems())
def list_models() -> Response:
    """Return every forecaster, those of other packages included."""
    return json_answer({"models": [_model(kind) for kind in all_forecasters().values()]})


def _model(kind: Any) -> dict[str, Any]:
    return {
        "name": kind.name,
        "summary": kind.summary,
        "follows": kind.spec,
        "cost": kind.cost,
        "window": kind.model_fields["window"].default,
        "installed": not kind.missing(),
        "extra": kind.needs,
    }


@router.post(
    "/forecast/{model}",
    summary="Forecast the next steps of a series",
    response_model=ForecastResponse,
    responses=problems(400, 404, 413, 422, 501, 503, 504),
    openapi_extra={"requestBody": described(ForecastRequest)},
)
async def forecast(request: Request, model: ModelName) -> Response:
    """Return the next steps of a series of rates, as a model expects them.

    The model learns from the samples alone and forgets them afterwards. What takes longer than handing it over runs
    on other threads: many requests may be made at once.
    """
    state = state_of(request)
    wanted = await body_of(request, ForecastRequest)
    _check(wanted, state.settings.max_samples, state.settings.max_horizon)
    question = Question(wanted.samples, wanted.horizon, wanted.step_s, wanted.quantiles)
    made = await state.desk.ask(model, question)
    state.metrics.forecast(made.model, made.cost_ms / 1e3)
    body = {
        "model": made.model,
        "horizon": wanted.horizon,
        "step_s": wanted.step_s,
        "mean": made.mean.tolist(),
        "quantiles": {str(level): values.tolist() for level, values in made.quantiles.items()},
        "cost_ms": round(made.cost_ms, 3),
    }
    # Forecasts are finite: the quickest encoder is enough.
    return Response(to_json(body), media_type="application/json")


def _check(wanted: ForecastRequest, max_samples: int, max_horizon: int) -> None:
    if len(wanted.samples) > max_samples:
        detail = f"expected at most {max_samples:,} samples, got {len(wanted.samples):,}; models look back 100 or so"
        raise Problem(422, "too-many-samples", detail, errors=[("#/samples", detail)])
    if wanted.horizon > max_horizon:
        detail = f"expected at most {max_horizon:,} steps, got {wanted.horizon:,}"
        raise Problem(422, "horizon-too-long", detail, errors=[("#/horizon", detail)])
