"""Reading ``--queue-bound`` and ``--timeout``: what queues may hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretide.config import parsed_value
from foretide.errors import ConfigError

__all__ = ["queue_settings"]


def queue_settings(bounds: Sequence[str], timeouts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the engine that these options stand for.

    >>> queue_settings(["100000"], ["30", "parse -> count=2.5"])
    {'queue_bound': 100000, 'timeout_s': 30, 'queues': {'parse -> count': {'timeout_s': 2.5}}}

    Raises
    ------
    ConfigError
        When a value is no number, or out of range.
    """
    found: dict[str, Any] = {"queues": {}}
    for option, name, texts in (("--queue-bound", "queue_bound", bounds), ("--timeout", "timeout_s", timeouts)):
        for text in texts:
            queue, _, value = text.rpartition("=")
            number = _number(option, text, value.strip(), whole=name == "queue_bound")
            (found["queues"].setdefault(queue.strip(), {}) if queue else found)[name] = number
    return {name: found[name] for name in ("queue_bound", "timeout_s", "queues") if found.get(name)}


def _number(option: str, text: str, value: str, *, whole: bool) -> float:
    number = parsed_value(value)
    kinds = (int,) if whole else (int, float)
    if isinstance(number, bool) or not isinstance(number, kinds) or not 0 < number < float("inf"):
        what = "a whole number of events" if whole else "seconds"
        raise ConfigError(
            option,
            expected=f"{what} above 0 for all queues, or QUEUE=NUMBER for one",
            got=repr(text),
            remedy=f"write {option} 100, or {option} 'parse -> count=100'",
        )
    return number
