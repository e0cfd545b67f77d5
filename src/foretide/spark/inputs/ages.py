"""Leaving out events that are too old when a batch takes them (SPEC P7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from foretide.errors import ConfigError
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.transport.dead_letters import DeadLetter

if TYPE_CHECKING:
    from foretide.spark.tasks.contract import Slice

__all__ = ["FreshSlice"]

_INSTANT = pa.timestamp("us", tz="UTC")


class FreshSlice:
    """The rows of a slice that are not too old; the others are counted.

    Parameters
    ----------
    slice : Slice
        All rows.
    oldest_us : int
        The instant, in microseconds since the epoch, before which events are too old. It is fixed when the batch is
        planned, so that a batch that runs again leaves out the same events.
    """

    def __init__(self, slice: Slice, oldest_us: int) -> None:
        self._slice, self._oldest_us = slice, oldest_us
        #: Rows left out so far.
        self.too_old = 0

    @property
    def element(self) -> str:
        """The source or the queued edge."""
        return self._slice.element

    @property
    def letters(self) -> Sequence[DeadLetter]:
        """What could not be made rows of."""
        found: Sequence[DeadLetter] = getattr(self._slice, "letters", ())
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are young enough; those without an instant are.

        Raises
        ------
        ConfigError
            When rows carry no event time.
        """
        self.too_old = 0
        oldest = pa.scalar(self._oldest_us, pa.int64()).cast(_INSTANT)
        for batch in self._slice.batches():
            if EVENT_TIME_COLUMN not in batch.schema.names:
                raise ConfigError(
                    f"timeout_s of {self.element!r}",
                    expected=f"events with the column {EVENT_TIME_COLUMN!r}, which tells their age",
                    got=f"the columns {', '.join(batch.schema.names)}",
                    remedy="let the operators before it pass the column on, or take timeout_s away",
                )
            times = batch[EVENT_TIME_COLUMN]
            times = times if times.type == _INSTANT else times.cast(_INSTANT)
            young = pc.fill_null(pc.greater_equal(times, oldest), True)
            old = batch.num_rows - (pc.sum(young).as_py() or 0)
            self.too_old += old
            if old < batch.num_rows:
                yield batch.filter(young) if old else batch
