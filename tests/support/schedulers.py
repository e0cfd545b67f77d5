"""A scheduler of executors that is made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["FakeScheduler"]


class FakeScheduler:
    """Executors "0", "1" ... that come when `come` is called, and leave when they are told to.

    `calls` keeps what was asked for, in order: ("request", 3), ("decommission", "2", "1"), ("kill", "1").
    """

    def __init__(self, present: int = 1, cores: int = 2, *, ignored: Sequence[str] = (), deaf: bool = False) -> None:
        self.cores = cores
        self.present = [str(number) for number in range(present)]
        self.calls: list[tuple[Any, ...]] = []
        #: It refuses requests.
        self.deaf = deaf
        #: The calls, "decommission" or "kill", after which executors stay all the same.
        self.ignored = tuple(ignored)
        #: Executors that cannot be decommissioned.
        self.stubborn: tuple[str, ...] = ()
        self.cannot_decommission = False
        self._next = present

    @property
    def asked(self) -> list[int]:
        """The numbers of executors that were requested."""
        return [call[1] for call in self.calls if call[0] == "request"]

    @property
    def told(self) -> list[tuple[Any, ...]]:
        """What executors were told: all calls but requests."""
        return [call for call in self.calls if call[0] != "request"]

    def come(self, executors: int) -> None:
        """Let executors come until there are so many."""
        while len(self.present) < executors:
            self.present.append(str(self._next))
            self._next += 1

    def executors(self) -> tuple[str, ...]:
        return tuple(self.present)

    def request_total(self, executors: int) -> bool:
        self.calls.append(("request", executors))
        return not self.deaf

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        self.calls.append(("decommission", *ids))
        if self.cannot_decommission:
            raise RuntimeError("py4j: no such method")
        leaving = tuple(id for id in ids if id not in self.stubborn)
        self._leave("decommission", leaving)
        return leaving

    def kill(self, ids: Sequence[str]) -> bool:
        self.calls.append(("kill", *ids))
        self._leave("kill", ids)
        return True

    def _leave(self, call: str, ids: Sequence[str]) -> None:
        if call not in self.ignored:
            self.present = [id for id in self.present if id not in ids]
