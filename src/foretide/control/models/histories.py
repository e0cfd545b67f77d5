"""The rates of sources over all runs of a topology, as series to train on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretide.forecast import Series
from foretide.records import Floats, Measurement
from foretide.store import Arrivals, RunStore, StoreError
from foretide.store.arrivals import arrivals_of
from foretide.topology import Topology

__all__ = ["rate_histories"]


def rate_histories(
    topology: Topology, past: RunStore | None, own: Sequence[Measurement], step_s: float, most: int, gap: int
) -> dict[str, Series]:
    """Return the rate of each source: of recorded runs of the topology that have ended, then of the present one.

    Parameters
    ----------
    topology : Topology
        What runs; runs of others, also of those with the same name, are left out.
    past : RunStore, optional
        Where runs are recorded.
    own : sequence of Measurement
        What was measured of the present run.
    step_s : float
        Seconds per value.
    most : int
        Values per series, at most: the latest.
    gap : int
        Values that are missing between two runs, so that no window reaches over many of them.

    Raises
    ------
    ForetideError
        When the store cannot be read.
    """
    runs = [] if (present := _arrivals("this run", own, step_s)) is None else [present]
    size = sum(run.measured.size for run in runs)
    for run in _ended(topology, past):
        if size >= most:
            break
        assert past is not None
        try:
            runs.insert(0, past.run(run).arrivals(step_s))
        except StoreError:
            continue  # too short, or expired
        size += runs[0].measured.size + gap
    if not runs:
        return {}
    ended_at_s = runs[-1].began_at_s + runs[-1].measured.size * step_s
    return {
        source: Series(_joined([run.rates[source] for run in runs], gap)[-most:], step_s, ended_at_s, source)
        for source in topology.layout.sources
    }


def _ended(topology: Topology, past: RunStore | None) -> list[str]:
    """Return the runs of a topology that have ended, the latest first."""
    known = [] if past is None else past.runs()
    runs = [run for run in known if run.name == topology.name and run.layout == topology.layout]
    ended = [run for run in runs if run.status != "running"]
    return [run.id for run in sorted(ended, key=lambda run: run.seen_at_s, reverse=True)]


def _arrivals(name: str, measurements: Sequence[Measurement], step_s: float) -> Arrivals | None:
    try:
        return arrivals_of(name, measurements, step_s)
    except StoreError:
        return None  # less than two values


def _joined(runs: Sequence[Floats], gap: int) -> Floats:
    missing = np.full(gap, np.nan)
    parts = [part for run in runs for part in (missing, run)][1:]
    joined: Floats = np.concatenate(parts)
    return joined
