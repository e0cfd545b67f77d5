"""A column of the store as a signal: what another run, or a program of the user's, records there."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from pydantic import Field, model_validator

from foretide.config import Settings
from foretide.control.signals.stage import Signal, Use
from foretide.errors import ConfigError, MetricsError
from foretide.store import RunStore
from foretide.store.settings import default_store

__all__ = ["SignalSettings", "StoredColumn"]

_Measured = Literal["arrived", "processed", "queued", "busy_s", "failed", "replicas", "latency_s"]
_MEASURED: tuple[str, ...] = get_args(_Measured)


class SignalSettings(Settings):
    """A column of the store of runs as a signal, in place of the measured rate or beside it."""

    run: str = Field(min_length=1, description="The run that has it, by id or name; the newest of that name.")
    column: str = Field(
        description="`features.NAME`, what was recorded under that name, or `measurements.NAME`, such as `queued`."
    )
    store: str | None = Field(default=None, description="Its file or postgresql:// address; the usual one if not set.")
    scale: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="Events per second to plan for, for each unit of it."
    )
    use: Use = Field(default="beside", description="The greater of signal and rate counts, or the signal alone.")
    source: str = Field(default="", description="Whose rate it is; needed where there are several sources.")
    late_after_s: float = Field(default=60.0, gt=0, description="Seconds after which its last value is too old.")

    @model_validator(mode="after")
    def _known_column(self) -> SignalSettings:
        table, _, name = self.column.partition(".")
        if table == "features" and name:
            return self
        if table == "measurements" and name in _MEASURED:
            return self
        expected = f"features.NAME, or measurements. and one of: {', '.join(_MEASURED)}"
        raise ConfigError("column", expected=expected, got=self.column)

    def check_source(self, sources: tuple[str, ...]) -> None:
        """Check that it is clear whose rate it is.

        Raises
        ------
        ConfigError
            When there are several sources and none is named, or one that there is none of.
        """
        if self.source not in sources and (self.source or len(sources) > 1):
            raise ConfigError("signal.source", expected=f"one of: {', '.join(sources)}", got=self.source or "none")

    def signal(self) -> Signal:
        """Return the signal that reads it."""
        name = f"{self.column} of {self.run}"
        return Signal(StoredColumn(self), use=self.use, source=self.source, name=name)


class StoredColumn:
    """Reads the last value of a column: of features the sum over their owners, of measurements over their columns."""

    def __init__(self, settings: SignalSettings) -> None:
        self._settings = settings
        self._store: RunStore | None = None

    def __call__(self, now_s: float) -> float:
        """Return the value, scaled.

        Raises
        ------
        MetricsError
            When there is none, or it is too old.
        """
        if self._store is None:
            self._store = RunStore(default_store() if self._settings.store is None else self._settings.store)
        table, _, name = self._settings.column.partition(".")
        found = self._feature(name, now_s) if table == "features" else self._measured(name)
        if found is None or now_s - found[0] > self._settings.late_after_s:
            age = "none" if found is None else f"one that is {now_s - found[0]:.0f} s old"
            raise MetricsError(
                f"{self._settings.column} of run {self._settings.run!r}: expected a value of the last "
                f"{self._settings.late_after_s:g} s, got {age}"
            )
        return self._settings.scale * found[1]

    def _feature(self, name: str, now_s: float) -> tuple[float, float] | None:
        assert self._store is not None
        samples = self._store.run(self._settings.run).features(now_s - self._settings.late_after_s)
        newest = {
            (sample.level, sample.owner): (sample.at_s, sample.by_name()[name])
            for sample in samples
            if name in sample.names
        }
        if not newest:
            return None
        return max(at_s for at_s, _ in newest.values()), sum(value for _, value in newest.values())

    def _measured(self, name: str) -> tuple[float, float] | None:
        assert self._store is not None
        latest = self._store.run(self._settings.run).measurements(last=1)
        if not latest or getattr(latest[-1], name) is None:
            return None
        values = np.asarray(getattr(latest[-1], name), dtype=np.float64)
        total = float(values.sum())
        rate = total / latest[-1].duration_s if name in ("arrived", "processed", "busy_s", "failed") else total
        return latest[-1].ended_at_s, rate
