"""The options of a replayed trace: which events come, and when."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from foretide.topology.options import SOURCE_OPTIONS
from foretide.traces.loading import load_trace
from foretide.traces.options import Options
from foretide.traces.rate_trace import RateTrace

if TYPE_CHECKING:
    from foretide.traces.replay import Replay

__all__ = ["UNLIMITED_ROWS", "TracePlan"]

UNLIMITED_ROWS = 2**62


@dataclass(frozen=True)
class TracePlan:
    """The parsed options of the source.

    Parameters
    ----------
    trace : RateTrace
        When events are due.
    payload : str
        What they carry, by name.
    seed : int
        Seed of the events.
    speed : float
        Seconds of the trace that pass in one second.
    started_us : int or None
        When the trace begins, in microseconds since the epoch.
    at_once : bool
        Whether all events are due from the beginning.
    partitions, max_rows : int
        Slots and rows of a batch, unless the watched file has others.
    config_path : str or None
        The watched file.
    """

    trace: RateTrace
    payload: str
    seed: int
    speed: float
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
        started = options.number("startedAt", 0.0) if options.optional("startedAt") else None
        return cls(
            trace=load_trace(options.text("trace")).scaled(options.number("rateScale", 1.0)),
            payload=options.text("payload", "words"),
            seed=options.integer("seed", 0),
            speed=options.number("speed", 1.0),
            started_us=None if started is None else round(started * 1e6),
            at_once=options.choice("until", ("now", "all"), "now") == "all",
            partitions=options.integer("partitions", 1, minimum=1),
            max_rows=options.integer("maxRows", UNLIMITED_ROWS, minimum=1),
            config_path=options.optional("configPath"),
        )

    def checked(self) -> TracePlan:
        """Return it after checking that its events can be generated: `replay` then raises no error."""
        _ = self.replay
        return self

    @cached_property
    def replay(self) -> Replay:
        """The events and their pace; events need Arrow, the pace alone does not.

        Raises
        ------
        ConfigError
            When the payload is not known, or the speed is not positive.
        """
        from foretide.traces.payloads import payload
        from foretide.traces.replay import Replay

        return Replay(self.trace, payload(self.payload), self.seed, self.speed)

    @cached_property
    def fingerprint(self) -> str:
        """What identifies a replay, so that a checkpoint is not continued with other events."""
        identity = f"{self.trace.bin_s}/{self.replay.payload.name}/{self.seed}/{self.speed}".encode()
        return f"{zlib.crc32(identity + self.trace.rates.tobytes()):08x}"

    @property
    def peak_rate(self) -> float:
        """The highest rate, in events per second as they come."""
        return self.trace.peak_rate * self.speed
