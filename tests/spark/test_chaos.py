"""Every event comes out once, though things go wrong by chance again and again; `make chaos` lets a thousand happen."""

from __future__ import annotations

import pytest
from chaos_runs import one_run

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


# By this seed a controller is killed in both, as far as processes keep time.
SEED = 71


@pytest.mark.parametrize(("kind", "faults"), [("s3", 18), ("live-postgres", 7)])
def test_what_comes_out_is_what_went_in_though_things_go_wrong(kind: str, faults: int) -> None:
    row = one_run(seed=SEED, faults=faults, kind=kind)
    assert "broken" not in row, row
    assert sum(row["faults"].values()) == faults and row["events"]
    assert row["controllers"] and row["plans"]
