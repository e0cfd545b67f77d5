"""The split ratio of a running stream, changed on the fly (SPEC I8; figure 8 of [IDRNN]_), on Spark.

Vehicles pass at a constant rate, three replicas look them up. Their split is 1:1:1, then 7:3:2, then the third one is
bypassed and its share goes to the first. Every batch reports what each replica got.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from foretide.apps.continuous_queries import query
from foretide.experiments.report import Check, Line, Panel, Report
from foretide.topology import Topology, flow

__all__ = ["PHASES", "SplitBatch", "SplitOptions", "SplitRun", "constant_trace", "report_split", "run_split"]

#: The ratios, one after another, and what the paper does there.
PHASES: tuple[tuple[tuple[float, ...], str], ...] = (
    ((1, 1, 1), "even"),
    ((7, 3, 2), "7:3:2"),
    ((1, 1, 1), "even again"),
    ((2, 1, 0), "the third bypassed"),
    ((1, 1, 1), "taken back"),
)
_CLOSE = 0.02
_START_S, _FIRST_BATCHES = 60.0, 2
_SOURCE, _OPERATOR = "passages", "query"


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """How the experiment is run.

    Parameters
    ----------
    phase_s : float
        Seconds of each ratio.
    rate : float
        Events per second.
    master : str
        Where to run.
    """

    phase_s: float = 15.0
    rate: float = 3_000.0
    master: str = "local[2]"


@dataclass(frozen=True)
class SplitBatch:
    """What replicas got in one batch."""

    batch_id: int
    version: int
    started_at_s: float
    duration_s: float
    rows: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the rows."""
        return tuple(row / sum(self.rows) for row in self.rows)


@dataclass(frozen=True)
class SplitRun:
    """The outcome of the experiment.

    Parameters
    ----------
    began_s : float
        When the first ratio was set.
    changes : tuple of (float, int)
        When each ratio was set, and the version of the configuration from which it holds.
    batches : tuple of SplitBatch
        All batches with rows.
    """

    began_s: float
    changes: tuple[tuple[float, int], ...]
    batches: tuple[SplitBatch, ...]

    def phase(self, number: int) -> list[SplitBatch]:
        """Return the batches that ran under a ratio."""
        first = self.changes[number][1]
        last = self.changes[number + 1][1] if number + 1 < len(self.changes) else first + 1_000_000
        return [batch for batch in self.batches if first <= batch.version < last]


def declare(trace: str) -> Topology:
    """Return the topology: three replicas behind a dynamic grouping."""
    job = flow("split")
    passages = job.source(_SOURCE, "trace", trace=trace, payload="foretide.apps.continuous_queries:PASSAGES", speed=1.0)
    lookup = partial(query, limit_kmh=120)
    passages.operator(_OPERATOR, lookup, mode="arrow", grouping="dynamic", execution_s=0.0002, replicas=3).sink("found")
    return job.build()


def run_split(options: SplitOptions | None = None, *, progress: Callable[[str], None] = lambda text: None) -> SplitRun:
    """Run the stream on Spark, and change its ratio phase by phase."""
    from foretide.spark import create_session, start
    from foretide.spark.workers.bypassing import SplitBypass

    options = options or SplitOptions()
    spark = create_session(options.master, "split", preload=("foretide.apps.continuous_queries",))
    try:
        with tempfile.TemporaryDirectory() as folder:
            seconds = options.phase_s * (len(PHASES) + 2) + 60
            topology = declare(constant_trace(Path(folder), options.rate, seconds))
            running = start(topology, spark, Path(folder) / "run")
            try:
                _await_batches(running)
                splitter = SplitBypass(running, _SOURCE, _OPERATOR, [1.0, 1.0, 1.0])
                changes = []
                for weights, about in PHASES:
                    progress(f"{':'.join(f'{weight:g}' for weight in weights)} ({about})")
                    changes.append((time.time(), splitter.split(weights)))
                    running.wait(options.phase_s)
                return SplitRun(changes[0][0], tuple(changes), _batches(running.batches()))
            finally:
                running.stop()
    finally:
        spark.stop()


def constant_trace(folder: Path, rate: float, seconds: float) -> str:
    """Write a trace of a constant rate, and return its path."""
    path = folder / "constant.csv"
    lines = ["second,events_per_second", *(f"{second},{rate:g}" for second in range(math.ceil(seconds)))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _await_batches(running: Any) -> None:
    """Wait until the stream flows: the first batches start the workers."""
    deadline_s = time.monotonic() + _START_S
    while len(running.batches()) < _FIRST_BATCHES and time.monotonic() < deadline_s:
        running.wait(0.2)


def _batches(found: Sequence[object]) -> tuple[SplitBatch, ...]:
    from foretide.spark.tasks.statistics import BatchStatistics

    batches = []
    for batch in found:
        assert isinstance(batch, BatchStatistics)
        parts = [batch.operators.get((_OPERATOR, replica)) for replica in range(3)]
        rows = tuple(0 if part is None else part.rows_in for part in parts)
        if sum(rows):
            made = SplitBatch(batch.batch_id, batch.plan_version, batch.started_at_s, batch.duration_s, rows)
            batches.append(made)
    return tuple(batches)


def report_split(run: SplitRun) -> Report:
    """Return what the run shows."""
    rows, far = [], []
    for number, (weights, about) in enumerate(PHASES):
        batches = run.phase(number)
        expected = np.array(weights) / sum(weights)
        off = [float(np.abs(np.array(batch.shares) - expected).max()) for batch in batches]
        got = sum(np.array(batch.rows) for batch in batches) if batches else np.zeros(3)
        shares = np.asarray(got) / max(1, np.sum(got))
        far.append(max(off, default=1.0))
        rows.append(
            [
                f"{':'.join(f'{weight:g}' for weight in weights)} ({about})",
                str(len(batches)),
                _shares(expected),
                _shares(shares),
                f"{far[-1] * 100:.2f}",
                f"{_delay_s(run, number):.2f}",
            ]
        )
    late = _late(run)
    checks = (
        Check(
            f"shares of every batch within {_CLOSE * 100:g} points of the ratio, from the next batch on",
            sum(value <= _CLOSE for value in far),
            len(far),
            f"at most {max(far) * 100:.2f} points off",
        ),
        Check("no batch that began after a change ran under the ratio before", len(PHASES) - late, len(PHASES)),
    )
    return Report(
        name="split",
        title="Split ratios changed while the stream runs",
        origin="Written by `foretide experiment split`;",
        head=("ratio", "batches", "asked for", "got", "furthest off (points)", "seconds to the next batch"),
        rows=rows,
        checks=checks,
        panels=(_panel(run),),
        notes=(
            "Vehicles at a constant rate, looked up by three replicas behind a dynamic grouping, as in figure 8 of the"
            " I-DRNN paper.",
            "Each batch runs under the ratio in force when it begins; the delay is that of the batch under way.",
        ),
        data={
            "furthest_points": [value * 100 for value in far],
            "batches": [[batch.version, batch.started_at_s - run.began_s, *batch.rows] for batch in run.batches],
        },
    )


def _shares(values: Sequence[float] | np.ndarray) -> str:
    return " / ".join(f"{value * 100:.1f}" for value in values)


def _delay_s(run: SplitRun, number: int) -> float:
    """Return how long after a change the first batch under it began."""
    batches = run.phase(number)
    return batches[0].started_at_s - run.changes[number][0] if batches else float("nan")


def _late(run: SplitRun) -> int:
    """Return how many changes were ignored by a batch that began after them."""
    return sum(
        any(batch.started_at_s > changed_at_s and batch.version < version for batch in run.batches)
        for changed_at_s, version in run.changes
    )


def _panel(run: SplitRun) -> Panel:
    at_s = [batch.started_at_s - run.began_s for batch in run.batches]
    lines = tuple(
        Line(f"replica {replica + 1}", at_s, [batch.shares[replica] * 100 for batch in run.batches], "steps")
        for replica in range(3)
    )
    marks = tuple(changed_at_s - run.began_s for changed_at_s, _ in run.changes[1:])
    return Panel("share of the events of each batch", "seconds", "%", lines, marks=marks)
