"""Limits that change while a query runs.

The reader of a Python data source lives in a process of its own, so the limits reach it through a small JSON file
that others replace atomically. It is read again for every batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from foretide.errors import ConfigError
from foretide.files import replace_json
from foretide.traces.plan import UNLIMITED_ROWS

__all__ = ["RuntimeLimits", "WatchedLimits", "admit", "write_limits"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """What a batch may take.

    Parameters
    ----------
    max_rows : int, optional
        At most so many rows; 0 pauses the source.
    slots : int, optional
        Partitions that they are cut into.
    last_batch : mapping, optional
        What the last batch of a stage did: its source shows it in Spark's progress.
    """

    max_rows: int | None = None
    slots: int | None = None
    last_batch: Mapping[str, Any] | None = None


class WatchedLimits:
    """The limits in a file, as they are now.

    Parameters
    ----------
    path : str or None
        A JSON file such as ``{"max_rows": 5000, "slots": 4}``, both optional. No path or no file means no limits.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._last_good: RuntimeLimits | None = None

    def read(self) -> RuntimeLimits:
        """Return the present limits.

        A file that cannot be understood is refused at first; once there were good limits, those stay in force, so
        that a slip does not end a running query.
        """
        if self._path is None:
            return RuntimeLimits()
        try:
            self._last_good = _parse(self._path)
        except ConfigError as error:
            if self._last_good is None:
                raise
            logger.warning("keeping the last limits: %s", error)
        return self._last_good


def admit(start: int, available: int, limit: ReadLimit, limits: RuntimeLimits) -> int:
    """Return where a batch that begins at `start` ends, given that the rows up to `available` exist.

    A request for everything ignores the run-time limits, as Spark asks of a source.

    >>> admit(10, 100, ReadMaxRows(50), RuntimeLimits(max_rows=20))
    30
    >>> admit(10, 100, ReadAllAvailable(), RuntimeLimits(max_rows=20))
    100
    """
    if isinstance(limit, ReadAllAvailable):
        return max(start, available)
    if isinstance(limit, ReadMinRows) and available - start < limit.min_rows:
        return start
    allowed = UNLIMITED_ROWS if limits.max_rows is None else limits.max_rows
    if isinstance(limit, ReadMaxRows):
        allowed = min(allowed, limit.max_rows)
    return max(start, min(available, start + allowed))


def write_limits(path: Path, limits: RuntimeLimits) -> None:
    """Put `limits` in force for whoever watches the file at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_json(path, {name: value for name, value in asdict(limits).items() if value is not None})


def _parse(path: str) -> RuntimeLimits:
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return RuntimeLimits()
    except ValueError as error:
        raise ConfigError(f"limits in {path}", expected="a JSON object", got=f"a fault ({error})") from error
    if not isinstance(body, dict):
        raise ConfigError(f"limits in {path}", expected="a JSON object", got=type(body).__name__)
    return RuntimeLimits(_whole(path, body, "max_rows", 0), _whole(path, body, "slots", 1), body.get("last_batch"))


def _whole(path: str, body: dict[str, object], name: str, minimum: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        expected = f"a whole number of at least {minimum}"
        raise ConfigError(f"limits in {path}: {name}", expected=expected, got=value)
    return value
