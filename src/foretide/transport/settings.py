"""How an embedded log stores its rows."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.errors import ConfigError

__all__ = ["ArrowLogSettings"]


@dataclass(frozen=True, slots=True)
class ArrowLogSettings:
    """How an embedded log stores its rows.

    Parameters
    ----------
    max_bytes : int
        Bytes of unconsumed segments from which on no new batch is accepted; the batch that crosses it still fits.
    fsync : bool
        Whether commits survive a power failure, not only the end of a process.
    compression : {"lz4", "zstd"}, optional
        None, the default, lets readers use the file's pages without a copy.
    orphan_age_s : float
        Age from which on files that no commit names are removed; longer than any batch takes.

    Raises
    ------
    ConfigError
        When a value is out of range.
    """

    max_bytes: int = 4 << 30
    fsync: bool = True
    compression: str | None = None
    orphan_age_s: float = 3600.0

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise ConfigError("log.max_bytes", expected="at least 1 byte", got=self.max_bytes)
        if self.compression not in (None, "lz4", "zstd"):
            raise ConfigError("log.compression", expected="lz4, zstd or none", got=self.compression)
        if not self.orphan_age_s > 0:
            raise ConfigError("log.orphan_age_s", expected="a positive number of seconds", got=self.orphan_age_s)
