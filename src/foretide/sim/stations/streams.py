"""Random numbers that belong to one element each, so that draws of one do not affect the others."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

__all__ = ["Purpose", "RandomStreams"]


class Purpose(IntEnum):
    """What random numbers are for."""

    ARRIVALS = 0
    SERVICES = 1
    SPLITS = 2
    KEYS = 3


class RandomStreams:
    """A generator for each element and purpose, all from one seed.

    Parameters
    ----------
    seed : int
        The seed of the whole.

    Examples
    --------
    >>> streams = RandomStreams(7)
    >>> bool(streams.rng(Purpose.SERVICES, 0).random() == RandomStreams(7).rng(Purpose.SERVICES, 0).random())
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def rng(self, purpose: Purpose, element: int = 0) -> np.random.Generator:
        """Return the generator of an element for a purpose."""
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(int(purpose), element)))
