"""The closed loop on Spark: what is measured, what is changed, and what happens when the controller dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from topologies import line, step
from waiting import wait_for

from foretide.control import ControlSettings
from foretide.control.detached import detached_loop
from foretide.control.starting.beginning import Beginning
from foretide.control.steering import Steering
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES
from foretide.spark import EngineSettings, RunningTopology, start
from foretide.spark.driver.run import RunOptions
from foretide.spark.executors import ExecutorsUnavailable, open_scheduler
from foretide.spark.steering.controller import steer
from foretide.spark.steering.sampling import Sampler
from foretide.spark.steering.steered_run import SteeredTopologyRun
from foretide.store import RunSpec, RunStore
from foretide.topology import Topology, flow

pytestmark = pytest.mark.spark

SETTINGS: dict[str, Any] = {
    "loop": {"td_s": 1.0, "sample_s": 0.5, "stale_after_s": 20.0},
    "planner": "pasps",
    "forecaster": "basic",
    "guards": {"utilisation_target": 0.8},
}


def waits(batch: Any) -> Any:
    """Take 4 ms for every event, as a lookup elsewhere would."""

    time.sleep(0.004 * batch.num_rows)
    return batch


def waiting(trace: str, **options: Any) -> Topology:
    look = step("look", waits, mode="arrow", execution_s=0.004, selectivity=1.0, replicas=(1, 6))
    source = {"kind": "trace", "trace": trace, "payload": "ids", **options}
    return line(look, source=source, sink={"kind": "memory"})


def test_replicas_go_up_and_down_with_the_load_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology = waiting(write_trace(*[50] * 4, *[400] * 5, *[20] * 8))
    steering = Steering(settings=ControlSettings.model_validate(SETTINGS), overestimated=6)
    settings = EngineSettings(trigger_s=0.5)
    options = RunOptions(topology=topology, path=tmp_path / "run", settings=settings, poll_s=0.2)
    with SteeredTopologyRun(spark, options, steering) as steered:
        *_, last = steered.progress()
        steered.drain()
    run = steered.result
    replicas = [int(sample.measurement.replicas[0]) for sample in run.samples]
    assert run.report.ending == "all input is through"
    assert max(replicas) > 1 and replicas[-1] == 1
    assert run.audit is not None and (run.audit.expected, run.audit.lost, run.audit.duplicated) == (2360, 0, 0)
    assert sum(float(sample.measurement.arrived[0]) for sample in run.samples) == 2360
    # What the threads of tasks computed comes with the samples, and as the mean of an interval to the planner (D2).
    assert any(sample.measurement.cpu is not None and sample.measurement.cpu.used.any() for sample in run.samples)
    assert any(decision.window is not None and decision.window.cpu is not None for decision in run.decisions)
    assert run.score is not None and 0 < run.score.saved < 1 and run.score.changes >= 2
    row = run.row("steps")
    assert row["policy"] == "pasps" and row["lost"] == row["duplicated"] == 0
    assert last.control is not None and last.control.policy == "pasps"


def test_a_run_begins_with_what_the_last_one_had_and_resumes_what_it_learnt(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology = waiting(write_trace(*[300] * 6))
    steering, results = Steering(settings=ControlSettings.model_validate(SETTINGS)), []
    with RunStore(tmp_path / "runs.db") as store:
        for number, past in enumerate((None, store)):
            engine = EngineSettings(features_every_s=0.5)
            options = RunOptions(topology=topology, path=tmp_path / f"run{number}", poll_s=0.2, settings=engine)
            with store.begin_run(steering.run_spec(topology, "steps")) as recorder:
                with SteeredTopologyRun(spark, options, steering, recorder, Beginning(past=past)) as run:
                    for _ in run.progress():
                        pass
                    run.drain()
                recorder.finish(run.result.row("steps"))
            results.append(run.result)
            # SPEC I3: nobody has to ask for the features of workers and machines.
            features = store.run(recorder.id).features()
            assert {(sample.level, sample.names) for sample in features} == {
                ("worker", WORKER_NAMES),
                ("machine", MACHINE_NAMES),
            }
            assert all(sample.by_name()["task_rate"] > 0 for sample in features if sample.level == "worker")
    told = [next(event.message for event in run.events if event.kind == "replicas.first") for run in results]
    # 300/s · 4 ms, half of the time busy, are 2.4, if the session has so many slots.
    count = min(3, spark.sparkContext.defaultParallelism)
    assert told[0].startswith(f"look {count}: known execution times at 300 events/s")
    assert told[1].endswith("had in force at about 300 events/s")
    resumed = [{event.data["kind"] for event in run.events if event.kind == "knowledge.resumed"} for run in results]
    assert resumed == [set(), {"operators", "forecaster basic of in"}]
    for run in results:
        row = run.row("steps")
        assert row["first_plan_s"] is not None and row["cold_p95_ms"] > 0 and row["warm_p95_ms"] is None
        assert (row["lost"], row["duplicated"]) == (0, 0) and 0 <= row["overridden"] < 1


def test_what_is_measured_in_tasks_reaches_the_window(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    settings = ControlSettings.model_validate({**SETTINGS, "loop": {**SETTINGS["loop"], "advisory": True}})
    with (
        start(waiting(write_trace(*[100] * 30)), spark, tmp_path / "run", EngineSettings(trigger_s=0.5)) as running,
        steer(running, settings) as controller,
    ):
        decision = wait_for(
            lambda: next((d for d in controller.decisions if d.window is not None and d.window.processed[0] > 50), None)
        )
        assert decision.window.execution_s[0] == pytest.approx(0.004, rel=0.5)
        assert float(decision.window.arrived[0]) == pytest.approx(100, rel=0.3)
        # Advice only: nothing was changed.
        assert running.replicas() == {"look": 1}


def test_a_stream_whose_controller_has_gone_keeps_the_last_plan_and_another_one_takes_over(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology, settings = waiting(write_trace(*[400] * 60)), ControlSettings.model_validate(SETTINGS)
    with start(topology, spark, tmp_path / "run", EngineSettings(trigger_s=0.5)) as running:
        first = steer(running, settings)
        wait_for(lambda: running.replicas()["look"] > 1)
        first.stop()
        kept, batches = running.replicas(), running.totals().batches
        wait_for(lambda: running.totals().batches > batches + 1)
        assert running.replicas() == kept
        with steer(running, Steering(settings=settings)) as second:
            wait_for(lambda: second.loop.cycles >= 2 and second.loop.plan_in_force is not None)
            assert running.replicas()["look"] > 1


DETACHED = """
import sys
from foretide.control import ControlSettings
from foretide.control.detached import detached_loop, steer_detached
from foretide.control.steering import Steering
from foretide.store import RunStore

store, run, path = RunStore(sys.argv[1]), sys.argv[2], sys.argv[3]
steering = Steering(settings=ControlSettings.model_validate_json(sys.argv[4]))
topology = store.run(run).info.topology()
print("steering", flush=True)
steer_detached(detached_loop(topology, path, store, run, steering), store, run)
"""


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Callable[[str, str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def launch(store: str, run: str) -> subprocess.Popen[str]:
        settings = ControlSettings.model_validate(SETTINGS).model_dump_json()
        command = [sys.executable, "-c", DETACHED, store, run, str(tmp_path / "run"), settings]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "steering\n"
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_detached_controller_can_be_killed_and_started_again(
    spark: SparkSession,
    tmp_path: Path,
    write_trace: Callable[..., str],
    detached: Callable[[str, str], subprocess.Popen[str]],
) -> None:
    topology, file = waiting(write_trace(*[400] * 90)), str(tmp_path / "runs.db")
    with (
        RunStore(file) as store,
        start(topology, spark, tmp_path / "run", EngineSettings(trigger_s=0.5)) as running,
    ):
        recorder = store.begin_run(RunSpec(topology=topology))
        with Sampler(running, 0.5, recorder=recorder):
            process = detached(file, recorder.id)
            wait_for(lambda: running.replicas()["look"] > 1)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            running.change_replicas({"look": 1})
            batches = running.totals().batches
            wait_for(lambda: running.totals().batches > batches)
            assert running.replicas() == {"look": 1}, "nobody steers"
            detached(file, recorder.id)
            wait_for(lambda: running.replicas()["look"] > 1)
        recorder.finish()


def test_a_detached_controller_begins_with_what_the_store_knows(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology = waiting(write_trace(*[400] * 60))
    with (
        RunStore(tmp_path / "runs.db") as store,
        start(topology, spark, tmp_path / "run", EngineSettings(trigger_s=0.5)) as running,
    ):
        recorder = store.begin_run(RunSpec(topology=topology))
        with Sampler(running, 0.5, recorder=recorder) as sampler:
            wait_for(lambda: running.totals().rows > 200)
            count = len(sampler.samples)
            store.flush(5.0)
            steering = Steering(settings=ControlSettings.model_validate(SETTINGS))
            loop = detached_loop(topology, running.workspace.root, store, recorder.id, steering)
            decision = loop.run_cycle()
            assert decision.failure is None
            assert decision.window is not None and decision.window.samples >= count / 2 - 1
            assert running.replicas()["look"] == int(decision.plan.replicas[0]) > 1  # type: ignore[union-attr]


def test_a_local_master_has_no_executors_to_scale(spark: SparkSession) -> None:
    with pytest.raises(ExecutorsUnavailable, match=r"master 'local\[2\]'"):
        open_scheduler(spark)


def test_sources_that_spark_reads_are_measured_by_its_progress(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(f"line {number}" for number in range(40)))
    job = flow("files")
    job.source("files", "files", path=str(folder)).operator("same", lambda row: row, mode="rows").sink("out", "memory")
    running: RunningTopology
    with start(job.build(), spark, tmp_path / "run") as running, Sampler(running, 0.2) as sampler:
        wait_for(lambda: running.progressed().get("files", 0) >= 40)
        wait_for(lambda: sum(float(sample.measurement.arrived[0]) for sample in sampler.samples) >= 40)
    total = sum(float(sample.measurement.processed[0]) for sample in sampler.samples)
    assert total == 40


@pytest.mark.slow
def test_executors_of_a_cluster_go_and_come_back() -> None:
    program = Path(__file__).parent / "programs" / "executors.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found == {"cores": 1, "first": 2, "fewer": 1, "works": 10, "planned": 2, "requested": 2, "more": 2}
