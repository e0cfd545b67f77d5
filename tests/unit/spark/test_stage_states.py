"""What the driver learns of the states of a stage, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foretide.compile.stages import compile_stages
from foretide.spark.batches.states import StageStates
from foretide.spark.settings import EngineSettings
from foretide.store.workspace import Workspace
from foretide.topology import flow


@pytest.fixture
def states(tmp_path: Path) -> StageStates:
    job = flow("counting")
    job.source("in").operator("count", key="word", state="n long").sink("out")
    topology = job.build()
    [stage] = compile_stages(topology).stages
    return StageStates(topology, stage, Workspace(tmp_path), EngineSettings(sync_files=False))


def learn(states: StageStates, batch: int, rows: int, hottest: tuple[str, int], tasks: int) -> None:
    [(number, log)] = states.logs.items()
    commit = log.begin("in", batch).commit([])
    report: dict[str, Any] = {"work": {"3": [rows, 9]}, "seconds": 0.1, "hottest": hottest, "changed": []}
    report |= {"sizes": {}, "snapshots": {}, "late": 0, "latest_us": None, "columns": ""}
    states.learn({number: commit}, [{"states": {"count": report}}], tasks)


def test_a_key_with_more_than_its_part_is_named_once(states: StageStates, caplog: pytest.LogCaptureFixture) -> None:
    learn(states, 0, 2000, ("('the',)", 700), tasks=4)
    assert not states.hot_keys
    for batch in (1, 2):
        learn(states, batch, 2000, ("('the',)", 800), tasks=4)
    assert [(hot.key, hot.part) for hot in states.hot_keys.values()] == [("('the',)", 0.4)]
    assert [record.message for record in caplog.records] == [str(*states.hot_keys.values())]


@pytest.mark.parametrize(("rows", "tasks"), [(900, 4), (2000, 1)])
def test_few_rows_and_one_task_tell_nothing(states: StageStates, rows: int, tasks: int) -> None:
    learn(states, 0, rows, ("('the',)", rows), tasks)
    assert not states.hot_keys
