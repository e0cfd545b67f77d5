"""Changing a topology on Spark, over one that is moved by hand, and executors of a scheduler that is made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from schedulers import FakeScheduler
from topologies import line, step

from foretide.control.executors.demand import slots_ahead, slots_expected
from foretide.control.executors.lead_time import LeadTime
from foretide.control.runtime import RuntimeActuator
from foretide.errors import ActuatorError, ConfigError
from foretide.events import EventLog
from foretide.records import Forecast, Layout, Plan
from foretide.spark.executors import (
    ExecutorManager,
    ExecutorSettings,
    ExecutorsUnavailable,
    open_scheduler,
)
from foretide.spark.executors.housekeeping import Housekeeper
from foretide.spark.steering.actuator import SparkActuator
from foretide.store import RuntimeStore

LINE = line(step("a", replicas=(1, 4)), step("b", replicas=(2, 6)))


def plan(*replicas: int, layout: Layout | None = None) -> Plan:
    return Plan(layout=layout or LINE.layout, planner="test", made_at_s=0.0, replicas=np.array(replicas))


class Ticks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def manager(scheduler: FakeScheduler, ticks: Ticks | None = None, **settings: Any) -> ExecutorManager:
    given = {"minimum": 1, "maximum": 4, "release_after_s": 10.0, "kill_after_s": 30.0, "lead_s": 0.0, **settings}
    return ExecutorManager(scheduler, ExecutorSettings(**given), ticks or Ticks())


class TestReplicas:
    def test_a_plan_is_cut_to_the_bounds_and_put_in_force(self, fake_run: Callable[..., Any]) -> None:
        run = fake_run(LINE)
        assert SparkActuator(run).apply(plan(9, 1)).tolist() == [4, 2]
        assert run.plan == {"a": 4, "b": 2}

    def test_the_same_plan_twice_writes_once(self, fake_run: Callable[..., Any]) -> None:
        run = fake_run(LINE)
        actuator = SparkActuator(run)
        actuator.apply(plan(3, 3))
        run.refuse = AssertionError("there is nothing to write")
        assert actuator.apply(plan(3, 3)).tolist() == [3, 3]

    def test_a_plan_for_another_topology_is_refused(self, fake_run: Callable[..., Any]) -> None:
        run = fake_run(LINE)
        with pytest.raises(ActuatorError, match="expected a plan for topology 'line'"):
            SparkActuator(run).apply(plan(2, layout=Layout(("in",), ("x",), ())))

    @pytest.mark.parametrize("error", [OSError("read-only file system"), ConfigError("x", expected="y", got="z")])
    def test_a_configuration_that_cannot_be_replaced_is_a_refusal(
        self, fake_run: Callable[..., Any], error: Exception
    ) -> None:
        run = fake_run(LINE, refuse=error)
        with pytest.raises(ActuatorError, match="the run-time configuration was not replaced"):
            SparkActuator(run).apply(plan(3, 3))
        assert run.plan == {"a": 1, "b": 2}

    def test_i1_a_split_ratio_is_set_on_the_edge(self, fake_run: Callable[..., Any]) -> None:
        run = fake_run(LINE)
        SparkActuator(run).split("a", "b", (7, 3, 2))
        assert run.groupings == {("a", "b"): {"weights": [7, 3, 2]}}
        with pytest.raises(ActuatorError, match="edge 'b -> a': the split ratio was not changed"):
            SparkActuator(run).split("b", "a", (1, 1))


class TestAnotherProcess:
    def test_a_plan_reaches_another_process_through_its_run_time_configuration(self, tmp_path: Path) -> None:
        actuator = RuntimeActuator(LINE, RuntimeStore(tmp_path / "runtime.json"))
        assert actuator.apply(plan(9, 3)).tolist() == [4, 3]
        actuator.apply(plan(4, 3))
        found = RuntimeStore(tmp_path / "runtime.json").read()
        assert (found.replicas, found.version) == ({"a": 4, "b": 3}, 1)

    def test_a_configuration_that_is_damaged_is_a_refusal(self, tmp_path: Path) -> None:
        (tmp_path / "runtime.json").write_text("{")
        with pytest.raises(ActuatorError, match="was not replaced"):
            RuntimeActuator(LINE, RuntimeStore(tmp_path / "runtime.json")).apply(plan(2, 2))


class TestExecutors:
    def test_more_are_asked_for_at_once_and_planned_requested_observed_are_apart(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks)
        counts = executors.request_slots(5)
        assert (counts.planned, counts.requested, counts.observed) == (3, 3, 1)
        scheduler.come(2)
        ticks.now = 10.0
        counts = executors.request_slots(5)
        assert (counts.planned, counts.requested, counts.observed) == (3, 3, 2)
        # One is still missing: the request is repeated, for Spark may have lost an executor meanwhile.
        assert scheduler.asked == [3, 3]
        scheduler.come(3)
        executors.request_slots(5)
        assert scheduler.asked == [3, 3]

    def test_bounds_hold(self) -> None:
        scheduler = FakeScheduler(present=2)
        executors = manager(scheduler, minimum=2, maximum=3)
        assert executors.request_slots(99).planned == 3
        assert executors.request_slots(1).planned == 2

    def test_fewer_are_let_go_after_a_while_the_youngest_first(self) -> None:
        scheduler, ticks = FakeScheduler(present=4), Ticks()
        executors = manager(scheduler, ticks)
        assert executors.request(2).requested == 4
        ticks.now = 9.0
        assert executors.request(2).requested == 4
        ticks.now = 10.0
        counts = executors.request(2)
        assert scheduler.told == [("decommission", "3", "2")]
        assert (counts.planned, counts.requested, counts.observed) == (2, 2, 2)

    def test_a_need_in_between_starts_the_wait_anew(self) -> None:
        scheduler, ticks = FakeScheduler(present=4), Ticks()
        executors = manager(scheduler, ticks)
        for now, wanted in ((0.0, 2), (6.0, 4), (11.0, 2), (20.0, 2)):
            ticks.now = now
            executors.request(wanted)
        assert scheduler.told == []

    def test_executors_that_cannot_be_decommissioned_are_killed(self) -> None:
        scheduler = FakeScheduler(present=3)
        scheduler.cannot_decommission = True
        executors = manager(scheduler, release_after_s=0.0)
        executors.request(1)
        assert scheduler.told == [("decommission", "2", "1"), ("kill", "2", "1")]
        assert executors.counts().observed == 1

    def test_executors_that_are_to_go_and_stay_are_killed(self) -> None:
        scheduler, ticks = FakeScheduler(present=2), Ticks()
        scheduler.ignored = ("decommission",)
        executors = manager(scheduler, ticks, release_after_s=0.0)
        assert executors.request(1).observed == 1, "one that leaves gets no tasks any more"
        ticks.now = 31.0
        executors.request(1)
        assert scheduler.told[-1] == ("kill", "1")
        assert scheduler.executors() == ("0",)

    def test_under_steady_load_fewer_are_let_go_and_late_ones_killed_without_another_plan(self) -> None:
        scheduler, ticks = FakeScheduler(present=3, ignored=("decommission",)), Ticks()
        executors = manager(scheduler, ticks, release_after_s=10.0)
        executors.request(2)
        for now, told in ((9.0, []), (10.0, [("decommission", "2")]), (41.0, [("decommission", "2"), ("kill", "2")])):
            ticks.now = now
            executors.keep_house()
            assert scheduler.told == told

    def test_before_the_first_plan_none_is_let_go(self) -> None:
        scheduler, ticks = FakeScheduler(present=3), Ticks()
        executors = manager(scheduler, ticks, release_after_s=0.0)
        scheduler.come(5)
        ticks.now = 100.0
        executors.keep_house()
        scheduler.leave("0", "1", "2", "3")
        executors.keep_house()
        assert scheduler.calls == [], "Spark sees to those that it was started with"

    def test_a_request_that_spark_does_not_hear_is_a_refusal_and_is_made_again(self) -> None:
        scheduler = FakeScheduler(present=1)
        scheduler.deaf = True
        executors = manager(scheduler)
        with pytest.raises(ActuatorError, match="a request for 2, got a refusal; check quota"):
            executors.request(2)
        assert executors.counts().requested == 1
        scheduler.deaf = False
        assert executors.request(2).requested == 2

    def test_executors_that_are_refused_do_not_undo_the_replicas(self, fake_run: Callable[..., Any]) -> None:
        run, scheduler = fake_run(LINE), FakeScheduler(present=1)
        scheduler.deaf = True
        actuator = SparkActuator(run, manager(scheduler))
        assert actuator.apply(plan(4, 6)).tolist() == [4, 6]
        assert run.plan == {"a": 4, "b": 6}
        assert "got a refusal" in actuator.executors_refused

    def test_executors_follow_the_slots_of_the_plan(self, fake_run: Callable[..., Any]) -> None:
        scheduler = FakeScheduler(present=1)
        executors = manager(scheduler, release_after_s=0.0)
        actuator = SparkActuator(fake_run(LINE), executors)
        actuator.apply(plan(3, 4))
        scheduler.come(4)
        assert scheduler.asked == [4]
        actuator.apply(plan(1, 2))
        actuator.request_executors(3)
        assert executors.counts().observed == 2
        assert actuator.executors_refused == ""


class TestHousekeeping:
    def test_a_refusal_is_told_once_for_as_long_as_it_lasts(self) -> None:
        scheduler, ticks, events = FakeScheduler(present=1), Ticks(), EventLog()
        executors = manager(scheduler, ticks)
        executors.request(3)
        housekeeper = Housekeeper(executors, events)
        scheduler.deaf = True
        for now in (10.0, 20.0, 30.0):
            ticks.now = now
            housekeeper.look()
        assert [event.kind for event in events] == ["executors.refused"]
        scheduler.deaf = False
        for now in (40.0, 50.0):
            ticks.now, scheduler.deaf = now, now == 50.0
            housekeeper.look()
        assert [event.kind for event in events] == ["executors.refused"] * 2

    def test_executors_that_never_come_are_told_of_once_and_so_is_that_they_came(self) -> None:
        scheduler, ticks, events = FakeScheduler(present=1), Ticks(), EventLog()
        executors = ExecutorManager(scheduler, ExecutorSettings(lead_s=30.0), ticks, events)
        executors.request(3)
        for now in (90.0, 91.0, 1000.0):
            ticks.now = now
            executors.keep_house()
        [told] = events
        assert told.kind == "executors.missing"
        assert told.message.startswith("expected 3 executors, got 1 after 91 s; the job goes on with these. Has spark:")
        scheduler.come(3)
        executors.keep_house()
        assert [event.kind for event in events] == ["executors.missing", "executors.came"]


class TestLeadTime:
    """Executors are asked for at 0 s and come later; the clock is moved by hand."""

    def test_it_is_what_the_settings_say_until_one_has_come_and_then_what_most_took(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        assert executors.lead_s == 5.0
        executors.request(3)
        ticks.now = 40.0
        scheduler.come(2)
        executors.observe()
        ticks.now = 90.0
        scheduler.come(3)
        executors.observe()
        # Of 40 s and 90 s, the quantile .8 is 40 + .8 · 50.
        assert executors.lead_s == pytest.approx(80.0)

    def test_one_that_is_awaited_for_longer_lengthens_it_at_once(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        executors.request(2)
        ticks.now = 120.0
        assert executors.lead_s == 120.0

    def test_after_ten_minutes_nobody_waits_any_more(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        executors.request(2)
        ticks.now = 599.0
        executors.request(2)
        assert executors.lead_s == 599.0
        ticks.now = 601.0
        executors.request(2)
        assert executors.lead_s == 5.0, "it will not come"

    def test_executors_that_nobody_asked_for_teach_nothing(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        ticks.now = 50.0
        scheduler.come(2)
        executors.observe()
        assert executors.lead_s == 5.0

    def test_an_executor_has_come_with_its_first_task(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        executors.request(2)
        scheduler.unused = {"1"}
        ticks.now = 12.0
        scheduler.come(2)
        assert executors.keep_house().observed == 2 and executors.lead.learnt() is None
        ticks.now, scheduler.unused = 17.0, set()
        executors.keep_house()
        assert executors.lead_s == 17.0

    def test_where_nobody_says_who_has_finished_a_task_executors_count_from_when_they_came(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        executors.request(2)
        del scheduler.unused
        ticks.now = 12.0
        scheduler.come(2)
        assert executors.keep_house().observed == 2 and executors.lead_s == 12.0

    def test_one_that_gets_no_task_teaches_when_it_came_and_one_that_goes_nothing(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        executors.request(3)
        scheduler.unused = {"1", "2"}
        ticks.now = 12.0
        scheduler.come(3)
        executors.keep_house()
        scheduler.leave("2")
        ticks.now = 80.0
        executors.observe()
        assert executors.lead.learnt() == {"took_s": [12.0]}

    def test_what_was_learnt_is_resumed(self) -> None:
        scheduler, ticks = FakeScheduler(present=1), Ticks()
        executors = manager(scheduler, ticks, lead_s=5.0)
        assert executors.lead.learnt() is None
        executors.request(2)
        ticks.now = 40.0
        scheduler.come(2)
        executors.keep_house()
        later = LeadTime(5.0)
        later.resume(executors.lead.learnt() or {})
        assert later.seconds(0.0) == 40.0
        # What comes now counts too, and in the end alone.
        later.see(["0"], 0.0)
        for second in range(20):
            later.expect(1, float(second))
            later.see([str(number) for number in range(second + 2)], second + 0.5)
        assert later.seconds(0.0) == 0.5

    @pytest.mark.parametrize("document", [{"took_s": [-1.0]}, {"took_s": [1e9]}, {"took_s": ["x"]}])
    def test_what_is_no_lead_time_is_not_resumed(self, document: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            LeadTime(5.0).resume(document)

    def test_an_executor_is_kept_for_as_long_as_a_stop_and_a_start_cost(self) -> None:
        scheduler, ticks = FakeScheduler(present=3), Ticks()
        executors = manager(scheduler, ticks, release_after_s=10.0, lead_s=40.0, stop_price_s=5.0)
        # One and a half lead times, and what a stop costs.
        for now, left in ((0.0, 3), (64.0, 3), (65.0, 1)):
            ticks.now = now
            assert executors.request(1).observed == left
        priced = manager(FakeScheduler(present=3), ticks, release_after_s=10.0, lead_s=40.0, start_price_s=0.0)
        priced.request(1)
        ticks.now += 10.0
        assert priced.request(1).observed == 1

    @pytest.mark.parametrize(
        ("expected", "gone_at_s"),
        [
            (1, 30.0),  # nobody expects to need it within the 60 s that a start costs: half of them are enough
            (3, 120.0),  # a forecast that it will be needed is believed for twice as long
            (None, 60.0),  # nobody says
        ],
    )
    def test_a_forecast_shortens_or_lengthens_the_wait(self, expected: int | None, gone_at_s: float) -> None:
        scheduler, ticks = FakeScheduler(present=3), Ticks()
        executors = manager(scheduler, ticks, release_after_s=10.0, lead_s=40.0)
        for now in np.arange(0.0, 150.0, 1.0):
            ticks.now = float(now)
            if executors.request(1, expected).observed == 1:
                break
        assert ticks.now == gone_at_s

    def test_no_more_go_than_were_enough_all_the_while(self) -> None:
        scheduler, ticks = FakeScheduler(present=4), Ticks()
        executors = manager(scheduler, ticks, release_after_s=10.0)
        for now, needed in ((0.0, 3), (6.0, 1), (10.0, 1)):
            ticks.now = now
            executors.request(needed)
        assert executors.counts().observed == 3, "one has been enough for four seconds only"
        ticks.now = 16.0
        assert executors.keep_house().observed == 1

    def test_a_rate_that_swings_makes_executors_neither_start_nor_stop(self) -> None:
        scheduler, ticks = FakeScheduler(present=3), Ticks()
        executors = manager(scheduler, ticks, lead_s=30.0)
        for second in range(200):
            ticks.now = float(second)
            executors.request(1 if second % 25 < 20 else 3)
        assert scheduler.calls == []


class TestSlotsAhead:
    def forecast(self, *rates: float) -> Forecast:
        return Forecast(series="in", model="test", made_at_s=0.0, step_s=10.0, mean=np.array(rates))

    @pytest.mark.parametrize(
        ("rates", "lead_s", "slots"),
        [
            ((100.0, 100.0, 300.0), 20.0, 10),  # 4 + 3 · 2
            ((100.0, 100.0, 300.0), 5.0, 4),  # what comes after the lead time can be asked for later
            ((100.0, 10.0, 10.0), 20.0, 4),  # never fewer than now
            ((0.0, 300.0, 300.0), 20.0, 4),  # a growth from nothing says nothing
        ],
    )
    def test_busy_slots_grow_with_the_input_until_an_executor_can_come(
        self, rates: tuple[float, ...], lead_s: float, slots: int
    ) -> None:
        found = slots_ahead(4, np.array([0.5, 2.5]), {"in": self.forecast(*rates)}, td_s=10.0, lead_s=lead_s)
        assert found == slots

    def test_inputs_add_up_and_a_demand_that_is_not_known_is_all_slots(self) -> None:
        outlook = {"a": self.forecast(100.0, 100.0), "b": self.forecast(100.0, 300.0)}
        assert slots_ahead(4, None, outlook, td_s=10.0, lead_s=10.0) == 8
        assert slots_ahead(4, None, {}, td_s=10.0, lead_s=10.0) == 4

    @pytest.mark.parametrize(
        ("rates", "upper", "within_s", "slots"),
        [
            ((100.0, 100.0, 100.0), (100.0, 110.0, 150.0), 20.0, 6),  # 3 / .75 · 1.5
            ((100.0, 100.0, 100.0), (100.0, 110.0, 150.0), 10.0, 5),  # 4.4
            ((100.0, 50.0, 50.0), (100.0, 60.0, 60.0), 20.0, 4),  # never fewer than now
            ((0.0, 100.0, 100.0), (0.0, 200.0, 200.0), 20.0, 4),  # a growth from nothing says nothing
        ],
    )
    def test_slots_that_may_be_wanted_soon_are_those_of_a_quantile_with_the_room_a_plan_leaves(
        self, rates: tuple[float, ...], upper: tuple[float, ...], within_s: float, slots: int
    ) -> None:
        forecast = replace(self.forecast(*rates), quantiles={0.9: np.array(upper)})
        demand = np.array([0.5, 2.5])
        assert slots_expected(4, demand, {"in": forecast}, td_s=10.0, within_s=within_s, utilisation=0.75) == slots

    def test_without_quantiles_or_forecasts_what_may_be_wanted_is_what_is_expected(self) -> None:
        rising = {"in": self.forecast(100.0, 150.0)}
        assert slots_expected(4, np.array([3.0]), rising, td_s=10.0, within_s=10.0, utilisation=0.75) == 6
        assert slots_expected(4, None, rising, td_s=10.0, within_s=10.0, utilisation=0.75) == 6
        assert slots_expected(4, None, {}, td_s=10.0, within_s=10.0) == 4


class TestUnavailable:
    def test_a_local_master_has_slots_only(self) -> None:
        spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local[8]"))
        with pytest.raises(ExecutorsUnavailable, match=r"master 'local\[8\]': expected a cluster.*slots only"):
            open_scheduler(spark)

    def test_spark_connect_is_refused_with_what_to_do(self) -> None:
        connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
        with pytest.raises(ExecutorsUnavailable, match="expected a classic Spark session, got Spark Connect"):
            open_scheduler(connect)

    def test_the_cores_of_an_executor_must_be_known(self) -> None:
        unknown = manager(FakeScheduler(cores=0))
        with pytest.raises(ConfigError, match=r"executors.cores.*the task slots of an executor"):
            unknown.request_slots(4)
        assert unknown.request(2).planned == 2, "who asks for executors need not know"
        assert manager(FakeScheduler(cores=0), cores=3).request_slots(4).planned == 2

    def test_bounds_in_order(self) -> None:
        with pytest.raises(ValueError, match="maximum of at least minimum"):
            ExecutorSettings(minimum=3, maximum=2)
