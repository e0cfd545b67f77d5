"""The benchmark of the store of runs records what a run records."""

from __future__ import annotations

import numpy as np
from benchmark_modules import benchmark_module

from foretide.health.features import MACHINE_NAMES, WORKER_NAMES

run_store = benchmark_module("run_store")


def test_i3_the_benchmark_records_as_many_features_as_a_run_does() -> None:
    setup = run_store.Setup(workers=3)
    *workers, machine = run_store.features(5.0, setup, np.random.default_rng(1))
    assert [(one.level, one.owner, one.names) for one in workers] == [
        ("worker", f"executor-{number}", WORKER_NAMES) for number in range(3)
    ]
    assert (machine.level, machine.names) == ("machine", MACHINE_NAMES)
    assert all(np.isfinite(one.values).all() and len(one.values) == len(one.names) for one in (*workers, machine))
