from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from foretide.service import create_app
from foretide.store import RunRecorder, RunSpec, RunStore, RuntimeStore
from foretide.topology import flow


class Setup:
    """A run that is alive, its run-time configuration, and a client whose service has a clock of its own."""

    def __init__(self, folder: Path) -> None:
        job = flow("words")
        job.source("in").operator("split", replicas=(1, 4)).operator("count", replicas=(1, 8))
        self.store = RunStore(folder / "runs.db", threaded=False)
        self.runtime = RuntimeStore(folder / "runtime.json")
        spec = RunSpec(topology=job.build(), settings={"runtime_path": str(self.runtime.path)})
        self.recorder: RunRecorder = self.store.begin_run(spec)
        self.store.flush()
        self.now_s = self.recorder.info.created_at_s
        self.client = TestClient(create_app(self.store, now=lambda: self.now_s), base_url="http://127.0.0.1")

    def send(self, method: str, rest: str, **given: Any) -> Any:
        return self.client.request(method, f"/v1/runs/latest{rest}", **given)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path)
    with made.client:
        yield made
    made.store.close()


def test_a_run_is_paused_and_resumed(setup: Setup) -> None:
    assert setup.send("POST", "/pause").json()["paused"] is True
    assert setup.runtime.read().paused
    assert setup.send("POST", "/resume").json()["paused"] is False
    assert not setup.runtime.read().paused


def test_replicas_set_by_hand_hold_until_their_time_is_over(setup: Setup) -> None:
    setup.runtime.change(replicas={"split": 1, "count": 2})
    answer = setup.send("PUT", "/overrides/count", json={"replicas": 6, "for_s": 60, "reason": "load test"})
    assert answer.status_code == 200
    [override] = answer.json()["overrides"]
    assert (override["operator"], override["replicas"], override["left_s"]) == ("count", 6, 60.0)
    assert setup.runtime.read().active(setup.now_s + 59) == {"split": 1, "count": 6}
    assert setup.runtime.read().active(setup.now_s + 61) == {"split": 1, "count": 2}
    setup.now_s += 59.0
    setup.recorder.flush()
    setup.store._plain_writer.step(urgent=True)
    assert setup.send("GET", "/control").json()["overrides"] != []
    setup.now_s += 2.0
    assert setup.runtime.overridden(setup.now_s) == {}


def test_what_was_set_by_hand_is_let_go(setup: Setup) -> None:
    setup.send("PUT", "/overrides/count", json={"replicas": 6, "for_s": 60})
    assert setup.send("DELETE", "/overrides/count").json()["overrides"] == []
    assert setup.send("DELETE", "/overrides/count").status_code == 200


@pytest.mark.parametrize("replicas", [9, 100])
def test_replicas_out_of_bounds_are_refused(setup: Setup, replicas: int) -> None:
    answer = setup.send("PUT", "/overrides/count", json={"replicas": replicas, "for_s": 60})
    assert answer.status_code == 422 and "between 1 and 8 replicas of 'count'" in answer.json()["detail"]
    assert setup.runtime.read().overrides == {}


@pytest.mark.parametrize(
    "body", [{"replicas": 0, "for_s": 1}, {"replicas": 2, "for_s": 0}, {"replicas": 2}, {"replicas": 2.5, "for_s": 1}]
)
def test_a_wrong_body_is_refused(setup: Setup, body: dict[str, Any]) -> None:
    assert setup.send("PUT", "/overrides/count", json=body).status_code == 422


def test_an_unknown_operator_is_told_which_there_are(setup: Setup) -> None:
    answer = setup.send("PUT", "/overrides/nope", json={"replicas": 2, "for_s": 1})
    assert answer.status_code == 404 and "split, count" in answer.json()["detail"]


def test_a_run_that_is_over_cannot_be_steered(setup: Setup) -> None:
    setup.recorder.finish()
    for method, rest in (("POST", "/pause"), ("DELETE", "/overrides/count")):
        answer = setup.send(method, rest)
        assert answer.status_code == 409 and answer.json()["type"].endswith("not-steerable")
    control = setup.send("GET", "/control").json()
    assert control["steerable"] is False and "finished" in control["obstacle"]


def test_a_run_that_is_not_heard_of_any_more_cannot_be_steered(setup: Setup) -> None:
    setup.now_s += 3_600.0
    assert "lost" in setup.send("POST", "/pause").json()["detail"]


def test_a_run_without_run_time_configuration_says_so(client: TestClient) -> None:
    assert client.get("/v1/runs/latest/control").json()["steerable"] is False
