"""Attaches to the Spark application that a script starts, the moment it makes its session.

Nothing here may reach the script: whatever fails costs one line on stderr, and the job goes on.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from foretide.errors import ForetideError
from foretide.events import Event, EventSink
from foretide.files import replace_file
from foretide.spark.attached.attach import attach
from foretide.spark.attached.attachment import Attachment
from foretide.spark.attached.settings import AttachSettings

__all__ = ["SessionHook", "attach_to_sessions"]

_STDOUT = Path("-")


def _attach(session: Any, settings: AttachSettings, events: EventSink) -> Attachment:
    return attach(session, settings, events=events)


def _say(text: str) -> None:
    print(f"foretide: {' '.join(text.split())}", file=sys.stderr, flush=True)


@dataclass
class _Followed:
    """An application of this process, and what became of attaching to it."""

    name: str
    id: str
    master: str
    began_at_s: float
    attachment: Attachment | None = None
    refused: str = ""
    ended_at_s: float | None = None

    def __str__(self) -> str:
        return f"{self.name!r} ({self.id})"

    def end(self) -> None:
        """Let go of it, once."""
        if self.ended_at_s is None:
            self.ended_at_s = time.time()
            if self.attachment is not None:
                self.attachment.stop()

    def lines(self) -> list[dict[str, Any]]:
        """Return the executors planned, requested and observed at every decision that had a plan."""
        found = []
        for decision in () if self.attachment is None else tuple(self.attachment.decisions):
            if (action := decision.action) is not None:
                counts = (action.planned, action.requested, action.observed)
                planned, requested, observed = (int(part.sum()) for part in counts)
                one = {"at_s": decision.at_s, "planned": planned, "requested": requested, "observed": observed}
                found.append(one)
        return found

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        queries = () if self.attachment is None else self.attachment.queries
        return {
            "name": self.name,
            "application": self.id,
            "master": self.master,
            "attached": self.attachment is not None,
            "refused": self.refused,
            "began_at_s": self.began_at_s,
            "ended_at_s": self.ended_at_s,
            "run": "" if self.attachment is None else self.attachment.run_id,
            "queries": [{"id": one.id, "name": one.name, "batches": one.batches, "rows": one.rows} for one in queries],
            "decisions": self.lines(),
        }

    def summary(self) -> str:
        """Return what was done, in one line; empty where a line has told already that nothing is."""
        if self.attachment is None:
            return ""
        if not self.attachment.queries:
            return f"{self} started no streaming query; nothing was scaled"
        lines = self.lines()
        wanted = [line["requested"] for line in lines]
        changes = sum(one != other for one, other in pairwise(wanted))
        mean = sum(line["observed"] for line in lines) / len(lines) if lines else 0.0
        return f"{self}: {len(lines)} decisions, {changes} changes, {mean:.1f} executors on average"


class SessionHook:
    """Makes PySpark tell of every session that is made, and attaches to each application once.

    Parameters
    ----------
    settings : AttachSettings
        How to attach.
    say : callable
        Takes a line for the user.
    attach : callable
        What attaches to a session, given settings and who is to hear of what happens.
    """

    def __init__(
        self,
        settings: AttachSettings,
        say: Callable[[str], None] = _say,
        attach: Callable[[Any, AttachSettings, EventSink], Attachment] = _attach,
    ) -> None:
        self._settings, self._tell, self._attach = settings, say, attach
        self._lock = threading.RLock()
        self._followed: dict[int, _Followed] = {}
        self._done: list[_Followed] = []
        self._told: set[str] = set()
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Wrap what makes and ends sessions: builder, constructor, `newSession`, and the context's `stop`."""
        self._wrap(SparkSession, "__init__", after=self._constructed)
        self._wrap(SparkSession.Builder, "getOrCreate", after=lambda made, *_: self.made(made))
        self._wrap(SparkSession, "newSession", after=lambda made, *_: self._also(made))
        self._wrap(SparkContext, "stop", before=lambda context: self._ends(context))

    def remove(self) -> None:
        """Leave PySpark as it was."""
        while self._undo:
            self._undo.pop()()

    def made(self, session: Any) -> None:
        """Attach to the application of a session, unless that was done, or tell why not."""
        if type(session).__module__.startswith("pyspark.sql.connect"):
            self._say(
                "not attached: Spark Connect gives no access to executors, the job runs as it is; "
                "run it as the driver, with spark.api.mode=classic"
            )
            return
        context = session.sparkContext
        with self._lock:
            if id(context) in self._followed:
                return
            followed = _Followed(context.appName, context.applicationId, context.master, time.time())
            self._followed[id(context)] = followed
            self._done.append(followed)
            try:
                followed.attachment = self._attach(session, self._settings, self)
            except Exception as error:
                followed.refused = (
                    str(error) if isinstance(error, ForetideError) else f"{type(error).__name__}: {error}"
                )
        if followed.attachment is None:
            self._say(f"not attached to {followed}, the job runs as it is: {followed.refused}")
            return
        executors, control = self._settings.executors, self._settings.control
        does = "would have" if self._settings.advisory else "has"
        self._say(
            f"attached to {followed} on {followed.master}: {control.planner} decides every {control.loop.td_s:g} s, "
            f"the job {does} {executors.minimum} to {executors.maximum} executors"
        )

    def emit(self, event: Event) -> None:
        """Hear of what happened: tell of what is wrong, once."""
        if event.severity != "info":
            self._say(event.message)

    def finish(self, json_out: Path | None = None) -> None:
        """Let go of all applications, say what was done, and write it down."""
        with self._lock:
            for followed in self._done:
                followed.end()
                if summary := followed.summary():
                    self._tell(summary)
        if not self._done and not self._told:
            self._say("the script made no Spark session; nothing was scaled")
        if json_out is not None:
            text = json.dumps([followed.to_data() for followed in self._done], indent=2) + "\n"
            if json_out == _STDOUT:
                print(text, end="", flush=True)
            else:
                replace_file(json_out, text)

    def _say(self, text: str) -> None:
        """Tell something, once; figures in it make no difference."""
        known = re.sub(r"\d+", "0", text)
        if known not in self._told:
            self._told.add(known)
            self._tell(text)

    def _constructed(self, _: None, session: Any, *given: Any, **named: Any) -> None:
        # One around a session of Spark's own is not new: functions of batches get such ones all the time.
        if len(given) < 2 and named.get("jsparkSession") is None:
            self.made(session)

    def _also(self, session: Any) -> None:
        with self._lock:
            followed = self._followed.get(id(session.sparkContext))
            if followed is not None and followed.attachment is not None:
                followed.attachment.listen(session)

    def _ends(self, context: Any) -> None:
        with self._lock:
            followed = self._followed.pop(id(context), None)
            if followed is not None:
                followed.end()

    def _wrap(
        self,
        owner: Any,
        name: str,
        *,
        before: Callable[..., None] = lambda *_, **__: None,
        after: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        original = getattr(owner, name)

        @wraps(original)
        def wrapper(*given: Any, **named: Any) -> Any:
            self._safely(before, *given, **named)
            found = original(*given, **named)
            self._safely(after, found, *given, **named)
            return found

        setattr(owner, name, wrapper)
        self._undo.append(lambda: setattr(owner, name, original))

    def _safely(self, react: Callable[..., None], *given: Any, **named: Any) -> None:
        try:
            react(*given, **named)
        except Exception as error:
            self._say(f"the job runs on without it: {type(error).__name__}: {error}")


def attach_to_sessions(settings: AttachSettings, json_out: Path | None = None) -> SessionHook:
    """Attach to every Spark application that this process will start, and tell in the end what was done."""
    _warn_in_lines()
    hook = SessionHook(settings)
    hook.install()

    def finish() -> None:
        try:
            hook.finish(json_out)
        except Exception as error:
            _say(f"the summary is missing: {error}")

    atexit.register(finish)
    return hook


def _warn_in_lines() -> None:
    """Let warnings of Foretide's come as single lines, unless the script or its user wants them otherwise."""
    log = logging.getLogger("foretide")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(_OneLine("foretide: %(message)s"))
        log.addHandler(handler)
        log.propagate = False


class _OneLine(logging.Formatter):
    """Leaves tracebacks out, and keeps to one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, with the error behind it if there is one."""
        cause = record.exc_info[1] if record.exc_info else None
        text = self._fmt % {"message": record.getMessage()} if self._fmt else record.getMessage()
        return " ".join((text if cause is None else f"{text}: {cause}").split())
