"""What one progress report of a streaming query says: a batch, and how far its sources were when it began."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foretide.eventlogs.progress import instant_s, offset_rows, parsed_offset

__all__ = ["BatchReport", "SourceReport"]

_KAFKA = re.compile(r"KafkaV?2?\[(?:Assign|Subscribe|SubscribePattern)\[")


@dataclass(frozen=True)
class SourceReport:
    """How far a source came with a batch.

    Parameters
    ----------
    kafka : bool
        Whether it is Spark's own Kafka source, whose offsets are messages by topic and partition.
    rows : int
        Rows that the batch read; rows of a frame that is used twice count twice.
    start, end, latest : int, optional
        Rows before the batch, up to its end, and up to the source's own end; None where offsets count something else.
    partitions : tuple of (str, int)
        The topics and partitions that it reads; empty where it has none.
    """

    kafka: bool
    rows: int
    start: int | None
    end: int | None
    latest: int | None
    partitions: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> SourceReport:
        """Read what Spark says about a source."""
        offsets = {name: parsed_offset(data.get(f"{name}Offset")) for name in ("start", "end", "latest")}
        start, end, latest = (offset_rows(offset) for offset in offsets.values())
        kafka = _KAFKA.match(str(data.get("description", ""))) is not None
        rows = int(data.get("numInputRows") or 0)
        if end is not None and start is None and not offsets["start"]:
            start = max(0, end - rows)  # the first batch has no start
        return cls(kafka, rows, start, end, latest, _partitions(offsets["end"]) if end is not None else ())

    @property
    def events(self) -> int:
        """What the batch took from the source: by its offsets where these count rows, else the rows that were read."""
        return self.rows if self.start is None or self.end is None else max(0, self.end - self.start)

    @property
    def behind(self) -> int:
        """Rows that the source had beyond the end of the batch; 0 where it does not say."""
        return 0 if self.end is None or self.latest is None else max(0, self.latest - self.end)


@dataclass(frozen=True)
class BatchReport:
    """A batch of a query, as Spark reports it when the batch has ended.

    Parameters
    ----------
    query, run, name : str
        The query's id, which outlives a restart, that of its run, and its name; empty where it has none.
    batch : int
        The number of the batch.
    began_at_s, duration_s : float
        When its trigger began, in seconds since the epoch, and how long it took.
    looked_at_s : float
        When sources were asked how far they are.
    outside_s : float
        The part of the duration outside the batch's own job: offsets, planning, the log of commits.
    sources : tuple of SourceReport
        Its sources.
    """

    query: str
    run: str
    name: str
    batch: int
    began_at_s: float
    duration_s: float
    looked_at_s: float
    outside_s: float
    sources: tuple[SourceReport, ...]

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> BatchReport:
        """Read a report in the form that Spark gives it as JSON.

        Raises
        ------
        ValueError, KeyError, TypeError
            When it is of another form.
        """
        durations = data.get("durationMs") or {}
        whole_s, job_s, look_s = (
            float(durations.get(name, 0)) / 1e3 for name in ("triggerExecution", "addBatch", "latestOffset")
        )
        began_at_s = instant_s(str(data["timestamp"]))
        return cls(
            query=str(data["id"]),
            run=str(data.get("runId", "")),
            name=str(data.get("name") or ""),
            batch=int(data.get("batchId", 0)),
            began_at_s=began_at_s,
            duration_s=whole_s,
            looked_at_s=began_at_s + min(look_s, whole_s),
            outside_s=max(0.0, whole_s - job_s),
            sources=tuple(SourceReport.parse(source) for source in data.get("sources") or ()),
        )

    @property
    def ended_at_s(self) -> float:
        """When it had been committed."""
        return self.began_at_s + self.duration_s

    @property
    def events(self) -> int:
        """What it took from all sources."""
        return sum(source.events for source in self.sources)

    @property
    def behind(self) -> int:
        """Rows that sources had beyond its end."""
        return sum(source.behind for source in self.sources)

    @property
    def end(self) -> int | None:
        """Rows of all sources up to its end; None where one of them counts something else."""
        ends = [source.end for source in self.sources]
        return None if not ends or None in ends else sum(end for end in ends if end is not None)

    @property
    def partitions(self) -> int:
        """Partitions that are read, each by one task; 0 where sources have none."""
        return sum(len(source.partitions) for source in self.sources)


def _partitions(offset: Any) -> tuple[tuple[str, int], ...]:
    """Return the topics and partitions of an offset that counts rows by them."""
    topics = {name: part for name, part in offset.items() if isinstance(part, Mapping)}
    return tuple((str(topic), int(part)) for topic, parts in topics.items() for part in parts if str(part).isdecimal())
