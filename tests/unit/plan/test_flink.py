"""The rule of Flink's autoscaler, against the figures of its own tests.

They are those of apache/flink-kubernetes-operator, `flink-autoscaler/src/test`, as of July 2026; every test here names
the one that its figures come from. A vertex is an operator; its true processing rate is that of all its replicas. Where
those tests look at one vertex without the boundaries of utilisation, the boundaries are set to the target here, so that
every change shows. Not covered:

- the deprecated modes of `JobVertexScalerTest` that give up on a change when no divisor is near (blocking): only the
  modes that replaced them, from `AlignmentModeTest`, are built. Figures on which both agree are here;
- `testObservedTprEvaluation` and its kin: true rates observed while catching up need the time of backpressure, which is
  not measured;
- the aggregators of busy time over subtasks (`testBusyTimeEvaluation`) and legacy sources: busy time is a mean here;
- `testUtilizationBoundaryComputationWithRestartTimesTracking`: restart times are a setting, and not tracked. Its
  thresholds are here with the restart time that the tracking comes to;
- memory, garbage collection, quotas, cluster resources, excluded vertices and periods, custom evaluators, executors and
  alignment modes, events and their intervals, stores of state, REST clients: nothing of the rule, or done elsewhere;
- bounds: a vertex above its maximum keeps its parallelism there, here bounds always hold (`ensureMin...`,
  `testMin...`, `testMaxParallelismLimitIsUsed` in part).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.plan import Flink, Situation, make_planner
from foretide.plan.flink_rules import Alignment, align, scalability, target_capacity
from foretide.records import Plan
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]

#: No waiting, no catching up, no largest step, as the tests of single vertices begin.
AT_ONCE: dict[str, Any] = {
    "metrics_window_s": 0,
    "stabilisation_s": 0,
    "scale_down_interval_s": 0,
    "catch_up_s": 0,
    "max_scale_down_factor": 1,
    "max_scale_up_factor": 2**31,
}


def planner_at(target: float, **settings: Any) -> Flink:
    """Return the rule with its boundaries of utilisation at the target."""
    given = {**AT_ONCE, "utilisation_min": target, "utilisation_max": target, **settings}
    return Flink(target_utilisation=target, **given)


def job(*names: str, most: int = 720, grouping: str = "shuffle") -> Topology:
    made = flow("job")
    line: Any = made.source("in")
    for name in names:
        line = line.operator(name, grouping=grouping, replicas=(1, most))
    return made.build()


@pytest.fixture
def vertex(make_situation: MakeSituation) -> Callable[..., Situation]:
    """Return a factory of situations of one operator: its parallelism, its target rate, its true processing rate."""

    def make(
        parallelism: int, target: float, true_rate: float, *, most: int = 720, grouping: str = "shuffle", **others: Any
    ) -> Situation:
        return make_situation(
            job("vertex", most=most, grouping=grouping),
            arrived=target,
            execution_s=parallelism / true_rate,
            replicas=parallelism,
            **others,
        )

    return make


@pytest.fixture
def pair(make_situation: MakeSituation) -> Callable[..., Situation]:
    """Return a factory of situations of a source and a sink: the target rates and true processing rates of both."""

    def make(source: tuple[float, float], sink: tuple[float, float], *, replicas: int = 10, **others: Any) -> Situation:
        return make_situation(
            job("source", "sink", most=4000),
            arrived=source[0],
            share={("source", "sink"): sink[0] / source[0]},
            execution_s={"source": replicas / source[1], "sink": replicas / sink[1]},
            replicas=replicas,
            **others,
        )

    return make


def term(plan: Plan, symbol: str) -> np.ndarray:
    return np.asarray(next(term.values for term in plan.terms if term.symbol == symbol))


class TestParallelism:
    """`JobVertexScalerTest`: one vertex."""

    @pytest.mark.parametrize(
        ("utilisation", "parallelism", "target", "true_rate", "expected"),
        [
            (1.0, 10, 50, 100, 5),
            (0.8, 10, 50, 100, 8),
            (0.8, 10, 80, 100, 10),
            (0.8, 10, 60, 100, 8),
            (0.8, 10, 59, 100, 8),
            (0.5, 2, 100, 40, 10),
            (0.6, 2, 100, 100, 4),
        ],
    )
    @pytest.mark.parametrize("alignment", ["balanced", "evenly-spread"])
    def test_parallelism(
        self,
        vertex: Any,
        alignment: Alignment,
        utilisation: float,
        parallelism: int,
        target: float,
        true_rate: float,
        expected: int,
    ) -> None:
        """`testParallelismScaling`, with its 720 key groups: ⌈10·50/(.8·100)⌉ is 7, and 8 of them spread better."""
        planner = planner_at(utilisation, key_groups=720, alignment=alignment)
        plan = planner.plan(vertex(parallelism, target, true_rate, grouping="fields:key"))
        assert plan.replicas.tolist() == [expected]

    @pytest.mark.parametrize(
        ("utilisation", "parallelism", "target", "true_rate", "expected"),
        [(1.0, 10, 50, 100, 5), (0.8, 10, 50, 100, 10), (0.5, 2, 100, 40, 10), (0.6, 2, 100, 100, 4)],
    )
    def test_within_the_default_boundaries_nothing_changes(
        self, vertex: Any, utilisation: float, parallelism: int, target: float, true_rate: float, expected: int
    ) -> None:
        """`testParallelismScaling`: which of its changes are outside the boundaries, ±0.3 of the target."""
        plan = Flink(target_utilisation=utilisation, **AT_ONCE).plan(vertex(parallelism, target, true_rate))
        assert plan.replicas.tolist() == [expected]

    @pytest.mark.parametrize(
        ("largest", "target", "true_rate", "expected"),
        [
            ({"max_scale_down_factor": 0.5}, 10, 100, 5),
            ({"max_scale_down_factor": 0.6}, 10, 100, 4),
            ({"max_scale_up_factor": 0.5}, 200, 10, 15),
            ({"max_scale_up_factor": 0.6}, 200, 10, 16),
        ],
    )
    def test_largest_steps(
        self, vertex: Any, largest: dict[str, float], target: float, true_rate: float, expected: int
    ) -> None:
        """`testParallelismScaling`: ten subtasks."""
        plan = planner_at(1.0, **largest).plan(vertex(10, target, true_rate))
        assert plan.replicas.tolist() == [expected]

    @pytest.mark.parametrize(
        ("present", "factor", "most", "expected"),
        [
            (1, 1e-4, 720, 1),
            (2, 0.1, 720, 1),
            (6, 0.8, 720, 5),
            (16, 1.5, 128, 24),
            (200, 2, 720, 400),
            (200, 1e9, 720, 720),
        ],
    )
    def test_factor_times_parallelism(self, vertex: Any, present: int, factor: float, most: int, expected: int) -> None:
        """`testParallelismComputation`."""
        plan = planner_at(1.0).plan(vertex(present, 100 * factor, 100, most=most))
        assert plan.replicas.tolist() == [expected]

    def test_bounds(self, make_situation: MakeSituation) -> None:
        """`testMinParallelismLimitIsUsed` and `testMaxParallelismLimitIsUsed`: 5 at least, 10 at most."""
        made = flow("bounded")
        made.source("in").operator("vertex", replicas=(5, 10))
        for target, true_rate, expected in ((100, 500, 5), (500, 100, 10)):
            situation = make_situation(made.build(), arrived=target, execution_s=10 / true_rate, replicas=10)
            assert planner_at(0.7).plan(situation).replicas.tolist() == [expected]


class TestScaleDownInterval:
    """`JobVertexScalerTest`: a hundred subtasks, an interval of a minute, the true rate 1000."""

    @staticmethod
    def replicas(planner: Flink, vertex: Any, *steps: tuple[float, float]) -> list[int]:
        return [int(planner.plan(vertex(100, rate, 1000, now_s=1000.0 + at_s)).replicas[0]) for at_s, rate in steps]

    def test_the_most_that_was_wanted_within_the_interval_is_the_count(self, vertex: Any) -> None:
        """`testScaleDownAfterInterval`."""
        planner = planner_at(1.0, scale_down_interval_s=60)
        steps = ((0, 800), (10, 900), (40, 720), (59, 640), (60, 700))
        assert self.replicas(planner, vertex, *steps) == [100, 100, 100, 100, 90]

    def test_what_was_wanted_before_the_interval_does_not_count(self, vertex: Any) -> None:
        """`testMaxRecommendedParallelismUsedAfterScaleDownInterval`."""
        planner = planner_at(1.0, scale_down_interval_s=60)
        assert self.replicas(planner, vertex, (0, 500), (30, 600), (65, 600)) == [100, 100, 60]
        late = planner_at(1.0, scale_down_interval_s=60)
        assert self.replicas(late, vertex, (0, 900), (30, 600), (65, 500)) == [100, 100, 60]

    def test_scale_up_is_immediate_and_cancels(self, vertex: Any) -> None:
        """`testImmediateScaleUpWithinScaleDownInterval`; the interval begins again."""
        planner = planner_at(1.0, scale_down_interval_s=60)
        steps = ((0, 800), (10, 900), (12, 1700), (61, 800), (120, 800), (121, 800))
        assert self.replicas(planner, vertex, *steps) == [100, 100, 170, 100, 100, 80]

    def test_wanting_what_there_is_cancels(self, vertex: Any) -> None:
        """`testCancelDelayedScaleDownAfterNewParallelismIsSame`."""
        planner = planner_at(1.0, scale_down_interval_s=60)
        steps = ((0, 800), (10, 900), (12, 1000), (61, 800), (120, 800), (121, 800))
        assert self.replicas(planner, vertex, *steps) == [100, 100, 100, 100, 100, 80]

    def test_an_interval_of_nothing(self, vertex: Any) -> None:
        """`testDisableScaleDownInterval`."""
        assert planner_at(1.0).plan(vertex(10, 50, 100)).replicas.tolist() == [5]

    def test_the_boundaries_count_when_the_most_was_wanted(self, vertex: Any) -> None:
        """`DelayedScaleDownEndToEndTest`: never while the most wanted was within the boundaries (.8 ± .1)."""
        settings = {**AT_ONCE, "scale_down_interval_s": 60, "utilisation_min": 0.7, "utilisation_max": 0.9}
        planner = Flink(target_utilisation=0.8, **settings)
        # Busy for .79 of the time at 0 s and 60 s, for .2 in between: ⌈100·.79/.8⌉ = 99 is the most, and within.
        steps = ((0, 790), (30, 200), (60, 790), (90, 200), (119, 200))
        assert self.replicas(planner, vertex, *steps) == [100] * 5
        # A minute after the last .79 only .2 counts: 25.
        assert self.replicas(planner, vertex, (121, 200)) == [25]

    @pytest.mark.parametrize(
        ("source", "sink", "expected"), [((950, 1000), (200, 1000), [119, 100]), ((200, 1000), (800, 1000), [100, 100])]
    )
    def test_a_change_elsewhere_starts_the_interval_again(
        self, pair: Any, source: tuple[float, float], sink: tuple[float, float], expected: list[int]
    ) -> None:
        """`testDelayedScaleDownIsResetWhenAnotherTaskScaleUp`: .95/.8 of a hundred are 119, the sink's wish is gone."""
        planner = planner_at(0.8, scale_down_interval_s=60)
        quiet = pair((800, 1000), (200, 1000), replicas=100, now_s=1000.0)
        assert planner.plan(quiet).replicas.tolist() == [100, 100]
        assert planner.plan(pair(source, sink, replicas=100, now_s=1050.0)).replicas.tolist() == expected
        later = planner.plan(pair((800, 1000), (200, 1000), replicas=100, now_s=1060.0))
        assert later.replicas.tolist() == [100, 100]


class TestBoundaries:
    """`ScalingExecutorTest`: all vertices change if one is outside its boundaries."""

    @pytest.mark.parametrize(
        ("boundaries", "source", "sink", "expected"),
        [
            ((0.6, 0.6, 0.6), (70, 100), (60, 100), [12, 10]),
            ((0.4, 0.6, 0.8), (70, 100), (60, 100), [10, 10]),
            ((0.4, 0.6, 0.8), (70, 100), (85, 100), [12, 15]),
            ((0.4, 0.6, 0.8), (70, 100), (70, 100), [10, 10]),
            ((0.5, 0.6, 0.7), (70, 100), (85, 100), [12, 15]),
            ((0.3, 0.6, 0.7), (60, 100), (85, 100), [10, 15]),
            ((0.0, 0.5, 0.6), (100, 99999), (80, 99999), [10, 10]),
            ((0.0, 0.5, 0.6), (50, 100), (85, 100), [10, 17]),
            ((0.3, 0.5, 1.0), (80, 81), (100, 101), [10, 10]),
            ((0.3, 0.5, 1.0), (80, 79), (100, 101), [21, 20]),
        ],
    )
    def test_boundaries(
        self,
        pair: Any,
        boundaries: tuple[float, float, float],
        source: tuple[float, float],
        sink: tuple[float, float],
        expected: list[int],
    ) -> None:
        """`testUtilizationBoundaries`, `testUtilizationBoundariesAndUtilizationMinMaxCompatibility`: who changes.

        The counts are ⌈10 · target rate / (utilisation · true rate)⌉.
        """
        low, target, high = boundaries
        planner = Flink(**AT_ONCE, target_utilisation=target, utilisation_min=low, utilisation_max=high)
        assert planner.plan(pair(source, sink)).replicas.tolist() == expected

    def test_a_backlog_can_be_what_is_outside(self, pair: Any) -> None:
        """`testUtilizationBoundaries`: 15 events a second to catch up with lead both vertices out of their boundaries.

        (70/.6 + 15)/100·10 = 13.17, so 14 replicas each.
        """
        settings = {**AT_ONCE, "catch_up_s": 10, "restart_s": 0, "utilisation_min": 0.4, "utilisation_max": 0.8}
        planner = Flink(target_utilisation=0.6, **settings)
        assert planner.plan(pair((70, 100), (70, 100))).replicas.tolist() == [10, 10]
        assert planner.plan(pair((70, 100), (70, 100), queued={"source": 150.0})).replicas.tolist() == [14, 14]

    def test_a_lower_boundary_of_0_never_scales_down(self, vertex: Any) -> None:
        """`testNoScaleDownOnZeroLowerUtilizationBoundary`."""
        planner = Flink(**AT_ONCE, target_utilisation=0.6, utilisation_min=0, utilisation_max=1.2)
        assert planner.plan(vertex(100, 1000, 1e12)).replicas.tolist() == [100]


class TestRates:
    """`ScalingMetricEvaluatorTest`: target rates, catch-up and thresholds."""

    @pytest.mark.parametrize(
        ("target", "catch_up", "catch_up_s", "backlog", "thresholds"),
        [
            (700, 0, 0, False, (778, 1000)),
            (700, 350, 2, False, (1128, 1700)),
            (700, 0, 2, False, (778, 1350)),
            (700, 350, 2, True, (1050, np.inf)),
            (700, 0, 2, True, (700, np.inf)),
        ],
    )
    def test_thresholds(
        self, target: float, catch_up: float, catch_up_s: float, backlog: bool, thresholds: tuple[float, float]
    ) -> None:
        """`testUtilizationBoundaryComputation`: .7 to .9, a restart of a second; Flink rounds to whole events."""
        low, high = (0.0, 1.0) if backlog else (0.7, 0.9)
        rate, waiting = np.array([float(target)]), np.array([float(catch_up)])
        up = target_capacity(rate, waiting, high)
        down = target_capacity(rate, waiting, low, restart_s=1.0, catch_up_s=catch_up_s)
        assert (np.round(up[0]), np.round(down[0])) == thresholds

    @pytest.mark.parametrize(("catch_up", "threshold"), [(350.0, 4850.0), (0.0, 4500.0)])
    def test_thresholds_of_a_long_restart(self, catch_up: float, threshold: float) -> None:
        """`testUtilizationBoundaryComputationWithRestartTimesTracking`: five minutes, a minute to catch up."""
        down = target_capacity(np.array([700.0]), np.array([catch_up]), 0.7, restart_s=300.0, catch_up_s=60.0)
        assert down == pytest.approx([threshold])

    @pytest.mark.parametrize(("catch_up_s", "catch_up"), [(2, [500, 1000]), (1, [1000, 2000]), (0, [0, 0])])
    def test_a_source_with_a_growing_lag(
        self, make_situation: MakeSituation, catch_up_s: float, catch_up: list[float]
    ) -> None:
        """`testLagBasedSourceScaling`: 150 events come in a second, 100 are read, 1000 wait; two come out for one."""
        planner = planner_at(0.7, catch_up_s=catch_up_s)
        situation = make_situation(
            job("source", "sink"),
            arrived=150.0,
            processed={"source": 100.0, "sink": 200.0},
            share={("source", "sink"): 2.0},
            queued={"source": 1000.0},
        )
        plan = planner.plan(situation)
        assert term(plan, "λ_t") == pytest.approx([150, 300])
        assert term(plan, "λ_c") == pytest.approx(catch_up)

    @pytest.mark.parametrize(("lag_per_limit", "backlog"), [(0, False), (250, True), (180, False)])
    def test_backlog(self, vertex: Any, lag_per_limit: float, backlog: bool) -> None:
        """`testBacklogProcessingEvaluation`: 200 events a second are read; the lag is so many times the limit."""
        situation = vertex(1, 200, 10_000, processed=200.0, queued=lag_per_limit * 300.0)
        plan = planner_at(0.7, catch_up_s=1e9).plan(situation)
        assert np.isinf(term(plan, "C↓"))[0] == backlog
        assert any("backlog" in note for note in plan.notes) == backlog

    def test_nothing_read_of_what_waits_is_a_backlog(self, vertex: Any) -> None:
        plan = planner_at(0.7).plan(vertex(1, 200, 10_000, processed=0.0, queued=1.0))
        assert any("backlog" in note for note in plan.notes)

    def test_a_backlog_is_scaled_up_for_and_not_down(self, make_situation: MakeSituation) -> None:
        """`BacklogBasedScalingTest`: two seconds to catch up, one to restart, .7 to .9 of the time to be busy.

        First 500 events a second come, 2000 wait, and one replica is busy for .85 of the time:
        (2000/2 + 500/2 + 500/.8)/(500/.85) = 3.19, so 4. Then four are busy all the time with 1800 a second, nothing
        comes and 2000 wait: nothing changes. At last 200 a second come and 400 wait:
        4·(400/2 + 200/2 + 200/.8)/1800 = 1.22, so 2.
        """
        planner = Flink(
            **{**AT_ONCE, "catch_up_s": 2, "restart_s": 1, "backlog_lag_s": 1},
            target_utilisation=0.8,
            utilisation_min=0.7,
            utilisation_max=0.9,
        )

        def replicas(now_s: float, arrived: float, processed: float, queued: float, present: int, busy: float) -> Any:
            situation = make_situation(
                job("source", "sink"),
                now_s=now_s,
                arrived=arrived,
                processed=processed,
                queued={"source": queued},
                execution_s=present * busy / processed,
                replicas=present,
            )
            return planner.plan(situation).replicas.tolist()

        assert replicas(1.0, 500, 500, 2000, present=1, busy=0.85) == [4, 4]
        assert replicas(2.0, 0, 1800, 2000, present=4, busy=1.0) == [4, 4]
        assert replicas(3.0, 200, 1800, 400, present=4, busy=1.0) == [2, 2]

    def test_true_rate(self, make_situation: MakeSituation) -> None:
        """`testMissingObservedTpr`: 35 events in 100 ms of a second."""
        situation = make_situation(job("vertex"), arrived=35.0, processed=35.0, execution_s=0.1 / 35)
        assert term(planner_at(0.7).plan(situation), "λ_p") == pytest.approx([350.0])

    def test_without_a_true_rate_nothing_changes(self, vertex: Any) -> None:
        """`testMissingObservedTpr`, where neither rate nor busy time is known."""
        plan = planner_at(0.7).plan(vertex(7, 100, np.nan))
        assert plan.replicas.tolist() == [7]
        assert "execution time of vertex not known yet" in plan.notes[-1]

    def test_nothing_coming_in_is_endless_capacity(self, vertex: Any) -> None:
        """`testZeroValuesForRatesOrBusyness`: as few replicas as the largest step allows."""
        assert planner_at(0.7, max_scale_down_factor=0.6).plan(vertex(10, 0, 100)).replicas.tolist() == [4]


class TestAlignment:
    @pytest.mark.parametrize(
        ("present", "target", "groups", "highest", "mode", "expected"),
        [
            # AlignmentModeTest
            (16, 24, 128, 128, "balanced", 26),
            (16, 24, 128, 128, "evenly-spread", 32),
            (16, 24, 128, 128, "off", 24),
            (22, 25, 35, 30, "evenly-spread", 25),
            (22, 25, 35, 30, "balanced", 25),
            (5, 7, 12, 8, "evenly-spread", 7),
            # JobVertexScalerTest: testParallelismComputationWithAdjustment, -WithLimit, testNumPartitionsAdjustment
            (6, 5, 36, 36, "evenly-spread", 6),
            (200, 260, 720, 720, "evenly-spread", 360),
            (200, 720, 720, 720, "evenly-spread", 720),
            (10, 25, 128, 128, "evenly-spread", 32),
            (10, 25, 128, 128, "balanced", 26),
            (6, 5, 720, 700, "evenly-spread", 5),
            (16, 60, 128, 128, "evenly-spread", 64),
            (6, 3, 15, 128, "evenly-spread", 3),
            (7, 9, 15, 128, "evenly-spread", 15),
            (20, 18, 35, 30, "evenly-spread", 18),
            (24, 96, 199, 10_000, "evenly-spread", 199),
            (24, 96, 199, 10_000, "balanced", 100),
        ],
    )
    def test_key_groups_and_partitions(
        self, present: int, target: int, groups: int, highest: int, mode: Alignment, expected: int
    ) -> None:
        assert align(present, target, groups, highest, mode) == expected

    def test_no_more_replicas_than_partitions(self, vertex: Any) -> None:
        """`testExpectedProcessingRateComputation`, `testSendingScalingLimitedEvents`: 15 partitions hold 20 back."""
        plan = planner_at(1.0, partitions=15).plan(vertex(10, 200, 100))
        assert plan.replicas.tolist() == [15]
        assert plan.notes == ("no more replicas than partitions or key groups: vertex 20 -> 15",)

    def test_partitions_of_one_operator(self, pair: Any) -> None:
        plan = planner_at(1.0, partitions={"source": 12}).plan(pair((200, 100), (200, 100)))
        assert plan.replicas.tolist() == [12, 20]

    def test_key_groups_are_those_of_operators_grouped_by_fields(self, make_situation: MakeSituation) -> None:
        """Sixteen times 1.5 are 24: 26 of 128 key groups, as they are where events are shuffled."""
        for grouping, expected in (("fields:key", 26), ("shuffle", 24)):
            situation = make_situation(
                job("vertex", grouping=grouping), arrived=150.0, execution_s=16 / 100, replicas=16
            )
            assert planner_at(1.0, key_groups=128).plan(situation).replicas.tolist() == [expected]

    def test_an_operator_that_is_not_there(self, vertex: Any) -> None:
        with pytest.raises(ConfigError, match=r"flink\.partitions\.vortex.*did you mean 'vertex'"):
            planner_at(1.0, partitions={"vortex": 12}).plan(vertex(10, 200, 100))


class TestHistory:
    """`JobVertexScalerTest`: what past changes brought."""

    def test_a_scale_up_that_brought_little_is_not_repeated(self, vertex: Any) -> None:
        """`testIneffectiveScalingDetection`: 5 to 10 brought 80 % of what was hoped for, 10 to 20 less than 10 %."""
        planner = planner_at(1.0, effectiveness_detection=True)

        def replicas(*figures: float) -> int:
            return int(planner.plan(vertex(*figures)).replicas[0])

        assert replicas(5, 100, 50) == 10
        assert replicas(10, 180, 90) == 20
        assert replicas(20, 180, 94) == 20
        blocked = planner.plan(vertex(20, 180, 95))
        assert blocked.replicas.tolist() == [20]
        assert blocked.notes == ("vertex: 5 of 90 events/s gained by the last scale-up, not scaled up again",)
        assert replicas(20, 180, 98) == 20
        # Fewer are never blocked.
        assert replicas(20, 45, 90) == 10

    def test_a_scale_up_that_brought_enough_is_repeated(self, vertex: Any) -> None:
        """`testIneffectiveScalingDetection`: 90 to 100 of 180 is more than 10 %."""
        planner = planner_at(1.0, effectiveness_detection=True)
        counts = [int(planner.plan(vertex(*figures)).replicas[0]) for figures in ((10, 180, 90), (20, 180, 100))]
        assert counts == [20, 36]

    def test_another_parallelism_than_the_last_change_led_to_blocks_nothing(self, vertex: Any) -> None:
        """`testIneffectiveScalingDetection`: somebody set it by hand."""
        planner = planner_at(1.0, effectiveness_detection=True)
        counts = [int(planner.plan(vertex(*figures)).replicas[0]) for figures in ((10, 180, 90), (10, 180, 90))]
        assert counts == [20, 20]

    def test_without_detection_it_is_only_told_of(self, vertex: Any) -> None:
        """`testSendingIneffectiveScalingEvents`."""
        planner = planner_at(1.0)
        planner.plan(vertex(10, 180, 90))
        plan = planner.plan(vertex(20, 180, 90))
        assert plan.replicas.tolist() == [40]
        assert plan.notes == ("vertex: 0 of 90 events/s gained by the last scale-up, scaled up all the same",)

    @pytest.mark.parametrize(
        ("observed", "fewest", "expected"),
        [
            ([(4, 200), (2, 100), (8, 400)], 3, 1.0),
            # (4·196 + 2·99 + 8·390) / (84 · 49.5) = .987, (4·160 + 2·96 + 8·240) / (84 · 48) = .683,
            # (50 + 2·80 + 4·100) / (21 · 50) = .581, (2·80 + 4·100) / (20 · 40) = .7
            ([(4, 196), (2, 99), (8, 390)], 3, 0.99),
            ([(4, 160), (2, 96), (8, 240)], 3, 0.69),
            ([(1, 50), (2, 80), (4, 100)], 3, 0.59),
            ([(4, 100)], 1, 1.0),
            ([(2, 80), (4, 100)], 1, 0.7),
            ([(2, 80), (4, 160)], 1, 1.0),
            ([(2, 80), (4, 100)], 3, 1.0),
        ],
    )
    def test_scalability(self, observed: list[tuple[float, float]], fewest: int, expected: float) -> None:
        """`testCalculateScalingCoefficient`, which gives ranges: the values are worked out by hand."""
        assert scalability(observed, fewest=fewest, lowest=0.5) == expected

    def test_scalability_is_learnt_from_changes(self, vertex: Any) -> None:
        """`testParallelismScalingWithObservedScalingCoefficient`: 2·(100/.5)/40 = 10, over .69 it is 15."""
        planner = planner_at(0.5, observed_scalability=True)
        for parallelism, target, true_rate in ((4, 80, 160), (2, 384, 96), (8, 480, 240)):
            planner.plan(vertex(parallelism, target + 1, true_rate))
        assert planner.plan(vertex(2, 100, 40)).replicas.tolist() == [15]


class TestWaiting:
    """Stabilisation and the metrics window; no figures of others."""

    def test_nothing_changes_before_the_metrics_window_is_full(self, vertex: Any) -> None:
        planner = planner_at(1.0, metrics_window_s=30)
        plans = [planner.plan(vertex(1, 500, 10, td_s=10.0, now_s=at_s)) for at_s in (1000.0, 1010.0, 1020.0)]
        assert [int(plan.replicas[0]) for plan in plans] == [1, 1, 5]
        assert plans[1].notes == ("metrics window: 20 s of 30 s so far",)

    def test_rates_are_averages_over_the_window(self, vertex: Any) -> None:
        """100, 200, 600 and 100 events in 10 s each: the last three are 30 a second."""
        planner = planner_at(1.0, metrics_window_s=30)
        for at_s, arrived in ((1000.0, 100.0), (1010.0, 200.0), (1020.0, 600.0)):
            planner.plan(vertex(1, arrived, 1000, td_s=10.0, now_s=at_s))
        plan = planner.plan(vertex(1, 100.0, 1000, td_s=10.0, now_s=1030.0))
        assert term(plan, "λ_t") == pytest.approx([30.0])

    def test_a_change_settles_before_measurements_count_again(self, vertex: Any) -> None:
        planner = planner_at(1.0, metrics_window_s=10, stabilisation_s=20)
        decided, notes = [], []
        for at_s in (1000.0, 1010.0, 1020.0, 1030.0, 1040.0, 1050.0):
            changed = -np.inf if at_s <= 1020.0 else 1020.0
            plan = planner.plan(vertex(1, 500, 10, td_s=10.0, now_s=at_s, changed_at_s=changed))
            decided.append(int(plan.replicas[0]))
            notes.append(plan.notes)
        # From 990 s on it settles for 20 s; so it does after the change at 1020 s.
        assert decided == [1, 1, 5, 1, 1, 5]
        assert [bool(note) for note in notes] == [True, True, False, True, True, False]

    def test_a_clock_that_jumps_back_and_another_topology_start_afresh(
        self, vertex: Any, make_situation: MakeSituation
    ) -> None:
        planner = planner_at(1.0, scale_down_interval_s=60)
        assert planner.plan(vertex(100, 500, 1000, now_s=1000.0)).replicas.tolist() == [100]
        assert planner.plan(vertex(100, 500, 1000, now_s=10.0)).replicas.tolist() == [100]
        assert planner.plan(vertex(100, 500, 1000, now_s=69.0)).replicas.tolist() == [100]
        assert planner.plan(vertex(100, 500, 1000, now_s=70.0)).replicas.tolist() == [50]
        other = make_situation(job("other"), arrived=500.0, execution_s=0.1, replicas=100, now_s=200.0)
        assert planner.plan(other).replicas.tolist() == [100]

    def test_boundaries_in_the_wrong_order(self) -> None:
        with pytest.raises(ConfigError, match=r"utilisation_min \(0\.8\), target_utilisation \(0\.7\)"):
            make_planner("flink", utilisation_min=0.8)

    def test_every_term_is_there(self, vertex: Any) -> None:
        plan = planner_at(0.8).plan(vertex(10, 50, 100))
        assert [term.symbol for term in plan.terms] == "λ_t λ_c λ_p C↑ C↓ C f ⌈f·r⌉ a r* r".split()
