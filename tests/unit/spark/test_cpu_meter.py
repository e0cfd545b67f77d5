"""The CPU of operators on Spark (SPEC D2), against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foretide.health.features import MACHINE_NAMES
from foretide.records import OUTSIDE, Layout
from foretide.spark.steering.cpu_meter import CpuMeter
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics
from foretide.spark.tasks.workers import FeatureReport, WorkerStatistics

LAYOUT = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))


def batch(cpu_s: dict[str, float], *reports: FeatureReport) -> BatchStatistics:
    found = BatchStatistics("in", 0, 1, 1, {}, started_at_s=0.0)
    found.operators = {(name, 0): OperatorStatistics(rows_in=1, busy_s=9.0, cpu_s=each) for name, each in cpu_s.items()}
    found.workers = {"1": WorkerStatistics(machine="here", reports=list(reports))}
    return found


def reading(at_s: float, cores: float, idle: float, waits: float = 0.0) -> FeatureReport:
    values = np.full(len(MACHINE_NAMES), math.nan)
    for name, value in {"cores": cores, "cpu_idle": idle, "cpu_iowait": waits}.items():
        values[MACHINE_NAMES.index(name)] = value
    return FeatureReport(at_s, None, values.tolist())


def test_d2_nothing_is_told_before_a_task_told_something() -> None:
    assert CpuMeter(LAYOUT).use(np.array([1, 1]), 1.0) is None


def test_d2_thread_time_is_divided_among_the_replicas_and_the_stretch() -> None:
    """1.2 s of a over 3 replicas in 2 s is .2 of a core each; .5 s of b on one is .25."""
    meter = CpuMeter(LAYOUT)
    meter.take(batch({"a": 0.9, "b": 0.5}))
    meter.take(batch({"a": 0.3}))
    use = meter.use(np.array([3, 1]), 2.0)
    assert use is not None
    assert use.operator.tolist() == [0, 0, 0, 1]
    assert use.core.tolist() == [0, 1, 2, 3]
    assert use.used == pytest.approx([0.2, 0.2, 0.2, 0.25])
    assert use.reserved.tolist() == [1.0] * 4
    assert meter.use(np.array([3, 1]), 2.0).used.tolist() == [0.0] * 4  # type: ignore[union-attr]


def test_d2_an_operator_that_tasks_do_not_see_has_no_figures() -> None:
    meter = CpuMeter(LAYOUT)
    meter.take(batch({"b": 0.5}))
    use = meter.use(np.array([2, 1]), 1.0)
    assert use is not None
    assert use.operator.tolist() == [1]


def test_d2_replicas_beyond_the_cores_share_them_and_the_rest_of_the_machine_is_outside() -> None:
    """Two cores, 20 % idle and 10 % waiting: busy 1.4 cores. Operators had 2 s in the 5 s between: .4 cores.

    The other 1.0 ran outside, .5 on each core; three replicas have 2/3 of a core reserved each.
    """
    meter = CpuMeter(LAYOUT)
    meter.take(batch({"a": 7.0}, reading(10.0, 2, idle=50.0)))
    meter.use(np.array([2, 1]), 1.0)
    meter.take(batch({"a": 1.5, "b": 0.5}, reading(15.0, 2, idle=20.0, waits=10.0)))
    use = meter.use(np.array([2, 1]), 5.0)
    assert use is not None
    assert use.operator.tolist() == [0, 0, 1, OUTSIDE, OUTSIDE]
    assert use.core.tolist() == [0, 1, 0, 0, 1]
    assert use.used == pytest.approx([0.15, 0.15, 0.1, 0.5, 0.5])
    assert use.reserved == pytest.approx([2 / 3] * 3 + [0.0] * 2)


def test_d2_a_machine_that_cannot_be_read_leaves_a_core_for_each() -> None:
    meter = CpuMeter(LAYOUT)
    meter.take(batch({"a": 1.0}, reading(10.0, math.nan, idle=50.0)))
    use = meter.use(np.array([2, 1]), 1.0)
    assert use is not None
    assert use.core.tolist() == [0, 1]
