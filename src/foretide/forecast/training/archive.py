"""Forecasters on disk: one zip file with JSON and NumPy arrays, never pickles."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.files import replacing

__all__ = ["FORMAT", "Arrays", "pack_archive", "read_archive", "unpack_archive", "write_archive"]

#: The version of the file's layout; it grows when an older reader could not understand it.
FORMAT = 1
Arrays = Mapping[str, npt.NDArray[Any]]

_HEAD, _ARRAYS = "forecaster.json", "arrays.npz"
# A fixed time in the archive, so that equal forecasters give equal files.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def write_archive(path: str | os.PathLike[str], head: Mapping[str, Any], arrays: Arrays) -> Path:
    """Write `head` and `arrays` to `path` as a whole or not at all: a reader never finds half a file."""
    target = Path(path)
    packed = pack_archive(head, arrays, f"forecaster file {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, fsync=True) as file:
        file.write(packed)
    return target


def pack_archive(head: Mapping[str, Any], arrays: Arrays, where: str) -> bytes:
    """Return the bytes of a file with `head` and `arrays`; `where` it will be is told if they cannot be packed."""
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise ForecastError(f"{where}: expected plain arrays, got objects in {', '.join(objects)}")
    inner, outer = io.BytesIO(), io.BytesIO()
    np.savez(inner, **arrays)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle
    text = json.dumps({"format": FORMAT, **head}, indent=1, sort_keys=True, allow_nan=False)
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEAD, _NO_TIME), text)
        archive.writestr(zipfile.ZipInfo(_ARRAYS, _NO_TIME), inner.getvalue(), zipfile.ZIP_DEFLATED)
    return outer.getvalue()


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return head and arrays of the file at `path`.

    Raises
    ------
    ForecastError
        When it is missing, damaged, or of another format; the message names the file and what to do.
    """
    source = Path(path)
    try:
        packed = source.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ForecastError(f"forecaster file {source}: cannot be read: {reason}; check the path") from error
    return unpack_archive(packed, f"forecaster file {source}")


def unpack_archive(packed: bytes, where: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return head and arrays of what `pack_archive` made, which was found `where`; errors are those of a file."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            head = json.loads(archive.read(_HEAD))
            _check_format(where, head)
            with np.load(io.BytesIO(archive.read(_ARRAYS)), allow_pickle=False) as arrays:
                return head, {name: arrays[name] for name in arrays.files}
    except ForecastError:
        raise
    except Exception as error:  # zipfile, json and NumPy each raise different errors for damaged bytes
        raise ForecastError(
            f"{where}: expected a whole file that `save` wrote, got one that is cut short or damaged "
            f"({error}); save or train the forecaster again"
        ) from error


def _check_format(where: str, head: object) -> None:
    version = head.get("format") if isinstance(head, dict) else None
    if version != FORMAT:
        raise ForecastError(
            f"{where}: expected format {FORMAT}, got {version!r}; load it with the version of "
            f"Foretide that wrote it, or save or train the forecaster again"
        )
