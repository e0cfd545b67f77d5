"""`foretide run --health`: what it records about workers, and what the dashboard gets of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from waiting import wait_for

from foretide.health.features import MACHINE_NAMES, WORKER_NAMES
from foretide.service import ServiceSettings, create_app
from foretide.store import FeatureSample, RunStore

pytestmark = pytest.mark.spark

MAIN = "from foretide.cli import main; main()"
WORKERS = 4
PATIENCE_S = 600.0
# Steps of two seconds instead of five, so that there are enough of them sooner; and a network that is trained soon.
SOONER = """
[engine]
features_every_s = 2.0

[health.trainer]
step_s = 2.0
first_after_s = 44.0

[health.trainer.network]
epochs = 50
"""


def events(store: RunStore, kind: str) -> list[dict[str, Any]]:
    found = store.run("latest").events() if store.runs() else []
    return [{"message": event.message, **event.data} for event in found if event.kind == kind]


def is_judged_by_model(store: RunStore) -> bool:
    """Return whether a model judged workers, or was turned down since the last value predicts as well."""
    policies = {worker["policy"] for event in events(store, "health.judged") for worker in event["workers"].values()}
    return "predicted-slowdown" in policies or bool(events(store, "model.rejected") and policies)


@pytest.mark.slow
def test_i6_the_command_records_features_and_what_a_model_thinks_of_workers(tmp_path: Path) -> None:
    pytest.importorskip("equinox")
    (tmp_path / "sooner.toml").write_text(SOONER)
    flags = ["--set", "rate_scale=0.1", "--health", "idrnn", "--minutes", "15", "--store", "runs.db"]
    command = [sys.executable, "-c", MAIN, "run", "url-count", *flags, "--config", "sooner.toml"]
    with (tmp_path / "output.txt").open("w") as output, RunStore(tmp_path / "runs.db") as store:
        run = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: is_judged_by_model(store) or run.poll() is not None, PATIENCE_S)
            run.send_signal(signal.SIGINT)
            status = run.wait(120)
        finally:
            run.kill()
        assert status == 0, (tmp_path / "output.txt").read_text()
        judged = events(store, "health.judged")
        # Judged are those that had tasks of late, never one alone: there is nobody to compare it with.
        assert all(2 <= len(event["workers"]) <= WORKERS for event in judged)
        # A model that the last value matches is turned down, and that is a decision too.
        assert [*events(store, "model.trained"), *events(store, "model.rejected")], judged
        worker = features(store, "worker")
        assert (len({sample.owner for sample in worker}), worker[0].names) == (WORKERS, WORKER_NAMES)
        assert features(store, "machine")[0].names == MACHINE_NAMES
        with TestClient(create_app(store, ServiceSettings()), base_url="http://127.0.0.1") as dashboard:
            shown = dashboard.get("/v1/runs/latest/features").json()["features"]
            assert {one["owner"] for one in shown} >= {sample.owner for sample in worker}
            [last] = dashboard.get("/v1/runs/latest/events?last=1&kind=health.judged").json()["events"]
            assert last["data"]["workers"] == judged[-1]["workers"]


def features(store: RunStore, level: str) -> list[FeatureSample]:
    return [sample for sample in store.run("latest").features() if sample.level == level]
