"""The papers' published numbers, each with where it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from foretide.experiments.reproduce.contract import Metric

__all__ = [
    "CONTRADICTIONS",
    "DEGRADATION",
    "ERROR_INPUT",
    "ERROR_REPLICA",
    "LATENCY",
    "PASPS",
    "PRESPS_TABLE_3",
    "PROCESSED",
    "PSPS_BY_TD",
    "SAVED",
]

SAVED = Metric("saved", "saved resources", "part")
DEGRADATION = Metric("degradation", "throughput degradation", "part")
PROCESSED = Metric("processed", "processed ÷ received", "part")
LATENCY = Metric("latency_mean_ms", "latency, mean (ms)", "ms")
ERROR_INPUT = Metric("error_input", "error of input", "part")
ERROR_REPLICA = Metric("error_replica", "error of replicas", "part")

_SIX = (SAVED, DEGRADATION, PROCESSED, LATENCY, ERROR_INPUT, ERROR_REPLICA)
_FOUR = _SIX[:4]
Table = Mapping[str, Mapping[Metric, float]]


def _table(metrics: tuple[Metric, ...], rows: Mapping[str, tuple[float, ...]]) -> Table:
    filled = {name: MappingProxyType(dict(zip(metrics, row, strict=True))) for name, row in rows.items()}
    return MappingProxyType(filled)


#: Tables 2 to 8 of [PASPS]_, by number and by the first column.
PASPS: Mapping[int, Table] = MappingProxyType(
    {
        2: _table(
            _SIX,
            {
                "ANN": (0.475, 0.070, 1.000, 355.490, 0.212, 0.277),
                "FFT": (0.519, 0.189, 1.000, 1023.380, 0.249, 0.345),
                "LR": (0.533, 0.195, 1.000, 663.030, 0.090, 0.140),
                "RF": (0.538, 0.227, 0.996, 583.921, 0.140, 0.193),
                "Basic": (0.560, 0.325, 1.000, 1295.490, 0.180, 0.287),
            },
        ),
        3: _table(
            _FOUR,
            {
                "PA-SPS": (0.475, 0.071, 1.000, 355.490),
                "r = 1": (0.875, 0.515, 0.331, 196962.950),
                "r = 4": (0.500, 0.855, 0.987, 269.750),
                "r = 8": (0.000, 0.000, 1.000, 153.510),
            },
        ),
        4: _table(
            _FOUR,
            {
                "PA-SPS": (0.475, 0.071, 1.000, 355.490),
                "PSPS": (0.561, 0.183, 0.998, 2098.910),
                "DABS": (0.396, 0.284, 0.828, 1391.280),
            },
        ),
        5: _table(_FOUR, {"PA-SPS": (0.688, 0.031, 1.000, 209.270), "r = 5": (0.000, 0.000, 1.000, 31.990)}),
        6: _table(
            _SIX,
            {
                "ANN": (0.395, 0.213, 1.000, 1044.510, 0.424, 0.466),
                "FFT": (0.153, 0.579, 1.000, 12285.990, 0.903, 1.282),
                "LR": (0.421, 0.261, 0.988, 1366.680, 0.397, 0.391),
                "RF": (0.539, 0.381, 0.987, 2610.330, 0.253, 0.398),
                "Basic": (0.513, 0.251, 1.000, 1049.490, 0.312, 0.407),
            },
        ),
        7: _table(
            _SIX,
            {
                "ANN": (0.515, 0.381, 0.998, 446.840, 0.294, 0.872),
                "FFT": (0.498, 0.337, 0.995, 397.140, 0.367, 1.674),
                "LR": (0.561, 0.350, 1.000, 464.010, 0.216, 0.714),
                "RF": (0.608, 0.436, 0.975, 545.910, 0.112, 0.583),
                "Basic": (0.604, 0.511, 0.984, 487.600, 0.090, 0.738),
            },
        ),
        8: _table(
            _SIX,
            {
                "ANN": (0.603, 0.236, 0.987, 905.290, 0.355, 0.537),
                "FFT": (0.503, 0.572, 1.000, 9184.060, 0.746, 1.191),
                "LR": (0.565, 0.252, 0.994, 1021.800, 0.412, 0.413),
                "RF": (0.661, 0.335, 0.998, 1673.560, 0.243, 0.394),
                "Basic": (0.655, 0.306, 0.989, 855.970, 0.250, 0.449),
            },
        ),
    }
)

#: Table 3 of [PRESPS]_.
PRESPS_TABLE_3: Table = _table(
    _FOUR, {"PRESPS": (0.5617, 0.1831, 0.9987, 2098.91), "DABS": (0.3962, 0.2849, 0.8283, 1391.28)}
)

#: Saved resources and mean latency of PSPS by interval in seconds, published with its study of td.
PSPS_BY_TD: Mapping[int, Mapping[Metric, float]] = MappingProxyType(
    {
        30: {SAVED: 0.561, LATENCY: 2099.0},
        60: {SAVED: 0.539, LATENCY: 5271.0},
        120: {SAVED: 0.522, LATENCY: 17068.0},
        180: {SAVED: 0.556, LATENCY: 22365.0},
    }
)

_INPUT = "input errors do not follow from the trace (table 2: Basic as defined gives .29, the last sample alone .18)"
_DEGRADATION = "magnitudes of degradation do not follow from the rates"
_STATIC_1 = "does not follow from the execution times that fit the other rows"
_STATIC_4 = "the paper's own throughput plot implies tens of seconds of queue, not 270 ms"

#: Numbers of the published tables that contradict the same paper, by table, row and metric; None stands for all rows.
CONTRADICTIONS: Mapping[tuple[int, str | None, Metric], str] = MappingProxyType(
    {
        **{(table, None, ERROR_INPUT): _INPUT for table in (2, 6, 7, 8)},
        **{(table, None, DEGRADATION): _DEGRADATION for table in (2, 3, 4, 5, 6, 7, 8)},
        **{(3, "r = 1", metric): _STATIC_1 for metric in (PROCESSED, LATENCY)},
        (3, "r = 4", LATENCY): _STATIC_4,
    }
)
