from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from foretide.forecast import FORECASTERS, Basic, Lr
from foretide.records import Floats
from foretide.service import desk
from foretide.service.desk import ForecastDesk, Question
from foretide.service.forecasting import ForecastRequest, ForecastResponse
from foretide.service.http.problems import Problem
from foretide.service.settings import ServiceSettings

Clients = Callable[..., TestClient]


def problem_of(answer: Any, status: int, kind: str) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["type"], body["status"]) == (f"urn:foretide:problem:{kind}", status)
    return str(body["detail"])


def test_p6_the_next_steps_of_a_line_are_on_the_line(client: TestClient) -> None:
    body = {"samples": [10, 20, 30, 40], "horizon": 3, "quantiles": [0.1, 0.5, 0.9]}
    answer = client.post("/v1/forecast/lr", json=body)
    assert answer.status_code == 200
    body = answer.json()
    assert body["model"] == "lr" and body["step_s"] == 1.0
    assert body["mean"] == pytest.approx([50.0, 60.0, 70.0])
    assert sorted(body["quantiles"]) == ["0.1", "0.5", "0.9"]
    assert all(len(values) == 3 for values in body["quantiles"].values())


def test_p6_the_example_of_a_request_is_one_and_its_answer_has_the_form_that_is_described(client: TestClient) -> None:
    [example] = ForecastRequest.model_config["json_schema_extra"]["examples"]  # type: ignore[index, call-overload]
    answer = client.post("/v1/forecast/lr", json=example)
    assert answer.status_code == 200
    found = ForecastResponse.model_validate_json(answer.content)
    assert (found.model, found.horizon, len(found.mean)) == ("lr", example["horizon"], example["horizon"])
    assert sorted(found.quantiles) == ["0.1", "0.9"]


def test_it_is_what_the_library_says(client: TestClient) -> None:
    samples = np.random.default_rng(3).uniform(50, 150, 80)
    body = {"samples": samples.tolist(), "horizon": 5, "quantiles": [0.25, 0.75]}
    answer = client.post("/v1/forecast/basic", json=body).json()
    expected = Basic().fit(samples).predict(5, (0.25, 0.75))
    assert answer["mean"] == expected.mean.tolist()
    assert answer["quantiles"] == {"0.25": expected.quantiles[0.25].tolist(), "0.75": expected.quantiles[0.75].tolist()}


def test_a_missing_sample_is_bridged(client: TestClient) -> None:
    answer = client.post("/v1/forecast/lr", json={"samples": [10, None, 30], "horizon": 1})
    assert answer.json()["mean"] == pytest.approx([40.0])


def test_quantiles_come_when_they_are_asked_for(client: TestClient) -> None:
    answer = client.post("/v1/forecast/basic", json={"samples": [1], "horizon": 1})
    assert answer.json()["quantiles"] == {}


def test_all_models_are_listed(client: TestClient) -> None:
    models = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert set(FORECASTERS) <= set(models)
    assert models["lr"]["installed"] and models["lr"]["cost"] == "cheap" and models["lr"]["window"] == 100


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_samples_that_are_not_finite_are_named(client: TestClient, literal: str) -> None:
    content = f'{{"samples": [1, 2, {literal}], "horizon": 1}}'
    answer = client.post("/v1/forecast/lr", content=content, headers={"Content-Type": "application/json"})
    problem_of(answer, 422, "invalid-request")
    assert answer.json()["errors"][0]["pointer"].startswith("#/samples/2")


@pytest.mark.parametrize("content", ["{", "", "[1, 2", '{"samples": [1,]}', "\x00"])
def test_malformed_json_is_refused(client: TestClient, content: str) -> None:
    answer = client.post("/v1/forecast/lr", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"samples": [], "horizon": 1}, "#/samples"),
        ({"samples": [1], "horizon": 0}, "#/horizon"),
        ({"samples": [-1], "horizon": 1}, "#/samples/0"),
        ({"samples": [1, True], "horizon": 1}, "#/samples/1"),
        ({"samples": ["2"], "horizon": 1}, "#/samples/0"),
        ({"samples": [1], "horizon": True}, "#/horizon"),
        ({"samples": [1], "horizon": 1, "quantiles": [1.0]}, "#/quantiles/0"),
        ({"samples": [1], "horizon": 1, "step_s": 0}, "#/step_s"),
        ({"samples": [1], "horizon": 1, "steps": 2}, "#/steps"),
        ({"horizon": 1}, "#/samples"),
    ],
)
def test_what_is_wrong_with_a_request_is_pointed_at(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    answer = client.post("/v1/forecast/lr", json=body)
    problem_of(answer, 422, "invalid-request")
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)


def test_an_unknown_model_is_told_which_there_are(client: TestClient) -> None:
    answer = client.post("/v1/forecast/nope", json={"samples": [1], "horizon": 1})
    assert "lr" in problem_of(answer, 404, "unknown-model")


def test_samples_that_are_all_missing_give_no_forecast(client: TestClient) -> None:
    answer = client.post("/v1/forecast/lr", json={"samples": [None, None], "horizon": 1})
    assert "no value" in problem_of(answer, 422, "no-forecast")


def test_samples_and_horizon_are_limited(client_of: Clients) -> None:
    client = client_of(max_samples=5, max_horizon=3)
    answer = client.post("/v1/forecast/lr", json={"samples": [1] * 6, "horizon": 1})
    assert "at most 5 samples, got 6" in problem_of(answer, 422, "too-many-samples")
    answer = client.post("/v1/forecast/lr", json={"samples": [1] * 5, "horizon": 4})
    assert "at most 3 steps, got 4" in problem_of(answer, 422, "horizon-too-long")


def test_a_body_that_is_too_large_is_refused(client_of: Clients) -> None:
    client = client_of(max_body_kb=1)
    answer = client.post("/v1/forecast/lr", json={"samples": [1] * 2_000, "horizon": 1})
    assert "at most 1,024 bytes" in problem_of(answer, 413, "body-too-large")


def test_a_body_that_does_not_tell_its_size_is_counted(client_of: Clients) -> None:
    client = client_of(max_body_kb=1)
    answer = client.post("/v1/forecast/lr", content=iter([b"[1," * 200] * 4))
    problem_of(answer, 413, "body-too-large")


class Stubborn(Lr):
    """Waits until it is let go."""

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        LET_GO.wait(20)
        return np.full(horizon, 1.0)


LET_GO = threading.Event()


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Any:
    LET_GO.clear()
    monkeypatch.setattr(desk, "_forecaster", lambda name: Stubborn() if name == "stubborn" else Lr())
    yield
    LET_GO.set()


QUESTION = Question([1.0, 2.0], 1)


def ask(settings: ServiceSettings, model: str, times: int = 1) -> list[Any]:
    async def all_of_them() -> list[Any]:
        asked = ForecastDesk(settings)
        try:
            return await asyncio.gather(*(asked.ask(model, QUESTION) for _ in range(times)), return_exceptions=True)
        finally:
            LET_GO.set()
            asked.close()

    return asyncio.run(all_of_them())


@pytest.mark.usefixtures("stubborn")
def test_a_forecast_that_takes_too_long_is_given_up() -> None:
    [found] = ask(ServiceSettings(forecast_deadline_s=0.05), "stubborn")
    assert isinstance(found, Problem) and (found.status_code, found.kind) == (504, "too-slow")


@pytest.mark.usefixtures("stubborn")
def test_no_more_wait_than_may() -> None:
    settings = ServiceSettings(forecast_deadline_s=0.2, forecast_queue=2, forecast_threads=1)
    kinds = [found.kind for found in ask(settings, "stubborn", 4) if isinstance(found, Problem)]
    assert kinds.count("too-busy") == 2


def test_many_are_answered_side_by_side() -> None:
    found = ask(ServiceSettings(), "lr", 20)
    assert [forecast.mean.tolist() for forecast in found] == [pytest.approx([3.0])] * 20


class Telling(Lr):
    """Tells which thread it runs on."""

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        return np.full(horizon, float(threading.get_ident()))


def threads_of(monkeypatch: pytest.MonkeyPatch, model: str, question: Question, known_ms: float | None) -> bool:
    """Return whether the event loop itself answers, when so much is known of the model's cost."""
    monkeypatch.setattr(desk, "_forecaster", lambda name: Telling())

    async def ask_one() -> bool:
        asked = ForecastDesk(ServiceSettings())
        try:
            if known_ms is not None:
                asked._small_ms[model] = known_ms
            return (await asked.ask(model, question)).mean[0] == threading.get_ident()
        finally:
            asked.close()

    return asyncio.run(ask_one())


def test_what_is_known_to_be_quick_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads_of(monkeypatch, "lr", QUESTION, 0.05)
    assert not threads_of(monkeypatch, "lr", QUESTION, None)
    assert not threads_of(monkeypatch, "lr", QUESTION, 2.0)


@pytest.mark.parametrize(
    "question", [Question([1.0] * 1_000, 1), Question([1.0, 2.0], 500), Question([1.0, 2.0], 1, 1.0, [0.9])]
)
def test_large_questions_are_for_a_thread(monkeypatch: pytest.MonkeyPatch, question: Question) -> None:
    assert not threads_of(monkeypatch, "lr", question, 0.05)


def test_a_model_of_another_package_never_runs_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not threads_of(monkeypatch, "theirs", QUESTION, 0.05)


def test_the_cost_of_small_questions_is_remembered() -> None:
    async def costs() -> dict[str, float]:
        asked = ForecastDesk(ServiceSettings())
        try:
            for question in (QUESTION, QUESTION, Question([1.0] * 1_000, 1)):
                await asked.ask("basic", question)
            return asked._small_ms
        finally:
            asked.close()

    assert list(asyncio.run(costs())) == ["basic"]
