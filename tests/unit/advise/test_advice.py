"""Advice from logs: what was learnt from batches that are written here, and what is said about them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from foretide.advise.advice import Wanted, advise
from foretide.advise.learning import arrivals, learn_query, trigger_seconds
from foretide.control.settings import ExecutorSettings, attached_control
from foretide.errors import ConfigError
from foretide.eventlogs.application import Batch, Executor, LoggedApplication, LoggedQuery

CONTROL = attached_control().model_copy(update={"forecaster": "lr"})


def application(executors: int = 4, seconds: int = 600, row_s: float = 0.02, start_s: float = 0.4) -> LoggedApplication:
    """A static application with a batch every two seconds, over two waves of load."""
    batches = []
    for second in range(0, seconds, 2):
        rows = round(2 * (50 - 45 * math.cos(2 * math.pi * second / 300)))
        batches.append(Batch(1000.0 + second, start_s + rows * row_s / executors, rows, outside_s=0.1))
    return LoggedApplication(
        "log",
        id="app-1",
        name="orders",
        spark="4.0.0",
        began_at_s=990.0,
        ended_at_s=1000.0 + seconds,
        executors=tuple(Executor(str(number), 1, 994.0) for number in range(executors)),
        queries=(LoggedQuery("q", "orders", batches),),
    )


class TestLearning:
    def test_a_batch_is_a_start_and_the_work_of_its_rows(self) -> None:
        found = application()
        model = learn_query(found, found.queries[0], 1000.0)
        assert model.row_s == pytest.approx(0.02, rel=0.05)
        assert model.start_s == pytest.approx(0.4, abs=0.06)
        assert (model.trigger_s, model.limit) == (2.0, math.inf)

    def test_rows_came_before_the_batch_that_took_them_and_those_left_had_come_too(self) -> None:
        query = LoggedQuery("q", "q", [Batch(10.0, 1.0, 100, ahead=50), Batch(20.0, 1.0, 50), Batch(40.0, 1.0, 10)])
        query.idle.append(30.0)
        curve = arrivals(query)
        # The usual gap is 15 s, so the first rows came from -5 s on; nothing new came between 20 s and 30 s.
        assert [curve.came_by(at_s) for at_s in (-5.0, 10.0, 15.0, 20.0, 30.0, 35.0, 40.0)] == [
            *(0.0, 150.0, 150.0, 150.0, 150.0, 155.0, 160.0)
        ]

    def test_batches_one_after_another_have_no_trigger(self) -> None:
        assert trigger_seconds([Batch(1.1 * number, 1.05, 5) for number in range(9)]) == 0.0
        assert trigger_seconds([Batch(5.0 * number, 1.0 + number % 3, 5) for number in range(9)]) == 5.0

    def test_a_limit_is_seen_where_rows_are_left(self) -> None:
        found = application()
        query = found.queries[0]
        query.batches = [Batch(1000.0 + 2 * n, 1.0 + n % 3 / 10, 90 + n % 3, ahead=500) for n in range(20)]
        assert learn_query(found, query, 1000.0).limit == 92.0


class TestTaskTime:
    """A log of an application that is cold at first: small batches take long, which their durations cannot explain."""

    def cold(self, told: bool) -> LoggedApplication:
        found = application(seconds=120)
        batches = []
        for number, batch in enumerate(found.queries[0].batches):
            cold_s = 0.6 * math.exp(-number / 8)
            ran_s = 0.8 + 0.02 * batch.rows
            batches.append(
                Batch(batch.began_at_s, 0.3 + cold_s + ran_s / 4, batch.rows, 0.1, ran_s=ran_s if told else math.nan)
            )
        found.queries[0].batches = batches
        return found

    def test_work_is_what_tasks_took_not_what_durations_seem_to_say(self) -> None:
        found = self.cold(told=True)
        model = learn_query(found, found.queries[0], 1000.0)
        assert model.row_s == pytest.approx(0.02, rel=0.1)
        assert model.batch_s == pytest.approx(0.8, rel=0.25)
        assert model.start_s == pytest.approx(0.3, abs=0.1)

    def test_what_the_first_batches_were_beyond_that_is_what_an_executor_costs_that_comes(self) -> None:
        found = self.cold(told=True)
        [query] = found.queries
        query.batches[0] = replace(query.batches[0], ran_s=query.batches[0].ran_s + 12.0)
        assert learn_query(found, query, 1000.0).cold_s == pytest.approx(12.0 / 4, abs=0.2)
        data = advise(found, Wanted(CONTROL)).to_data()
        assert data["queries"][0]["cold_s"] == pytest.approx(3.0, abs=0.2)

    def test_without_task_time_durations_have_to_do(self) -> None:
        found = self.cold(told=False)
        model = learn_query(found, found.queries[0], 1000.0)
        assert model.batch_s == 0.0 and 0.01 < model.row_s < 0.03


class TestAdvice:
    def test_what_was_paid_and_what_would_have_been(self) -> None:
        found = advise(application(), Wanted(CONTROL))
        assert found.paid_s == pytest.approx(4 * found.seconds)
        assert (found.executors.minimum, found.executors.maximum, found.lead_s) == (1, 4, 4.0)
        assert 0.2 < found.saved < 0.75
        assert found.foretold_s == pytest.approx(float(found.run.executors.sum()), rel=0.1)
        # The model finds the latency of what really ran: rows wait a second on average, and for their batch.
        assert found.checked.p95_s == pytest.approx(found.then.p95_s, rel=0.1)
        assert found.foretold.p95_s >= 0.9 * found.checked.p95_s
        data = found.to_data()
        assert data["saved"] == round(found.saved, 4) and data["queries"][0]["batches"] == 300

    def test_bounds_and_lead_time_can_be_given(self) -> None:
        found = advise(application(), Wanted(CONTROL, ExecutorSettings(minimum=2, maximum=3), lead_s=60.0))
        assert found.lead_s == 60.0
        assert {int(count) for count in found.run.executors} <= {2, 3}

    def test_a_log_that_is_too_short_is_said(self) -> None:
        with pytest.raises(ConfigError, match=r"at least three intervals of 5 s, got 1\d s of batches"):
            advise(application(seconds=14), Wanted(CONTROL))

    def test_dynamic_allocation_is_told(self) -> None:
        given = application(seconds=100)
        given.settings = {"spark.dynamicAllocation.enabled": "true"}
        assert advise(given, Wanted(CONTROL)).notes == ("Spark's dynamic allocation scaled it then",)
