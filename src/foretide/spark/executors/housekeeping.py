"""Housekeeping among executors, in a thread of its own: it goes on while nothing is measured, planned or changed."""

from __future__ import annotations

import logging
import time
from typing import ClassVar

from foretide.background import Background
from foretide.errors import ActuatorError
from foretide.events import Event, EventSink
from foretide.spark.executors.manager import ExecutorManager

__all__ = ["Housekeeper"]

_LOG = logging.getLogger(__name__)


class Housekeeper(Background):
    """Sees to executors every second; never raises.

    Parameters
    ----------
    manager : ExecutorManager
        Whose executors.
    events : EventSink
        Hears ``executors.refused``, once for as long as the same is the matter.
    every_s : float
        Seconds between two looks.
    """

    _name: ClassVar[str] = "foretide-executors"

    def __init__(self, manager: ExecutorManager, events: EventSink, every_s: float = 1.0) -> None:
        super().__init__()
        self._manager, self._events, self._every_s = manager, events, every_s
        self._said = ""

    def look(self) -> None:
        """Keep house once."""
        try:
            self._manager.keep_house()
            self._said = ""
        except ActuatorError as error:
            if str(error) != self._said:
                self._said = str(error)
                self._events.emit(Event(time.time(), "executors.refused", self._said, "warning"))
        except Exception:
            _LOG.warning("nobody kept house among the executors", exc_info=True)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.look()
