from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import foretide.store
from foretide.errors import ForetideError
from foretide.store.databases.codec import from_json, pack, to_json, unpack
from foretide.store.settings import StoreSettings


@pytest.mark.parametrize("size", [0, 1, 15, 16, 251, 10_000])
def test_numbers_come_back_bit_by_bit(size: int) -> None:
    values = np.random.default_rng(1).normal(size=size)
    values[::7] = np.nan
    np.testing.assert_array_equal(unpack(pack(values)), values)
    assert len(pack(values)) <= 5 + 8 * size


def test_counts_take_little_room() -> None:
    counts = np.random.default_rng(1).poisson(500, 250).astype(float)
    assert len(pack(counts)) < 0.35 * 8 * counts.size


@pytest.mark.parametrize(
    "blob", [b"", b"\0", pack([1.0, 2.0])[:-1], pack(np.zeros(100))[:-3], b"\x07" + pack([1.0])[1:], pickle.dumps([1])]
)
def test_other_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(ForetideError, match="stored numbers: expected"):
        unpack(blob)


def test_a_head_that_promises_less_than_comes_is_refused() -> None:
    blob = bytearray(pack(np.zeros(1_000_000)))
    blob[1:5] = (4).to_bytes(4, "little")
    with pytest.raises(ForetideError):
        unpack(bytes(blob))


def test_values_become_plain() -> None:
    nested: dict[str, object] = {}
    nested["self"] = nested
    text = to_json({"settings": StoreSettings(), "path": Path("a"), "flag": np.True_, "n": np.int64(3), "x": nested})
    found = from_json(text)
    assert found["settings"]["flush_s"] == 0.5
    assert (found["path"], found["flag"], found["n"]) == ("a", True, 3)


def test_a_document_that_is_none_is_refused() -> None:
    with pytest.raises(ForetideError, match="stored document: expected JSON"):
        from_json("{")


def test_nothing_in_the_store_can_be_unpickled() -> None:
    folder = Path(foretide.store.__file__).parent
    words = ("pickle", "eval(", "exec(", "marshal", "allow_pickle")
    assert [(file.name, word) for file in folder.glob("*.py") for word in words if word in file.read_text()] == []
