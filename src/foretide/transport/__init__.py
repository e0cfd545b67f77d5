"""The durable log behind a queued edge: its contract, and the embedded Arrow log that keeps it.

May import the small modules only.
"""

from foretide.transport.arrow_log import ArrowLog
from foretide.transport.contract import (
    BatchWriter,
    Block,
    Commit,
    Log,
    OpenSegment,
    Piece,
    SegmentInfo,
    SegmentWriter,
    split,
)
from foretide.transport.errors import BatchOrderError, CorruptLogError, LogFullError, OffsetError
from foretide.transport.segment import ArrowPiece, ArrowSegmentWriter
from foretide.transport.settings import ArrowLogSettings

__all__ = [
    "ArrowLog",
    "ArrowLogSettings",
    "ArrowPiece",
    "ArrowSegmentWriter",
    "BatchOrderError",
    "BatchWriter",
    "Block",
    "Commit",
    "CorruptLogError",
    "Log",
    "LogFullError",
    "OffsetError",
    "OpenSegment",
    "Piece",
    "SegmentInfo",
    "SegmentWriter",
    "split",
]
