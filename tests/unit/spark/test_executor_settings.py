"""What Spark's settings keep from executors that come and go is said in one line each."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from schedulers import FakeScheduler

from foretide.control.settings import ExecutorSettings
from foretide.spark.executors import ExecutorManager, ExecutorsUnavailable, open_scheduler
from foretide.spark.executors.session_check import check_session

INTERVAL = "spark.storage.decommission.replicationReattemptInterval"
WAIT = "spark.locality.wait"
SAFE = {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true", INTERVAL: "1s", WAIT: "0s"}
ROOMY = SAFE | {"spark.executor.cores": "2", "spark.cores.max": "16"}


def told(conf: dict[str, str], master: str = "spark://a:7077", cores: int = 2, **bounds: Any) -> list[str]:
    events = check_session(conf, master, cores, ExecutorSettings(**bounds), now_s=5.0)
    assert all(event.kind == "executors.settings" and "\n" not in event.message for event in events)
    return [event.message for event in events]


def test_nothing_is_said_where_all_is_well() -> None:
    assert told(ROOMY) == []
    assert told(SAFE, master="k8s://a") == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"spark.decommission.enabled": "false"}, "spark.decommission.enabled: expected true, got false: an executor"),
        ({"spark.decommission.enabled": " TRUE "}, ""),
        (
            {"spark.storage.decommission.enabled": "false"},
            "spark.storage.decommission.enabled: expected true, got false: .*; its shuffle files are lost",
        ),
        (
            {"spark.storage.decommission.enabled": "false", "spark.shuffle.service.enabled": "true"},
            "spark.storage.decommission.enabled: .*; what it has cached is lost",
        ),
        ({INTERVAL: None}, f"{INTERVAL}: not set: an executor that has blocks stays for 30 s"),
        ({WAIT: None}, f"{WAIT}: expected at most 1s, got 3s: for so long an executor that has come gets no task"),
        ({WAIT: "2000"}, f"{WAIT}: expected at most 1s, got 2000"),
        ({WAIT: "1min"}, f"{WAIT}: expected at most 1s, got 1min"),
        ({WAIT: "500ms"}, ""),
        ({WAIT: "0"}, ""),
        ({WAIT: "whatever"}, ""),
        ({"spark.executor.cores": None}, "spark.executor.cores: expected a number, got none: an executor takes all"),
        ({"spark.cores.max": None}, "spark.cores.max: not set: the application starts with all cores"),
        (
            {"spark.cores.max": "5"},
            "spark.cores.max: expected at least 16, for 8 executors of 2 cores, got 5: no more than 2 will ever come",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_it_means(changed: dict[str, str | None], words: str) -> None:
    conf = {key: value for key, value in (ROOMY | changed).items() if value is not None}
    lines = told(conf)
    if not words:
        assert lines == []
        return
    [line] = lines
    assert re.match(words, line), line


def test_a_manager_looks_at_the_settings_of_its_scheduler() -> None:
    scheduler = FakeScheduler(cores=2)
    scheduler.conf = ROOMY | {"spark.cores.max": "4"}
    [event] = ExecutorManager(scheduler, ExecutorSettings(maximum=3)).check_session()
    assert event.message.startswith("spark.cores.max: expected at least 6")


def test_dynamic_allocation_is_refused_since_two_would_scale_the_same_executors() -> None:
    conf = SimpleNamespace(get=lambda key, default=None: {"spark.dynamicAllocation.enabled": "true"}.get(key, default))
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://a:7077", getConf=lambda: conf))
    with pytest.raises(ExecutorsUnavailable, match=r"dynamicAllocation.enabled: expected false, got true"):
        open_scheduler(spark)
