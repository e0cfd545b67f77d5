"""Every event comes out once, though things go wrong by chance again and again; `make chaos` lets a thousand happen."""

from __future__ import annotations

import pytest
from chaos_runs import one_run

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_what_comes_out_is_what_went_in_though_25_things_go_wrong() -> None:
    row = one_run(seed=7, faults=25, depot="s3")
    assert "broken" not in row, row
    assert sum(row["faults"].values()) == 25 and row["events"]
