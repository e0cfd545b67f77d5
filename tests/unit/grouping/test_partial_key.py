import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import Fields, PartialKey


def test_a_key_alternates_between_two_replicas() -> None:
    chosen = PartialKey(8).assign(np.full(6, 5)).replicas.tolist()
    first, second = chosen[:2]
    assert first != second and chosen == [first, second] * 3


def test_the_less_loaded_choice_gets_the_tuple() -> None:
    grouping = PartialKey(2)  # both replicas are choices of every key
    first = grouping.route(5)[0]
    state = grouping.state()
    state["counts"][1 - first] = 3
    loaded = PartialKey.from_state(state)
    assert [loaded.route(5)[0] for _ in range(2)] == [first, first]
    assert sorted(loaded.counts) == [3, 3]


def test_skewed_keys_are_balanced_better_than_by_fields() -> None:
    keys = np.random.default_rng(5).zipf(1.5, 20_000)
    partial, fields = (np.bincount(kind(8).assign(keys).replicas, minlength=8) for kind in (PartialKey, Fields))
    assert partial.max() < 0.6 * fields.max()


def test_a_new_replica_starts_with_the_fewest_tuples_of_the_others() -> None:
    grouping = PartialKey(2)
    grouping.assign(np.arange(100))
    assert grouping.rescale(3).counts == (*grouping.counts, min(grouping.counts))
    assert grouping.rescale(1).counts == grouping.counts[:1]


def test_one_replica_is_both_choices() -> None:
    assert PartialKey(1).assign(np.arange(3)).replicas.tolist() == [0, 0, 0]


def test_counts_of_a_state_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.partial-key\.counts.*2 numbers"):
        PartialKey.from_state({"replicas": 2, "counts": [1]})


def test_a_tie_goes_to_the_first_choice_which_is_that_of_fields() -> None:
    keys = range(50)
    assert [PartialKey(8).route(key) for key in keys] == [Fields(8).route(key) for key in keys]
