"""A scheduler of executors that is made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foretide.spark.executors.holdings import Holding

__all__ = ["FakeScheduler"]


class FakeScheduler:
    """Executors "0", "1" ... that come when `come` is called, and leave when they are told to.

    `calls` keeps what was asked for, in order: ("request", 3), ("decommission", "2", "1"), ("kill", "1").
    """

    def __init__(
        self, present: int = 1, cores: int = 2, *, ignored: Sequence[str] = (), deaf: bool = False, kills: bool = False
    ) -> None:
        self.cluster, self.cores = "spark://fake:7077", cores
        self.conf: dict[str, str] = {}
        self.present = [str(number) for number in range(present)]
        self.calls: list[tuple[Any, ...]] = []
        #: It refuses requests.
        self.deaf = deaf
        #: The calls, "decommission" or "kill", after which executors stay all the same.
        self.ignored = ("decommission", *ignored) if kills else tuple(ignored)
        #: Executors that cannot be decommissioned.
        self.stubborn: tuple[str, ...] = ()
        self.cannot_decommission = False
        self.leave_by_themselves, self.starts_at_once = not kills, False
        #: Executors with running tasks, those that have finished none yet, the jobs that run, and what executors hold.
        self.busy: set[str] = set()
        self.unused: set[str] = set()
        self.running: set[int] = set()
        self.held: dict[str, Holding] = {}
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

    def leave(self, *ids: str) -> None:
        """Let executors go."""
        self.present = [id for id in self.present if id not in ids]

    def executors(self) -> tuple[str, ...]:
        return tuple(self.present)

    def holdings(self) -> Mapping[str, Holding]:
        return self.held

    def untried(self) -> frozenset[str]:
        return frozenset(self.unused)

    def jobs(self) -> frozenset[int]:
        return frozenset(self.running)

    def request_total(self, executors: int) -> bool:
        self.calls.append(("request", executors))
        return not self.deaf

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        self.calls.append(("decommission", *ids))
        if self.cannot_decommission:
            raise RuntimeError("py4j: no such method")
        leaving = tuple(id for id in ids if id not in self.stubborn)
        if "decommission" not in self.ignored:
            self.leave(*leaving)
        return leaving

    def kill(self, ids: Sequence[str], *, busy: bool) -> tuple[str, ...]:
        going = tuple(id for id in ids if busy or id not in self.busy)
        if going:
            self.calls.append(("kill", *going))
        if "kill" not in self.ignored:
            self.leave(*going)
        return going
