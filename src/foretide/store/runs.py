"""The store of runs: what happened, why, and how it went, for reports, for replay, and to continue after a restart."""

from __future__ import annotations

import difflib
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from foretide.clock import Clock, SystemClock
from foretide.events import Event, EventSink, LoggingSink, Severity
from foretide.postgres import is_postgres
from foretide.store.arrivals import Arrivals
from foretide.store.background import BackgroundWriter
from foretide.store.backlog import Backlog
from foretide.store.databases import sql
from foretide.store.databases.codec import plain
from foretide.store.databases.database import Connection, Database
from foretide.store.databases.postgres import PostgresDatabase
from foretide.store.databases.sqlite import SqliteDatabase
from foretide.store.errors import DatabaseError, UnknownRunError
from foretide.store.knowledge import StoredKnowledge, knowledge_of, knowledge_row
from foretide.store.reading import RecordedRun, Resumed
from foretide.store.recorder import RunRecorder
from foretide.store.retention import Tidied, delete_run, tidy
from foretide.store.rows import run_info_of
from foretide.store.samples import RunInfo, RunSpec
from foretide.store.settings import StoreSettings
from foretide.store.writer import Writer
from foretide.topology import Topology

__all__ = ["LATEST", "RunStore"]

_LOG = logging.getLogger(__name__)
#: Stands for the newest run wherever a run is named.
LATEST = "latest"


class RunStore:
    """Runs in a database: written on a background thread, readable by others meanwhile.

    Creating one touches nothing. Faults of the database reach those who read as errors, and those who record as events
    only: see `Writer`.

    Parameters
    ----------
    where : path, str or Database
        The SQLite file, the address of a PostgreSQL database (``postgresql://...``), or another database.
    settings : StoreSettings
        How to write, what to keep.
    events : EventSink
        Receives the store's faults; the log by default. Runs that are being recorded also have
        them among their own events.
    clock : Clock
        Gives Unix time.
    threaded : bool
        Whether a thread writes; otherwise recording waits for the disk now and then, for simulations.

    Examples
    --------
    >>> import tempfile
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01)
    >>> with RunStore(Path(tempfile.mkdtemp()) / "runs.db") as store:
    ...     with store.begin_run(RunSpec(topology=job.build(), policy="pasps")) as recorder:
    ...         recorder.emit(Event(1.0, "plan.applied", "count 1 → 2"))
    ...     run = store.run(recorder.id)
    >>> run.info.name, run.info.status, [event.message for event in run.events()]
    ('words', 'finished', ['count 1 → 2'])
    """

    def __init__(
        self,
        where: str | Path | Database,
        settings: StoreSettings | None = None,
        *,
        events: EventSink | None = None,
        clock: Clock | None = None,
        threaded: bool = True,
    ) -> None:
        self.settings = settings or StoreSettings()
        self._database = _database(where, self.settings)
        # An event log that is empty counts as false.
        self._events = LoggingSink() if events is None else events
        self._clock = clock or SystemClock()
        self._reading_lock = threading.RLock()
        self._reader: Connection | None = None
        self._backlog = Backlog(self.settings)
        self._recorders: WeakValueDictionary[str, RunRecorder] = WeakValueDictionary()
        self._plain_writer = Writer(
            self._database, self._backlog, self.settings, report=self._report, clock=self._clock
        )
        self._writer = BackgroundWriter(self._backlog, self._plain_writer, self.settings.flush_s, threaded=threaded)

    @property
    def name(self) -> str:
        """What to call it in messages: its path, or its address without secrets."""
        return self._database.name

    @property
    def trouble(self) -> str | None:
        """The kind of fault that keeps it from writing at present; None if nothing does."""
        return self._plain_writer.trouble

    def begin_run(self, spec: RunSpec) -> RunRecorder:
        """Begin to record a run.

        Raises
        ------
        StoreVersionError
            When a newer version wrote the store, or it is another program's database. Any other fault of the
            database is left to the writer: the run begins.
        """
        self._check_version()
        now_s = self._clock.now_s()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s))
        info = RunInfo(
            id=f"{stamp}-{secrets.token_hex(2)}",
            name=spec.name or spec.topology.name,
            status="running",
            created_at_s=now_s,
            seen_at_s=now_s,
            clock_offset_s=0.0 if spec.started_at_s is None else now_s - spec.started_at_s,
            started_at_s=now_s if spec.started_at_s is None else spec.started_at_s,
            ended_at_s=None,
            policy=spec.policy,
            forecaster=spec.forecaster,
            trace=spec.trace,
            td_s=spec.td_s,
            topology_document=spec.topology_document(),
            layout=spec.topology.layout,
            settings=plain(spec.settings),
        )
        recorder = RunRecorder(info, self._writer, self._clock, finish_s=self.settings.finish_s)
        self._recorders[info.id] = recorder
        return recorder

    def runs(self) -> list[RunInfo]:
        """Return all runs, oldest first; empty if nothing was ever stored."""
        if not self._database.exists():
            return []
        with self._reading() as connection:
            return [run_info_of(row) for row in connection.rows(sql.RUNS)]

    def run(self, run: str) -> RecordedRun:
        """Return a run by its id, the beginning of its id, its name (the newest of that name) or ``latest``.

        Raises
        ------
        UnknownRunError
            When none has that name, or several match.
        """
        return RecordedRun(self._find(run), self._reading)

    def resume(self, run: str, history_s: float = 3_600.0) -> Resumed | None:
        """Return what a restarted controller needs to continue a run: plan, replicas, recent measurements.

        Parameters
        ----------
        run : str
            A run's id or name; the newest of that name.
        history_s : float
            Seconds of measurements before the last one.

        Returns
        -------
        Resumed or None
            None if there is no such run.
        """
        try:
            found = self.run(run)
        except UnknownRunError as error:
            if error.found:
                raise
            return None
        return found.resumed(history_s)

    def knowledge(self, topology: str, kind: str) -> list[StoredKnowledge]:
        """Return what was learnt about topologies of a name, the latest first; `RunRecorder.learnt` keeps it.

        Topologies of one name may differ: each has a document of its own, see `fingerprint`.
        """
        if not self._database.exists():
            return []
        with self._reading() as connection:
            return [knowledge_of(row) for row in connection.rows(sql.KNOWLEDGE, (topology, kind))]

    def learnt(self, topology: Topology, kind: str, version: int, document: Mapping[str, Any]) -> None:
        """Keep what was learnt about a topology at once, where nobody records a run; see `RunRecorder.learnt`."""
        table, row = knowledge_row("", 0, topology, kind, version, self._clock.now_s(), document)
        with self._reading() as connection:
            connection.write(sql.INSERT[table], row)

    def export_trace(self, run: str, bin_s: float | None = None) -> Arrivals:
        """Return what arrived at each source of a run, bin by bin, to be written as CSV or replayed."""
        return self.run(run).arrivals(bin_s)

    def prune(self) -> Tidied:
        """Merge and drop what is old enough, now."""
        if not self._database.exists():
            return Tidied()
        with self._reading() as connection:
            return tidy(connection, self.settings, self._clock.now_s())

    def delete(self, run: str) -> RunInfo:
        """Drop a run with everything that belongs to it, and return what was known about it."""
        info = self._find(run)
        with self._reading() as connection:
            delete_run(connection, info.id)
            connection.compact()
        return info

    def flush(self, timeout_s: float | None = None) -> bool:
        """Write what was recorded so far, for at most `timeout_s`; return whether all of it is stored."""
        return self._writer.flush(self.settings.finish_s if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> bool:
        """Write what is left, for at most `timeout_s`, and close the connection; return whether all is stored."""
        self._close_reader()
        return self._writer.close(self.settings.finish_s if timeout_s is None else timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_version(self) -> None:
        with suppress(DatabaseError):
            if self._database.exists():
                self._database.connect().close()

    def _find(self, run: str) -> RunInfo:
        if not self._database.exists():
            raise UnknownRunError(self.name, run)
        with self._reading() as connection:
            if run == LATEST:
                rows = connection.rows(sql.RUNS)[-1:]
            else:
                rows = connection.rows(sql.RUNS_CALLED, (run, len(run), run, run, run))
        found = [run_info_of(row) for row in rows]
        called = [info for info in found if info.id == run] or [info for info in found if info.name == run] or found
        if not called or (len(called) > 1 and called is found):
            raise UnknownRunError(self.name, run, tuple(info.id for info in found), "" if found else self._nearest(run))
        return called[0]

    def _nearest(self, run: str) -> str:
        """Return what of all that a run can be called is most like `run`; empty if nothing is."""
        runs = self.runs()
        names = [LATEST, *(info.name for info in runs), *(info.id for info in runs)] if runs else []
        return next(iter(difflib.get_close_matches(run, names, n=1)), "")

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Give the connection that reads, to one thread at a time; it is kept open, since opening one is slow."""
        with self._reading_lock:
            if self._reader is not None and not _is_usable(self._reader):
                self._close_reader()
            self._reader = self._reader or self._database.connect()
            try:
                yield self._reader
            except DatabaseError:
                self._close_reader()
                raise

    def _close_reader(self) -> None:
        with self._reading_lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _report(self, kind: str, message: str, severity: Severity, data: Mapping[str, Any]) -> None:
        now_s = self._clock.now_s()
        try:
            self._events.emit(Event(now_s, kind, message, severity, data))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)
        for recorder in list(self._recorders.values()):
            if recorder.info.status == "running":
                recorder.emit(Event(recorder.now_s(), kind, message, severity, data))


def _database(where: str | Path | Database, settings: StoreSettings) -> Database:
    if isinstance(where, str) and is_postgres(where):
        return PostgresDatabase(where, lock_wait_s=settings.lock_wait_s, max_bytes=settings.max_bytes)
    if isinstance(where, str | Path):
        return SqliteDatabase(where, lock_wait_s=settings.lock_wait_s, max_bytes=settings.max_bytes)
    return where


def _is_usable(connection: Connection) -> bool:
    """Return whether a kept connection still works; a server may have restarted since."""
    try:
        return connection.is_current()
    except DatabaseError:
        return False
