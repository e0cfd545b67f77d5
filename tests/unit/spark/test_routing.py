from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from foretide.compile.stages import Stage, compile_stages
from foretide.errors import ConfigError
from foretide.grouping import Dynamic, Grouping, Osg, SchedulerPhase
from foretide.spark.batches.routing import Router, check_options
from foretide.store import RuntimeConfig
from foretide.topology import flow


def stage(grouping: str) -> Stage:
    job = flow("routed")
    job.source("in").operator("first").operator("work", grouping=grouping).sink("out")
    return compile_stages(job.build()).stages[0]


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
            router.learn([executed(number, replica, keys, 0.25)])
        _, taught = routed(router, 2)
        assert taught.phase is not SchedulerPhase.ROUND_ROBIN
        task = taught.at_barrier(0)
        task.assign(np.array([1, 2, 1]))
        assert task.loads == pytest.approx((0.5, 0.25))

    def test_few_tuples_teach_nothing_yet(self) -> None:
        router = Router(stage("osg:key"))
        number, _ = routed(router, 2)
        router.learn([executed(number, 0, [1, 2, 3], 0.25)])
        assert routed(router, 2)[1].phase is SchedulerPhase.ROUND_ROBIN

    def test_another_number_of_tasks_keeps_what_is_known(self) -> None:
        router = Router(stage("osg:key"))
        number, _ = routed(router, 2)
        router.learn([executed(number, 0, [1] * 512, 0.25)])
        _, wider = routed(router, 5)
        assert wider.replicas == 5
        assert wider.phase is not SchedulerPhase.ROUND_ROBIN


def done(worker: str, replica: int, rows: int, row_s: float) -> Mapping[str, Any]:
    """Return what a task reports that took `rows` events of `row_s` each."""
    return {"replica": replica, "worker": {"id": worker}, "operators": {"work": (rows, rows, rows * row_s, 0, 0, 0)}}


def divided(grouping: Grouping, *tuples: int) -> list[int]:
    """Return how many tuples each replica gets, if senders 0, 1, ... have so many."""
    sent = [grouping.at_barrier(sender).assign(np.arange(count)).replicas for sender, count in enumerate(tuples)]
    return np.bincount(np.concatenate(sent), minlength=grouping.replicas).tolist()


def run_batches(router: Router, workers: Sequence[float], tuples: int, batches: int = 1) -> list[list[int]]:
    """Run batches on workers that take so long for an event, each task on the next worker; return the divisions."""
    found = []
    for _ in range(batches):
        _, grouping = routed(router, len(workers))
        counts = divided(grouping, tuples)
        places = [replica % len(workers) for replica in range(len(counts))]
        results = [done(str(at), replica, counts[replica], workers[at]) for replica, at in enumerate(places)]
        router.learn(results)
        found.append(counts)
    return found


class TestLoadAware:
    def test_p3_every_batch_begins_with_idle_replicas(self) -> None:
        # With utilisations kept over the barrier this was [0, 153, 150], and then [300, 0, 0] for ever.
        assert run_batches(Router(stage("load-aware")), [0.005] * 3, 301, batches=5) == [[101, 100, 100]] * 5

    def test_p3_senders_begin_at_different_replicas(self) -> None:
        _, grouping = routed(Router(stage("load-aware")), 3)
        assert divided(grouping, 1, 1, 1) == [1, 1, 1]
        assert divided(grouping, 4, 4, 4) == [4, 4, 4]

    def test_p3_a_slow_worker_gets_what_it_can_do_in_the_time_of_the_others(self) -> None:
        # Three workers of speed 1 and one of 1/3 do 10/3 together: the slow one 1/10 of all, each other one 3/10. Which
        # of them runs which task only Spark knows: all begin with 1/10, and those that are through take 2/10 more.
        router = Router(stage("load-aware"))
        slow = [0.001, 0.003, 0.001, 0.001]
        before, after = run_batches(router, slow, 4000, batches=2)
        assert before == [1000] * 4
        assert after == [400] * 4 + [800] * 3

    def test_a_worker_that_has_recovered_gets_as_much_as_the_others_again(self) -> None:
        router = Router(stage("load-aware"))
        run_batches(router, [0.001, 0.003], 4000)
        assert run_batches(router, [0.001, 0.001], 4000, batches=8)[-1] == [2000, 2000]

    def test_a_worker_that_is_gone_is_forgotten(self) -> None:
        router = Router(stage("load-aware"))
        run_batches(router, [0.001, 0.001, 0.003], 4000)
        assert run_batches(router, [0.001, 0.001], 4000, batches=12)[-1] == [2000, 2000]

    @pytest.mark.parametrize(
        ("tuples", "workers"),
        [
            (40, [0.001, 0.003]),  # 20 ms of work for each: another task costs more than it saves
            (4000, [0.001, 0.0012]),  # every worker is a little slower at times
        ],
    )
    def test_what_gains_little_is_left_as_it_is(self, tuples: int, workers: Sequence[float]) -> None:
        assert run_batches(Router(stage("load-aware")), workers, tuples, batches=3) == [[tuples // 2] * 2] * 3

    def test_more_tasks_than_cores_balance_by_themselves(self) -> None:
        router = Router(stage("load-aware"))
        run_batches(router, [0.001, 0.003], 4000)
        [grouping] = router.routes(4, RuntimeConfig(), cores=2).values()
        assert divided(grouping, 4000) == [1000] * 4

    def test_speeds_that_the_user_gives_stand(self) -> None:
        router = Router(stage("load-aware"))
        config = RuntimeConfig(groupings={stage("load-aware").exchanges[0].name: {"speeds": [3.0, 1.0]}})
        run_batches(router, [0.001, 0.003], 4000)
        assert divided(routed(router, 2, config)[1], 400) == [300, 100]

    def test_a_batch_without_rows_teaches_nothing(self) -> None:
        router = Router(stage("load-aware"))
        _, before = routed(router, 2)
        router.learn([])
        assert routed(router, 2)[1] == before


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
