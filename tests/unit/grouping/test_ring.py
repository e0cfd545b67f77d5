import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import Ring
from foretide.grouping.ring import apportion

A, B, C = 0, 1, 2
FIG_4 = [[3, 7], [0, 4, 6], [5]]


def test_i1_fig_4_splits_4_3_1_and_sends_id_1_to_a() -> None:
    ring = Ring(3, FIG_4)
    assert ring.owner(1) == A
    assert ring.table.tolist() == [B, A, A, A, B, C, B, A]
    assert ring.counts.tolist() == [4, 3, 1]


def test_i1_ids_are_taken_modulo_the_circle() -> None:
    ring = Ring(3, FIG_4)
    assert [ring.owner(8 + 5), ring.owner(-3), ring.owner(2**62 + 1)] == [C, C, A]


def test_i1_the_circle_closes_past_the_last_identifier() -> None:
    # Only 2 and 5 are assigned: 6 and 7 go on to 2.
    assert Ring(3, [[2], [5]]).table.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]


def test_i1_ratio_is_met_exactly_where_it_divides_the_circle() -> None:
    assert Ring.for_weights([4, 3, 1], 3).counts.tolist() == [4, 3, 1]
    assert Ring.for_weights([7, 3, 2, 4], 12).counts.tolist() == [1792, 768, 512, 1024]


def test_i1_neighbours_go_to_different_tasks() -> None:
    table = Ring.for_weights([7, 3, 2], 12).table
    for start in range(0, 4096, 64):
        window = np.bincount(table[start : start + 64], minlength=3)
        assert np.abs(window - 64 * np.array([7, 3, 2]) / 12).max() < 2


def test_i1_ids_stay_mixed_after_many_changes() -> None:
    rng = np.random.default_rng(3)
    ring = Ring.for_weights([1, 1, 1, 1], 12)
    for _ in range(100):
        ring = ring.rebalanced(rng.random(4))
    table = ring.rebalanced([1, 1, 1, 1]).table
    for start in range(0, 4096, 128):
        assert np.abs(np.bincount(table[start : start + 128], minlength=4) - 32).max() <= 8


def test_i1_disabling_a_task_moves_only_its_ids() -> None:
    before = Ring(3, FIG_4)
    after = before.rebalanced([4, 0, 1])
    kept = before.table != B
    assert after.counts.tolist() == [6, 0, 2]
    assert (after.table[kept] == before.table[kept]).all()


def test_i1_equal_weights_change_nothing() -> None:
    ring = Ring.for_weights([2, 1], 4)
    assert ring.rebalanced([4, 2]).table.tolist() == ring.table.tolist()


def test_apportionment_by_hand() -> None:
    # Webster on 7:3:2 and 4 seats: claims 7/1, 7/3, 3/1, 2/1, 7/5 ... The four largest are 7, 3, 2.33 and 2.
    assert apportion([7, 3, 2], 4).tolist() == [2, 1, 1]
    assert apportion([1, 1, 1], 4).tolist() == [2, 1, 1]
    assert apportion([0, 5, 0], 4).tolist() == [0, 4, 0]
    assert apportion([1e-300, 1e300], 4).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("m", "identifiers", "message"),
    [
        (3, [[8]], "from 0 to 7"),
        (3, [[-1]], "from 0 to 7"),
        (3, [[1], [1]], "identifier 1 of task 0 and of task 1"),
        (3, [[], []], "at least one identifier"),
        (30, [[1]], r"grouping\.m"),
    ],
)
def test_errors_of_identifiers(m: int, identifiers: list[list[int]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ring(m, identifiers)


@pytest.mark.parametrize("owners", [[0, 1, 0], [], [0, 2], [0, -2], [[0, 1]]])
def test_owners_must_be_a_circle_of_known_tasks(owners: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"grouping\.dynamic\.owners"):
        Ring.from_owners(owners, 2)


def test_a_ring_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Ring(3, FIG_4).table[0] = 2
