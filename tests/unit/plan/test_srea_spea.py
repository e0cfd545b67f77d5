import numpy as np
import pytest

from foretide.errors import PlanError
from foretide.plan.epochs import epoch_loads
from foretide.plan.planners.spea import Spea, spea_timetable
from foretide.plan.planners.srea import Srea, srea_timetable
from foretide.topology import flow


def test_b3_srea_has_what_the_current_epoch_needs():
    assert srea_timetable([2, 5, 1]).tolist() == [2, 5, 1]


def test_b3_spea_has_what_the_current_and_the_next_epoch_need():
    assert spea_timetable([2, 5, 1, 1]).tolist() == [5, 5, 1, 1]
    assert spea_timetable([[1, 4], [3, 2]]).tolist() == [[3, 4], [3, 2]]
    assert spea_timetable([4]).tolist() == [4]


def test_srea_sizes_by_the_last_input_whatever_is_forecast(make_situation):
    situation = make_situation(arrived=150.0, share={("O1", "O2"): 0.5}, forecast=900.0)

    plan = Srea().plan(situation)

    assert plan.by_operator() == {"O1": 2, "O2": 1, "O3": 1}
    assert plan.demand.tolist() == pytest.approx([1.5, 0.75, 0.75])


def test_srea_needs_no_forecast(make_situation):
    assert not Srea.needs_forecast
    assert Srea().plan(make_situation(arrived=250.0)).replicas.tolist() == [3, 3, 3]


def test_srea_sees_through_a_congested_operator(make_situation):
    # O1 finishes a tenth of what arrives, so O2 receives little; it still gets what the input will need.
    situation = make_situation(arrived=400.0, processed={"O1": 40.0, "O2": 40.0, "O3": 40.0})

    assert Srea().plan(situation).replicas.tolist() == [4, 4, 4]


def test_srea_leaves_queues_to_the_guard(make_situation):
    assert Srea().plan(make_situation(queued=10_000.0)).replicas.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("arrived", "forecast", "expected"), [(150.0, 420.0, 5), (420.0, 150.0, 5), (150.0, 120.0, 2)])
def test_spea_sizes_by_the_larger_of_last_and_next_input(make_situation, arrived, forecast, expected):
    plan = Spea().plan(make_situation(arrived=arrived, forecast=forecast))

    assert plan.replicas.tolist() == [expected] * 3


def test_spea_looks_one_interval_ahead_and_no_further(make_situation):
    plan = Spea().plan(make_situation(arrived=100.0, forecast=[200.0, 900.0]))

    assert plan.replicas.tolist() == [2, 2, 2]
    assert Spea().intervals_ahead == 1


def test_spea_without_a_forecast_says_what_is_missing(make_situation):
    with pytest.raises(PlanError, match="source 'in': expected a forecast"):
        Spea().plan(make_situation())


@pytest.mark.parametrize("planner", [Srea(), Spea()])
def test_an_operator_whose_execution_time_is_not_known_is_held(make_situation, planner):
    plan = planner.plan(make_situation(execution_s={"O2": np.nan}, replicas=7, forecast=100.0))

    assert plan.by_operator() == {"O1": 1, "O2": 7, "O3": 1}
    assert any("O2" in note for note in plan.notes)


def test_epoch_loads_are_the_same_by_epoch_and_by_source():
    job = flow("two")
    left, right = job.source("left"), job.source("right")
    both = job.operator("both", inputs=[left, right], selectivity=0.5)
    both.operator("last")
    topology = job.build()
    arrivals = np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 4.0]])

    loads = epoch_loads(topology.flow, arrivals, topology.declared_share)

    assert loads.tolist() == [[11.0, 5.5], [22.0, 11.0], [34.0, 17.0]]
    assert epoch_loads(topology.flow, arrivals[:1], topology.declared_share).tolist() == [[11.0, 5.5]]
