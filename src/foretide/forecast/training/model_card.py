"""What is known about a trained model: from which data, with which settings, how good, made by what."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from foretide._version import __version__
from foretide.extras import EXTRAS
from foretide.forecast.base import Forecaster
from foretide.forecast.series import Series
from foretide.forecast.training.archive import FORMAT

__all__ = ["ModelCard", "fingerprint", "settings_key"]

# What the numbers of a model may depend on, besides the extra it needs.
_LIBRARIES = ("numpy", "scikit-learn", "statsmodels")


def fingerprint(series: Series) -> str:
    """Return a hash of a series' values, its step and where it begins; its name does not matter.

    Missing values count as the same whatever their bits, and so do the two zeros.

    >>> one = Series(np.array([1.0, np.nan]), step_s=5.0, ended_at_s=60.0, name="web")
    >>> fingerprint(one) == fingerprint(Series(np.array([1.0, -np.nan]), 5.0, 60.0, "api"))
    True
    >>> fingerprint(one) == fingerprint(Series(np.array([1.0, 2.0]), 5.0, 60.0, "web"))
    False
    """
    started_at_s = series.ended_at_s - (series.values.size - 1) * series.step_s
    plain = np.where(np.isnan(series.values), np.nan, series.values + 0.0).astype("<f8")
    digest = hashlib.sha256(f"{started_at_s!r} {series.step_s!r} ".encode())
    digest.update(plain.tobytes())
    return digest.hexdigest()


def settings_key(forecaster: Forecaster, training: Mapping[str, Any]) -> str:
    """Return a hash of a model's settings and of how it is trained; if it is unchanged, training again is pointless.

    >>> from foretide.forecast import Basic
    >>> settings_key(Basic(), {"horizon": 6}) == settings_key(Basic(window=100), {"horizon": 6})
    True
    >>> settings_key(Basic(), {"horizon": 6}) == settings_key(Basic(), {"horizon": 7})
    False
    """
    known = [forecaster.name, forecaster.model_dump(mode="json"), dict(training)]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Everything about a trained model except the model itself.

    Parameters
    ----------
    series, model : str
        Which series it forecasts, and the forecaster's name.
    version : int
        Counts the models of this series and forecaster from 1; 0 before it is stored.
    fingerprint : str
        That of the series it was trained on, see `fingerprint`.
    settings_key : str
        That of its settings and of how it was trained, see `settings_key`.
    settings, training : mapping
        The forecaster's settings, and how it was trained: horizon, validation part.
    data : mapping
        ``values``, ``missing``, ``step_s`` and ``ended_at_s`` of the series.
    metrics : mapping of str to float
        Its errors on the validation part; NaN where they are not defined.
    seconds : float
        How long training and validation took.
    trained_at : str
        When, in UTC.
    libraries : mapping of str to str
        Versions of what it was made with.
    note : str
        Warnings, if any.
    digest : str
        The SHA-256 of its file, by which a change is noticed; empty before it is stored.
    format : int
        The layout of its file.
    """

    series: str
    model: str
    fingerprint: str
    settings_key: str
    version: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    trained_at: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    digest: str = ""
    format: int = FORMAT

    @classmethod
    def of(
        cls,
        forecaster: Forecaster,
        series: Series,
        *,
        training: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        seconds: float = math.nan,
    ) -> ModelCard:
        """Return the card of a forecaster that was trained on `series` just now.

        >>> from foretide.forecast import Basic
        >>> card = ModelCard.of(Basic(), Series(np.array([1.0, np.nan]), name="web"))
        >>> card.series, card.model, card.data["missing"]
        ('web', 'basic', 1)
        """
        return cls(
            series=series.name,
            model=forecaster.name,
            fingerprint=fingerprint(series),
            settings_key=settings_key(forecaster, training or {}),
            settings=forecaster.model_dump(mode="json"),
            training=dict(training or {}),
            data=_described(series),
            metrics=dict(metrics or {}),
            seconds=seconds,
            trained_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            libraries=_libraries(forecaster),
        )

    def to_json(self) -> str:
        """Return it as JSON, which has no NaN."""
        plain = asdict(self)
        plain["metrics"] = {name: _finite(value) for name, value in self.metrics.items()}
        plain["seconds"] = _finite(self.seconds)
        return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ModelCard:
        """Return the card that `to_json` wrote; fields that a later version added are left out.

        Raises
        ------
        ValueError, TypeError, KeyError
            When the text is not a card.
        """
        plain = json.loads(text)
        known = {name: plain[name] for name in (part.name for part in fields(cls)) if name in plain}
        known["metrics"] = {name: _number(value) for name, value in known.get("metrics", {}).items()}
        known["seconds"] = _number(known.get("seconds"))
        return cls(**known)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _described(series: Series) -> dict[str, float]:
    return {
        "values": series.values.size,
        "missing": int(np.isnan(series.values).sum()),
        "step_s": series.step_s,
        "ended_at_s": series.ended_at_s,
    }


def _libraries(forecaster: Forecaster) -> dict[str, str]:
    found = {"foretide": __version__}
    for name in (*_LIBRARIES, *EXTRAS.get(forecaster.needs or "", ())):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
