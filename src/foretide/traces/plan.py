"""What the options of a replayed trace say: which events come, and when."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foretide.topology.options import SOURCE_OPTIONS
from foretide.traces.loading import load_trace
from foretide.traces.options import Options
from foretide.traces.payloads import payload
from foretide.traces.replay import Replay

__all__ = ["UNLIMITED_ROWS", "TracePlan"]

UNLIMITED_ROWS = 2**62


@dataclass(frozen=True)
class TracePlan:
    """What the options of the source say.

    Parameters
    ----------
    replay : Replay
        The events and their pace.
    fingerprint : str
        Tells one replay from another, so that a checkpoint is not continued with other events.
    started_us : int or None
        When the trace begins, in microseconds since the epoch.
    at_once : bool
        Whether all events are due from the beginning.
    partitions, max_rows : int
        Slots and rows of a batch, unless the watched file says otherwise.
    config_path : str or None
        The watched file.
    """

    replay: Replay
    fingerprint: str
    started_us: int | None
    at_once: bool
    partitions: int
    max_rows: int
    config_path: str | None

    @classmethod
    def of_source(cls, source: str, options: Mapping[str, Any]) -> TracePlan:
        """Read the options of a topology's source, which may be written ``rate_scale`` or ``rateScale``."""
        texts = {name.replace("_", ""): str(value) for name, value in options.items()}
        return cls.from_options(f"source {source!r}", texts)

    @classmethod
    def from_options(cls, who: str, values: Mapping[str, str]) -> TracePlan:
        """Read the options of `who`, as texts; their names in any case.

        Raises
        ------
        ConfigError
            When one is unknown, missing or malformed.
        """
        options = Options(who, values, SOURCE_OPTIONS["trace"])
        scale, speed = options.number("rateScale", 1.0), options.number("speed", 1.0)
        trace = load_trace(options.text("trace")).scaled(scale)
        replay = Replay(trace, payload(options.text("payload", "words")), options.integer("seed", 0), speed)
        identity = f"{trace.bin_s}/{replay.payload.name}/{replay.seed}/{speed}".encode() + trace.rates.tobytes()
        started = options.number("startedAt", 0.0) if options.optional("startedAt") else None
        return cls(
            replay,
            fingerprint=f"{zlib.crc32(identity):08x}",
            started_us=None if started is None else round(started * 1e6),
            at_once=options.choice("until", ("now", "all"), "now") == "all",
            partitions=options.integer("partitions", 1, minimum=1),
            max_rows=options.integer("maxRows", UNLIMITED_ROWS, minimum=1),
            config_path=options.optional("configPath"),
        )

    @property
    def speed(self) -> float:
        """Seconds of the trace that pass in one second."""
        return self.replay.speed

    @property
    def peak_rate(self) -> float:
        """The highest rate, in events per second as they come."""
        return self.replay.trace.peak_rate * self.speed
