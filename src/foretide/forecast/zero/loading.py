"""The weights that ship with the package: read once, checked against the hash on their card."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.forecast.zero.features import FEATURES
from foretide.forecast.zero.shape import LEADS, OUTPUTS

__all__ = ["SIZES", "Weights", "load_weights", "write_weights"]

Weights = Mapping[str, npt.NDArray[np.float32]]
#: The files of weights, by the size of the network.
SIZES = {"full": "zero", "small": "zero-small"}
_REMEDY = "install the package again"


def load_weights(size: str, tuned: str | None = None) -> Weights:
    """Return the weights of a network, those of layer n under ``n.name``.

    Parameters
    ----------
    size : str
        Which of those that ship with the package.
    tuned : str, optional
        A file that `write_weights` wrote, instead.

    Raises
    ------
    ForecastError
        When the file is not the one that its card describes.
    """
    return _shipped(size) if tuned is None else _tuned(Path(tuned))


def write_weights(path: Path, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write weights, and beside them their card with the hash, each as a whole."""
    packed, arrays = io.BytesIO(), cast("dict[str, Any]", dict(weights))
    np.savez_compressed(packed, **arrays)
    facts = {**card, "sha256": hashlib.sha256(packed.getvalue()).hexdigest(), "bytes": len(packed.getvalue())}
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {path: packed.getvalue(), _card_of(path): (json.dumps(facts, indent=2) + "\n").encode()}
    for file, content in texts.items():
        part = file.with_name(f"{file.name}.part")
        part.write_bytes(content)
        part.replace(file)


def _card_of(path: Path) -> Path:
    return path.with_suffix(".card.json")


def _tuned(path: Path) -> Weights:
    try:
        packed, card = path.read_bytes(), json.loads(_card_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ForecastError(
            f"weights {path}: expected them beside their card {_card_of(path).name}, got {error}; tune them again"
        ) from error
    return read_weights(packed, card, str(path), "tune them again")


@cache
def _shipped(size: str) -> Weights:
    folder, name = files("foretide.forecast.zero") / "weights", f"{SIZES[size]}.npz"
    try:
        packed = (folder / name).read_bytes()
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))[SIZES[size]]
    except (OSError, ValueError, KeyError) as error:
        raise ForecastError(f"weights {name}: expected them beside their card, got {error}; {_REMEDY}") from error
    return read_weights(packed, card, name)


def read_weights(packed: bytes, card: Mapping[str, Any], name: str, remedy: str = _REMEDY) -> Weights:
    """Return the weights in a file that must have the hash on its card.

    Raises
    ------
    ForecastError
        When it is cut short, altered, or of a network of another form.
    """
    found, wanted = hashlib.sha256(packed).hexdigest(), str(card.get("sha256"))
    if found != wanted:
        raise ForecastError(f"weights {name}: expected the file of hash {wanted[:12]}…, got {found[:12]}…; {remedy}")
    expected = (FEATURES, len(LEADS) * OUTPUTS)
    try:
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            weights = {key: file[key].astype(np.float32) for key in file.files if not key.startswith("_")}
        got = (weights["in"].shape[0], weights["out"].shape[1])
    except (KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise ForecastError(f"weights {name}: expected those of a network, got {error}; {remedy}") from error
    if got != expected:
        raise ForecastError(f"weights {name}: expected a network of form {expected}, got {got}; {remedy}")
    return weights
