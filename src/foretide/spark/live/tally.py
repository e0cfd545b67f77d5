"""What the strands of a resident task did since its last report, added up as if it were one task of a batch."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretide.latency import LatencyHistogram
from foretide.spark.tasks.statistics import latencies_s
from foretide.transport.dead_letters import Failure, add_failures

__all__ = ["Tally"]

Result = dict[str, Any]


@dataclass
class _Sums:
    """What was added since the last report."""

    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    operators: dict[str, tuple[float, ...]] = field(default_factory=dict)
    edges: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    failures: dict[tuple[str, str, str], Failure] = field(default_factory=dict)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    worker: dict[str, Any] | None = None
    letters_left_out: int = 0
    transactions: int = 0
    took_s: float = 0.0

    def add(self, result: Mapping[str, Any], committed_at_s: float) -> None:
        """Add what the program reports."""
        self.letters_left_out += result["letters_left_out"]
        for operator, amounts in result["operators"].items():
            before = self.operators.get(operator, (0,) * len(amounts))
            self.operators[operator] = tuple(one + more for one, more in zip(before, amounts, strict=True))
        for number, crossed in result["edges"].items():
            self.edges[int(number)] += crossed
        if result["event_times"]:
            self.latency.add(*latencies_s(result["event_times"], committed_at_s))
        if result["failures"]:
            self.failures = add_failures(self.failures, [Failure(**plain) for plain in result["failures"]])
        if result["worker"] is not None:
            features = result["worker"].get("features") or (self.worker or {}).get("features")
            self.worker = {**result["worker"], "features": features}


class Tally:
    """Adds up transactions that were committed; strands add from their threads.

    Parameters
    ----------
    seat : int
        The number of the task among those of its stage.
    """

    def __init__(self, seat: int) -> None:
        self._seat, self._lock = seat, threading.Lock()
        self._read: dict[str, dict[int, int]] = defaultdict(dict)
        self._committed: dict[str, dict[int, int]] = defaultdict(dict)
        self._sums = _Sums()

    def add(
        self, source: str, rows: int, results: Sequence[Mapping[str, Any]], committed_at_s: float, took_s: float
    ) -> None:
        """Add a transaction: the messages of a source, what the program reports, when it was committed."""
        with self._lock:
            self._sums.rows[source] += rows
            self._sums.transactions += 1
            self._sums.took_s += took_s
            for result in results:
                self._sums.add(result, committed_at_s)

    def reached(self, source: str, read: Mapping[int, int], committed: Mapping[int, int]) -> None:
        """Take note of the offsets before which all of a strand is through, and of those that are committed."""
        with self._lock:
            self._read[source].update(read)
            self._committed[source].update(committed)

    def take(self) -> Result:
        """Return what was added since the last call, in the form of a task's result, and how far strands have come."""
        with self._lock:
            sums = self._sums
            places, counts, sum_s = sums.latency.to_bins()
            worker = sums.worker
            if worker is not None:
                # Tasks of a stage are compared by what one transaction takes them; when it began is no matter.
                mean_s = sums.took_s / max(1, sums.transactions)
                worker = {**worker, "stage": -1, "started_at_s": 0.0, "took_s": mean_s}
            found: Result = {
                "replica": self._seat,
                "operators": sums.operators,
                "edges": dict(sums.edges),
                "event_times": [],
                "failures": [failure.to_json() for failure in sums.failures.values()],
                "worker": worker,
                "states": {},
                "letters_left_out": sums.letters_left_out,
                "rows": dict(sums.rows),
                "transactions": sums.transactions,
                "took_s": sums.took_s,
                "latency": [places.tolist(), counts.tolist(), sum_s],
                "read": {source: dict(offsets) for source, offsets in self._read.items()},
                "committed": {source: dict(offsets) for source, offsets in self._committed.items()},
            }
            self._sums = _Sums()
            return found
