"""Writing what waits, in batches; faults of the database are repaired, waited out, and reported."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from foretide.clock import Clock
from foretide.events import Severity
from foretide.store.backlog import Backlog, Item
from foretide.store.databases import sql
from foretide.store.databases.database import Connection, Database, Row
from foretide.store.errors import DatabaseError, StoreError
from foretide.store.retention import make_room, tidy
from foretide.store.rows import TableRow, run_row
from foretide.store.samples import RunInfo
from foretide.store.settings import StoreSettings

__all__ = ["BATCH", "Report", "Writer"]

_LOG = logging.getLogger(__name__)
#: Items in a transaction: enough for it to be cheap per row, few enough for others to get their turn.
BATCH = 2_000
_FIRST_RETRY_S = 0.5
_SEEN_EVERY_S = 5.0
#: Receives what happens to the store: kind, message, severity and data; must not raise.
Report: TypeAlias = Callable[[str, str, Severity, Mapping[str, Any]], None]
# Faults repaired in one go: the database is damaged, then full, then it works or it does not.
_ATTEMPTS = 3


class Writer:
    """Writes a backlog to a database, one transaction for each batch.

    While the database cannot be written, items wait in the backlog. A damaged database is moved away and a new one
    begun; one that has reached its bound loses its oldest runs. A fault is reported once, and so is the recovery.

    Parameters
    ----------
    database : Database
        The database.
    backlog : Backlog
        What is to be written.
    settings : StoreSettings
        When to try again, when to tidy up.
    report : Report
        Receives what happens.
    clock : Clock
        Gives the time, to judge the age of records.
    monotonic : callable
        A monotonic clock, in seconds.
    """

    def __init__(
        self,
        database: Database,
        backlog: Backlog,
        settings: StoreSettings,
        *,
        report: Report,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._backlog, self._settings = database, backlog, settings
        self._report, self._clock, self._monotonic = report, clock, monotonic
        self._connection: Connection | None = None
        #: The kind of fault that keeps it from writing at present; None if nothing does.
        self.trouble: str | None = None
        self._pause_s = _FIRST_RETRY_S
        self._retry_at = self._seen_at = -float("inf")
        self._tidy_at = monotonic() + settings.tidy_every_s
        self._losses_reported = False
        self._refused: set[tuple[str, str, type[Exception]]] = set()

    def step(self, *, urgent: bool = False) -> None:
        """Write what waits, if it is time to; never raises. After a fault only an `urgent` step comes early."""
        if not urgent and self._monotonic() < self._retry_at:
            return
        try:
            self._attempt()
        except Exception as error:  # a defect here must not end the writing, let alone the run
            _LOG.exception("the store of runs failed")
            self._fail("failed", error)
        self._report_losses()

    def close(self) -> None:
        """Close the connection to the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self) -> None:
        mended = written = 0
        while mended < _ATTEMPTS:
            self._check_connection()
            batch, runs = self._backlog.take(BATCH)
            try:
                if batch or runs or self._is_due():
                    self._write(batch, runs)
                    self._recovered()
                self._tidy()
                written += 1
                # Reports of what happened are written at once; further ones wait for the next step.
                if self._backlog.is_empty or (written > 1 and len(self._backlog) < BATCH):
                    return
            except StoreError as error:
                self._backlog.give_back(batch, runs)
                mended += 1
                if not self._mend(error):
                    return
            except Exception:
                self._backlog.give_back((), runs)
                for item in batch:
                    self._backlog.drop(item)
                raise

    def _check_connection(self) -> None:
        """Leave a database that was moved or removed; the next connection may be one to a new database."""
        if self._connection is not None and not self._is_current(self._connection):
            self.close()
            name = self._database.name
            self._report("store.moved", f"store {name} was moved or removed; a new one is started there", "warning", {})
        if self._connection is None:
            self._backlog.save_all_runs()

    def _is_current(self, connection: Connection) -> bool:
        try:
            return connection.is_current()
        except DatabaseError:
            # A lost connection need not mean a broken database: try again.
            self.close()
            return True

    def _is_due(self) -> bool:
        """Return whether there is something to do although nothing arrived: a sign of life for runs, a retry."""
        now = self._monotonic()
        return (now >= self._seen_at and bool(self._backlog.running())) or self.trouble is not None

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect(create=True)
        return self._connection

    def _write(self, batch: list[Item], runs: list[RunInfo]) -> None:
        connection = self._connect()
        batch[:] = [item for item in batch if self._can_be_encoded(item)]
        try:
            with connection.transaction():
                self._write_runs(connection, runs)
                _write_rows(connection, (row for item in batch for row in item.rows()))
        except DatabaseError as error:
            if error.fault != "rejected":
                raise
            self._write_one_by_one(connection, batch)
        self._backlog.forget_ended(runs)
        # Written: whatever happens next must not write it again.
        batch.clear()
        runs.clear()

    def _can_be_encoded(self, item: Item) -> bool:
        try:
            item.rows()
        except Exception as error:  # whatever is wrong with one record, the others are stored
            self._refuse(item, error)
            return False
        return True

    def _refuse(self, item: Item, error: Exception) -> None:
        self._backlog.drop(item, reported=True)
        about = (item.run_id, item.kind, type(error))
        if about in self._refused:
            return
        self._refused.add(about)
        data = {"run": item.run_id, "kind": item.kind, "error": type(error).__name__}
        self._report("store.refused", f"some {item.kind} are not stored: {error}", "error", data)

    def _write_runs(self, connection: Connection, runs: Iterable[RunInfo]) -> None:
        now_s = self._clock.now_s()
        connection.write_many(sql.UPSERT_RUN, [run_row(replace(info, seen_at_s=now_s)) for info in runs])
        if self._monotonic() >= self._seen_at:
            connection.write_many(sql.SEEN, [(now_s, id) for id in self._backlog.running()])
            self._seen_at = self._monotonic() + _SEEN_EVERY_S

    def _write_one_by_one(self, connection: Connection, batch: list[Item]) -> None:
        """Write a batch of which the database rejects some row: that one is left out."""
        # A run that is being recorded may have been dropped: it is stored again from here on.
        runs = self._backlog.runs()
        refused: list[tuple[Item, Exception]] = []
        with connection.transaction():
            self._write_runs(connection, runs)
            for item in batch:
                try:
                    with connection.transaction():
                        _write_rows(connection, item.rows())
                except DatabaseError as error:
                    if error.fault != "rejected":
                        raise
                    refused.append((item, error))
        for item, reason in refused:
            self._refuse(item, reason)

    def _tidy(self) -> None:
        if self._monotonic() >= self._tidy_at:
            self._tidy_at = self._monotonic() + self._settings.tidy_every_s
            tidy(self._connect(), self._settings, self._clock.now_s())

    def _mend(self, error: StoreError) -> bool:
        """Do what can be done about a fault, and return whether to try again at once."""
        fault = error.fault if isinstance(error, DatabaseError) else "version"
        if fault == "corrupt" and self._set_aside(error):
            return True
        first = self.trouble != fault
        self._fail(fault, error)
        return fault == "full" and first and self._make_room()

    def _fail(self, fault: str, error: Exception) -> None:
        """Note that the database cannot be written for now, and report it the first time."""
        self._retry_at = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._settings.retry_s)
        if fault != "locked":
            self.close()
        if fault != self.trouble:
            self.trouble, self._losses_reported = fault, False
            message = f"{error}; the run continues, and its records wait in memory"
            self._report(f"store.{fault}", message, "error", {"fault": fault, "error": type(error).__name__})

    def _set_aside(self, error: StoreError) -> bool:
        self.close()
        try:
            moved_to = self._database.set_aside()
        except (OSError, StoreError) as reason:
            _LOG.warning("store %s is damaged and cannot be moved: %s", self._database.name, reason)
            return False
        self._backlog.save_all_runs()
        message = f"{error}; it was moved to {moved_to}, and a new one was started"
        self._report("store.corrupt", message, "error", {"fault": "corrupt", "moved_to": moved_to})
        return True

    def _make_room(self) -> bool:
        """Drop the oldest of a database that has reached its bound; return whether there was anything to drop."""
        made = False
        try:
            made = make_room(self._connect(), self._settings, self._clock.now_s()) > 0
        except StoreError as error:
            _LOG.warning("store %s is full, and no room could be made: %s", self._database.name, error)
        if not made:
            self.close()
        return made

    def _recovered(self) -> None:
        fault, self.trouble, self._pause_s = self.trouble, None, _FIRST_RETRY_S
        self._retry_at = -float("inf")
        if fault is not None:
            self._losses_reported = False
            self._backlog.take_lost()
            dropped = {info.id: info.dropped for info in self._backlog.runs() if info.dropped}
            message = f"store {self._database.name} is written again after a fault ({fault})"
            self._report("store.recovered", message, "info", {"fault": fault, "dropped": dropped})

    def _report_losses(self) -> None:
        """Report what was dropped; during an outage only once, since the recovery reports the rest."""
        lost = {} if self._losses_reported else self._backlog.take_lost()
        if lost:
            self._losses_reported = self.trouble is not None
            message = f"{sum(lost.values())} records could not be stored and are lost"
            self._report("store.dropped", message, "warning", {"dropped": lost})


def _write_rows(connection: Connection, rows: Iterable[TableRow]) -> None:
    """Write rows table by table; the names of features, which many rows share, once."""
    by_table: dict[str, list[Row]] = defaultdict(list)
    for table, values in rows:
        if table != "feature_sets" or values not in by_table[table]:
            by_table[table].append(values)
    for table, found in by_table.items():
        connection.write_many(sql.INSERT[table], found)
