"""What runs with hogs and bypass, with hogs alone and without either come to: the lines and the table of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import Any

from _harness import Measured, Ratio, Table

__all__ = ["detections", "false_alarms", "gained"]

Rows = Sequence[Mapping[str, Any]]
#: Who is compared with the run without hogs: for each figure in which sense, and with what target.
_WANTED: Mapping[str, Mapping[str, tuple[Any, float]]] = {
    "with": {"p95_ms": ("at most", 1.15), "events_per_s": ("at least", 1 / 1.15)},
    "without": {"p95_ms": ("at least", 3.0), "events_per_s": ("at most", 1.0)},
}


def gained(app: str, runs: Mapping[str, Rows]) -> list[Measured]:
    """Return the lines about bypass: figures by those of the run of the same turn that had no hogs.

    All three runs of a turn are looked at from the instant on that counts with bypass: by then the worker was found.
    """
    lines = []
    for way, figures in _WANTED.items():
        for figure, (sense, target) in figures.items():
            pairs = [
                _ratio(figure, one, calm, bypassed["from_s"])
                for one, calm, bypassed in zip(runs[way], runs["calm"], runs["with"], strict=True)
            ]
            known = tuple(pair for pair in pairs if pair is not None)
            what = f"{app}, a hog on one of four workers, {way} bypass: `{figure}`"
            ratio = Ratio(known) if known else None
            lines.append(Measured(what, "no hogs", sense, target, ratio, detected(way, runs[way])))
    return lines


def _ratio(figure: str, one: Mapping[str, Any], other: Mapping[str, Any], from_s: float) -> float | None:
    ours, others = (run["stretches"][f"{from_s:g}"][figure] for run in (one, other))
    return ours / others if ours is not None and others else None


def detected(way: str, runs: Rows) -> str:
    """Return in how many runs the worker was found, and how many others were bypassed, in words."""
    found = sum(one["detected_after_s"] is not None for one in runs)
    words = "found" if way == "with" else "would have been found"
    return f"{words} in {found} of {len(runs)} runs; {sum(one['false_alarms'] for one in runs)} others bypassed"


def false_alarms(app: str, runs: Rows) -> Measured:
    """Return the line about workers that were bypassed though nothing disturbed them.

    They are added up over the runs, the worst first: a single one in the whole time misses the target.
    """
    minutes = sum(one["seconds"] for one in runs) / 60
    alarms = accumulate(sorted((float(one["false_alarms"]) for one in runs), reverse=True))
    what = f"{app}, {minutes:.0f} min without hogs: workers bypassed for nothing, added up over the runs"
    return Measured(what, "", "at most", 0.0, Ratio(tuple(alarms)))


def detections(found: Mapping[str, Mapping[str, Rows]]) -> Table:
    """Return when workers were found, and by whom: seconds after the hogs began, and before they were at full force."""
    rows = []
    for app, runs in found.items():
        known = [one for one in runs["with"] if one["detected_after_s"] is not None]
        by = ", ".join(sorted({str(one["detected_by"]) for one in known})) or "–"
        row = [f"{median(one[key] for one in known):+.0f}" if known else "–" for key in ("detected_after_s", "lead_s")]
        rows.append([app, f"{len(known)} of {len(runs['with'])}", *row, by])
    about = "Medians. A lead that is negative means that hogs were at full force before the worker was found."
    return Table(about, ["application", "found", "after the hogs began, s", "lead, s", "by"], rows)
