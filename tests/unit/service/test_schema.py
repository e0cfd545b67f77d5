"""The service answers as its own OpenAPI document says, whatever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from drawing import examples
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, note
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from foretide.service import ServiceSettings, create_app
from foretide.store import RunStore

# A stream of a finished run ends by itself; dear models would only make this slow.
LIMITS = ServiceSettings(max_samples=50, max_horizon=20, rate_per_s=1e6, burst=1_000_000, forecast_deadline_s=60.0)
HOST = {"Host": "127.0.0.1"}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
@pytest.mark.slow
def test_every_answer_fits_the_schema(recorded: Path, mode: GenerationMode) -> None:
    app = create_app(RunStore(recorded, threaded=False), LIMITS)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)
    tried = [_try(found.ok(), mode) for found in schema.get_all_operations()]
    assert len(tried) >= 18 and all(tried) if mode is GenerationMode.POSITIVE else any(tried)


def _try(operation: Any, mode: GenerationMode) -> int:
    """Ask for an operation in a few ways, and return how often."""
    calls = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @examples(
        0.24 if mode is GenerationMode.POSITIVE else 0.08,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def check(case: Any) -> None:
        nonlocal calls
        note(operation.label)
        for name, value in (("run", "latest"), ("model", "lr")):
            if name in (case.path_parameters or {}):
                case.path_parameters[name] = value
        case.call_and_validate(checks=CHECKS, headers=HOST)
        calls += 1

    try:
        check()
    except Unsatisfiable:
        # There is nothing about it that could be wrong.
        assert mode is GenerationMode.NEGATIVE, operation.label
    return calls


def test_every_route_is_documented(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"] and operation["description"], where
            for status, answer in operation["responses"].items():
                kind = "application/problem+json" if int(status) >= 400 else None
                assert kind is None or kind in answer["content"], where
            for parameter in operation.get("parameters", []):
                assert parameter.get("description") or parameter["name"] == "theme", where
    schemas = document["components"]["schemas"]
    assert schemas["ForecastRequest"]["examples"] and schemas["OverrideRequest"]["examples"]
    assert document["security"] == [{"token": []}, {}]


def test_the_examples_work(client_of: Callable[..., TestClient]) -> None:
    client = client_of()
    example = client.get("/openapi.json").json()["components"]["schemas"]["ForecastRequest"]["examples"][0]
    assert client.post("/v1/forecast/lr", json=example).status_code == 200


def test_a_method_that_a_path_does_not_have_is_told_which_it_has(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        answer = client.request("PATCH", path.replace("{run}", "latest"))
        assert answer.status_code == 405, path
        told = {method.strip().lower() for method in answer.headers["Allow"].split(",")}
        assert told - {"head"} == set(methods), path
    assert any(len(methods) > 1 for methods in paths.values())
