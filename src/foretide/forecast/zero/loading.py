"""The weights that ship with the package: read once, checked against the hash on their card."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.forecast.zero.features import FEATURES
from foretide.forecast.zero.shape import LEADS, OUTPUTS

__all__ = ["SIZES", "Weights", "load_weights"]

Weights = Mapping[str, npt.NDArray[np.float32]]
#: The files of weights, by the size of the network.
SIZES = {"full": "zero", "small": "zero-small"}
_REMEDY = "install the package again"


@cache
def load_weights(size: str) -> Weights:
    """Return the weights of a network, those of layer n under ``n.name``.

    Raises
    ------
    ForecastError
        When the file is not the one that its card describes.
    """
    folder, name = files("foretide.forecast.zero") / "weights", f"{SIZES[size]}.npz"
    try:
        packed = (folder / name).read_bytes()
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))[SIZES[size]]
    except (OSError, ValueError, KeyError) as error:
        raise ForecastError(f"weights {name}: expected them beside their card, got {error}; {_REMEDY}") from error
    return read_weights(packed, card, name)


def read_weights(packed: bytes, card: Mapping[str, Any], name: str) -> Weights:
    """Return the weights in a file that must have the hash on its card.

    Raises
    ------
    ForecastError
        When it is cut short, altered, or of a network of another form.
    """
    found = hashlib.sha256(packed).hexdigest()
    if found != card["sha256"]:
        raise ForecastError(
            f"weights {name}: expected the file of hash {card['sha256'][:12]}…, got {found[:12]}…; {_REMEDY}"
        )
    with np.load(io.BytesIO(packed), allow_pickle=False) as file:
        weights = {key: file[key].astype(np.float32) for key in file.files if not key.startswith("_")}
    expected = (FEATURES, len(LEADS) * OUTPUTS)
    got = (weights["in"].shape[0], weights["out"].shape[1])
    if got != expected:
        raise ForecastError(f"weights {name}: expected a network of form {expected}, got {got}; {_REMEDY}")
    return weights
