"""`foretide steer`: a detached controller, on a machine that has no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foretide.records import Measurement
from foretide.store import RunSpec, RunStore, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Topology, flow

#: The command line, where nothing of Spark can be imported.
WITHOUT_SPARK = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from foretide.cli import main
main()
"""


def line() -> Topology:
    job = flow("line")
    job.source("in").operator("work", execution_s=0.01, replicas=(1, 8))
    return job.build()


def busy_second(topology: Topology, ended_at_s: float, rate: float) -> Measurement:
    return Measurement(
        layout=topology.layout,
        ended_at_s=ended_at_s,
        duration_s=1.0,
        arrived=np.array([rate]),
        passed=np.array([rate]),
        processed=np.array([rate]),
        queued=np.zeros(1),
        busy_s=np.array([0.01 * rate]),
        replicas=np.array([1]),
    )


@pytest.fixture
def steer(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, "steer", "line", "--path", str(tmp_path / "run")]
        # However long the process takes to start, what was recorded before is not stale.
        settings = tmp_path / "settings.toml"
        settings.write_text("[loop]\nstale_after_s = 600.0\n", encoding="utf-8")
        given = ["--store", str(tmp_path / "runs.db"), "--config", str(settings)]
        return subprocess.run([*command, *given, *arguments], capture_output=True, text=True, timeout=120, check=False)

    return call


def record(store: RunStore, now_s: float) -> None:
    topology = line()
    with store.begin_run(RunSpec(topology=topology)) as recorder:
        recorder.measured(busy_second(topology, now_s - 20 + second, 350.0) for second in range(20))


def test_it_decides_where_spark_is_not_installed(
    tmp_path: Path, steer: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    import time

    (tmp_path / "run").mkdir()
    # The run has ended by the time it is looked at, so that one cycle is enough.
    with RunStore(tmp_path / "runs.db") as store:
        record(store, time.time())
    done = steer("--policy", "pasps:basic", "--td", "0.5")
    assert done.returncode == 0, done.stderr
    assert "with pasps:basic" in done.stdout
    assert "plan.applied: work 1 → 6" in done.stdout
    runtime = RuntimeStore(Workspace((tmp_path / "run").absolute()).runtime)
    assert runtime.read().active(time.time()) == {"work": 6}


def test_b1_a_network_that_is_not_trained_is_told(
    tmp_path: Path, steer: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    import time

    (tmp_path / "run").mkdir()
    with RunStore(tmp_path / "runs.db") as store:
        record(store, time.time())
    done = steer("--policy", "pasps:bigru", "--td", "0.5")
    assert done.returncode == 0, done.stderr
    assert f"model.missing: no trained 'bigru' of in in {tmp_path / 'models' / 'line-'}" in done.stdout
    assert "the last value stands in; one is trained in the background once there are 120 values" in done.stdout
    assert "plan.applied: work 1 → 6" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "pasbs"), "did you mean 'pasps'"),
        (("--policy", "pasps:bsic"), "did you mean 'basic'"),
        (("--policy", "static-peak"), "whose peak is known, for static-peak"),
    ],
)
@pytest.mark.slow
def test_a_policy_that_cannot_be_is_one_message(
    tmp_path: Path, steer: Callable[..., subprocess.CompletedProcess[str]], arguments: tuple[str, ...], message: str
) -> None:
    with RunStore(tmp_path / "runs.db") as store:
        record(store, 1000.0)
    done = steer(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
