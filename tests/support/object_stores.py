"""Object stores in memory, in the place of those that are reached by a network."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from foretide.depot import objects

__all__ = ["keep_in_memory"]


def keep_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each bucket that is named be there, empty at first."""
    buckets: dict[str, MemoryStore] = {}

    def store(bucket: str, *, patient: bool = True) -> MemoryStore:
        return buckets.setdefault(bucket, MemoryStore())

    monkeypatch.setattr(objects, "_store", store)
