"""All, global and direct grouping."""

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import All, Direct, Global


def test_all_sends_a_copy_to_every_replica() -> None:
    assert All(3).route(9) == (0, 1, 2)
    rows, replicas = All(3).assign(np.array([9, 9]))
    assert rows is not None
    assert rows.tolist() == [0, 0, 0, 1, 1, 1] and replicas.tolist() == [0, 1, 2, 0, 1, 2]


def test_global_sends_everything_to_the_first_replica() -> None:
    assert Global(3).route(9) == (0,)
    assert Global(3).table(2).tolist() == [0, 0, 0, 0]


def test_direct_takes_the_key_as_the_replica() -> None:
    assert Direct(3).assign(np.array([2, 0, 1, 1])).replicas.tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize("key", [-1, 3, 2**40])
def test_direct_names_the_key_that_is_no_replica(key: int) -> None:
    with pytest.raises(ConfigError, match=rf"grouping\.direct\.key.*from 0 to 2, got {key}"):
        Direct(3).route(key)
    with pytest.raises(ConfigError, match="in row 2"):
        Direct(3).assign(np.array([0, 1, key, 2]))
