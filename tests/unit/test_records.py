from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foretide.errors import ForecastError, MetricsError, PlanError
from foretide.records import Action, CpuUse, Forecast, Layout, Measurement, Plan, Term, Window

LAYOUT = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))


def measurement(**changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "layout": LAYOUT,
        "ended_at_s": 30.0,
        "duration_s": 30.0,
        "arrived": [300.0],
        "passed": [300.0, 200.0],
        "processed": [200.0, 200.0],
        "queued": [100.0, 0.0],
        "busy_s": [2.0, 4.0],
        "replicas": [1, 2],
    }
    return Measurement(**(values | changes))


def forecast(**changes: Any) -> Forecast:
    values: dict[str, Any] = {
        "series": "in",
        "model": "basic",
        "made_at_s": 60.0,
        "step_s": 1.0,
        "mean": [100.0, 120.0],
    }
    return Forecast(**(values | changes))


def plan(**changes: Any) -> Plan:
    values: dict[str, Any] = {"layout": LAYOUT, "planner": "static", "made_at_s": 60.0, "replicas": [2, 3]}
    return Plan(**(values | changes))


def test_layout_tells_the_column_of_every_name() -> None:
    assert LAYOUT.source_index == {"in": 0}
    assert LAYOUT.operator_index == {"a": 0, "b": 1}
    assert LAYOUT.edge_index[("a", "out", "b")] == 1


def test_measurement_keeps_read_only_copies() -> None:
    queued = np.array([100.0, 0.0])
    kept = measurement(queued=queued)
    queued[0] = 7.0
    assert kept.queued.tolist() == [100.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        kept.queued[0] = 1.0
    assert kept.replicas.dtype == np.int64
    assert kept.id == "measurement@30.000"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("arrived", [1.0, 2.0], r"arrived: expected one value for each of 1 columns, got shape \(2,\)"),
        ("queued", [-1.0, 0.0], "queued of 'a': expected a finite amount of at least 0, got -1.0"),
        ("processed", [1.0, np.nan], "processed of 'b'.*got nan"),
        ("passed", [1.0, np.inf], r"passed of \('a', 'out', 'b'\).*got inf"),
        ("busy_s", ["x", 1.0], "busy_s: expected numbers"),
        ("replicas", [1, 1.5], "replicas: expected whole numbers, got 1.5"),
        ("replicas", [1, np.nan], "replicas of 'b'"),
        ("duration_s", 0.0, "duration_s: expected at least 1e-06 seconds, got 0.0"),
        ("duration_s", np.nan, "duration_s"),
        ("duration_s", np.inf, "duration_s"),
        ("ended_at_s", np.nan, "ended_at_s"),
        ("latency_s", -1.0, "latency_s"),
        ("latency_s", np.nan, "latency_s"),
    ],
)
def test_measurement_refuses_what_cannot_have_been_measured(field: str, value: Any, message: str) -> None:
    with pytest.raises(MetricsError, match=message):
        measurement(**{field: value})


def test_cpu_use_belongs_to_operators_of_the_layout() -> None:
    use = CpuUse(np.array([0, 1]), np.array([0, 0]), np.array([0.5, 0.2]), np.array([1.0, 1.0]))
    assert measurement(cpu=use).cpu is use
    beyond = CpuUse(np.array([0, 2]), np.array([0, 0]), np.array([0.5, 0.2]), np.array([1.0, 1.0]))
    with pytest.raises(MetricsError, match="columns below 2, got 2"):
        measurement(cpu=beyond)
    with pytest.raises(MetricsError, match=r"core: expected one value for each of 2 columns, got shape \(1,\)"):
        CpuUse(np.array([0, 1]), np.array([0]), np.array([0.5, 0.2]), np.array([1.0, 1.0]))


def test_window_cannot_be_written_to() -> None:
    columns = {name: np.zeros(2) for name in ("received", "processed", "queued", "share", "execution_s", "utilisation")}
    window = Window(
        layout=LAYOUT,
        ended_at_s=30.0,
        duration_s=30.0,
        sample_s=1.0,
        arrival_rates=np.zeros((3, 1)),
        received_rates=np.zeros((3, 2)),
        arrived=np.zeros(1),
        replicas=np.ones(2, dtype=np.int64),
        **columns,
    )
    for name in (*columns, "arrival_rates", "received_rates", "arrived", "replicas"):
        assert not getattr(window, name).flags.writeable, name
    assert columns["share"].flags.writeable, "the giver's own array stays his"
    assert window.id == "window@30.000"


def test_forecast_tells_the_instant_of_each_step() -> None:
    assert forecast(step_s=5.0).instants_s.tolist() == [65.0, 70.0]
    assert forecast().id == "forecast:in@60.000"


@pytest.mark.parametrize(
    ("interval_s", "intervals", "expected"),
    [
        (1.0, 2, [100.0, 120.0]),
        (0.5, 4, [50.0, 50.0, 60.0, 60.0]),
        (1.5, 1, [160.0]),  # 100 in the first second and half of 120
        (2.0, 3, [220.0, 240.0, 240.0]),  # beyond the end its last rate goes on
        (10.0, 1, [100.0 + 9 * 120.0]),
    ],
)
def test_interval_events_integrate_the_rate(interval_s: float, intervals: int, expected: list[float]) -> None:
    assert forecast().interval_events(interval_s, intervals).tolist() == pytest.approx(expected)


def test_interval_events_never_go_below_zero() -> None:
    assert forecast(mean=[-5.0, 10.0]).interval_events(1.0, 2).tolist() == [0.0, 10.0]


def test_interval_events_of_a_quantile() -> None:
    wide = forecast(quantiles={0.9: [150.0, 160.0]})
    assert wide.interval_events(2.0, 1, quantile=0.9).tolist() == [310.0]
    with pytest.raises(ForecastError, match=r"expected quantile 0\.5, got \[0\.9\]"):
        wide.interval_events(2.0, 1, quantile=0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": []},
        {"mean": [1.0, np.nan]},
        {"mean": [np.inf]},
        {"mean": [[1.0]]},
        {"step_s": 0.0},
        {"step_s": np.nan},
        {"quantiles": {0.9: [1.0]}},
        {"quantiles": {0.9: [1.0, np.nan]}},
        {"quantiles": {1.5: [1.0, 1.0]}},
    ],
)
def test_forecast_refuses_what_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(ForecastError, match="forecast of 'in' by 'basic'"):
        forecast(**changes)


def test_term_has_a_value_for_each_operator_or_one_for_all() -> None:
    assert Term("θ", "share", "P5 Eq. 5", np.array([1.0, 0.5])).value(1) == 0.5
    assert Term("λ̂_G", "input", "sum", 7).value(1) == 7.0
    assert Term("λ̂_G", "input", "sum", np.int64(7)).value(0) == 7.0  # type: ignore[arg-type]


def test_plan_by_operator_and_revised() -> None:
    term = Term("bounds", "replicas within bounds", "r ≤ 2", np.array([2.0, 2.0]))
    revised = plan(notes=("first",)).revised([2, 2], term, "cut")
    assert revised.by_operator() == {"a": 2, "b": 2}
    assert (revised.terms, revised.notes) == ((term,), ("first", "cut"))
    assert plan().by_operator() == {"a": 2, "b": 3}, "the plan it came from stays"
    assert plan().id == "plan@60.000"


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([2], r"expected replicas for 2 operators, got shape \(1,\)"),
        ([2, 0], "operator 'b': expected at least 1 replica, got 0"),
        ([2.0, 1.5], "expected whole numbers"),
        ([2.0, np.nan], "expected whole numbers"),
    ],
)
def test_plan_refuses_replicas_that_cannot_run(replicas: list[float], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(replicas=replicas)


def test_plan_keeps_its_demand_and_schedule_unwritten() -> None:
    full = plan(demand=np.array([1.5, 2.5]), schedule=np.array([[2, 3], [2, 2]]))
    for values in (full.replicas, full.demand, full.schedule):
        assert values is not None
        assert not values.flags.writeable


def test_action_keeps_planned_requested_and_observed_apart() -> None:
    action = Action(
        plan_id="plan@60.000", at_s=60.0, status="applied", planned=[4, 3], requested=[3, 3], observed=[1, 3]
    )  # type: ignore[arg-type]
    assert action.changes == 1
    assert replace(action, observed=np.array([1, 1])).changes == 2
    assert action.id == "action@60.000"
