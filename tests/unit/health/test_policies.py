"""Health policies, and the manager that asks them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.errors import ActuatorError, ConfigError
from foretide.events import EventLog
from foretide.health.bypass import BypassSettings
from foretide.health.manager import HealthManager, HealthSettings, WorkerSignals
from foretide.health.policies import (
    HEALTH_POLICIES,
    HealthView,
    PeersPolicy,
    PredictedSlowdownPolicy,
    PredictionErrorPolicy,
    Verdict,
    WorkerView,
    make_health_policy,
)
from foretide.health.policies.peers import robust_scores
from foretide.health.predictor import HealthPredictor, WorkerForecast


def view(**slowness: float) -> HealthView:
    return HealthView(0.0, tuple(WorkerView(id, "host", {"slowness": value}) for id, value in slowness.items()))


def test_robust_scores_by_hand() -> None:
    # Peers of the last: 1, 2, 3, whose median is 2 and whose median absolute deviation is 1.
    scores, medians = robust_scores(np.array([1.0, 2.0, 3.0, 8.0]), spread=0.01)
    assert medians[3] == 2.0
    assert scores[3] == pytest.approx(6.0 / 1.4826)


def test_i6_a_slow_worker_among_peers_is_suspicious_and_only_it() -> None:
    verdicts = PeersPolicy().judge(view(a=1.0, b=1.1, c=9.0))
    assert [each.worker for each in verdicts if each.suspicious] == ["c"]
    assert "9" in verdicts[2].reason


def test_of_two_workers_the_slow_one_is_suspicious() -> None:
    assert [each.suspicious for each in PeersPolicy().judge(view(a=0.2, b=1.8))] == [False, True]


@pytest.mark.parametrize("values", [{"a": 1.0, "b": 1.3, "c": 2.5}, {"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 4.0}, {}])
def test_workers_that_are_nearly_alike_or_alone_are_not_suspicious(values: dict[str, float]) -> None:
    assert not any(each.suspicious for each in PeersPolicy().judge(view(**values)))


def test_workers_of_which_nothing_is_known_are_left_out() -> None:
    assert [each.worker for each in PeersPolicy().judge(view(a=1.0, b=math.nan, c=1.0))] == ["a", "c"]


def test_i6_a_prediction_error_above_the_threshold_is_suspicious() -> None:
    policy = PredictionErrorPolicy(threshold=0.5)
    workers = (
        WorkerView("late", "host", errors={"cpu": 0.1, "queueing_ms": 0.7, "sending_ms": 0.0}),
        WorkerView("early", "host", errors={"cpu": 0.1, "queueing_ms": -0.7, "sending_ms": 0.0}),
        WorkerView("idle", "host", errors={"cpu": -0.6, "queueing_ms": 0.0, "sending_ms": 0.0}),
        WorkerView("unknown", "host"),
    )
    found = {each.worker: each.suspicious for each in policy.judge(HealthView(0.0, workers))}
    assert found == {"late": True, "early": False, "idle": True}


def test_i6_a_predicted_slowdown_is_suspicious() -> None:
    workers = tuple(
        WorkerView(id, "host", predicted={"queueing_ms": value, "sending_ms": 1.0})
        for id, value in {"a": 100.0, "b": 110.0, "c": 400.0}.items()
    )
    found = [each.suspicious for each in PredictedSlowdownPolicy().judge(HealthView(0.0, workers))]
    assert found == [False, False, True]


def test_policies_are_found_by_name() -> None:
    assert set(HEALTH_POLICIES) == {"peers", "prediction-error", "predicted-slowdown"}
    with pytest.raises(ConfigError, match=r"health\.peers\.factor"):
        make_health_policy("peers", {"factor": 0})


class FakeActuator:
    """Takes note of what it is asked for, and refuses some workers."""

    def __init__(self, refused: Sequence[str] = ()) -> None:
        self.done: list[tuple[str, str]] = []
        self._refused = refused

    def bypass(self, worker: str, reason: str) -> None:
        if worker in self._refused:
            raise ActuatorError("no quota")
        self.done.append(("bypass", worker))

    def readmit(self, worker: str) -> None:
        self.done.append(("readmit", worker))


def signals(**slowness: float) -> list[WorkerSignals]:
    return [WorkerSignals(id, "host", {"slowness": value}) for id, value in slowness.items()]


def make_manager(
    actuator: FakeActuator,
    events: EventLog,
    clock: ManualClock,
    predictor: HealthPredictor | None = None,
    **settings: object,
) -> HealthManager:
    bypass = BypassSettings(confirm=2, cool_down_s=60)
    made = HealthSettings.model_validate({"by": "peers", "bypass": bypass, **settings})
    return HealthManager(actuator, made, predictor=predictor, events=events, clock=clock)


def test_i6_a_slow_worker_is_bypassed_and_taken_back() -> None:
    actuator, events, clock = FakeActuator(), EventLog(), ManualClock()
    manager = make_manager(actuator, events, clock)
    for _ in range(3):
        manager.look(signals(a=1.0, b=1.0, c=9.0))
        clock.sleep_s(1.0)
    assert actuator.done == [("bypass", "c")]
    clock.sleep_s(60.0)
    manager.look(signals(a=1.0, b=1.0), present=["c"])
    assert actuator.done == [("bypass", "c"), ("readmit", "c")]
    kinds = [event.kind for event in events if event.kind != "health.judged"]
    assert kinds == ["health.suspected", "health.bypassed", "health.readmitted"]
    [bypassed] = [event for event in events if event.kind == "health.bypassed"]
    assert (bypassed.data["policy"], bypassed.data["measured"]) == ("peers", {"slowness": 9.0})
    assert bypassed.data["until_s"] == 61.0


def test_i6_what_is_thought_of_all_workers_is_recorded_once_a_minute() -> None:
    events, clock = EventLog(), ManualClock()
    manager = make_manager(FakeActuator(), events, clock)
    for _ in range(121):
        manager.look(signals(a=1.0, b=1.1))
        clock.sleep_s(1.0)
    judged = [event for event in events if event.kind == "health.judged"]
    assert [event.at_s for event in judged] == [0.0, 60.0, 120.0]
    assert judged[0].message == "2 workers judged by peers; none is suspicious"
    assert judged[0].data["workers"]["b"]["measured"] == {"slowness": 1.1}


def test_a_refused_bypass_is_an_event_and_is_tried_again() -> None:
    actuator, events, clock = FakeActuator(refused="c"), EventLog(), ManualClock()
    manager = make_manager(actuator, events, clock)
    for _ in range(4):
        manager.look(signals(a=1.0, b=1.0, c=9.0))
    assert actuator.done == []
    assert events.count("health.refused") == 2
    assert manager.bypass.bypassed == ()


def test_advice_changes_nothing() -> None:
    actuator, events = FakeActuator(), EventLog()
    manager = make_manager(actuator, events, ManualClock(), advisory=True)
    for _ in range(2):
        manager.look(signals(a=1.0, b=1.0, c=9.0))
    assert actuator.done == []
    assert any(event.message.startswith("advice: worker c") for event in events)


def test_without_a_model_the_detector_stands_in_and_says_so_once() -> None:
    actuator, events = FakeActuator(), EventLog()
    manager = make_manager(actuator, events, ManualClock(), by="linear", policy="prediction-error")
    for _ in range(3):
        look = manager.look(signals(a=1.0, b=1.0, c=9.0))
    assert look.policy == "peers"
    assert actuator.done == [("bypass", "c")]
    assert events.count("health.degraded") == 1


class FakePredictor(HealthPredictor):
    """Predicts what it is told."""

    def __init__(self, **queueing_ms: float) -> None:
        super().__init__({})
        self._told = queueing_ms

    def forecasts(self) -> list[WorkerForecast]:
        now = {"queueing_ms": 100.0, "sending_ms": 5.0}
        return [
            WorkerForecast(id, "host", 0.0, {**now, "queueing_ms": ms}, now, now, {"queueing_ms": (ms - 100.0) / 1000})
            for id, ms in self._told.items()
        ]


@pytest.mark.parametrize("policy", ["prediction-error", None])
def test_i6_with_a_model_the_paper_s_policy_or_a_predicted_slowdown_decides(policy: str | None) -> None:
    actuator, events = FakeActuator(), EventLog()
    predictor = FakePredictor(a=100.0, b=900.0, c=100.0)
    manager = make_manager(actuator, events, ManualClock(), predictor, by="idrnn", policy=policy)
    for _ in range(2):
        manager.features([])
        look = manager.look(signals(a=1.0, b=1.0, c=1.0))
    assert look.policy == (policy or "predicted-slowdown")
    assert actuator.done == [("bypass", "b")]
    [bypassed] = [event for event in events if event.kind == "health.bypassed"]
    assert bypassed.data["predicted"]["queueing_ms"] == 900.0
    assert bypassed.data["measured"]["queueing_ms"] == bypassed.data["expected"]["queueing_ms"] == 100.0


def test_i6_a_prediction_counts_once_for_each_sample_of_features() -> None:
    actuator = FakeActuator()
    manager = make_manager(actuator, EventLog(), ManualClock(), FakePredictor(a=1.0, b=900.0), by="linear")
    for _ in range(10):
        manager.look(signals(a=1.0, b=1.0))
    assert actuator.done == []
    manager.features([])
    manager.look(signals(a=1.0, b=1.0))
    assert actuator.done == [("bypass", "b")]


def test_i6_a_worker_that_hangs_is_found_by_its_peers_whatever_a_model_says() -> None:
    actuator = FakeActuator()
    manager = make_manager(actuator, EventLog(), ManualClock(), FakePredictor(a=1.0, b=1.0, c=1.0), by="linear")
    for _ in range(2):
        manager.look(signals(a=1.0, b=1.0, c=9.0))
    assert actuator.done == [("bypass", "c")]


class BrokenPolicy(PeersPolicy):
    """Raises."""

    name: ClassVar[str] = "broken"

    def judge(self, view: HealthView) -> Sequence[Verdict]:
        raise RuntimeError("out of order")


def test_a_policy_that_raises_is_stood_in_for() -> None:
    actuator, events = FakeActuator(), EventLog()
    manager = make_manager(actuator, events, ManualClock())
    manager._policy = BrokenPolicy()
    for _ in range(2):
        manager.look(signals(a=1.0, b=1.0, c=9.0))
    assert actuator.done == [("bypass", "c")]
    assert any("out of order" in event.message for event in events)


def test_a_last_worker_that_misbehaves_is_spared_and_said_so_once() -> None:
    actuator, events = FakeActuator(), EventLog()
    manager = make_manager(actuator, events, ManualClock())
    for _ in range(4):
        manager.look(signals(a=1.0, b=9.0))
        manager.bypass.look(0.0, ["b"], [])
    assert ("bypass", "a") not in actuator.done
