from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import FluidSystem, LoopSettings, Monitor
from foretide.control.recorded import RecordedMetrics, recorded_traces
from foretide.store import RunSpec, RunStore
from foretide.topology import flow

SETTINGS = LoopSettings(td_s=10.0, history=20)


def test_a_monitor_primed_from_the_store_sees_what_the_first_one_saw(tmp_path: Path) -> None:
    job = flow("two")
    left, right = job.source("left"), job.source("right")
    job.operator("join", inputs=[left, right], execution_s=0.01, replicas=(1, 4))
    topology, clock = job.build(), ManualClock(100.0)
    system = FluidSystem(topology, {"left": [float(n) for n in range(40)], "right": [5.0]}, clock=clock)
    first = Monitor(topology, SETTINGS)
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        recorder = store.begin_run(RunSpec(topology=topology, started_at_s=100.0))
        metrics = RecordedMetrics(system, recorder)
        for _ in range(8):
            clock.sleep_s(5.0)
            first.add(metrics.collect())
        recorder.flush()
        resumed = store.resume("two", history_s=30.0)
        assert resumed is not None and resumed.plan is None and resumed.replicas == {} and resumed.cycle == 0
        second = Monitor(topology, SETTINGS)
        second.add(resumed.measurements)
        traces = recorded_traces(store.export_trace("two"))
    before, after = first.window(140.0), second.window(140.0)
    for name in ("arrival_rates", "received_rates", "arrived", "processed", "queued", "share", "execution_s"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), err_msg=name)
    assert after.measurement_ids == before.measurement_ids
    assert traces["left"].rates.tolist() == pytest.approx(list(range(40)))
    assert traces["right"].rates.tolist() == pytest.approx([5.0] * 40)
