"""What is left of a steered run: the stretch that counts, and the last change in words."""

from __future__ import annotations

import numpy as np

from foretide.control import Decision, Failure
from foretide.errors import NotReadyError, PlanError
from foretide.latency import LatencyHistogram
from foretide.records import Action, ActionStatus, Layout, Measurement, Plan
from foretide.spark.steering.controller import last_change
from foretide.spark.steering.monitor import Sample
from foretide.spark.steering.steered_run import _while_it_ran

LAYOUT = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))


def sample(arrived: float, processed: float) -> Sample:
    measurement = Measurement(
        layout=LAYOUT,
        ended_at_s=1.0,
        duration_s=1.0,
        arrived=np.array([arrived]),
        passed=np.zeros(2),
        processed=np.array([processed, processed]),
        queued=np.zeros(2),
        busy_s=np.zeros(2),
        replicas=np.ones(2, dtype=np.int64),
    )
    return Sample(measurement, {}, LatencyHistogram(), 2)


def decided(before: list[int], after: list[int], status: ActionStatus = "applied") -> Decision:
    plan = Plan(layout=LAYOUT, planner="p", made_at_s=0.0, replicas=np.array(after))
    action = Action(
        plan_id=plan.id,
        at_s=0.0,
        status=status,
        planned=np.array(after),
        requested=np.array(after),
        observed=np.array(before),
    )
    return Decision(cycle=1, at_s=0.0, plan=plan, action=action)


class TestStretch:
    def test_the_start_of_the_queries_and_the_time_after_the_last_event_do_not_count(self) -> None:
        samples = [sample(*amounts) for amounts in ((0, 0), (5, 0), (0, 3), (0, 2), (0, 0), (0, 0))]
        assert _while_it_ran(samples) == samples[1:4]

    def test_input_that_is_not_worked_off_yet_counts(self) -> None:
        samples = [sample(*amounts) for amounts in ((0, 0), (5, 0), (5, 0))]
        assert _while_it_ran(samples) == samples[1:]

    def test_without_input_all_of_it_counts(self) -> None:
        samples = [sample(0, 0)] * 3
        assert _while_it_ran(samples) == samples


class TestLastChange:
    def test_the_last_decision_that_changed_something(self) -> None:
        found = [decided([1, 1], [3, 1]), decided([3, 1], [3, 1], "unchanged")]
        assert last_change(found) == "a 1 → 3"

    def test_advice_is_called_so(self) -> None:
        assert last_change([decided([1, 1], [2, 4], "advised")]) == "advice: a 1 → 2, b 1 → 4"

    def test_a_failure_is_told_but_not_that_it_is_too_early(self) -> None:
        broken = Decision(cycle=2, at_s=0.0, failure=Failure("plan", PlanError("no plan")))
        early = Decision(cycle=1, at_s=0.0, failure=Failure("monitor", NotReadyError("too early"), ready=False))
        assert last_change([early]) == ""
        assert last_change([decided([1, 1], [2, 1]), broken, early]) == "plan: no plan"
