"""What earlier runs measured, as one history of minutes for each source."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretide.forecast import Series
from foretide.records import Measurement

__all__ = ["minutes_of"]

_MINUTE_S = 60.0
# Minutes of which less than this part was measured are unknown.
_HALF = 0.5


def minutes_of(sources: Sequence[str], runs: Sequence[Sequence[Measurement]]) -> dict[str, Series]:
    """Return the mean rate of every minute since the first that was measured, NaN where less than half of it was.

    Parameters
    ----------
    sources : sequence of str
        The sources, in the order of the measurements' columns.
    runs : sequence of sequence of Measurement
        What each run measured, in Unix time. A measurement longer than a minute counts in each minute that it covers.
    """
    stretches = [
        (each.ended_at_s - each.duration_s, each.ended_at_s, each.arrived / each.duration_s)
        for measurements in runs
        for each in measurements
        if each.duration_s > 0
    ]
    if not stretches:
        return {}
    first = math.floor(min(begin_s for begin_s, _, _ in stretches) / _MINUTE_S)
    last = math.ceil(max(end_s for _, end_s, _ in stretches) / _MINUTE_S)
    events, covered_s = np.zeros((last - first, len(sources))), np.zeros(last - first)
    for begin_s, end_s, rates in stretches:
        at_s = begin_s
        while at_s < end_s:
            minute = math.floor(at_s / _MINUTE_S + 1e-9)
            until_s = min((minute + 1) * _MINUTE_S, end_s)
            events[minute - first] += rates * (until_s - at_s)
            covered_s[minute - first] += until_s - at_s
            at_s = until_s
    known = covered_s >= _HALF * _MINUTE_S
    rates_by_minute = np.where(known[:, None], events / np.where(known, covered_s, 1.0)[:, None], np.nan)
    return {
        source: Series(rates_by_minute[:, column], _MINUTE_S, last * _MINUTE_S, source)
        for column, source in enumerate(sources)
    }
