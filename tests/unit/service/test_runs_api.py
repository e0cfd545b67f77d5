from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from foretide.control.recorded import recalled
from foretide.service import ServiceSettings, create_app
from foretide.service.views import run_score
from foretide.store import RecordedRun, RunInfo, RunStore

Clients = Callable[..., TestClient]


def get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/v1/runs{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_runs_are_listed_newest_first(client: TestClient) -> None:
    runs = get(client, "")["runs"]
    assert [run["policy"] for run in runs] == ["pasps", "static"]
    assert runs[0]["operators"] == ["split", "a", "b", "join"] and runs[0]["status"] == "finished"
    assert len(get(client, "?last=1")["runs"]) == 1
    assert get(client, "?name=other")["runs"] == []


def test_a_store_that_is_not_there_yet_has_no_runs(tmp_path: Any) -> None:
    from foretide.service import create_app

    with TestClient(create_app(RunStore(tmp_path / "none.db")), base_url="http://localhost") as client:
        assert client.get("/v1/runs").json() == {"runs": []}
        assert client.get("/v1/runs/latest").status_code == 404


def test_a_run_is_found_by_id_beginning_and_name(client: TestClient) -> None:
    latest = get(client, "/latest")
    assert latest["settings"]["simulated"] is True and latest["cursor"] > 0
    assert get(client, f"/{latest['id']}")["id"] == get(client, "/branching")["id"] == latest["id"]


@pytest.mark.parametrize(
    "rest",
    [
        *("", "/topology", "/topology.svg", "/measurements", "/forecasts", "/decisions", "/decisions/1", "/plan"),
        *("/advice", "/latencies", "/events", "/features", "/features/cpu", "/score", "/stream", "/control"),
    ],
)
def test_an_unknown_run_is_a_problem_everywhere(client: TestClient, rest: str) -> None:
    answer = client.get(f"/v1/runs/nope{rest}")
    assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:foretide:problem:unknown-run"
    assert "foretide runs list" in answer.json()["detail"]


def test_the_topology_has_places_that_do_not_overlap(client: TestClient) -> None:
    found = get(client, "/latest/topology")
    nodes = {node["id"]: node for node in found["nodes"]}
    assert list(nodes) == ["in", "split", "a", "b", "join", "out"]
    assert nodes["a"]["x"] == nodes["b"]["x"] > nodes["split"]["x"] + nodes["split"]["width"]
    assert abs(nodes["a"]["y"] - nodes["b"]["y"]) >= nodes["a"]["height"]
    assert nodes["a"]["maximum"] == 6 and nodes["in"]["kind"] == "source"
    assert [edge["label"] for edge in found["edges"] if edge["start"] == "split"] == ["left", "right"]
    for edge in found["edges"]:
        assert edge["points"][0][0] == nodes[edge["start"]]["x"] + nodes[edge["start"]]["width"]
        assert edge["points"][-1][0] == nodes[edge["end"]]["x"]


def test_the_topology_is_drawn(client: TestClient) -> None:
    answer = client.get("/v1/runs/latest/topology.svg?theme=dark")
    assert answer.headers["content-type"] == "image/svg+xml" and answer.text.startswith("<svg ")


def test_measurements_are_those_of_the_store(client: TestClient, store: RunStore) -> None:
    found = get(client, "/latest/measurements?last=3")
    stored = store.run("latest").measurements(last=3)
    assert found["at_s"] == [one.ended_at_s for one in stored]
    assert found["arrived_per_s"]["in"] == [float(one.arrived[0]) for one in stored]
    assert found["operators"]["a"]["replicas"] == [int(one.replicas[1]) for one in stored]
    last = stored[-1]
    busy = min(1.0, last.busy_s[1] / last.replicas[1])
    assert found["operators"]["a"]["utilisation"][-1] == pytest.approx(busy, rel=1e-5)
    join = sum(edge["passed_per_s"][-1] for edge in found["edges"] if edge["end"] == "join")
    assert found["operators"]["join"]["received_per_s"][-1] == pytest.approx(join)


def test_many_measurements_are_joined_to_few(client: TestClient) -> None:
    every, few = get(client, "/latest/measurements"), get(client, "/latest/measurements?points=10")
    assert len(every["at_s"]) == 60 and len(few["at_s"]) == 10
    assert few["duration_s"] == [6.0] * 10
    assert sum(few["arrived_per_s"]["in"]) * 6 == pytest.approx(sum(every["arrived_per_s"]["in"]), rel=1e-4)


def test_only_later_measurements_are_asked_for(client: TestClient) -> None:
    assert get(client, "/latest/measurements?since_s=57.5")["at_s"] == [58.0, 59.0, 60.0]
    assert get(client, "/latest/measurements?since_s=1e9")["at_s"] == []


def test_as_much_is_read_as_may_be(client_of: Clients) -> None:
    assert len(get(client_of(max_rows=7), "/latest/measurements?last=1000")["at_s"]) == 7


def test_forecasts_say_what_the_next_interval_brings(client: TestClient, store: RunStore) -> None:
    found = get(client, "/latest/forecasts")["sources"]["in"]
    first = store.run("latest").forecasts()[0]
    assert found["from_s"][0] == first.made_at_s and found["to_s"][0] == first.made_at_s + 10.0
    assert found["mean_per_s"][0] == pytest.approx(first.interval_events(10.0, 1)[0] / 10.0, rel=1e-5)
    assert found["low_per_s"][0] <= found["mean_per_s"][0] <= found["high_per_s"][0]


def test_a_decision_is_explained_as_on_the_day(client: TestClient, store: RunStore) -> None:
    listed = get(client, "/latest/decisions")["decisions"]
    stored = store.run("latest").decisions()
    assert [one["id"] for one in listed] == [one.seq for one in stored]
    chosen = next(one for one in listed if one["changes"])
    story = get(client, f"/latest/decisions/{chosen['id']}")
    decision = next(one for one in stored if one.seq == chosen["id"])
    assert story["explanations"] == [one.to_data() for one in recalled(decision).explain()]
    assert {step["equation"] for step in story["explanations"][0]["steps"]} >= {"P5 Eq. 4: λ̂ʳ_i = λ̂_G·θ_i"}
    change = chosen["changes"][0]
    assert story["replicas"]["planned"][change["operator"]] == change["to"]


def test_a_decision_that_is_not_there_is_a_problem(client: TestClient) -> None:
    answer = client.get("/v1/runs/latest/decisions/1")
    assert answer.status_code == 404 and answer.json()["type"].endswith("unknown-decision")


def test_plan_and_advice_are_of_the_last_decision(client: TestClient, store: RunStore) -> None:
    plan, advice = get(client, "/latest/plan"), get(client, "/latest/advice")
    stored = store.run("latest").latest_plan()
    assert stored is not None and plan["replicas"] == stored.by_operator() and plan["planner"] == "pasps"
    assert {one["operator"]: one["recommended"] for one in advice["recommendations"]} == stored.by_operator()
    assert advice["advisory"] is False
    for one in advice["recommendations"]:
        assert one["change"] == one["recommended"] - one["observed"]


def test_latencies_are_gathered_by_interval(client: TestClient, store: RunStore) -> None:
    found = get(client, "/latest/latencies?interval_s=20")
    assert len(found["at_s"]) == 3 and found["at_s"][-1] == 60.0
    assert sum(found["events"]) == store.run("latest").latency().count
    assert all(p50 <= p95 <= p99 for p50, p95, p99 in zip(*(found[f"p{n}_s"] for n in (50, 95, 99)), strict=True))


def test_events_are_listed_by_kind(client: TestClient) -> None:
    assert {event["kind"] for event in get(client, "/latest/events?kind=plan.applied")["events"]} == {"plan.applied"}
    assert get(client, "/latest/events?kind=none")["events"] == []


def test_the_latest_features_have_no_nan(client: TestClient) -> None:
    [found] = get(client, "/latest/features")["features"]
    assert found["at_s"] == 60.0 and found["values"] == {"cpu": 50.0, "queueing_ms": None}


def test_i3_a_feature_is_shown_over_time_for_each_worker(client: TestClient, store: RunStore) -> None:
    at_s = [sample.at_s for sample in store.run("latest").features(level="worker")]
    found = get(client, "/latest/features/cpu")
    [(owner, series)] = found["owners"].items()
    assert (found["level"], owner, series["at_s"], series["values"][-1]) == ("worker", "executor-1", at_s, 50.0)
    few = get(client, "/latest/features/queueing_ms?points=1")["owners"]["executor-1"]
    assert few == {"at_s": at_s[-1:], "values": [None]}
    assert get(client, "/latest/features/cpu?level=machine")["owners"] == {}
    assert client.get("/v1/runs/latest/features/cpu?level=rack").status_code == 422


def test_p8_a_run_is_scored(client: TestClient) -> None:
    score = get(client, "/latest/score")
    assert score["seconds"] == 60.0 and score["pool"] == 18
    assert score["saved"] == pytest.approx(1 - score["replicas_mean"] / score["r_over"], abs=1e-4)
    assert 0 < score["processed"] <= 1 and score["changes"] > 0


@pytest.mark.parametrize(
    ("outcome", "settings", "r_over"),
    [
        ({"r_over": 7.0}, {"r_over": 9.0}, 7.0),
        ({}, {"r_over": 9.0}, 9.0),
        ({}, {"pool": 5}, 5.0),
        ({}, {"r_over": None}, 10.0),
    ],
)
def test_p8_savings_are_measured_against_what_the_run_itself_is_measured_against(
    recorded: Path, outcome: dict[str, Any], settings: dict[str, Any], r_over: float
) -> None:
    with RunStore(recorded) as store:
        run = store.run("latest")
        most = max(int(one.replicas.sum()) for one in run.measurements())
        info = replace(run.info, outcome=outcome, settings=settings)
        score = run_score(cast(RecordedRun, _Informed(run, info)), 10_000)
    assert score["r_over"] == (r_over if r_over < 10 else most)


class _Informed:
    """A recorded run with another outcome and other settings."""

    def __init__(self, run: RecordedRun, info: RunInfo) -> None:
        self._run, self.info = run, info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


@pytest.mark.parametrize("query", ["last=0", "last=x", "since_s=nan", "points=0"])
def test_a_wrong_parameter_is_named(client: TestClient, query: str) -> None:
    answer = client.get(f"/v1/runs/latest/measurements?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"query {query.split('=')[0]}"


def test_what_is_not_there_is_a_problem_too(client: TestClient) -> None:
    answer = client.get("/v2/everything")
    assert answer.status_code == 404 and answer.json()["type"].endswith("not-found")
    answer = client.delete("/v1/models")
    assert answer.status_code == 405 and answer.json()["type"].endswith("method-not-allowed")
    assert answer.headers["allow"] == "GET"


def test_a_store_that_cannot_be_read_is_a_problem(tmp_path: Any) -> None:
    from foretide.service import create_app

    broken = tmp_path / "runs.db"
    broken.write_bytes(b"not a database at all" * 100)
    app = create_app(RunStore(broken))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.get("/v1/runs")
        assert answer.status_code == 503 and answer.json()["type"].endswith("store-unavailable")
        assert "foretide_store_up 0.0" in client.get("/metrics").text


def test_a_promise_is_told_with_what_was_expected_and_kept(tmp_path: Path, promised_run: Callable[..., str]) -> None:
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        run = promised_run(store)
        with TestClient(create_app(store, ServiceSettings()), base_url="http://127.0.0.1") as client:
            score = client.get(f"/v1/runs/{run}/score").json()
            decisions = client.get(f"/v1/runs/{run}/decisions").json()["decisions"]
    kept = score["slo"]
    assert (kept["target_ms"], kept["quantile"]) == (2000, 0.95)
    assert 0 < kept["kept"] == kept["intervals"] <= 6
    outlook = decisions[-1]["latency"]
    assert (outlook["promised_s"], outlook["quantile"]) == (2.0, 0.95)
    assert 0.1 < outlook["p50_s"] < outlook["p95_s"] <= 2.0


def test_where_nothing_is_promised_nothing_is_kept(client: TestClient) -> None:
    assert client.get("/v1/runs/latest/score").json()["slo"] is None
    assert client.get("/v1/runs/latest/decisions").json()["decisions"][-1]["latency"] is None
