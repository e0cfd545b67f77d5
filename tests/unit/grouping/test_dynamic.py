import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import Dynamic, Ring

IDS = np.arange(4096)


def shares(grouping: Dynamic) -> list[int]:
    return np.bincount(grouping.assign(IDS).replicas, minlength=grouping.replicas).tolist()


def test_i1_fig_4_as_a_grouping() -> None:
    grouping = Dynamic.on_ring(Ring(3, [[3, 7], [0, 4, 6], [5]]))
    assert grouping.route(1) == (0,)
    assert grouping.weights == (4.0, 3.0, 1.0)
    assert grouping.assign(np.arange(8, 16)).replicas.tolist() == [1, 0, 0, 0, 1, 2, 1, 0]


def test_i8_split_1_1_1_then_7_3_2_then_a_worker_bypassed() -> None:
    even = Dynamic(3)
    split = even.with_ratio([7, 3, 2])
    bypassed = split.without(1)
    assert shares(even) == [1366, 1365, 1365]
    assert shares(split) == [2389, 1024, 683]  # 4096 times 7, 3 and 2 twelfths, rounded
    assert shares(bypassed) == [3186, 0, 910]  # 4096 times 7 and 2 ninths, rounded
    before, after = split.assign(IDS).replicas, bypassed.assign(IDS).replicas
    assert (before[before != after] == 1).all()


def test_i1_a_change_of_ratio_moves_only_the_changed_share() -> None:
    before, after = (grouping.assign(IDS).replicas for grouping in (Dynamic(3), Dynamic(3).with_weights([7, 3, 2])))
    assert (before != after).sum() == 2389 - 1366


def test_rescaling_keeps_the_ratio_of_survivors_and_adds_mean_weights() -> None:
    grouping = Dynamic(3, weights=[6, 0, 2])
    assert grouping.rescale(4).weights == (6.0, 0.0, 2.0, 4.0)
    assert grouping.rescale(2).weights == (6.0, 0.0)
    assert shares(grouping.rescale(4)) == [2048, 0, 683, 1365]


def test_rescaling_to_disabled_survivors_enables_them() -> None:
    assert Dynamic(3, weights=[0, 0, 2]).rescale(2).weights == (1.0, 1.0)


def test_growing_moves_ids_only_to_the_new_replica() -> None:
    before, after = Dynamic(3).assign(IDS).replicas, Dynamic(3).rescale(4).assign(IDS).replicas
    assert set(after[before != after].tolist()) == {3}
    assert (before != after).sum() == 1024


def test_table_repeats_a_small_ring_and_redraws_a_large_one() -> None:
    small = Dynamic(2, weights=[3, 1], m=2)
    assert small.table(3).tolist() == small.table(2).tolist() * 2
    assert np.bincount(Dynamic(2, weights=[3, 1], m=12).table(3)).tolist() == [6, 2]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "3 numbers, one per replica, got 2 numbers"),
        ([1, -1, 1], "at least 0"),
        ([0, 0, 0], "at least one weight above 0.*leave at least one replica enabled"),
        ([1, float("inf"), 1], "finite"),
        ([1, float("nan"), 1], "finite"),
        ([1e308, 1e308, 1e308], "a finite sum"),
        ("abc", "3 numbers"),
    ],
)
def test_errors_name_the_weights(weights: list[float], message: str) -> None:
    for build in (lambda: Dynamic(3, weights=weights), lambda: Dynamic(3).with_weights(weights)):
        with pytest.raises(ConfigError, match=rf"grouping\.dynamic\.weights.*{message}"):
            build()


def test_bypassing_needs_a_replica_that_exists_and_one_that_remains() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.dynamic\.task.*from 0 to 1, got 2"):
        Dynamic(2).without(2)
    with pytest.raises(ConfigError, match="leave at least one replica enabled"):
        Dynamic(2).without(0, 1)


@pytest.mark.parametrize("m", [-1, 25, 2.5])
def test_identifier_width_must_be_sensible(m: int) -> None:
    with pytest.raises(ConfigError, match=r"grouping\.m"):
        Dynamic(2, m=m)
