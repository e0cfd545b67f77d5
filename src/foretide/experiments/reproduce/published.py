"""The papers' published numbers, each with where it is printed, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from foretide.experiments.reproduce.comparison import Metric, Printed

__all__ = [
    "DEGRADATION",
    "ERROR_INPUT",
    "ERROR_REPLICA",
    "LATENCY",
    "PASPS",
    "PRESPS_TABLE_3",
    "PROCESSED",
    "PSPS_BY_TD",
    "SAVED",
    "Table",
]

SAVED = Metric("saved", "saved resources", "part")
DEGRADATION = Metric("degradation", "throughput degradation", "part")
PROCESSED = Metric("processed", "processed ÷ received", "part")
LATENCY = Metric("latency_mean_ms", "latency, mean (ms)", "ms")
ERROR_INPUT = Metric("error_input", "error of input", "part")
ERROR_REPLICA = Metric("error_replica", "error of replicas", "part")

_SIX = (SAVED, DEGRADATION, PROCESSED, LATENCY, ERROR_INPUT, ERROR_REPLICA)
_FOUR = _SIX[:4]
#: Printed numbers by row and metric.
Table = Mapping[str, Mapping[Metric, Printed]]
_Rows = Mapping[str, tuple[float, ...]]

# Tables 2 to 8 of [PASPS]_, by number and by the first column, in the order of `_SIX`.
_PASPS: Mapping[int, _Rows] = MappingProxyType(
    {
        2: {
            "ANN": (0.475, 0.070, 1.000, 355.490, 0.212, 0.277),
            "FFT": (0.519, 0.189, 1.000, 1023.380, 0.249, 0.345),
            "LR": (0.533, 0.195, 1.000, 663.030, 0.090, 0.140),
            "RF": (0.538, 0.227, 0.996, 583.921, 0.140, 0.193),
            "Basic": (0.560, 0.325, 1.000, 1295.490, 0.180, 0.287),
        },
        3: {
            "PA-SPS": (0.475, 0.071, 1.000, 355.490),
            "r = 1": (0.875, 0.515, 0.331, 196962.950),
            "r = 4": (0.500, 0.855, 0.987, 269.750),
            "r = 8": (0.000, 0.000, 1.000, 153.510),
        },
        4: {
            "PA-SPS": (0.475, 0.071, 1.000, 355.490),
            "PSPS": (0.561, 0.183, 0.998, 2098.910),
            "DABS": (0.396, 0.284, 0.828, 1391.280),
        },
        5: {"PA-SPS": (0.688, 0.031, 1.000, 209.270), "r = 5": (0.000, 0.000, 1.000, 31.990)},
        6: {
            "ANN": (0.395, 0.213, 1.000, 1044.510, 0.424, 0.466),
            "FFT": (0.153, 0.579, 1.000, 12285.990, 0.903, 1.282),
            "LR": (0.421, 0.261, 0.988, 1366.680, 0.397, 0.391),
            "RF": (0.539, 0.381, 0.987, 2610.330, 0.253, 0.398),
            "Basic": (0.513, 0.251, 1.000, 1049.490, 0.312, 0.407),
        },
        7: {
            "ANN": (0.515, 0.381, 0.998, 446.840, 0.294, 0.872),
            "FFT": (0.498, 0.337, 0.995, 397.140, 0.367, 1.674),
            "LR": (0.561, 0.350, 1.000, 464.010, 0.216, 0.714),
            "RF": (0.608, 0.436, 0.975, 545.910, 0.112, 0.583),
            "Basic": (0.604, 0.511, 0.984, 487.600, 0.090, 0.738),
        },
        8: {
            "ANN": (0.603, 0.236, 0.987, 905.290, 0.355, 0.537),
            "FFT": (0.503, 0.572, 1.000, 9184.060, 0.746, 1.191),
            "LR": (0.565, 0.252, 0.994, 1021.800, 0.412, 0.413),
            "RF": (0.661, 0.335, 0.998, 1673.560, 0.243, 0.394),
            "Basic": (0.655, 0.306, 0.989, 855.970, 0.250, 0.449),
        },
    }
)
_SECTIONS = {2: "4.2", 3: "4.3", 4: "4.4", 5: "4.5", 6: "4.6.1", 7: "4.6.2", 8: "4.6.3"}

_CALIBRATED = "execution times were calibrated to this column"
_BY_DEFINITION = "follows from r and r_over by definition"
_ANN_AGAIN = "the row ANN of table 2 again"
# Numbers that prove nothing, by table, row and metric.
_NO_EVIDENCE: Mapping[tuple[int, str, Metric], str] = MappingProxyType(
    {
        **{(table, row, SAVED): _CALIBRATED for table in (2, 7, 8) for row in _PASPS[table]},
        **{(3, f"r = {r}", SAVED): _BY_DEFINITION for r in (1, 4, 8)},
        (5, "r = 5", SAVED): _BY_DEFINITION,
        **{(table, "PA-SPS", metric): _ANN_AGAIN for table in (3, 4) for metric in _FOUR},
        (3, "r = 8", LATENCY): "the base latency was calibrated to it",
        (4, "DABS", SAVED): "λ was calibrated to it",
        (5, "PA-SPS", SAVED): "execution times were calibrated to it",
        (5, "r = 5", LATENCY): "the base latency was calibrated to it",
    }
)
# Numbers that contradict the same document, by table, row and metric. Each is known of that number alone.
_CONTRADICTIONS: Mapping[tuple[int, str, Metric], str] = MappingProxyType(
    {
        (3, "r = 4", LATENCY): (
            "a degradation of .855 with .987 processed (same row) means tens of seconds in queues, not 270 ms"
        ),
        (3, "r = 1", LATENCY): "events time out after 30 s (section 4.1.4), so none can take 197 s",
        (7, "Basic", ERROR_INPUT): (
            "the error of Basic follows from the plotted input alone: .30 by the last interval, .32 by the last sample"
        ),
    }
)


def _pasps(table: int) -> Table:
    metrics = _SIX if table in (2, 6, 7, 8) else _FOUR
    where = f"PASPS, section {_SECTIONS[table]}, table {table}"

    def printed(row: str, metric: Metric, value: float) -> Printed:
        cell = (table, row, metric)
        return Printed(value, where, _NO_EVIDENCE.get(cell, ""), _CONTRADICTIONS.get(cell, ""))

    return MappingProxyType(
        {
            row: MappingProxyType({m: printed(row, m, value) for m, value in zip(metrics, values, strict=True)})
            for row, values in _PASPS[table].items()
        }
    )


#: Tables 2 to 8 of [PASPS]_, by number.
PASPS: Mapping[int, Table] = MappingProxyType({table: _pasps(table) for table in _PASPS})

_PRESPS: _Rows = {"PRESPS": (0.5617, 0.1831, 0.9987, 2098.91), "DABS": (0.3962, 0.2849, 0.8283, 1391.28)}
_PRESPS_WHERE = "PRESPS, section 4.1, table 3"
#: Table 3 of [PRESPS]_; every number of it stands in table 4 of [PASPS]_ too.
PRESPS_TABLE_3: Table = MappingProxyType(
    {
        row: MappingProxyType(
            {
                metric: Printed(value, _PRESPS_WHERE, "printed in PASPS, table 4, too, and counted there")
                for metric, value in zip(_FOUR, values, strict=True)
            }
        )
        for row, values in _PRESPS.items()
    }
)

_TD_WHERE = "Wladdimiro2024, chapter 'Experimentation', study of td"
#: Saved resources and mean latency of PSPS by interval in seconds, from the study of td in [Wladdimiro2024]_.
PSPS_BY_TD: Mapping[int, Mapping[Metric, Printed]] = MappingProxyType(
    {
        td: MappingProxyType(
            {
                metric: Printed(
                    value, _TD_WHERE, "printed in PASPS, table 4, too, and counted there" if td == 30 else ""
                )
                for metric, value in zip((SAVED, LATENCY), values, strict=True)
            }
        )
        for td, values in {
            30: (0.561, 2099.0),
            60: (0.539, 5271.0),
            120: (0.522, 17068.0),
            180: (0.556, 22365.0),
        }.items()
    }
)
