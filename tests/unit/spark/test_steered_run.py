"""What is left of a steered run: the last change in words."""

from __future__ import annotations

import numpy as np

from foretide.control import Decision, Failure
from foretide.errors import NotReadyError, PlanError
from foretide.records import Action, ActionStatus, Layout, Plan
from foretide.spark.steering.controller import last_change

LAYOUT = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))


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
