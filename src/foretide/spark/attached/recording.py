"""Attached applications are recorded as runs like all others; what keeps records may fail, and nothing else does."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from foretide.control.steering import Steering
from foretide.events import Event, EventSink
from foretide.spark.attached.settings import AttachSettings
from foretide.store import RunRecorder, RunStore, default_store
from foretide.topology import Topology

__all__ = ["Recording"]

_LOG = logging.getLogger(__name__)
_NONE = "none"


class Recording:
    """The store of an attachment: every chapter is a run in it.

    Parameters
    ----------
    settings : AttachSettings
        Where to record, if at all.
    events : EventSink
        Hears ``store.failed`` where nothing can be recorded.
    """

    def __init__(self, settings: AttachSettings, events: EventSink) -> None:
        self._settings, self._events = settings, events
        self.store = self._open()

    def begin(self, topology: Topology, steering: Steering) -> RunRecorder | None:
        """Begin a run; None where nothing is recorded."""
        if self.store is None:
            return None
        spec, executors = steering.run_spec(topology, ""), self._settings.executors
        # What may be saved is the difference to all executors, however many queries share them.
        more = {"executors": executors.model_dump(mode="json"), "r_over": executors.maximum}
        try:
            return self.store.begin_run(replace(spec, settings={**spec.settings, **more}))
        except Exception as error:
            self._failed(error)
            return None

    def close(self) -> None:
        """Write what is left."""
        if self.store is not None:
            try:
                self.store.close()
            except Exception:
                _LOG.warning("the store could not be closed", exc_info=True)

    def _open(self) -> RunStore | None:
        named = self._settings.store
        if named == _NONE:
            return None
        try:
            return RunStore(default_store() if named is None else named)
        except Exception as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        message = f"the application is not recorded: {error}"
        self._events.emit(Event(time.time(), "store.failed", message, "warning"))
