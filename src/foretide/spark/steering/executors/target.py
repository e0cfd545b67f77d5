"""How many executors an application is to have: one owner, whoever wants some, or wants one gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from foretide.errors import ActuatorError

if TYPE_CHECKING:
    from foretide.spark.steering.executors.scheduler import Scheduler

__all__ = ["ExecutorTarget"]

_LOG = logging.getLogger(__name__)
_FINDING = threading.Lock()
# The scheduler itself carries its target, so that both live as long as its application.
_ATTRIBUTE = "_foretide_target"


class ExecutorTarget:
    """Spark's target, and the executors on their way out, shared by all that change them.

    A plan says how many executors there are to be. Who bypasses one dismisses it, and may keep its seat empty. Spark is
    asked for the plan less the empty seats.

    Parameters
    ----------
    scheduler : Scheduler
        Spark's. `ExecutorTarget.of` gives everybody the same target for the same scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.lock = threading.RLock()
        self._planned: int | None = None
        self._vacant: set[str] = set()
        #: By executor on its way out: when it is killed if it is still there, and how long it has been given.
        self._leaving: dict[str, tuple[float, float]] = {}

    @classmethod
    def of(cls, scheduler: Scheduler) -> ExecutorTarget:
        """Return the target behind a scheduler."""
        with _FINDING:
            found: ExecutorTarget | None = getattr(scheduler, _ATTRIBUTE, None)
            if found is None:
                found = cls(scheduler)
                setattr(scheduler, _ATTRIBUTE, found)
            return found

    @property
    def vacant(self) -> frozenset[str]:
        """The bypassed executors whose seats are kept empty."""
        return frozenset(self._vacant)

    @property
    def wanted(self) -> int:
        """How many executors Spark is to run: as planned, else as many as there are, less the empty seats."""
        planned = len(self.working()) + len(self._vacant) if self._planned is None else self._planned
        return max(1, planned - len(self._vacant))

    def working(self) -> tuple[str, ...]:
        """Return the executors that get tasks, oldest first.

        Raises
        ------
        ActuatorError
            When Spark does not tell.
        """
        return tuple(id for id in self._executors() if id not in self._leaving)

    def plan(self, executors: int) -> int:
        """Ask for so many executors, less the empty seats; return what Spark was asked for.

        Raises
        ------
        ActuatorError
            When Spark does not hear the request; what was planned before still holds.
        """
        with self.lock:
            before, self._planned = self._planned, executors
            try:
                self.request()
            except ActuatorError:
                self._planned = before
                raise
            return self.wanted

    def keep(self) -> None:
        """Take what is there now for the plan, where nobody has made one."""
        with self.lock:
            self._planned = self.wanted + len(self._vacant) if self._planned is None else self._planned

    def vacate(self, executor: str) -> None:
        """Keep the seat of an executor empty."""
        with self.lock:
            self._vacant.add(executor)

    def refill(self, executor: str) -> None:
        """Ask for another executor in a seat that was kept empty."""
        with self.lock:
            self._vacant.discard(executor)
            self.request()

    def request(self) -> None:
        """Ask Spark for as many as there are to be; it does not count those that it was told to decommission."""
        wanted = self.wanted
        try:
            heard = self._scheduler.request_total(wanted)
        except Exception as error:  # py4j raises what it likes
            raise ActuatorError(f"executors: expected Spark to take a request for {wanted}, got {error}") from error
        if not heard:
            raise ActuatorError(
                f"executors: expected Spark to take a request for {wanted}, got a refusal; check quota and limits"
            )

    def dismiss(self, ids: Sequence[str], now_s: float, kill_after_s: float) -> None:
        """Let executors finish what they do and go; kill those that cannot be told so, or stay for `kill_after_s`."""
        with self.lock:
            try:
                going = self._scheduler.decommission(ids)
            except Exception:
                _LOG.warning("executors %s cannot be decommissioned and are killed", ", ".join(ids), exc_info=True)
                going = ()
            self._leaving.update(dict.fromkeys(ids, (now_s + kill_after_s, kill_after_s)))
            if stubborn := [id for id in ids if id not in going]:
                self._kill(stubborn)

    def end_late(self, now_s: float) -> None:
        """Forget executors that have gone, and kill those that were to be gone by now."""
        with self.lock:
            if not self._leaving:
                return
            present = set(self._executors())
            self._leaving = {id: times for id, times in self._leaving.items() if id in present}
            late = [id for id, (kill_at_s, _) in self._leaving.items() if now_s > kill_at_s]
            if late:
                self._leaving.update({id: (now_s + self._leaving[id][1], self._leaving[id][1]) for id in late})
                self._kill(late)
                self.request()  # a kill lowers Spark's own target

    def _kill(self, ids: Sequence[str]) -> None:
        try:
            self._scheduler.kill(ids)
        except Exception as error:
            raise ActuatorError(f"executors {', '.join(ids)}: expected them to go, got {error}") from error

    def _executors(self) -> tuple[str, ...]:
        try:
            return self._scheduler.executors()
        except Exception as error:
            raise ActuatorError(f"executors: expected Spark's list of them, got {error}") from error
