"""How many executors an application is to have: one owner, whoever wants some, or wants one gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretide.errors import ActuatorError

if TYPE_CHECKING:
    from foretide.spark.executors.scheduler import Scheduler

__all__ = ["ExecutorTarget"]

_LOG = logging.getLogger(__name__)
_FINDING = threading.Lock()
# The scheduler itself carries its target, so that both live as long as its application.
_ATTRIBUTE = "_foretide_target"
# While executors are missing, a request is repeated as often as this: Spark may have lost one, or the request.
_REPEAT_S = 10.0
# By then Spark's list of jobs has those that had begun when an executor was told to go.
_SETTLED_S = 1.0


@dataclass
class _Leaving:
    """An executor on its way out.

    `jobs` ran when it was told to go: they may still want what it has computed. `killed` ones hold no seat any more.
    """

    told_s: float
    kill_at_s: float
    given_s: float
    jobs: frozenset[int] = frozenset()
    killed: bool = False


class ExecutorTarget:
    """Spark's target, and the executors on their way out, shared by all that change them.

    A plan says how many executors there are to be. Who bypasses one dismisses it, and may keep its seat empty. Spark is
    asked for the plan less the empty seats; and for one more in place of each that is on its way out while another is
    wanted already, since the cluster counts it until it has gone.

    One that is dismissed gets no more tasks. Where Spark decommissions executors, it goes when it has finished and its
    blocks have moved. Elsewhere, and where another is missing that may need its cores, it is killed once it is idle and
    the jobs have ended that may want what it computed. One that is still there after a while is killed in any case.

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
        self._leaving: dict[str, _Leaving] = {}
        # What Spark was asked for last, and when.
        self._asked, self._asked_at_s = 0, 0.0

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
    def planned(self) -> int | None:
        """How many executors there are to be, empty seats included; None where nobody has said."""
        return self._planned

    @property
    def vacant(self) -> frozenset[str]:
        """The bypassed executors whose seats are kept empty."""
        return frozenset(self._vacant)

    @property
    def wanted(self) -> int:
        """How many executors are to get tasks: as planned, else as many as do, less the empty seats."""
        planned = len(self.working()) + len(self._vacant) if self._planned is None else self._planned
        return max(1, planned - len(self._vacant))

    def roll(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the executors that get tasks, and those that were told to go and are still there, oldest first.

        Raises
        ------
        ActuatorError
            When Spark does not tell.
        """
        present = self._executors()
        leaving = tuple(id for id in present if id in self._leaving)
        return tuple(id for id in present if id not in self._leaving), leaving

    def working(self) -> tuple[str, ...]:
        """Return the executors that get tasks, as `roll` does."""
        return self.roll()[0]

    def plan(self, executors: int, now_s: float) -> int:
        """Ask for so many executors, less the empty seats; return how many are to get tasks.

        Raises
        ------
        ActuatorError
            When Spark does not hear the request; what was planned before still holds.
        """
        with self.lock:
            before, self._planned = self._planned, executors
            try:
                self.request(now_s)
            except ActuatorError:
                self._planned = before
                raise
            return self.wanted

    def keep(self) -> None:
        """Take what is there now for the plan, where nobody has made one."""
        with self.lock:
            self._planned = self.wanted + len(self._vacant) if self._planned is None else self._planned

    def vacate(self, executor: str, now_s: float) -> None:
        """Keep the seat of an executor empty, before it is dismissed."""
        with self.lock:
            self._vacant.add(executor)
            self.request(now_s)

    def refill(self, executor: str, now_s: float) -> None:
        """Ask for another executor in a seat that was kept empty."""
        with self.lock:
            self._vacant.discard(executor)
            self.request(now_s)

    def request(self, now_s: float) -> None:
        """Ask Spark for as many as there are to be, and for those that replace one on its way out."""
        wanted, seats = self.wanted, self._seats()
        self._ask(seats)
        self._asked, self._asked_at_s = seats, now_s
        if seats > wanted and self._scheduler.starts_at_once:
            # They have been started; nothing is to be started in place of those that leave when these have gone.
            self._ask(wanted)

    def dismiss(self, ids: Sequence[str], now_s: float, kill_after_s: float, at_once: Sequence[str] = ()) -> None:
        """Let executors finish what they do and go; kill those that cannot be told so.

        Those of `at_once` have nothing to finish and nothing to move: they are ended, unless they have got tasks since.
        Whose seat is not to be filled again has been taken out of the plan, or is vacant, by then.
        """
        with self.lock:
            self._leaving |= {id: _Leaving(now_s, now_s + kill_after_s, kill_after_s) for id in ids}
            self._kill(at_once, busy=False)
            ids = [id for id in ids if not self._leaving[id].killed]
            try:
                going = self._scheduler.decommission(ids) if ids else ()
            except Exception:
                _LOG.warning("executors %s cannot be decommissioned and are killed", ", ".join(ids), exc_info=True)
                going = ()
            if stubborn := [id for id in ids if id not in going]:
                self._kill(stubborn, busy=True)
            self.keep_house(now_s)

    def keep_house(self, now_s: float) -> None:
        """Forget executors that have gone, end those that are done or late, and ask again for those that are missing.

        Raises
        ------
        ActuatorError
            When Spark does not tell, or does not hear.
        """
        with self.lock:
            if self._leaving:
                present = set(self._executors())
                self._leaving = {id: one for id, one in self._leaving.items() if id in present}
            if self._leaving:
                self._end(now_s)
            if self._planned is None:
                return
            seats, missing = self._seats(), self.wanted - len(self.working())
            if seats != self._asked or (missing > 0 and now_s - self._asked_at_s >= _REPEAT_S):
                self.request(now_s)

    def _end(self, now_s: float) -> None:
        """Kill those that have nothing more to do, where they would not go by themselves in time, and those late."""
        waiting = {id: one for id, one in self._leaving.items() if not one.killed}
        settling = [one for one in waiting.values() if now_s - one.told_s < _SETTLED_S]
        # One that moves its blocks may take its time, unless another one waits for its cores.
        in_the_way = self._planned is not None and self.wanted > len(self.working())
        ending = bool(waiting) and (in_the_way or not self._scheduler.leave_by_themselves)
        if settling or ending:
            jobs = self._jobs()
            for one in settling:
                one.jobs |= jobs
            done = [id for id, one in waiting.items() if one not in settling and not one.jobs & jobs]
            self._kill(done if ending else (), busy=False)
        if late := [id for id, one in self._leaving.items() if now_s > one.kill_at_s]:
            for id in late:
                self._leaving[id].kill_at_s = now_s + self._leaving[id].given_s
            self._kill(late, busy=True)

    def _seats(self) -> int:
        """Return how many executors to ask for, as a cluster counts: it knows of none that is on its way out."""
        wanted = self.wanted
        held = sum(not one.killed for one in self._leaving.values())
        return wanted + min(held, max(0, wanted - len(self.working()))) if held else wanted

    def _ask(self, executors: int) -> None:
        try:
            heard = self._scheduler.request_total(executors)
        except Exception as error:  # py4j raises what it likes
            raise ActuatorError(f"executors: expected Spark to take a request for {executors}, got {error}") from error
        if not heard:
            raise ActuatorError(
                f"executors: expected Spark to take a request for {executors}, got a refusal; check quota and limits"
            )

    def _kill(self, ids: Sequence[str], *, busy: bool) -> None:
        if not ids:
            return
        try:
            gone = self._scheduler.kill(ids, busy=busy)
        except Exception as error:
            raise ActuatorError(f"executors {', '.join(ids)}: expected them to go, got {error}") from error
        for id in gone:
            self._leaving[id].killed = True

    def _jobs(self) -> frozenset[int]:
        try:
            return self._scheduler.jobs()
        except Exception as error:
            raise ActuatorError(f"executors: expected Spark's list of jobs, got {error}") from error

    def _executors(self) -> tuple[str, ...]:
        try:
            return self._scheduler.executors()
        except Exception as error:
            raise ActuatorError(f"executors: expected Spark's list of them, got {error}") from error
