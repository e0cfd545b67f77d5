from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated_recording import Recording, record_simulation
from topologies import line

from foretide.clock import ManualClock
from foretide.control.recorded import recalled, recorded_trace
from foretide.sim.options import SimulationOptions
from foretide.store import Override, RunRecorder, RunStore, RuntimeStore
from foretide.traces import RateTrace

TRACE = RateTrace("steps", bin_s=10, rates=[100, 300, 100])
OPTIONS = SimulationOptions.of({"planner": "pasps", "forecaster": "basic", "td_s": 5.0, "warm_up_s": 0.0})


LINE = line("a", execution_s=0.01, replicas=(1, 8))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        yield store


def test_all_of_a_simulated_run_is_recorded(store: RunStore) -> None:
    run = store.run(record_simulation(store, LINE, TRACE, OPTIONS, Recording(name="mine")))
    assert (run.info.name, run.info.policy, run.info.forecaster, run.info.status) == (
        "mine",
        "pasps",
        "basic",
        "finished",
    )
    assert [one.ended_at_s for one in run.measurements()] == [float(second) for second in range(1, 31)]
    assert [one.at_s for one in run.decisions()] == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    assert run.latency().count == run.info.outcome["processed"]
    assert recorded_trace(run.arrivals()).rates.tolist() == [100.0] * 10 + [300.0] * 10 + [100.0] * 10


def test_it_ends_when_it_is_told_to(store: RunStore) -> None:
    run = store.run(record_simulation(store, LINE, TRACE, OPTIONS, Recording(seconds=12.0)))
    assert len(run.measurements()) == 12


def test_each_second_can_be_watched(store: RunStore) -> None:
    seen: list[float] = []

    def look(recorder: RunRecorder, now_s: float) -> None:
        assert recorder.info.status == "running"
        seen.append(now_s)

    record_simulation(store, LINE, TRACE, OPTIONS, Recording(seconds=3.0, clock=ManualClock(100.0), on_sample=look))
    assert seen == [101.0, 102.0, 103.0]


def test_replicas_set_by_hand_hold_in_it(store: RunStore, tmp_path: Path) -> None:
    runtime = RuntimeStore(tmp_path / "runtime.json")
    runtime.override("a", Override(7, until_s=12.0), now_s=0.0)
    run = store.run(record_simulation(store, LINE, TRACE, OPTIONS, Recording(runtime=runtime)))
    planned = [recalled(one).plan for one in run.decisions()]
    assert [plan.by_operator()["a"] for plan in planned if plan is not None][:2] == [7, 7]
    assert 7 not in [plan.by_operator()["a"] for plan in planned if plan is not None][2:]
    assert run.info.settings["runtime_path"] == str(runtime.path)
