"""KEDA's rule for Kafka and the Kubernetes autoscaler behind it, against the figures of their own tests.

Those are kedacore/keda, `pkg/scalers/kafka_scaler_test.go` and `tests/scalers/kafka/kafka_test.go`, and
kubernetes/kubernetes, `pkg/controller/podautoscaler`, as of the middle of 2026. Not covered: offsets that are invalid,
lag that persists, partitions chosen by number or by their lag (lag is not measured by partition); scale-down policies
other than the default, which has no limit; several metrics, pods that are not ready, and zero replicas, which operators
never have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foretide.errors import ConfigError
from foretide.plan import Keda, Situation, make_planner
from foretide.plan.partitions import limit_note, partition_counts
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]

#: Nothing but lag and partitions: no windows, no tolerance, no limit of growth.
PLAIN: dict[str, Any] = {"tolerance": 0, "scale_down_window_s": 0, "cooldown_s": 0, "scale_up_replicas": 10_000}


def single(least: int = 1, most: int = 1000, name: str = "work") -> Topology:
    job = flow("single")
    job.source("in").operator(name, replicas=(least, most))
    return job.build()


@pytest.fixture
def replicas(make_situation: MakeSituation) -> Callable[..., int]:
    """Return a function from a planner, a lag and the replicas there are to the replicas that it decides on."""

    def plan(planner: Keda, lag: float, present: int = 1, *, now_s: float = 1000.0, **bounds: Any) -> int:
        situation = make_situation(single(**bounds), queued=lag, replicas=present, now_s=now_s)
        return int(planner.plan(situation).replicas[0])

    return plan


class TestScaler:
    """KEDA: lag, partitions, activation."""

    @pytest.mark.parametrize(("lag", "expected"), [(0, 1), (10, 1), (11, 2), (100, 10), (101, 11)])
    def test_a_replica_for_every_ten_events(self, replicas: Any, lag: float, expected: int) -> None:
        assert replicas(Keda(**PLAIN), lag) == expected

    @pytest.mark.parametrize(("lag", "expected"), [(1, 1), (2, 2), (7, 3)])
    def test_no_more_replicas_than_partitions(self, replicas: Any, lag: float, expected: int) -> None:
        """`testEarliestPolicy`: three partitions, a replica for each event; one event does not activate yet."""
        assert replicas(Keda(**PLAIN, lag_threshold=1, activation_lag=1, partitions=3), lag) == expected

    def test_the_plan_says_what_holds_it_back(self, make_situation: MakeSituation) -> None:
        plan = Keda(**PLAIN, partitions=3).plan(make_situation(single(), queued=75.0))
        assert plan.notes == ("no more replicas than partitions: work 8 -> 3",)
        assert [term.symbol for term in plan.terms] == [
            "lag",
            "⌈lag/n⌉",
            "P",
            "≤ P",
            "w",
            "w_s",
            "r↑",
            "idle",
            "r*",
            "r",
        ]

    def test_idle_consumers(self, replicas: Any) -> None:
        assert replicas(Keda(**PLAIN, partitions=3, allow_idle_consumers=True), 75) == 8

    @pytest.mark.parametrize(
        ("lag", "expected"), [(10, 1), (20, 2), (40, 4), (50, 5), (99, 10), (100, 10), (101, 20), (5000, 100)]
    )
    def test_even_partitions(self, replicas: Any, lag: float, expected: int) -> None:
        """`TestGetNextFactor`: a hundred partitions, a replica for every ten events."""
        assert replicas(Keda(**PLAIN, partitions=100, even_partitions=True), lag) == expected

    @pytest.mark.parametrize(("lag", "expected"), [(1, 1), (5, 5), (8, 10)])
    def test_even_partitions_of_ten(self, replicas: Any, lag: float, expected: int) -> None:
        """`testScalingEnsureEvenDistributionOfPartitions`: ten partitions, a replica for each event."""
        planner = Keda(**PLAIN, lag_threshold=1, activation_lag=1, partitions=10, even_partitions=True)
        assert replicas(planner, lag) == expected

    def test_partitions_by_operator(self, make_situation: MakeSituation) -> None:
        plan = Keda(**PLAIN, partitions={"O2": 4}).plan(make_situation(queued=90.0))
        assert plan.by_operator() == {"O1": 9, "O2": 4, "O3": 9}

    def test_an_operator_that_is_not_there(self, make_situation: MakeSituation) -> None:
        with pytest.raises(ConfigError, match=r"planner\.keda\.partitions\.wirk.*did you mean 'work'"):
            Keda(partitions={"wirk": 4}).plan(make_situation(single()))

    @pytest.mark.parametrize("wrong", [0, 2.5, {"O1": 0}, "many"])
    def test_partitions_that_are_none(self, wrong: Any) -> None:
        with pytest.raises(ConfigError, match=r"'planner\.keda\.partitions': expected a whole number from 1 on"):
            make_planner("keda", partitions=wrong)

    def test_an_idle_operator_goes_to_its_minimum_after_the_cool_down(self, replicas: Any) -> None:
        planner = Keda(**{**PLAIN, "cooldown_s": 60}, activation_lag=50)
        assert replicas(planner, 80, 8, now_s=0.0, least=2) == 8
        assert replicas(planner, 50, 8, now_s=59.0, least=2) == 5
        assert replicas(planner, 50, 8, now_s=60.0, least=2) == 2
        # Below the activation lag it stays there; above, it comes back at once.
        assert replicas(planner, 50, 2, now_s=70.0, least=2) == 2
        assert replicas(planner, 51, 2, now_s=80.0, least=2) == 6


class TestAutoscaler:
    """The Kubernetes autoscaler: tolerance, windows, growth."""

    @pytest.mark.parametrize(
        ("present", "threshold", "tolerance", "expected"),
        [(3, 2150, 0.1, 4), (5, 2867, 0.1, 3), (3, 2900, 0.1, 3), (3, 2800, 0.01, 4)],
    )
    def test_tolerance(self, replicas: Any, present: int, threshold: float, tolerance: float, expected: int) -> None:
        """`TestReplicaCalcExternalPerPodMetric`: 8600 in all."""
        planner = Keda(**{**PLAIN, "tolerance": tolerance}, lag_threshold=threshold)
        assert replicas(planner, 8600, present) == expected

    def test_tolerance_goes_by_what_the_partitions_can_use(self, replicas: Any) -> None:
        """A lag of 75 is cut to that of 20 partitions, which is within a tenth of 19."""
        planner = Keda(**{**PLAIN, "tolerance": 0.1}, lag_threshold=1, partitions=20)
        assert (replicas(planner, 75, 19), replicas(planner, 75, 10)) == (19, 20)

    @pytest.mark.parametrize(
        ("before", "wanted", "expected"),
        [
            ([], 5, 5),
            ([(-120, 4), (-60, 5)], 3, 5),
            ([(-120, 1), (-60, 2)], 3, 3),
            ([(-600, 10), (-540, 9)], 3, 3),
            ([(-600, 10), (-540, 9), (-120, 5), (-60, 4)], 3, 5),
        ],
    )
    def test_scale_down_window(
        self, replicas: Any, before: list[tuple[float, int]], wanted: int, expected: int
    ) -> None:
        """`TestNormalizeDesiredReplicas`: the most of the last five minutes; twenty replicas run all the time."""
        planner = Keda(**{**PLAIN, "scale_down_window_s": 300, "cooldown_s": 1e9})
        replicas(planner, 200, 20, now_s=0.0)
        for at_s, count in before:
            replicas(planner, 10 * count, 20, now_s=1000.0 + at_s)
        assert replicas(planner, 10 * wanted, 20, now_s=1000.0) == expected

    def test_what_runs_at_first_counts_as_wanted(self, replicas: Any) -> None:
        """`TestScaleDownStabilizeInitialSize` has the same reason."""
        planner = Keda(tolerance=0)
        counts = [replicas(planner, 50, 20, now_s=at_s) for at_s in (1000.0, 1299.0, 1300.0)]
        assert counts == [20, 20, 5]

    def test_scale_up_window(self, replicas: Any) -> None:
        """The least of the last minute; what runs at first counts."""
        planner = Keda(**PLAIN, scale_up_window_s=60)
        steps = ((0.0, 30), (30.0, 50), (60.0, 80), (89.0, 80), (90.0, 80))
        assert [replicas(planner, lag, 2, now_s=at_s) for at_s, lag in steps] == [2, 2, 5, 5, 8]

    @pytest.mark.parametrize(
        ("settings", "present", "wanted", "bounds", "expected"),
        [
            ({}, 5, 7, (3, 8), 7),
            ({"scale_down_window_s": 0}, 3, 1, (2, 8), 2),
            ({}, 100, 1000, (100, 150), 150),
            ({"scale_up_replicas": 1, "scale_up_percent": 0, "scale_up_period_s": 60}, 3, 1000, (1, 2000), 4),
            ({}, 10, 50, (1, 1000), 20),
            ({"scale_up_replicas": 100, "scale_up_period_s": 60}, 10, 500, (1, 1000), 110),
            ({"scale_up_replicas": 2, "scale_up_period_s": 60}, 10, 500, (1, 1000), 20),
            ({"scale_up_replicas": 100, "scale_up_percent": 0}, 10, 50, (1, 1000), 50),
            ({"scale_up_replicas": 30, "scale_up_percent": 0}, 10, 50, (1, 1000), 40),
            ({"scale_up_replicas": 0, "scale_up_percent": 200}, 10, 50, (1, 1000), 30),
            ({}, 1, 1000, (1, 1000), 5),
        ],
    )
    def test_growth(
        self,
        replicas: Any,
        settings: dict[str, float],
        present: int,
        wanted: int,
        bounds: tuple[int, int],
        expected: int,
    ) -> None:
        """`TestScalingWithRules`; the last is the default's four replicas."""
        planner = Keda(**{"tolerance": 0, **settings})
        assert replicas(planner, 10 * wanted, present, least=bounds[0], most=bounds[1]) == expected

    @pytest.mark.parametrize(
        ("settings", "most", "expected"),
        [
            ({"scale_up_replicas": 300, "scale_up_percent": 0}, 200, 200),
            ({"scale_up_replicas": 5, "scale_up_percent": 0}, 1000, 100),
            ({"scale_up_replicas": 150, "scale_up_percent": 0}, 1000, 235),
            ({"scale_up_replicas": 0, "scale_up_percent": 200}, 1000, 255),
        ],
    )
    def test_growth_counts_from_the_beginning_of_the_period(
        self, replicas: Any, settings: dict[str, float], most: int, expected: int
    ) -> None:
        """`TestScalingWithRules`: 15 of a hundred replicas came within the two minutes of the period."""
        planner = Keda(tolerance=0, scale_up_period_s=120, **settings)
        replicas(planner, 850, 85, now_s=1000.0, most=most)
        assert replicas(planner, 5000, 100, now_s=1060.0, most=most) == expected

    def test_the_plan_says_that_growth_is_limited(self, make_situation: MakeSituation) -> None:
        plan = Keda().plan(make_situation(single(), queued=5000.0, replicas=10))
        assert plan.notes == ("no more replicas than the limit on growth: work 500 -> 20",)

    def test_the_next_period_doubles_again(self, replicas: Any) -> None:
        planner = Keda()
        counts, present = [], 10
        for step in range(4):
            present = replicas(planner, 5000, present, now_s=1000.0 + 7.5 * step)
            counts.append(present)
        assert counts == [20, 20, 40, 40]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale_up_replicas": 0, "scale_up_percent": 0}, "expected scale_up_replicas or scale_up_percent above 0"),
        ({"even_partitions": True}, "expected partitions, since even_partitions is set"),
    ],
)
def test_settings_that_do_not_fit_together(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_planner("keda", **settings)


def test_a_clock_that_jumps_back_and_another_topology_start_afresh(
    replicas: Any, make_situation: MakeSituation
) -> None:
    planner = Keda(tolerance=0)
    for now_s, expected in ((1000.0, 8), (10.0, 8), (309.0, 8), (310.0, 1)):
        assert replicas(planner, 0, 8, now_s=now_s) == expected
    other = make_situation(single(name="other"), queued=0.0, replicas=8, now_s=5000.0)
    assert planner.plan(other).replicas.tolist() == [8]


def test_a_note_names_the_first_few_operators(make_situation: MakeSituation) -> None:
    job = flow("wide")
    source = job.source("in")
    for number in range(7):
        source.operator(f"O{number}", replicas=(1, 100))
    situation = make_situation(job.build())
    limit = partition_counts(3, situation, "partitions")
    (note,) = limit_note(situation, limit + 1, limit)
    assert note.endswith("O4 4 -> 3 and 2 more")
