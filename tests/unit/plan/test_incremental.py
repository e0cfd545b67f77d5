"""The incremental baseline (SPEC D5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from foretide.plan.base import Situation
from foretide.plan.planners.incremental import Incremental
from foretide.records import OUTSIDE, CpuUse

MakeSituation = Callable[..., Situation]


def test_d5_moves_one_step_outside_the_thresholds(make_situation: MakeSituation) -> None:
    situation = make_situation(utilisation={"O1": 0.81, "O2": 0.5, "O3": 0.29}, replicas=4)
    assert Incremental().plan(situation).replicas.tolist() == [5, 4, 3]


def test_d5_the_thresholds_themselves_change_nothing(make_situation: MakeSituation) -> None:
    situation = make_situation(utilisation={"O1": 0.8, "O2": 0.3, "O3": 1.0}, replicas=4)
    assert Incremental().plan(situation).replicas.tolist() == [4, 4, 5]


def test_d5_stays_in_bounds(make_situation: MakeSituation) -> None:
    situation = make_situation(utilisation={"O1": 1.0, "O2": 0.0, "O3": 0.5}, replicas={"O1": 32, "O2": 1, "O3": 7})
    assert Incremental().plan(situation).replicas.tolist() == [32, 1, 7]


def test_d5_measured_cpu_goes_before_busy_time(make_situation: MakeSituation) -> None:
    """O1 used (.9 + .8)/2 = .85 of a core; O2 .1; nothing measured of O3, which was busy half the time.

    What runs beside the replicas is not theirs. The demand is what was busy, computing or not.
    """
    cpu = CpuUse(operator=[0, 0, 1, OUTSIDE], core=[0, 1, 2, 2], used=[0.9, 0.8, 0.1, 0.9], reserved=[1.0] * 4)
    plan = Incremental().plan(make_situation(utilisation=0.5, replicas=4, cpu=cpu))
    assert plan.replicas.tolist() == [5, 3, 4]
    assert plan.terms[0].values == pytest.approx([0.85, 0.1, 0.5])
    assert plan.demand == pytest.approx([2.0, 2.0, 2.0])


def test_an_unknown_utilisation_changes_nothing(make_situation: MakeSituation) -> None:
    plan = Incremental().plan(make_situation(utilisation=np.nan, replicas=4))
    assert plan.replicas.tolist() == [4, 4, 4]
    assert plan.demand == pytest.approx([0.0, 0.0, 0.0])


@pytest.mark.parametrize("low, high", [(0.8, 0.3), (0.5, 0.5), (-0.1, 0.5), (0.9, 0.0)])
def test_thresholds_out_of_order_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValidationError):
        Incremental(low=low, high=high)
