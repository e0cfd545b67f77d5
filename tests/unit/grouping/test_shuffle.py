import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import Shuffle


def test_shares_are_equal_to_within_one_tuple() -> None:
    counts = np.bincount(Shuffle(7).assign(np.zeros(1000, dtype=np.int64)).replicas, minlength=7)
    assert counts.max() - counts.min() == 1


def test_the_turn_survives_calls_and_rescaling() -> None:
    shuffle = Shuffle(4)
    shuffle.assign(np.arange(6))
    assert shuffle.rescale(8).route(0) == (2,)
    assert shuffle.rescale(2).route(0) == (0,)
    assert shuffle.route(0) == (2,)


def test_start_must_be_a_replica() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.shuffle\.start.*from 0 to 2.*got 3"):
        Shuffle(3, start=3)
