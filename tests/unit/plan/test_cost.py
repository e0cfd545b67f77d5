import numpy as np
import pytest
from pydantic import ValidationError

from foretide.errors import PlanError
from foretide.plan.cost import Costs, as_columns, operator_costs, timetable_cost

PRICES = Costs(running=10, start=3, stop=2, reroute=1)


def test_b2_eq_5_to_8_sums_running_starts_stops_and_reroutings():
    # 11 instance-epochs, 2 started, 3 stopped, 2 changes: 110 + 6 + 6 + 2.
    assert timetable_cost([2, 4, 4, 1], PRICES) == 124.0


def test_b2_a_rerouting_is_paid_once_however_many_instances_change():
    one, five = timetable_cost([1, 2], PRICES), timetable_cost([1, 6], PRICES)

    assert one == 10 * 3 + 3 + 1
    assert five == 10 * 7 + 15 + 1


def test_b2_initial_instances_add_the_step_into_the_first_epoch():
    assert timetable_cost([2, 2], PRICES) == 40.0
    assert timetable_cost([2, 2], PRICES, initial=2) == 40.0
    assert timetable_cost([2, 2], PRICES, initial=0) == 40.0 + 2 * 3 + 1
    assert timetable_cost([2, 2], PRICES, initial=5) == 40.0 + 3 * 2 + 1


def test_operators_are_priced_by_column():
    table = [[1, 4], [2, 4]]

    assert operator_costs(table, PRICES, initial=[1, 5]).tolist() == [34.0, 83.0]
    assert timetable_cost(table, PRICES, initial=[1, 5]) == 117.0


def test_the_defaults_are_the_papers_prices():
    assert Costs().model_dump() == {"running": 8000.0, "start": 5000.0, "stop": 5000.0, "reroute": 100.0}


@pytest.mark.parametrize("field", ["running", "start", "stop", "reroute"])
@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_out_of_range_is_refused(field, price):
    with pytest.raises(ValidationError, match=field):
        Costs(**{field: price})


@pytest.mark.parametrize("table", [[1.5, 2.0], [-1, 2], [], [np.nan, 1.0], 3, [[[1]]], ["a"]])
def test_a_table_that_is_no_timetable_is_refused(table):
    with pytest.raises(PlanError, match="whole numbers of at least 0"):
        as_columns(table)


def test_as_columns_returns_a_copy():
    needs = np.array([[1, 2], [3, 4]])

    as_columns(needs)[0, 0] = 9

    assert needs[0, 0] == 1
