"""The controller beside a run in which things go wrong: it steers, and one that is gone is followed by another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from controller import SteeringProcess
from waiting import wait_for

from foretide.background import Background
from foretide.records import Measurement
from foretide.store import RunSpec, RunStore
from foretide.store.recorder import RunRecorder
from foretide.topology import Topology, flow

pytestmark = pytest.mark.slow


def line() -> Topology:
    job = flow("line")
    job.source("in").operator("work", execution_s=0.01, replicas=(1, 8))
    return job.build()


class Load(Background):
    """Records a stream of which one replica can work off a third."""

    _name = "load"

    def __init__(self, recorder: RunRecorder) -> None:
        super().__init__()
        self._recorder, self._topology = recorder, line()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            made = Measurement(
                layout=self._topology.layout,
                ended_at_s=time.time(),
                duration_s=0.2,
                arrived=np.array([60.0]),
                passed=np.array([60.0]),
                processed=np.array([20.0]),
                queued=np.array([0.0]),
                busy_s=np.array([0.2]),
                replicas=np.array([1]),
            )
            self._recorder.measured([made])


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[SteeringProcess]:
    (tmp_path / "run").mkdir()
    made = SteeringProcess(tmp_path, str(tmp_path / "run"), dict(os.environ))
    yield made
    made.end()


def test_it_steers_the_run_that_is_recorded_and_is_followed_by_another(controller: SteeringProcess) -> None:
    assert controller.tend("first") == "" and controller.process is None  # nothing is recorded yet
    with RunStore(controller.store) as store, store.begin_run(RunSpec(topology=line(), name="first")) as recorder:
        with Load(recorder):
            wait_for(lambda: controller.tend("first") == "" and controller.plans() > 0)
            killed = controller.process
            assert killed is not None
            killed.kill()
            wait_for(lambda: controller.tend("first") == "" and controller.starts == 2)
            another = controller.process
            assert another is not None and another.pid != killed.pid
    assert controller.tend("second") == "" and controller.process is None  # of another driver, not yet recorded
    assert not another.is_running()


def test_one_that_fails_is_told_with_what_it_said(controller: SteeringProcess, tmp_path: Path) -> None:
    with RunStore(controller.store) as store, store.begin_run(RunSpec(topology=line(), name="first")):
        pass
    bad = SteeringProcess(tmp_path, "s33://nowhere/run", dict(os.environ))
    said: list[str] = []
    wait_for(lambda: said.append(bad.tend("first")) or bool(said[-1]))
    assert "the controller ended with 2" in said[-1] and "did you mean 's3'?" in said[-1]
    bad.end()
