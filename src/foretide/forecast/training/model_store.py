"""Trained models in a directory: versioned, replaced atomically, watched by those who use them (ADR 0002).

A directory has ``SERIES/MODEL/VERSION/`` with the forecaster (``model.zip``) and its card (``card.json``), and
``SERIES/MODEL/current.json``, which says which version is in use. A version appears as a whole, by a rename, and is
never changed afterwards; many processes may write into one directory, also over a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from foretide.errors import ForecastError
from foretide.files import PART_PREFIX, replace_file
from foretide.forecast.base import Forecaster
from foretide.forecast.registry import load_forecaster
from foretide.forecast.training.archive import FORMAT
from foretide.forecast.training.model_card import ModelCard

__all__ = ["ModelStore", "StoredModel"]

_MODEL, _CARD, _CURRENT = "model.zip", "card.json", "current.json"
# What a killed process left behind is removed after this time; writing one model never takes that long.
_ABANDONED_S = 3600.0
# File systems allow names of 255 bytes; a longer series name is cut and made unique by its hash.
_LONGEST = 200

_Signature = tuple[int, int, int]


@dataclass(frozen=True)
class StoredModel:
    """A trained model on disk.

    Parameters
    ----------
    path : Path
        Its own directory.
    card : ModelCard
        What is known about it.
    """

    path: Path
    card: ModelCard

    @property
    def version(self) -> int:
        """Which version it is."""
        return self.card.version

    def load(self) -> Forecaster:
        """Return the forecaster with everything it had learnt.

        Raises
        ------
        ForecastError
            When its file is missing, cut short, changed since it was trained, or of another format or shape.
        ConfigError
            When its model is not installed or takes other settings now.
        """
        file = self.path / _MODEL
        forecaster = load_forecaster(file)
        if forecaster.name != self.card.model:
            raise ForecastError(
                f"model file {self.path / _MODEL}: expected a forecaster {self.card.model!r} as its card says, got "
                f"{forecaster.name!r}; train it again"
            )
        if self.card.digest and (found := _digest(file)) != self.card.digest:
            raise ForecastError(
                f"model file {file}: expected the file as it was trained, SHA-256 {self.card.digest[:12]}..., got "
                f"{found[:12]}...: it was changed since; train it again, or use another version"
            )
        return forecaster


class ModelStore:
    """A directory of trained models.

    Parameters
    ----------
    directory : path
        Where; it is made when the first model is saved. Trainers and users of the models share it.
    keep : int
        How many versions of a model stay, at least 1.

    Examples
    --------
    >>> import tempfile
    >>> from foretide.forecast import Basic, Series
    >>> import numpy as np
    >>> store = ModelStore(tempfile.mkdtemp())
    >>> history = Series(np.array([3.0, 5.0]), name="web")
    >>> model = Basic().fit(history)
    >>> store.save(model, ModelCard.of(model, history)).version
    1
    >>> store.latest("web", "basic").load().predict(1).mean
    array([5.])
    >>> store.newer_than("web", "basic", 1) is None
    True
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 3) -> None:
        self.directory = Path(directory)
        self._keep = max(keep, 1)
        self._seen: dict[tuple[str, str], tuple[_Signature, int]] = {}

    def save(self, forecaster: Forecaster, card: ModelCard) -> StoredModel:
        """Store a trained forecaster as the next version, and put it in use; readers never see half of it."""
        home = self._home(card.series, card.model)
        home.mkdir(parents=True, exist_ok=True)
        part = home / f"{PART_PREFIX}{uuid.uuid4().hex}"
        part.mkdir()
        try:
            forecaster.save(part / _MODEL)
            stored = self._publish(part, replace(card, digest=_digest(part / _MODEL)))
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        self.use(stored)
        self._prune(home, stored.version)
        return stored

    def use(self, stored: StoredModel) -> None:
        """Put a stored version in use, also one that is older than the present one."""
        home = stored.path.parent
        text = {"format": FORMAT, "version": stored.version, "trained_at": stored.card.trained_at}
        replace_file(home / _CURRENT, json.dumps(text) + "\n", fsync=True)

    def ensure_used(self, stored: StoredModel) -> None:
        """Put a stored version in use unless it already is: a process may have been killed right after storing it."""
        try:
            version = _current_version(stored.path.parent / _CURRENT)
        except ForecastError:
            version = 0
        if version != stored.version:
            self.use(stored)

    def latest(self, series: str, model: str) -> StoredModel | None:
        """Return the version of a model that is in use, or None if there is none.

        Raises
        ------
        ForecastError
            When the pointer or the card is damaged.
        """
        home = self._home(series, model)
        if not (home / _CURRENT).exists():
            return None
        return self._read(home / _directory_of(_current_version(home / _CURRENT)))

    def newer_than(self, series: str, model: str, version: int | None) -> StoredModel | None:
        """Return the version in use if it differs from `version`, else None.

        Cheap enough for every forecast: while nothing changes it costs one look at a file's date. A pointer that is
        damaged raises once, not at each look; so does a model, since its error is the caller's to remember.
        """
        path = self._home(series, model) / _CURRENT
        signature = _signature(path)
        if signature is None:
            return None
        known = self._seen.get((series, model))
        if known is None or known[0] != signature:
            # Noted before it is read: what cannot be read now cannot be read later either, until it is replaced.
            self._seen[series, model] = (signature, version or 0)
            known = self._seen[series, model] = (signature, _current_version(path))
        if known[1] == (version or 0):
            return None
        return self._read(path.parent / _directory_of(known[1]))

    def find(self, series: str, model: str, fingerprint: str, settings_key: str) -> StoredModel | None:
        """Return the newest version that was trained on such data with such settings, if there is one.

        Versions that this version of the library could not load, and damaged ones, do not count.
        """
        for number in sorted(_versions(self._home(series, model)), reverse=True):
            with suppress(ForecastError):
                stored = self._read(self._home(series, model) / _directory_of(number))
                found = (stored.card.fingerprint, stored.card.settings_key)
                if found == (fingerprint, settings_key) and zipfile.is_zipfile(stored.path / _MODEL):
                    return stored
        return None

    def list(self) -> tuple[StoredModel, ...]:
        """Return the version in use of every model, by series and model; damaged ones are left out."""
        found = [stored for path in sorted(self.directory.glob(f"*/*/{_CURRENT}")) for stored in self._at(path)]
        return tuple(sorted(found, key=lambda stored: (stored.card.series, stored.card.model)))

    def _at(self, pointer: Path) -> Iterator[StoredModel]:
        with suppress(ForecastError):
            yield self._read(pointer.parent / _directory_of(_current_version(pointer)))

    def _home(self, series: str, model: str) -> Path:
        return self.directory / _safe(series) / _safe(model)

    def _publish(self, part: Path, card: ModelCard) -> StoredModel:
        """Give the finished directory `part` the next free version number."""
        home = part.parent
        number = max(_versions(home), default=0) + 1
        while True:
            numbered = replace(card, version=number)
            replace_file(part / _CARD, numbered.to_json(), fsync=True)
            target = home / _directory_of(number)
            try:
                os.rename(part, target)
            except OSError:
                if not target.exists():
                    raise
                number += 1  # another process was faster
            else:
                return StoredModel(target, numbered)

    def _read(self, path: Path) -> StoredModel:
        file = path / _CARD
        try:
            card = ModelCard.from_json(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ForecastError(
                f"model card {file}: cannot be read: {error.strerror or error}; train the model again"
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ForecastError(
                f"model card {file}: expected a whole file, got one that is cut short or damaged ({error}); "
                f"train the model again"
            ) from error
        if card.format != FORMAT:
            raise ForecastError(
                f"model card {file}: expected format {FORMAT}, got {card.format!r}; load it with the version of "
                f"Foretide that wrote it ({card.libraries.get('foretide', 'unknown')}), or train the model again"
            )
        return StoredModel(path, card)

    def _prune(self, home: Path, current: int) -> None:
        """Remove versions that are no longer needed, and what killed processes left behind."""
        for number in sorted(_versions(home), reverse=True)[self._keep :]:
            if number != current:
                shutil.rmtree(home / _directory_of(number), ignore_errors=True)
        for part in home.glob(f"{PART_PREFIX}*"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    shutil.rmtree(part) if part.is_dir() else part.unlink()


def _safe(name: str) -> str:
    """Return a name for a directory that no other series or model has, whatever its name."""
    # Quoting never yields a lone "%", so it can stand for the empty name; dots would mean this directory or its parent.
    quoted = quote(name, safe="").replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
    if len(quoted) > _LONGEST:
        return f"{quoted[: _LONGEST - 65]}%{hashlib.sha256(name.encode()).hexdigest()}"
    return quoted or "%"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _directory_of(version: int) -> str:
    return f"{version:06d}"


def _versions(home: Path) -> list[int]:
    if not home.is_dir():
        return []
    return [int(entry.name) for entry in home.iterdir() if entry.name.isdigit()]


def _current_version(path: Path) -> int:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version, format = found["version"], found["format"]
    except OSError as error:
        raise ForecastError(f"model pointer {path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ForecastError(
            f"model pointer {path}: expected a whole file, got one that is cut short or damaged ({error}); "
            f"remove it or train the model again"
        ) from error
    if format != FORMAT or not isinstance(version, int):
        raise ForecastError(
            f"model pointer {path}: expected format {FORMAT} and a version number, got format {format!r} and version "
            f"{version!r}; train the model again"
        )
    return version


def _signature(path: Path) -> _Signature | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
