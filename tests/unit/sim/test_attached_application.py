"""An application of the user's own in simulated time, its batches reckoned by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from foretide.control.settings import ControlSettings, ExecutorSettings, LoopSettings, attached_control
from foretide.sim.attached.curve import ArrivalCurve
from foretide.sim.attached.executors import SimulatedExecutors
from foretide.sim.attached.query import QueryModel
from foretide.sim.attached.run import ApplicationRun, simulate_application


def steady(rate: float, seconds: float) -> ArrivalCurve:
    return ArrivalCurve.of([(0.0, 0.0), (seconds, rate * seconds)])


def static(executors: int, *queries: QueryModel, until_s: float = 100.0, cores: int = 1) -> ApplicationRun:
    control = ControlSettings(
        loop=LoopSettings(td_s=10.0), planner="static", planners={"static": {"replicas": executors}}, forecaster="basic"
    )
    bounds = ExecutorSettings(minimum=executors, maximum=executors)
    return simulate_application(queries, control, bounds, until_s=until_s, cores=cores, lead_s=5.0, first=executors)


class TestBatches:
    def query(self, **more: Any) -> QueryModel:
        given = {"start_s": 1.0, "row_s": 0.05, "gap_s": 0.0, "trigger_s": 10.0, **more}
        return QueryModel("orders", steady(10.0, 100.0), **given)

    def test_latency_is_what_a_row_waits_and_its_batch_takes(self) -> None:
        # Batches of 100 rows at 10 s, 20 s ...: 1 s + 100 · .05 s; rows came over the 10 s before.
        one, two = static(1, self.query()), static(2, self.query())
        assert one.all_latencies.mean_s == pytest.approx(5 + 6, abs=0.1)
        assert one.all_latencies.quantile_s(0.95) == pytest.approx(9.5 + 6, abs=0.3)
        assert two.all_latencies.mean_s == pytest.approx(5 + 1 + 2.5, abs=0.1)
        assert (one.executor_s, two.executor_s) == (100.0, 200.0)

    def test_tasks_take_rounds(self) -> None:
        # Eight tasks on three slots take three rounds of an eighth of 5 s.
        found = static(3, self.query(tasks=8))
        assert found.all_latencies.mean_s == pytest.approx(5 + 1 + 3 * 5 / 8, abs=0.1)

    def test_queries_at_the_same_time_share_the_slots(self) -> None:
        # Both have the work of 5 s at once, on one slot together: 10 s after the start, and they are ready together.
        other = QueryModel("refunds", steady(10.0, 100.0), start_s=1.0, row_s=0.03, gap_s=0.0, trigger_s=10.0)
        found = static(1, self.query(row_s=0.03), other)
        assert found.latencies["orders"].mean_s == pytest.approx(5 + 1 + 6, abs=0.2)
        assert found.latencies["refunds"].mean_s == pytest.approx(5 + 1 + 6, abs=0.2)

    def test_an_executor_that_has_just_come_is_cold(self) -> None:
        # One of two comes for the batch at 20 s: of 5 s of work, and 4 s for the newcomer, each does half.
        control = ControlSettings(
            loop=LoopSettings(td_s=10.0), planner="static", planners={"static": {"replicas": 2}}, forecaster="basic"
        )
        bounds = ExecutorSettings(minimum=1, maximum=2)
        late = {}
        for cold_s in (0.0, 4.0):
            query = self.query(cold_s=cold_s)
            found = simulate_application([query], control, bounds, until_s=100.0, cores=1, lead_s=5.0, first=1)
            late[cold_s] = found.all_latencies.mean_s
        # Two seconds more for the 100 of 900 rows that are in that batch, and for none later.
        assert late[4.0] - late[0.0] == pytest.approx(2 * 100 / 900, rel=0.05)

    def test_what_is_too_much_waits(self) -> None:
        # 150 rows a batch take 1 s + 15 s: a backlog grows, and latency with it.
        late = static(1, self.query(row_s=0.15)).all_latencies
        assert late.quantile_s(0.95) > 30.0

    def test_a_limit_of_rows_holds(self) -> None:
        found = static(1, self.query(limit=50.0, row_s=0.01))
        assert found.all_latencies.quantile_s(0.95) > static(1, self.query(row_s=0.01)).all_latencies.quantile_s(0.95)


class TestExecutors:
    def test_they_come_a_lead_time_later_and_are_paid_from_then_on(self) -> None:
        executors = SimulatedExecutors(ExecutorSettings(maximum=4), lead_s=5.0, first=1)
        executors.pass_to(10.0)
        assert executors.request(3, 10.0) == 3 and (executors.there, executors.next_s) == (1, 15.0)
        executors.pass_to(20.0)
        assert (executors.there, executors.paid_s) == (3, 15.0 + 3 * 5.0)

    def test_one_goes_when_fewer_were_enough_for_as_long_as_a_start_costs(self) -> None:
        settings = ExecutorSettings(maximum=4, release_after_s=10.0, start_price_s=25.0)
        executors = SimulatedExecutors(settings, lead_s=5.0, first=3)
        asked = []
        for now_s in range(0, 60, 10):
            executors.pass_to(float(now_s))
            asked.append(executors.request(2 if now_s == 20 else 1, float(now_s)))
        # At 25 s after the first, two had been needed at 20 s; nobody needed more than one from 30 s to 55 s.
        assert asked == [3, 3, 3, 2, 2, 2]
        executors.pass_to(60.0)
        assert executors.request(1, 60.0) == 1

    def test_one_that_has_just_come_is_kept_for_as_long_as_its_start_cost(self) -> None:
        settings = ExecutorSettings(maximum=4, release_after_s=0.0, start_price_s=20.0)
        executors = SimulatedExecutors(settings, lead_s=18.0, first=1)
        executors.request(3, 0.0)
        executors.request(1, 5.0)
        asked = []
        for now_s in (18.0, 26.0, 37.0, 39.0):
            executors.pass_to(now_s)
            asked.append(executors.request(1, now_s))
        # Nobody has needed them since 5 s, and they have been there since 18 s.
        assert asked == [3, 3, 3, 1]

    def test_they_go_between_batches_and_are_paid_for_until_then(self) -> None:
        settings = ExecutorSettings(maximum=4, release_after_s=10.0, start_price_s=0.0, quiet_s=6.0)
        executors = SimulatedExecutors(settings, lead_s=5.0, first=2)
        executors.request(1, 0.0)
        there = []
        for now_s, busy in ((10.0, True), (14.0, True), (15.0, False)):
            executors.busy = busy
            executors.pass_to(now_s)
            executors.keep_house(now_s)
            there.append(executors.there)
        assert there == [2, 2, 1] and executors.paid_s == 30.0

    def test_where_batches_leave_no_pause_they_go_after_a_while_unless_they_are_needed_again(self) -> None:
        settings = ExecutorSettings(maximum=4, release_after_s=10.0, start_price_s=0.0, quiet_s=6.0)
        executors = SimulatedExecutors(settings, lead_s=5.0, first=2)
        executors.busy, asked = True, []
        for now_s, needed in ((0.0, 1), (10.0, 1), (12.0, 2), (13.0, 1), (23.0, 1), (28.0, 1), (29.0, 1)):
            executors.pass_to(now_s)
            asked.append(executors.request(needed, now_s))
        # Too many since 10 s, needed at 12 s, too many again ten seconds after that.
        assert asked == [2, 2, 2, 2, 2, 2, 1]

    def test_one_on_its_way_is_given_up_first(self) -> None:
        executors = SimulatedExecutors(ExecutorSettings(maximum=4, release_after_s=0.0, start_price_s=0.0), 30.0, 1)
        executors.request(2, 0.0)
        executors.request(1, 10.0)
        executors.pass_to(100.0)
        assert executors.there == 1


def test_our_policy_follows_a_wave_with_fewer_executors_than_the_most() -> None:
    at_s = np.arange(0.0, 900.0, 5.0)
    rate = 60.0 - 50.0 * np.cos(2 * math.pi * at_s / 300.0)
    curve = ArrivalCurve.of(zip(at_s.tolist(), np.cumsum(rate * 5.0).tolist(), strict=True))
    query = QueryModel("orders", curve, start_s=0.3, row_s=0.025, trigger_s=1.0, tasks=8)
    control = attached_control().model_copy(update={"forecaster": "lr"})
    found = simulate_application(
        [query], control, ExecutorSettings(maximum=4), until_s=890.0, cores=1, lead_s=5.0, first=4
    )
    most = static(4, query, until_s=890.0)
    assert found.executor_s < 0.85 * most.executor_s
    assert found.all_latencies.quantile_s(0.95) < 3 * most.all_latencies.quantile_s(0.95)
    assert found.executors.min() >= 1 and found.executors.max() <= 4 and found.turns <= found.changes
