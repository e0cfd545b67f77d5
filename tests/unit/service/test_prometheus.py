from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from stores import say_that_it_runs

from foretide.service.prometheus import ServiceMetrics
from foretide.store import RunStore


def samples_of(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_requests_are_counted_by_route(client: TestClient) -> None:
    client.get("/v1/runs/latest")
    client.get("/v1/runs/nope")
    client.get("/somewhere")
    client.request("BREW", "/v1/models")
    found = samples_of(client.get("/metrics").text)["foretide_http_requests_total"]
    by_key = {
        tuple(dict(labels)[name] for name in ("method", "path", "status")): count for labels, count in found.items()
    }
    assert by_key["GET", "/v1/runs/{run}", "200"] == by_key["GET", "/v1/runs/{run}", "404"] == 1.0
    assert by_key["GET", "other", "404"] == 1.0
    assert by_key["other", "/v1/models", "405"] == 1.0


def test_forecasts_are_counted_by_model(client: TestClient) -> None:
    client.post("/v1/forecast/lr", json={"samples": [1, 2], "horizon": 1})
    found = samples_of(client.get("/metrics").text)["foretide_forecast_seconds_count"]
    assert found == {(("model", "lr"),): 1.0}


def test_a_run_that_is_alive_is_shown(tmp_path: Path, record_run: Callable[..., str]) -> None:
    path = tmp_path / "runs.db"
    with RunStore(path, threaded=False) as store:
        run = store.run(record_run(store))
        say_that_it_runs(path, run.id)
        found = samples_of(ServiceMetrics(store, lambda: run.info.seen_at_s).to_text().decode())
        names = (("run", run.id), ("topology", "branching"))
        last = run.measurements(last=1)[0]
        assert found["foretide_store_up"] == {(): 1.0}
        assert found["foretide_input_events_per_second"] == {
            (*names[:1], ("source", "in"), *names[1:]): last.arrived[0]
        }
        assert found["foretide_dropped_events_per_second"][("operator", "a"), *names] == 0.0
        assert found["foretide_state_keys"][("operator", "a"), *names] == 0.0
        observed = found["foretide_replicas"][("kind", "observed"), ("operator", "a"), *names]
        assert observed == last.replicas[1]
        assert {dict(labels)["kind"] for labels in found["foretide_replicas"]} == {"planned", "requested", "observed"}
        assert {dict(labels)["quantile"] for labels in found["foretide_latency_seconds"]} == {"0.5", "0.95", "0.99"}
        assert all(0 <= value <= 1 for value in found["foretide_utilisation_ratio"].values())


def test_a_promise_is_shown_with_what_is_expected_and_kept(tmp_path: Path, promised_run: Callable[..., str]) -> None:
    path = tmp_path / "runs.db"
    with RunStore(path, threaded=False) as store:
        run = store.run(promised_run(store))
        say_that_it_runs(path, run.id)
        found = samples_of(ServiceMetrics(store, lambda: run.info.seen_at_s).to_text().decode())
    names = (("run", run.id), ("topology", "branching"))
    assert found["foretide_promised_latency_seconds"] == {(("quantile", "0.95"), *names): 2.0}
    median, high = (
        found["foretide_expected_latency_seconds"][("quantile", level), *names] for level in ("0.5", "0.95")
    )
    assert 0.1 < median < high <= 2.0
    assert found["foretide_promise_kept_ratio"] == {names: 1.0}


def test_runs_that_are_over_are_not_shown(client: TestClient) -> None:
    assert "foretide_replicas" not in samples_of(client.get("/metrics").text)
