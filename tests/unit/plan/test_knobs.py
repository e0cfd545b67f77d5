from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from foretide.errors import ConfigError
from foretide.plan import GuardSettings, find_planner, make_planner
from foretide.plan.knobs import UTILISATION, Axis, Knob, Scale, with_grids
from foretide.plan.registry import PLANNERS

SCALE = Scale(td_s=5.0, execution_s=0.002, peak={"a": 4, "b": 10}, least_p95_s=0.6)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_point_of_every_grid_is_a_valid_setting(name: str) -> None:
    for knob in find_planner(name).knobs:
        assert len(knob.points()) > 1
        for point in knob.points():
            planner, guards = knob.settings(point, SCALE)
            make_planner(name, **planner)
            GuardSettings(**guards)


@pytest.mark.parametrize(
    ("value", "unit", "setting"),
    [
        (0.7, "", 0.7),
        (3, "intervals", 15.0),
        (0.2, "replica-intervals", 500.0),  # a replica finishes 2500 events in 5 s
        (0.5, "peak", {"a": 2, "b": 5}),
        (0.01, "peak", {"a": 1, "b": 1}),
        (1.1, "peak", {"a": 5, "b": 11}),
        (1.5, "promise", "p95<900ms"),
    ],
)
def test_values_are_scaled_to_the_input(value: float, unit: str, setting: object) -> None:
    assert SCALE.setting(value, unit) == setting  # type: ignore[arg-type]


def test_a_promise_is_turned_only_where_slots_are_shared() -> None:
    patience, slo = find_planner("foretide").knobs
    apart = replace(SCALE, least_p95_s=None)
    assert [knob.suits(SCALE) for knob in (patience, slo)] == [True, True]
    assert [knob.suits(apart) for knob in (patience, slo)] == [True, False]


def test_a_setting_of_guards_is_kept_apart() -> None:
    assert UTILISATION.settings({"utilisation_target": 0.8}, SCALE) == ({}, {"utilisation_target": 0.8})


def test_a_grid_of_the_users_replaces_one_axis_and_leaves_out_other_knobs() -> None:
    knobs = (Knob(Axis("patience", (1, 2))), Knob(Axis("limit", (1, 2)), Axis("wait_s", (0, 60))))
    [chosen] = with_grids("own", knobs, {"limit": [5]})
    assert chosen.points() == [{"limit": 5, "wait_s": 0}, {"limit": 5, "wait_s": 60}]
    assert with_grids("own", knobs, {}) == knobs


@pytest.mark.parametrize(
    ("knobs", "grids", "message"),
    [
        ((UTILISATION,), {"utilization_target": [1]}, "did you mean 'utilisation_target'"),
        ((UTILISATION,), {"patience": [1]}, "expected a knob of 'own': utilisation_target, got 'patience'"),
        ((), {"patience": [1]}, "expected no knob, since 'own' has none"),
        ((UTILISATION,), {"utilisation_target": []}, "expected values for own.utilisation_target"),
    ],
)
def test_a_grid_for_nothing_or_of_nothing_is_refused(
    knobs: tuple[Knob, ...], grids: dict[str, list[float]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        with_grids("own", knobs, grids)


def test_a_knob_travels_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(UTILISATION)).points() == UTILISATION.points()
