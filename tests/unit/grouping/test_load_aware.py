import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import LoadAware, utilisation


def sent(grouping: LoadAware, tuples: int) -> list[int]:
    return grouping.assign(np.arange(tuples)).replicas.tolist()


def test_p3_eq_1_utilisation_is_processed_times_execution_time_over_interval() -> None:
    # 1200 tuples of 5 ms in 30 s are 6 s of work; 6000 are 30 s; 9000 would be 45 s.
    assert utilisation([0, 1200, 6000, 9000], execution_s=0.005, td_s=30.0) == pytest.approx([0.0, 0.2, 1.0, 1.0])


def test_p3_algorithm_1_by_hand() -> None:
    # et/td = 1/4, all exact in binary. U is (.5 .25 .75); the lowest is 1 (.5 .5 .75), then by ties to the first
    # 0 (.75 .5 .75), 1 (.75 .75 .75), 0 (1 .75 .75), 1 (1 1 .75), 2 (1 1 1).
    grouping = LoadAware(3, execution_s=0.25, td_s=1.0, utilisations=[0.5, 0.25, 0.75])
    assert sent(grouping, 6) == [1, 0, 1, 0, 1, 2]
    assert grouping.utilisations == (1.0, 1.0, 1.0)


def test_p3_algorithm_1_raises_only_the_chosen_utilisation_by_et_over_td() -> None:
    grouping = LoadAware(3, execution_s=3.0, td_s=30.0, utilisations=[0.5, 0.2, 0.7])
    assert grouping.route(0) == (1,)
    assert grouping.utilisations == pytest.approx((0.5, 0.3, 0.7))


def test_p3_algorithm_1_goes_round_robin_once_the_lowest_is_1() -> None:
    grouping = LoadAware(3, execution_s=1.0, td_s=30.0, utilisations=[1.0, 1.0, 1.0])
    assert sent(grouping, 5) == [0, 1, 2, 0, 1]
    assert sent(grouping, 2) == [2, 0]
    assert grouping.utilisations == (1.0, 1.0, 1.0)


def test_p3_algorithm_1_takes_a_sum_of_floats_just_below_1_for_1() -> None:
    # Ten times 0.1 is 0.9999999999999999 in floats: an eleventh tuple to the same replica would be wrong.
    grouping = LoadAware(2, execution_s=0.1, td_s=1.0, utilisations=[0.0, 1.0])
    assert sent(grouping, 10) == [0] * 10
    assert sum([0.1] * 10) < 1.0
    assert sent(grouping, 4) == [0, 1, 0, 1]


def test_p3_equal_utilisations_take_turns() -> None:
    assert sent(LoadAware(3, execution_s=0.01, td_s=1.0), 7) == [0, 1, 2, 0, 1, 2, 0]


def test_p3_utilisation_never_exceeds_1() -> None:
    grouping = LoadAware(1, execution_s=0.7, td_s=1.0)
    sent(grouping, 2)
    assert grouping.utilisations == (1.0,)


def test_new_measurements_replace_utilisations_and_keep_the_turn() -> None:
    grouping = LoadAware(2, execution_s=0.5, td_s=1.0, utilisations=[1.0, 1.0])
    grouping.route(0)
    measured = grouping.with_utilisation([0.5, 1.0], execution_s=0.25)
    assert sent(measured, 4) == [0, 0, 1, 0]
    assert grouping.utilisations == (1.0, 1.0)


def test_rescaling_keeps_survivors_and_adds_idle_replicas() -> None:
    grouping = LoadAware(3, execution_s=0.1, td_s=1.0, utilisations=[0.5, 0.2, 0.3])
    assert grouping.rescale(4).utilisations == (0.5, 0.2, 0.3, 0.0)
    assert grouping.rescale(2).utilisations == (0.5, 0.2)


def test_table_for_an_interval_has_the_shares_of_the_whole_interval() -> None:
    # 1000 tuples of 1/1000 each: 0.5 of U lifts replica 1 level with replica 0, the other 0.5 is shared.
    grouping = LoadAware(2, execution_s=0.001, td_s=1.0, utilisations=[0.5, 0.0])
    shares = np.bincount(grouping.table(8, tuples=1000)) / 256
    assert shares == pytest.approx([0.25, 0.75], abs=1 / 256)
    assert set(grouping.table(8).tolist()) == {1}  # the next 256 tuples alone do not level it


def test_a_tuple_raises_the_utilisation_of_a_slow_replica_further() -> None:
    # et/td = 1/8; at half the speed 1/4. 0 (.125 0), 1 (.125 .25), 0 (.25 .25), 0 (.375 .25), 1 (.375 .5), 0 (.5 .5).
    grouping = LoadAware(2, execution_s=0.125, td_s=1.0, speeds=[1.0, 0.5])
    assert sent(grouping, 6) == [0, 1, 0, 0, 1, 0]
    assert grouping.utilisations == (0.5, 0.5)


def test_at_a_barrier_no_replica_has_work_and_none_is_ever_full() -> None:
    full = LoadAware(3, execution_s=1.0, td_s=1.0, utilisations=[1.0, 0.0, 1.0]).at_barrier(0)
    assert np.bincount(full.assign(np.arange(3000)).replicas).tolist() == [1000, 1000, 1000]


def test_as_many_senders_as_replicas_divide_few_tuples_exactly() -> None:
    # Each sender has 5 tuples for speeds 3 : 1 : 1, three of them 15: 9, 3 and 3.
    grouping = LoadAware(3, speeds=[3.0, 1.0, 1.0])
    counts = [np.bincount(grouping.at_barrier(s).assign(np.arange(5)).replicas, minlength=3) for s in range(3)]
    assert np.sum(counts, axis=0).tolist() == [9, 3, 3]


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"execution_s": 0.0}, "execution_s"),
        ({"execution_s": float("nan")}, "execution_s"),
        ({"td_s": -1.0}, "td_s"),
        ({"utilisations": [0.1]}, "utilisations"),
        ({"utilisations": [0.1, 1.1]}, "utilisations"),
        ({"utilisations": [0.1, -0.1]}, "utilisations"),
        ({"utilisations": ["x", 0.1]}, "utilisations"),
        ({"speeds": [1.0]}, "speeds"),
        ({"speeds": [1.0, 0.0]}, "speeds"),
    ],
)
def test_errors_name_the_setting(options: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"grouping\.load-aware\.{setting}"):
        LoadAware(2, **options)  # type: ignore[arg-type]


def test_measured_counts_must_not_be_negative() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.load-aware\.processed"):
        utilisation([3, -1], execution_s=0.1, td_s=1.0)
