"""Direct grouping: the sender names the replica."""

from __future__ import annotations

__all__ = ["Direct"]

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping._checks import as_keys
from foretide.grouping.base import Assignment, Grouping


class Direct(Grouping):
    """Send each tuple to the replica that its key names.

    Examples
    --------
    >>> Direct(3).route(2)
    (2,)
    >>> Direct(3).route(3)
    Traceback (most recent call last):
    foretide.errors.ConfigError: setting 'grouping.direct.key': expected a replica from 0 to 2, got 3; ...
    """

    name = "direct"
    value_aware = True
    summary = "the key is the replica"

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to the replica that its key names.

        Raises
        ------
        ConfigError
            When a key is not the number of a replica; nothing is sent then.
        """
        array = as_keys(keys)
        wrong = np.flatnonzero((array < 0) | (array >= self.replicas))
        if wrong.size:
            expected = f"a replica from 0 to {self.replicas - 1}"
            got = str(int(array[wrong[0]])) + (f" in row {wrong[0]}" if len(array) > 1 else "")
            remedy = "let the sender name a replica that exists, and follow changes of their number"
            raise ConfigError("grouping.direct.key", expected=expected, got=got, remedy=remedy)
        return Assignment(None, array.astype(np.int32))
