from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from foretide.compile.stages import Stage, compile_stages
from foretide.errors import ConfigError
from foretide.grouping import Dynamic, LoadAware, Osg, SchedulerPhase
from foretide.spark.batches.routing import Router, check_options
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics
from foretide.store import RuntimeConfig
from foretide.topology import flow


def stage(grouping: str) -> Stage:
    job = flow("routed")
    job.source("in").operator("first").operator("work", grouping=grouping).sink("out")
    return compile_stages(job.build()).stages[0]


def batch() -> BatchStatistics:
    return BatchStatistics("in", 0, 0, 2, {"in": 10}, 0.0, 1.0)


def executed(number: int, replica: int, keys: list[int], seconds: float) -> Mapping[str, Any]:
    return {"replica": replica, "executed": {str(number): (keys, [seconds] * len(keys))}}


def routed(router: Router, tasks: int, config: RuntimeConfig | None = None) -> tuple[int, Any]:
    [(number, grouping)] = router.routes(tasks, config or RuntimeConfig()).items()
    return number, grouping


class TestOsg:
    def test_what_any_task_executed_teaches_all(self) -> None:
        router = Router(stage("osg:key"))
        number, osg = routed(router, 2)
        assert isinstance(osg, Osg)
        assert osg.phase is SchedulerPhase.ROUND_ROBIN
        # Two windows of 256 tuples, one from each task: the second finds what the first had found.
        for replica in (0, 1):
            keys = [1, 2] * 128
            router.learn([executed(number, replica, keys, 0.25)], batch())
        _, taught = routed(router, 2)
        assert taught.phase is not SchedulerPhase.ROUND_ROBIN
        task = taught.at_barrier(0)
        task.assign(np.array([1, 2, 1]))
        assert task.loads == pytest.approx((0.5, 0.25))

    def test_few_tuples_teach_nothing_yet(self) -> None:
        router = Router(stage("osg:key"))
        number, _ = routed(router, 2)
        router.learn([executed(number, 0, [1, 2, 3], 0.25)], batch())
        assert routed(router, 2)[1].phase is SchedulerPhase.ROUND_ROBIN

    def test_another_number_of_tasks_keeps_what_is_known(self) -> None:
        router = Router(stage("osg:key"))
        number, _ = routed(router, 2)
        router.learn([executed(number, 0, [1] * 512, 0.25)], batch())
        _, wider = routed(router, 5)
        assert wider.replicas == 5
        assert wider.phase is not SchedulerPhase.ROUND_ROBIN


class TestLoadAware:
    def test_goes_by_the_utilisation_of_the_last_batch(self) -> None:
        router = Router(stage("load-aware"))
        routed(router, 2)
        seen = batch()
        seen.operators = {("work", 0): OperatorStatistics(90, 90, 0.9), ("work", 1): OperatorStatistics(10, 10, 0.1)}
        router.learn([], seen)
        _, grouping = routed(router, 2)
        assert isinstance(grouping, LoadAware)
        assert grouping.route(0) == (1,)

    def test_a_batch_without_rows_teaches_nothing(self) -> None:
        router = Router(stage("load-aware"))
        _, before = routed(router, 2)
        router.learn([], batch())
        assert routed(router, 2)[1] is before


class TestOptions:
    def test_new_weights_hold_from_the_next_batch_on(self) -> None:
        router = Router(stage("dynamic"))
        plan = stage("dynamic").exchanges[0]
        routed(router, 3)
        config = RuntimeConfig(groupings={plan.name: {"weights": [1.0, 0.0, 0.0]}})
        _, grouping = routed(router, 3, config)
        assert isinstance(grouping, Dynamic)
        assert set(grouping.assign(np.arange(100)).replicas.tolist()) == {0}

    def test_weights_for_another_number_of_tasks_do_not_apply(self) -> None:
        plan = stage("dynamic").exchanges[0]
        config = RuntimeConfig(groupings={plan.name: {"weights": [1.0, 0.0]}})
        _, grouping = routed(Router(stage("dynamic")), 3, config)
        assert set(grouping.assign(np.arange(1000)).replicas.tolist()) == {0, 1, 2}

    def test_unknown_options_are_refused(self) -> None:
        with pytest.raises(ConfigError):
            check_options(stage("dynamic").exchanges[0], {"heaviness": 3})
