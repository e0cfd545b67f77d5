"""Every event comes out once, though things go wrong by chance again and again; `make chaos` lets a thousand happen."""

from __future__ import annotations

import pytest
from chaos_runs import one_run

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(("kind", "faults"), [("s3", 18), ("live-postgres", 7)])
def test_what_comes_out_is_what_went_in_though_things_go_wrong(kind: str, faults: int) -> None:
    row = one_run(seed=7, faults=faults, kind=kind)
    assert "broken" not in row, row
    assert sum(row["faults"].values()) == faults and row["events"]
    assert row["controllers"]
