"""Recorded features as one table (SPEC I3): a row for each worker or machine and instant, a column for each feature."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from foretide.store.samples import FeatureSample

__all__ = ["feature_table", "to_csv", "to_parquet"]


def feature_table(samples: Sequence[FeatureSample]) -> dict[str, list[Any]]:
    """Return features by column; None where one is not known, or not about such a row.

    A name that workers and machines share is one column: `level` tells what a row is about.

    >>> one = FeatureSample.of(5.0, "worker", "1", "host", {"cpu": 40.0, "gc_rate": math.nan})
    >>> two = FeatureSample.of(5.0, "machine", "host", "host", {"load1": 0.5})
    >>> feature_table([one, two])["cpu"], feature_table([one, two])["load1"]
    ([40.0, None], [None, 0.5])
    """
    names = tuple(dict.fromkeys(name for sample in samples for name in sample.names))
    table: dict[str, list[Any]] = {
        "at_s": [sample.at_s for sample in samples],
        "level": [sample.level for sample in samples],
        "owner": [sample.owner for sample in samples],
        "machine": [sample.machine for sample in samples],
    }
    rows = [sample.by_name() for sample in samples]
    return table | {name: [_known(row.get(name)) for row in rows] for name in names}


def to_csv(table: dict[str, list[Any]]) -> str:
    """Return a table as CSV; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


def to_parquet(table: dict[str, list[Any]]) -> bytes:
    """Return a table as a Parquet file.

    Raises
    ------
    ImportError
        When pyarrow is not installed.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("level", "owner", "machine")
    columns = {name: pa.array(values, pa.string() if name in texts else pa.float64()) for name, values in table.items()}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
